"""The results of all splits → the summary of `palisade analyze`, as data and as a readable report.

Pure except for the console. Every text in it came from a log line: the report prints nothing raw.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from alerts.settings import AlertsSettings
from palisade_output import printable
from streaming.analyze_task import NO_VHOST
from streaming.attacks.detector import load_detectors
from streaming.attacks.incident import Attacker, IncidentBook, IncidentPolicy
from streaming.load.merge import merge_partials
from streaming.load.partials import Partials, cut_tops
from streaming.load.windows import quantile_seconds, status_class

MAX_ATTACKERS_LISTED = 1_000
_KEPT_TOPS = 50


@dataclass(slots=True)
class Findings:
    """What was found so far; splits are added in the order of the files."""

    files: list[str]
    formats: list[str]
    alerts: AlertsSettings
    top_entries: int
    lines: int = 0
    parsed: int = 0
    malformed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first_time: datetime | None = None
    last_time: datetime | None = None
    totals: Partials = field(default_factory=lambda: merge_partials([]))
    detectors: Counter[str] = field(default_factory=Counter)
    book: IncidentBook = field(init=False)

    def __post_init__(self) -> None:
        self.book = IncidentBook(
            load_detectors(),
            IncidentPolicy(
                self.alerts.incident_score,
                self.alerts.score_half_life_seconds,
                self.alerts.resolve_after_seconds,
            ),
        )

    def add_tables(self, parts: list[Partials]) -> None:
        """Tables of consecutive splits; attackers are followed in the order of the lines."""
        merged = merge_partials(parts)
        self.book.update(merged["attacks"], merged["behaviour"])
        fired = merged["attacks"].group_by("detector").agg(pl.col("requests").sum())
        self.detectors.update(dict(fired.iter_rows()))
        empty = merge_partials([])
        merged["attacks"], merged["behaviour"] = empty["attacks"], empty["behaviour"]
        self.totals = merge_partials([self.totals, merged])
        self.totals["tops"] = cut_tops(self.totals["tops"], self.top_entries * _KEPT_TOPS)

    def add_times(self, first: datetime | None, last: datetime | None) -> None:
        """Widen the time that the lines cover."""
        self.first_time = min((t for t in (self.first_time, first) if t), default=None)
        self.last_time = max((t for t in (self.last_time, last) if t), default=None)


def summary_of(findings: Findings) -> dict[str, Any]:
    """The summary as JSON has it."""
    load, latency = findings.totals["load"], findings.totals["latency"]
    attackers = _ranked(findings.book)
    behaviour = Counter[str]()
    for attacker in attackers:
        behaviour.update({name: attacker.detectors[name] for name in attacker.counted_at})
    return {
        "files": findings.files,
        "format": ", ".join(dict.fromkeys(findings.formats)) or None,
        "lines": findings.lines,
        "parsed": findings.parsed,
        "malformed": findings.malformed,
        "quarantined": findings.lines - findings.parsed,
        "reasons": dict(findings.reasons.most_common()),
        "first_time": _iso(findings.first_time),
        "last_time": _iso(findings.last_time),
        "requests": int(load["requests"].sum()),
        "bytes": int(load["bytes"].sum()),
        "status": _counts(load, pl.col("status").cast(pl.String)),
        "status_classes": _counts(load, status_class(pl.col("status"))),
        "methods": _counts(load, pl.col("method")),
        "latency_ms": _latency_ms(latency),
        "vhosts": _vhosts(load),
        "top_urls": _top(findings, "url"),
        "top_clients": _top(findings, "client"),
        "top_agents": _top(findings, "agent"),
        "detectors": dict((findings.detectors + behaviour).most_common()),
        "attackers": [
            _attacker(one, findings.alerts.incident_score)
            for one in attackers[:MAX_ATTACKERS_LISTED]
        ],
    }


def print_report(summary: dict[str, Any], console: Console) -> None:
    """The summary for people."""
    console.print(_headline(summary))
    console.print(_overview(summary))
    for title, key in (
        ("Top URLs", "top_urls"),
        ("Top clients", "top_clients"),
        ("Top agents", "top_agents"),
    ):
        console.print(_top_table(title, summary[key][:10]))
    console.print(_attacker_table(summary["attackers"][:20]))


def _ranked(book: IncidentBook) -> list[Attacker]:
    """By the highest score each ever had: in a finished file nobody's attack is "old"."""
    return sorted(book.attackers(0), key=lambda one: (-one.peak_score, -one.requests, one.client))


