"""The demo's screen: from what is known to something rich can draw. Pure.

Every string that came from a log line, an alert or a process passes `printable` before it is shown,
and is drawn as plain text: markup in it means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from palisade_output import printable

_BLOCKS = "▁▂▃▄▅▆▇█"
_STATUS_STYLE = {"1xx": "dim", "2xx": "green", "3xx": "cyan", "4xx": "yellow", "5xx": "bold red"}
_STATE_STYLE = {"running": "green", "starting": "yellow", "missing": "dim", "ended": "bold red"}
_SMALLEST_HEIGHT = 24


@dataclass(frozen=True, slots=True)
class DemoView:
    """Everything the screen shows; `status` is the job's /api/status, None before it answers."""

    seconds: float
    processes: Mapping[str, str]
    urls: Mapping[str, str]
    status: Mapping[str, Any] | None = None
    alerts: Sequence[Mapping[str, Any]] = ()
    lines_written: int = 0


def live_view(view: DemoView, height: int = _SMALLEST_HEIGHT) -> RenderableType:
    """The whole screen; more rows of each list on a higher terminal."""
    spare = max(0, height - _SMALLEST_HEIGHT)
    rows = 4 + spare // 2
    status = view.status or {}
    screen = Layout()
    screen.split_column(
        Layout(_header(view), size=2),
        Layout(name="figures", size=6),
        Layout(name="tops", size=rows + 2),
        Layout(name="trouble"),
        Layout(_urls(view), size=3),
    )
    screen["figures"].split_row(
        Layout(_panel("Load", load_lines(status))),
        Layout(_panel("Pipeline", pipeline_lines(status, view.lines_written))),
    )
    load = status.get("load", {})
    screen["tops"].split_row(
        Layout(_panel("Top URLs", [_top_table(load.get("top_urls", ()), rows)])),
        Layout(_panel("Top clients", [_top_table(load.get("top_clients", ()), rows)])),
    )
    screen["trouble"].split_row(
        Layout(_panel("Attackers", [attacker_table(status.get("attackers", ()), rows)]), ratio=3),
        Layout(_panel("Alerts firing", [_alert_table(view.alerts, rows)]), ratio=2),
    )
    return screen


def _header(view: DemoView) -> RenderableType:
    title = Text.assemble(
        ("Palisade", "bold"), f"  {_clock(view.seconds)}  Ctrl-C stops everything"
    )
    processes = Text()
    for name, state in view.processes.items():
        processes.append("● " if state != "missing" else "○ ", style=_STATE_STYLE.get(state, ""))
        label = name if state == "running" else f"{name} {state}"
        processes.append(
            f"{label}  ", style="" if state == "running" else _STATE_STYLE.get(state, "")
        )
    return Group(_one_line(title), _one_line(processes))


def load_lines(status: Mapping[str, Any]) -> list[RenderableType]:
    """Requests and bytes a second, status mix, latency."""
    load = status.get("load")
    if not load:
        return [Text("waiting for the first window …", style="dim")]
    rates = [int(window["requests"]) for window in load.get("windows", ())]
    return [
        _one_line(
            Text.assemble(
                (f"{load['requests_per_second']:,.0f}", "bold"),
                " requests/s  ",
                sparkline(rates, 16),
            )
        ),
        _one_line(Text(f"{_bytes(load['bytes_per_second'])}/s sent")),
        _one_line(status_mix(load.get("status", {}))),
        _one_line(
            Text(
                f"p50 {_ms(load.get('p50_ms'))}  p90 {_ms(load.get('p90_ms'))}  "
                f"p99 {_ms(load.get('p99_ms'))}"
            )
        ),
    ]


def status_mix(counts: Mapping[str, int]) -> Text:
    """`2xx 92% 4xx 6%`: the share of each status class that occurred."""
    total = sum(counts.values())
    text = Text()
    for status_class, style in _STATUS_STYLE.items():
        count = counts.get(status_class, 0)
        if total and count:
            share = f"{count / total:.{0 if count * 10 >= total else 1}%}"
            text.append(f"{status_class} {share} ", style=style)
    return text


