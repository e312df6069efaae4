"""The status document for people: load, attackers, batches and completeness at one glance.

Pure. Strings in it are as they stood in the logs; whoever shows them must escape them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from alerts import metric_names as names
from streaming.job_state import JobState
from streaming.load.windows import WINDOW_SECONDS, quantile_seconds, status_class
from streaming.plan.window_clock import NEVER

_WINDOWS_SHOWN = 30
_WINDOWS_AVERAGED = 3
_ATTACKERS_SHOWN = 20
_TOPS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What the last batch did."""

    lines: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    phase_seconds: tuple[tuple[str, float], ...] = ()
    scheduling_delay_seconds: float = 0.0

    def to_json(self) -> dict[str, object]:
        """As in the status document."""
        return {
            "lines": self.lines,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": self.seconds,
            **{f"{phase}_seconds": seconds for phase, seconds in self.phase_seconds},
            "scheduling_delay_seconds": self.scheduling_delay_seconds,
        }


def totals(state: JobState) -> dict[str, int]:
    """Everything counted so far."""
    clean, malformed, quarantined = (
        int(state.count(names.LINES, (outcome,)))
        for outcome in ("clean", "malformed", "quarantined")
    )
    return {
        "lines": clean + malformed + quarantined,
        "parsed": clean + malformed,
        "malformed": malformed,
        "quarantined": quarantined,
        "resent_lines": int(state.count(names.RESENT_LINES)),
        "gap_bytes": int(state.count(names.GAP_BYTES)),
        "unproven_lines": int(state.count(names.UNPROVEN_LINES)),
        "lost_records": int(state.count(names.LOST_RECORDS)),
        "bytes": int(state.count(names.LINE_BYTES)),
        "records": int(state.count(names.RECORDS)),
    }


def load_status(state: JobState, now: float, watermark: float = NEVER) -> dict[str, object]:
    """Load of the last full windows, their history, and the top lists; windows that are closed are complete."""
    load = _recent(state, "load", now)
    shown = _newest_windows(load)
    # The newest window is still filling: its rate would always look like a drop.
    full = shown[:-1][-_WINDOWS_AVERAGED:] or shown
    averaged = load.filter(pl.col("window").is_in(pl.Series(full, dtype=pl.Int64).implode()))
    latency = _recent(state, "latency", now)
    latency = latency.filter(pl.col("window").is_in(pl.Series(full, dtype=pl.Int64).implode()))
    seconds = max(len(full), 1) * WINDOW_SECONDS
    return {
        "window_seconds": WINDOW_SECONDS,
        "requests_per_second": _sum(averaged, "requests") / seconds,
        "bytes_per_second": _sum(averaged, "bytes") / seconds,
        "status": _status_mix(averaged),
        **{f"p{q}_ms": _milliseconds(latency, q / 100) for q in (50, 90, 99)},
        "windows": [
            {**_window(load, window), "complete": state.window_rules.is_closed(window, watermark)}
            for window in shown
        ],
        "vhosts": _vhosts(averaged, latency, seconds),
        "top_urls": _tops(state, "url", shown),
        "top_clients": _tops(state, "client", shown),
        "top_agents": _tops(state, "agent", shown),
    }


def attackers_status(state: JobState, now: float) -> list[dict[str, object]]:
    """The attackers with the most points."""
    return [
        {
            "id": one.incident_id,
            "service": one.service,
            "client": one.client,
            "score": round(state.incidents.score(one, now), 1),
            "detectors": sorted(one.detectors),
            "requests": one.requests,
            "first_seen": iso(one.first_seen),
            "last_seen": iso(one.last_seen),
            "open": state.incidents.is_open(one, now),
        }
        for one in state.incidents.attackers(now)[:_ATTACKERS_SHOWN]
    ]


def iso(epoch_seconds: float) -> str:
    """A time as people and programs read it."""
    return datetime.fromtimestamp(epoch_seconds, tz=UTC).isoformat().replace("+00:00", "Z")


def _recent(state: JobState, table: str, now: float) -> pl.DataFrame:
    """Recent windows without those that a wrong clock put into the future."""
    frame = state.recent.get(table)
    if frame is None:
        return pl.DataFrame(
            schema={
                "window": pl.Int64,
                "service": pl.String,
                "vhost": pl.String,
                "status": pl.Int32,
                "bucket": pl.Int16,
                "count": pl.Int64,
                "requests": pl.Int64,
                "bytes": pl.Int64,
            }
        )
    return frame.filter(pl.col("window") <= now + WINDOW_SECONDS)


def _newest_windows(load: pl.DataFrame) -> list[int]:
    return sorted(set(load["window"]))[-_WINDOWS_SHOWN:]


def _window(load: pl.DataFrame, window: int) -> dict[str, object]:
    rows = load.filter(pl.col("window") == window)
    return {
        "start": iso(window),
        "requests": _sum(rows, "requests"),
        "bytes": _sum(rows, "bytes"),
        "status": _status_mix(rows),
    }


def _status_mix(load: pl.DataFrame) -> dict[str, int]:
    mix = load.group_by(status_class(pl.col("status"))).agg(pl.col("requests").sum())
    return dict(mix.sort("status_class").iter_rows())


def _vhosts(load: pl.DataFrame, latency: pl.DataFrame, seconds: int) -> list[dict[str, object]]:
    rows = []
    for (service, vhost), part in load.group_by("service", "vhost"):
        requests = _sum(part, "requests")
        errors = _sum(part.filter(pl.col("status") >= 500), "requests")
        own = latency.filter((pl.col("service") == service) & (pl.col("vhost") == vhost))
        rows.append(
            {
                "service": service,
                "vhost": vhost,
                "requests_per_second": requests / seconds,
                "error_ratio": errors / requests if requests else 0.0,
                "p99_ms": _milliseconds(own, 0.99),
            }
        )
    return sorted(
        rows, key=lambda row: (-float(str(row["requests_per_second"])), str(row["vhost"]))
    )


def _tops(state: JobState, kind: str, windows: list[int]) -> list[dict[str, object]]:
    frame = state.recent.get("tops")
    if frame is None:
        return []
    wanted = pl.col("window").is_in(pl.Series(windows, dtype=pl.Int64).implode())
    sums = (
        frame.filter((pl.col("kind") == kind) & (pl.col("key") != "") & wanted)
        .group_by("key")
        .agg(pl.col("requests", "bytes").sum())
        .sort(["requests", "key"], descending=[True, False])
    )
    return sums.head(_TOPS_SHOWN).to_dicts()


def _milliseconds(latency: pl.DataFrame, quantile: float) -> float | None:
    seconds = quantile_seconds(latency, quantile)
    return None if seconds is None else round(seconds * 1000, 1)


def _sum(frame: pl.DataFrame, column: str) -> int:
    return int(frame[column].sum())
