"""After the commit: show the new totals, and hand incidents to Alertmanager. At least once; never before the commit."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from alerts import metric_names as names
from alerts.alertmanager_client import AlertmanagerClient, AlertmanagerOutbox
from offsets.offset_range import TopicPartition
from offsets.reconcile import Available
from offsets.store import Commit
from streaming.incident_notices import incident_notices
from streaming.job_state import CounterKey, JobState
from streaming.lag_clock import LagClock
from streaming.phases import PHASES, BatchClock
from streaming.plan.batch_plan import BatchPlan
from streaming.plan.window_clock import NEVER
from streaming.published import Picture, Published
from streaming.settings import JobSettings
from streaming.spark_batch import BatchResult
from streaming.status import BatchFacts, attackers_status, iso, load_status, totals

_FLUSH_SECONDS = 2.0
RATE_CAUSES = ("none", "max_rate_per_partition", "max_rate", "backpressure", "initial_rate")
"""What can set the rate limit; a repeated batch has the label `repeated_batch`."""
REPEATED_BATCH = "repeated_batch"
_log = logging.getLogger("stream")


@dataclass(frozen=True, slots=True)
class Standing:
    """What there is to show: the commit, what it adds up to, what Kafka holds, the plan in force, and whose it is."""

    commit: Commit
    state: JobState
    available: Mapping[TopicPartition, Available]
    plan: BatchPlan
    epoch: int = 0

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records of each partition that are not committed yet."""
        return {
            partition: max(has.latest - self.commit.offsets.get(partition, has.earliest), 0)
            for partition, has in self.available.items()
        }

    @property
    def waiting(self) -> set[tuple[str, int]]:
        """Partitions with records that are not committed yet."""
        return {(one.topic, one.partition) for one, records in self.lag.items() if records}


@dataclass(frozen=True, slots=True)
class Moment:
    """When a picture is drawn, when Kafka was asked for what it shows, and what follows from both."""

    now: float
    looked_at: float
    lag_seconds: float
    watermark: float