def pipeline_lines(status: Mapping[str, Any], lines_written: int) -> list[RenderableType]:
    """Batch time against its interval, rate limit, lag, completeness."""
    batch = status.get("last_batch")
    if not batch:
        return [Text("the job is starting …", style="dim")]
    interval = float(status["batch_interval_seconds"])
    limit, lag, totals = status["rate_limit"], status["lag"], status["totals"]
    rate = limit.get("lines_per_second")
    shown_limit = "none" if rate is None else f"{rate:,.0f} lines/s"
    return [
        _one_line(
            Text.assemble(
                f"batch {batch['seconds']:.2f} of {interval:g} s  ",
                share_bar(batch["seconds"] / interval, 10),
            )
        ),
        _one_line(Text(f"limit {shown_limit} ({printable(limit.get('because', ''), 60)})")),
        _one_line(Text(f"lag {lag['records']:,} records, {lag['seconds']:.1f} s")),
        _one_line(
            Text.assemble(
                (
                    f"complete {float(status['completeness']):.3%}",
                    _good(status["completeness"] >= 1),
                ),
                f"  {totals['lines']:,}/{lines_written:,}",
            )
        ),
    ]


def attacker_table(attackers: Iterable[Mapping[str, Any]], rows: int) -> RenderableType:
    """The worst attackers: who, score, how often, with what."""
    table = _table()
    table.add_column("client", ratio=4, no_wrap=True, overflow="ellipsis")
    table.add_column("score", justify="right", width=6)
    table.add_column("requests", justify="right", width=7)
    table.add_column("detectors", ratio=5, no_wrap=True, overflow="ellipsis")
    worst = sorted(attackers, key=lambda attacker: -float(attacker["score"]))
    for attacker in worst[:rows]:
        style = "bold red" if attacker.get("open") else "dim"
        table.add_row(
            Text(printable(attacker["client"], 60), style=style),
            Text(f"{float(attacker['score']):,.0f}", style=style),
            Text(f"{int(attacker['requests']):,}"),
            Text(printable(", ".join(str(name) for name in attacker["detectors"]), 120)),
        )
    return table if worst else Text("nobody", style="dim")


def _alert_table(alerts: Sequence[Mapping[str, Any]], rows: int) -> RenderableType:
    table = _table()
    table.add_column("alert", ratio=1, no_wrap=True, overflow="ellipsis")
    for alert in alerts[:rows]:
        labels = alert.get("labels", {})
        about = labels.get("client") or labels.get("service") or labels.get("job") or ""
        wakes_somebody = labels.get("severity") == "page"
        name = printable(labels.get("alertname", "?"), 60)
        style = "bold red" if wakes_somebody else "yellow"
        table.add_row(Text.assemble((name, style), f" {printable(about, 60)}"))
    return table if alerts else Text("none", style="dim")


def _top_table(entries: Iterable[Mapping[str, Any]], rows: int) -> RenderableType:
    table = _table()
    table.add_column("key", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("requests", justify="right", width=7)
    for entry in [entry for entry in entries if entry["key"]][:rows]:
        table.add_row(Text(printable(entry["key"], 120)), f"{int(entry['requests']):,}")
    return table


def _urls(view: DemoView) -> RenderableType:
    """Three lines: the last address is the longest and has a line of its own."""
    cells = [
        Text.assemble((f"{name} ", "bold"), (printable(url), "cyan"), "  ")
        for name, url in view.urls.items()
    ]
    lines = [Text.assemble(*cells[:2]), Text.assemble(*cells[2:3]), Text.assemble(*cells[3:])]
    return Group(*(_one_line(line) for line in lines))


def sparkline(values: Sequence[int], width: int) -> Text:
    """The last `width` values as a row of blocks."""
    shown = values[-width:]
    highest = max(shown, default=0)
    if not highest:
        return Text()
    return Text(
        "".join(_BLOCKS[min(7, value * 8 // (highest + 1))] for value in shown), style="cyan"
    )


def share_bar(share: float, width: int) -> Text:
    """A bar filled to `share`; red when it is more than full."""
    filled = min(width, max(0, round(share * width)))
    return Text.assemble(("█" * filled, _good(share <= 1)), ("░" * (width - filled), "dim"))


def _panel(title: str, lines: Sequence[RenderableType]) -> Panel:
    return Panel(Group(*lines), title=title, title_align="left", border_style="dim", padding=(0, 1))


def _table() -> Table:
    return Table.grid(padding=(0, 1), expand=True)


def _one_line(text: Text) -> Text:
    text.no_wrap = True
    text.overflow = "ellipsis"
    return text


def _good(good: bool) -> str:
    return "green" if good else "bold red"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
