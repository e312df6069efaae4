"""What all committed batches add up to: counters, file generations, recent windows, attackers.

Pure. The state changes only by `apply`, from a committed batch's tables; replaying the same batches gives the
same state, so a restart continues exactly. Everything in it is bounded except the generations, which are one
row for each log file; adding a batch costs what the batch holds, whatever came before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from alerts import metric_names as names
from offsets.offset_range import TopicPartition
from streaming.attacks.incident import IncidentBook
from streaming.generation_book import GenerationBook
from streaming.ledger import Tables
from streaming.load.merge import TABLES as PARTIAL_TABLES
from streaming.load.merge import merge_partials
from streaming.plan.window_clock import Reading, WindowClock, WindowRules

RECENT_WINDOWS = 180
OTHER = "other"
MAX_SERVICES = 100
RECENT_TABLES = ("load", "latency", "tops")

Labels = tuple[str, ...]
CounterKey = tuple[str, Labels]

_STATUS_CLASSES = {1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}
_ACCOUNT_COUNTERS = {
    names.RECORDS.name: "records",
    names.LINE_BYTES.name: "bytes",
    names.RESENT_LINES.name: "resent_lines",
    names.UNPROVEN_LINES.name: "unproven_lines",
    names.GAP_BYTES.name: "gap_bytes",
}


@dataclass(slots=True)
class JobState:
    """The sum of committed batches; `known_vhosts` fixes which virtual hosts have a label of their own."""

    incidents: IncidentBook
    known_vhosts: frozenset[str] = frozenset()
    max_vhosts: int = 100
    window_rules: WindowRules = field(default_factory=WindowRules)
    counters: dict[CounterKey, float] = field(default_factory=dict)
    histograms: dict[str, dict[Labels, list[int]]] = field(default_factory=dict)
    generations: GenerationBook = field(default_factory=GenerationBook)
    window_clock: WindowClock = field(default_factory=WindowClock)
    recent: Tables = field(default_factory=dict)
    recent_windows: OrderedDict[int, None] = field(default_factory=OrderedDict)
    last_timestamp_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    vhost_labels: dict[str, None] = field(default_factory=dict)
    service_labels: dict[str, None] = field(default_factory=dict)

    def apply(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Add one committed batch."""
        self._add_account(tables.get("account"))
        self._add_lost(tables.get("lost"))
        self._add_generations(tables.get("generations"))
        self._add_load(tables.get("load"))
        self._add_latency(tables.get("latency"))
        self._add_attacks(tables.get("attacks"))
        self._add_outcomes(tables.get("outcomes"))
        self._add_timings(tables.get("timings"))
        self._add_clocks(tables.get("clocks"), tables.get("load"))
        self._add_recent(tables)
        self.incidents.update(
            tables.get("attacks", PARTIAL_TABLES["attacks"].empty()),
            tables.get("behaviour", PARTIAL_TABLES["behaviour"].empty()),
        )

    def count(self, metric: names.Metric, labels: Labels = ()) -> float:
        """The value of one counter."""
        return self.counters.get((metric.name, labels), 0)

    def counted_until(self, partition: TopicPartition) -> dict[str, int]:
        """For each file of a partition that was written to lately, the highest byte offset counted."""
        return self.generations.counted_until(partition)

    def all_counters(self) -> dict[CounterKey, float]:
        """Every counter; each service starts at zero for each detector, or a first attack would show no increase."""
        counters: dict[CounterKey, float] = {}
        for service in self.service_labels:
            counters[names.INCIDENTS_OPENED.name, (service,)] = 0
            for detector in self.incidents.detector_names:
                counters[names.ATTACK_REQUESTS.name, (service, detector)] = 0
        for service, opened in self.incidents.opened.items():
            counters[names.INCIDENTS_OPENED.name, (self._service(service),)] = opened
        return {**counters, **self.counters}

    def open_incidents(self, now: float) -> dict[str, int]:
        """How many incidents are open at `now`, for each service."""
        counts = dict.fromkeys(self.service_labels, 0)
        for one in self.incidents.incidents():
            if self.incidents.is_open(one, now):
                label = self._service(one.service)
                counts[label] = counts.get(label, 0) + 1
        return counts

    @property
    def completeness(self) -> float:
        """Bytes counted of the bytes that are known to exist; 1.0 before anything was read."""
        return self.generations.completeness

    @property
    def late_lines(self) -> int:
        """Lines of all services that came after their window was closed."""
        return sum(
            int(value)
            for (name, _), value in self.counters.items()
            if name == names.LATE_LINES.name
        )

    def _add(self, metric: names.Metric, labels: Labels, amount: float) -> None:
        key = (metric.name, labels)
        self.counters[key] = self.counters.get(key, 0) + amount

    def _add_account(self, account: pl.DataFrame | None) -> None:
        self._add(names.BATCHES, (), 1)
        if account is None or account.is_empty():  # a batch that only recorded losses
            return
        for name, column in _ACCOUNT_COUNTERS.items():
            key: CounterKey = (name, ())
            self.counters[key] = self.counters.get(key, 0) + int(account[column].sum())
        clean = int((account["parsed"] - account["malformed"]).sum())
        self._add(names.LINES, ("clean",), clean)
        self._add(names.LINES, ("malformed",), int(account["malformed"].sum()))
        self._add(names.LINES, ("quarantined",), int(account["quarantined"].sum()))
        for row in account.iter_rows(named=True):
            if row["last_timestamp_ms"] is not None:
                self.last_timestamp_ms[row["topic"], row["partition"]] = row["last_timestamp_ms"]

    def _add_lost(self, lost: pl.DataFrame | None) -> None:
        if lost is not None and not lost.is_empty():
            self._add(
                names.LOST_RECORDS, (), int((lost["until_offset"] - lost["from_offset"]).sum())
            )
            self._add(names.LOST_RANGES, (), lost.height)

    def _add_generations(self, generations: pl.DataFrame | None) -> None:
        if generations is not None:
            self.generations.add(generations.iter_rows(named=True))

    def _add_load(self, load: pl.DataFrame | None) -> None:
        if load is None:
            return
        sums = load.group_by("service", "vhost", "method", "status").agg(
            pl.col("requests", "bytes", "duration_us_sum").sum()
        )
        for row in sums.sort("service", "vhost", "method", "status").iter_rows(named=True):
            service, vhost = self._service(row["service"]), self._vhost(row["vhost"])
            status_class = _STATUS_CLASSES.get((row["status"] or 0) // 100, OTHER)
            self._add(
                names.REQUESTS, (service, vhost, row["method"], status_class), row["requests"]
            )
            self._add(names.RESPONSE_BYTES, (service, vhost), row["bytes"])
            self._add(names.REQUEST_DURATION, (service, vhost), row["duration_us_sum"] / 1e6)

    def _add_latency(self, latency: pl.DataFrame | None) -> None:
        if latency is None:
            return
        for row in latency.sort("service", "vhost", "bucket").iter_rows(named=True):
            labels = (self._service(row["service"]), self._vhost(row["vhost"]))
            self._buckets(names.REQUEST_DURATION, labels)[row["bucket"]] += row["count"]

    def _add_attacks(self, attacks: pl.DataFrame | None) -> None:
        if attacks is None:
            return
        sums = attacks.group_by("service", "detector").agg(pl.col("requests").sum())
        for row in sums.sort("service", "detector").iter_rows(named=True):
            self._add(
                names.ATTACK_REQUESTS,
                (self._service(row["service"]), row["detector"]),
                row["requests"],
            )

    def _add_outcomes(self, outcomes: pl.DataFrame | None) -> None:
        if outcomes is None:
            return
        for row in outcomes.sort("service", "reason").iter_rows(named=True):
            metric = names.MALFORMED_LINES if row["ok"] else names.QUARANTINED_LINES
            self._add(metric, (self._service(row["service"]), row["reason"]), row["lines"])

    def _add_timings(self, timings: pl.DataFrame | None) -> None:
        """How long an earlier batch took: told by the batch after it, so that a restart forgets nothing shown."""
        if timings is None:
            return
        for row in timings.iter_rows(named=True):
            labels = (row["phase"],)
            bucket = bisect_left(names.BATCH_BUCKETS_SECONDS, row["seconds"])
            self._buckets(names.BATCH_DURATION, labels)[bucket] += 1
            self._add(names.BATCH_DURATION, labels, row["seconds"])

    def _add_clocks(self, clocks: pl.DataFrame | None, load: pl.DataFrame | None) -> None:
        """Count what came too late for its window, then move event time."""
        if clocks is None:
            return
        readings = [_reading(row) for row in clocks.iter_rows(named=True)]
        if load is not None:
            self._add_late(load, self.window_clock.before(readings, self.window_rules).watermark)
        for row in clocks.sort("service").iter_rows(named=True):
            self._add(names.SKEWED_LINES, (self._service(row["service"]),), row["skewed_lines"])
            self._add(names.LATE_LINES, (self._service(row["service"]),), 0)
        self.window_clock = self.window_clock.after(readings, self.window_rules)

    def _add_late(self, load: pl.DataFrame, watermark: float) -> None:
        late = load.filter(pl.col("window") <= self.window_rules.last_closed(watermark))
        sums = late.group_by("service").agg(pl.col("requests").sum())
        for service, requests in sums.sort("service").iter_rows():
            self._add(names.LATE_LINES, (self._service(service),), requests)

    def _buckets(self, metric: names.Metric, labels: Labels) -> list[int]:
        empty = [0] * (len(names.BUCKETS[metric.name]) + 1)
        return self.histograms.setdefault(metric.name, {}).setdefault(labels, empty)

    def _add_recent(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Keep the windows that were added to last: one wrong clock cannot push the others out."""
        touched = tables.get("load")
        if touched is None:
            return
        for window in touched["window"].unique().sort():
            self.recent_windows[window] = None
            self.recent_windows.move_to_end(window)
        while len(self.recent_windows) > RECENT_WINDOWS:
            self.recent_windows.popitem(last=False)
        batch = {name: tables[name] for name in RECENT_TABLES if name in tables}
        merged = merge_partials([self.recent, batch])
        kept = pl.col("window").is_in(
            pl.Series(list(self.recent_windows), dtype=pl.Int64).implode()
        )
        self.recent = {name: merged[name].filter(kept) for name in RECENT_TABLES}

    def _service(self, service: str) -> str:
        return _capped_label(service, self.service_labels, MAX_SERVICES)

    def _vhost(self, vhost: str) -> str:
        if self.known_vhosts:
            return vhost if vhost in self.known_vhosts else OTHER
        return _capped_label(vhost, self.vhost_labels, self.max_vhosts)


def _reading(row: Mapping[str, Any]) -> Reading:
    return Reading(
        source=(row["topic"], row["partition"], row["service"]),
        newest_time=row["newest_time"],
        plausible_append=_seconds(row["plausible_append_ms"]),
        oldest_append=row["oldest_append_ms"] / 1000,
        newest_append=row["newest_append_ms"] / 1000,
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _capped_label(value: str, seen: dict[str, None], limit: int) -> str:
    """The value itself while it is short and among the first `limit` seen; `other` for the rest."""
    if value in seen:
        return value
    if len(seen) >= limit or len(value) > 100 or not value.isprintable():
        return OTHER
    seen[value] = None
    return value