class Publisher:
    """Turns committed state into the picture that /metrics and /api/status show."""

    def __init__(
        self,
        settings: JobSettings,
        published: Published,
        outbox: AlertmanagerOutbox | None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._published = published
        self._outbox = outbox
        self._wall_clock = wall_clock
        self._started = wall_clock()
        self._last_batch = BatchFacts()
        self._lag_clock = LagClock(self._started)

    def timings(self) -> pl.DataFrame:
        """How long the phases of the last batch took: for the ledger, together with the next batch."""
        rows = self._last_batch.phase_seconds
        return pl.DataFrame(rows, schema={"phase": pl.String, "seconds": pl.Float64}, orient="row")

    def publish(self, standing: Standing, clock: BatchClock, result: BatchResult) -> None:
        """Show a committed batch."""
        self._last_batch = BatchFacts(
            lines=result.line_count,
            records=result.record_count,
            bytes=sum(account.bytes for account in result.accounts),
            seconds=clock.total_seconds,
            phase_seconds=tuple(clock.seconds.items()),
            scheduling_delay_seconds=clock.scheduling_delay,
        )
        _log.info(
            "batch committed",
            extra={
                "batch": standing.commit.batch,
                "lines": result.line_count,
                "seconds": clock.total_seconds,
            },
        )
        self._show(standing, looked_at=self._wall_clock() - clock.total_seconds)

    def refresh(self, standing: Standing) -> None:
        """Show the present lag and attackers over unchanged totals: also when there is nothing to read."""
        self._show(standing, looked_at=self._wall_clock())

    def _show(self, standing: Standing, looked_at: float) -> None:
        now = self._wall_clock()
        state = standing.state
        self._lag_clock.look(standing.lag, looked_at)
        moment = Moment(
            now=now,
            looked_at=looked_at,
            lag_seconds=self._lag_clock.seconds(standing.lag, state.last_timestamp_ms, now),
            watermark=state.window_clock.at(looked_at, standing.waiting, state.window_rules),
        )
        self._published.replace(
            Picture(
                counters=state.all_counters(),
                has_totals=True,
                histograms={
                    name: {labels: list(counts) for labels, counts in series.items()}
                    for name, series in state.histograms.items()
                },
                gauges=self._gauges(standing, moment),
                status=self._status(standing, moment),
            )
        )
        if self._outbox is not None:
            notices = incident_notices(state.incidents, self._settings.kafka.topic, now)
            self._outbox.offer(notices, datetime.fromtimestamp(now, tz=UTC))

    def not_leading(self) -> None:
        """Another driver may lead: what we showed is no longer ours to show, what we measured is not ours to add."""
        self._last_batch = BatchFacts()
        self._published.replace(
            Picture(
                gauges={(names.LEADER.name, ()): 0.0},
                status={"job": self._settings.stream.job_name, "leader": False},
            )
        )

    def _gauges(self, standing: Standing, moment: Moment) -> dict[CounterKey, float]:
        batch, plan = self._last_batch, standing.plan
        phases = dict(batch.phase_seconds)
        limit = math.inf if plan.lines_per_second is None else plan.lines_per_second
        gauges: dict[CounterKey, float] = {
            (names.COMPLETENESS.name, ()): standing.state.completeness,
            (names.BATCH_TOTAL_SECONDS.name, ()): batch.seconds,
            (names.BATCH_RECORDS.name, ()): batch.records,
            (names.BATCH_LINES.name, ()): batch.lines,
            (names.BATCH_BYTES.name, ()): batch.bytes,
            (names.BATCH_INTERVAL.name, ()): self._settings.stream.batch_seconds,
            (names.SCHEDULING_DELAY.name, ()): batch.scheduling_delay_seconds,
            (names.RATE_LIMIT.name, ()): limit,
            (names.LAG_SECONDS.name, ()): moment.lag_seconds,
            (names.LAST_COMMIT.name, ()): standing.commit.committed_at,
            (names.LAST_LOOK.name, ()): moment.looked_at,
            (names.LEADER.name, ()): 1.0,
            (names.EPOCH.name, ()): float(standing.epoch or standing.commit.epoch),
        }
        if moment.watermark > NEVER:
            gauges[names.WATERMARK.name, ()] = moment.watermark
        in_force = plan.because if plan.because in RATE_CAUSES else REPEATED_BATCH
        for because in (*RATE_CAUSES, REPEATED_BATCH):
            gauges[names.RATE_LIMIT_BECAUSE.name, (because,)] = float(because == in_force)
        for phase in PHASES:
            gauges[names.BATCH_SECONDS.name, (phase,)] = phases.get(phase, 0.0)
        for one, waiting in standing.lag.items():
            gauges[names.LAG_RECORDS.name, (one.topic, str(one.partition))] = float(waiting)
        for service, count in standing.state.open_incidents(moment.now).items():
            gauges[names.INCIDENTS_OPEN.name, (service,)] = float(count)
        return gauges

    def _status(self, standing: Standing, moment: Moment) -> dict[str, object]:
        state, plan = standing.state, standing.plan
        return {
            "job": self._settings.stream.job_name,
            "leader": True,
            "epoch": standing.epoch or standing.commit.epoch,
            "batch": standing.commit.batch,
            "batch_interval_seconds": self._settings.stream.batch_seconds,
            "started": iso(self._started),
            "last_batch": self._last_batch.to_json(),
            "rate_limit": {"lines_per_second": plan.lines_per_second, "because": plan.because},
            "lag": {"records": sum(standing.lag.values()), "seconds": moment.lag_seconds},
            "totals": totals(state),
            "completeness": state.completeness,
            "late_lines": state.late_lines,
            "load": load_status(state, moment.now, moment.watermark),
            "attackers": attackers_status(state, moment.now),
        }


@contextmanager
def incident_outbox(url: str) -> Iterator[AlertmanagerOutbox | None]:
    """An outbox whose own thread talks to Alertmanager; None where none is configured."""
    if not url:
        yield None
        return
    client = AlertmanagerClient(url)
    outbox = AlertmanagerOutbox(client)
    done = threading.Event()

    def flush_until_done() -> None:
        while not done.wait(_FLUSH_SECONDS):
            outbox.flush(datetime.now(tz=UTC))

    thread = threading.Thread(target=flush_until_done, name="alertmanager", daemon=True)
    thread.start()
    try:
        yield outbox
    finally:
        done.set()
        thread.join(timeout=10)
        outbox.flush(datetime.now(tz=UTC))
        client.close()