def _counts(load: pl.DataFrame, key: pl.Expr) -> dict[str, int]:
    counted = load.group_by(key.alias("key")).agg(pl.col("requests").sum()).sort("key")
    return dict(counted.iter_rows())


def _latency_ms(latency: pl.DataFrame) -> dict[str, float | None] | None:
    if latency.is_empty():
        return None
    quantiles = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    seconds = {name: quantile_seconds(latency, q) for name, q in quantiles.items()}
    return {name: None if s is None else round(s * 1000, 3) for name, s in seconds.items()}


def _vhosts(load: pl.DataFrame) -> list[dict[str, Any]]:
    summed = (
        load.filter(pl.col("vhost") != NO_VHOST)
        .group_by("vhost")
        .agg(
            pl.col("requests", "bytes").sum(),
            errors=pl.col("requests").filter(pl.col("status") >= 500).sum(),
        )
    )
    return summed.sort("requests", "vhost", descending=[True, False]).to_dicts()


def _top(findings: Findings, kind: str) -> list[dict[str, Any]]:
    tops = findings.totals["tops"].filter((pl.col("kind") == kind) & (pl.col("key") != ""))
    ordered = tops.sort("requests", "key", descending=[True, False]).head(findings.top_entries)
    return ordered.select("key", "requests", "bytes").to_dicts()


def _attacker(attacker: Attacker, incident_score: int) -> dict[str, Any]:
    return {
        "client": attacker.client,
        "score": round(attacker.peak_score, 1),
        "incident": attacker.peak_score >= incident_score,
        "detectors": sorted(attacker.detectors),
        "requests": attacker.requests,
        "first_seen": _iso(datetime.fromtimestamp(attacker.first_seen, tz=UTC)),
        "last_seen": _iso(datetime.fromtimestamp(attacker.last_seen, tz=UTC)),
        "sample": attacker.sample or None,
    }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _headline(summary: dict[str, Any]) -> Text:
    files = ", ".join(printable(name, 120) for name in summary["files"])
    period = f"{summary['first_time'] or '-'} to {summary['last_time'] or '-'}"
    return Text(f"{files}  ({summary['format'] or 'no format'})\n{period}", style="bold")


def _overview(summary: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None)
    latency = summary["latency_ms"]
    rows = {
        "lines": f"{summary['lines']:,}  parsed {summary['parsed']:,}, of these malformed "
        f"{summary['malformed']:,}; quarantined {summary['quarantined']:,}",
        "requests": f"{summary['requests']:,}  ({summary['bytes']:,} bytes)",
        "status": _listed(summary["status_classes"]),
        "methods": _listed(summary["methods"]),
        "latency": "not in this format" if latency is None else _listed(latency, " ms"),
        "not clean": _listed(summary["reasons"]) or "none",
        "detectors": _listed(summary["detectors"]) or "none fired",
    }
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(printable(value)))
    return table


def _listed(counts: dict[str, Any], unit: str = "") -> str:
    return "  ".join(f"{name} {value:,}{unit}" for name, value in counts.items())


def _top_table(title: str, entries: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("requests", justify="right")
    table.add_column("bytes", justify="right")
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for entry in entries:
        key = Text(printable(entry["key"], 100))
        table.add_row(f"{entry['requests']:,}", f"{entry['bytes']:,}", key)
    return table


def _attacker_table(attackers: list[dict[str, Any]]) -> Table:
    table = Table(
        title="Attackers" if attackers else "No attackers",
        title_justify="left",
        box=None,
        expand=True,
    )
    for column in ("score", "client", "requests", "detectors") if attackers else ():
        table.add_column(column, no_wrap=column != "detectors")
    table.add_column("first line" if attackers else "", ratio=1, no_wrap=True, overflow="ellipsis")
    for one in attackers:
        style = "bold red" if one["incident"] else ""
        table.add_row(
            Text(f"{one['score']:.1f}", style=style),
            Text(printable(one["client"], 60), style=style),
            Text(f"{one['requests']:,}"),
            Text(", ".join(one["detectors"])),
            Text(printable(one["sample"] or "", 160)),
        )
    return table
