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

from alerts import metric_names as names
from alerts.alertmanager_client import AlertmanagerClient, AlertmanagerOutbox
from offsets.offset_range import TopicPartition
from offsets.reconcile import Available
from offsets.store import Commit
from streaming.incident_notices import incident_notices
from streaming.job_state import CounterKey, JobState
from streaming.phases import PHASES, BatchClock
from streaming.plan.batch_plan import BatchPlan
from streaming.published import Picture, Published
from streaming.settings import JobSettings
from streaming.spark_batch import BatchResult
from streaming.status import BatchFacts, attackers_status, iso, load_status, totals

_FLUSH_SECONDS = 2.0
_log = logging.getLogger("stream")


@dataclass(frozen=True, slots=True)
class Standing:
    """What there is to show: the commit, what it adds up to, what Kafka holds, and the plan in force."""

    commit: Commit
    state: JobState
    available: Mapping[TopicPartition, Available]
    plan: BatchPlan

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records of each partition that are not committed yet."""
        return {
            partition: max(has.latest - self.commit.offsets.get(partition, has.earliest), 0)
            for partition, has in self.available.items()
        }


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

    def publish(self, standing: Standing, clock: BatchClock, result: BatchResult) -> None:
        """Show a committed batch."""
        self._last_batch = BatchFacts(
            lines=result.line_count,
            records=result.record_count,
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
        self.refresh(standing)

    def refresh(self, standing: Standing) -> None:
        """Show the present lag and attackers over unchanged totals: also when there is nothing to read."""
        now = self._wall_clock()
        state = standing.state
        lag_seconds = self._lag_seconds(standing, now)
        self._published.replace(
            Picture(
                counters=state.all_counters(),
                has_totals=True,
                duration_buckets={
                    labels: list(counts) for labels, counts in state.duration_buckets.items()
                },
                gauges=self._gauges(standing, lag_seconds, now),
                status=self._status(standing, lag_seconds, now),
            )
        )
        if self._outbox is not None:
            notices = incident_notices(state.incidents, self._settings.kafka.topic, now)
            self._outbox.offer(notices, datetime.fromtimestamp(now, tz=UTC))

    def not_leading(self) -> None:
        """Another driver may lead: what we showed is no longer ours to show."""
        self._published.replace(
            Picture(
                gauges={(names.LEADER.name, ()): 0.0},
                status={"job": self._settings.stream.job_name, "leader": False},
            )
        )

    def _lag_seconds(self, standing: Standing, now: float) -> float:
        """Age of the last committed record of partitions that wait: what waits is not older than that."""
        newest = standing.state.last_timestamp_ms
        never_read = int(self._started * 1000)
        ages = [
            now - newest.get((one.topic, one.partition), never_read) / 1000
            for one, waiting in standing.lag.items()
            if waiting
        ]
        return max([0.0, *ages])

    def _gauges(
        self, standing: Standing, lag_seconds: float, now: float
    ) -> dict[CounterKey, float]:
        batch, plan = self._last_batch, standing.plan
        phases = dict(batch.phase_seconds)
        limit = math.inf if plan.lines_per_second is None else plan.lines_per_second
        gauges: dict[CounterKey, float] = {
            (names.COMPLETENESS.name, ()): standing.state.completeness,
            (names.BATCH_TOTAL_SECONDS.name, ()): batch.seconds,
            (names.BATCH_INTERVAL.name, ()): self._settings.stream.batch_seconds,
            (names.SCHEDULING_DELAY.name, ()): batch.scheduling_delay_seconds,
            (names.RATE_LIMIT.name, ()): limit,
            (names.LAG_SECONDS.name, ()): lag_seconds,
            (names.LAST_COMMIT.name, ()): standing.commit.committed_at,
            (names.LAST_LOOK.name, ()): now,
            (names.LEADER.name, ()): 1.0,
            (names.EPOCH.name, ()): float(standing.commit.epoch),
        }
        for phase in PHASES:
            gauges[names.BATCH_SECONDS.name, (phase,)] = phases.get(phase, 0.0)
        for one, waiting in standing.lag.items():
            gauges[names.LAG_RECORDS.name, (one.topic, str(one.partition))] = float(waiting)
        for service, count in standing.state.open_incidents(now).items():
            gauges[names.INCIDENTS_OPEN.name, (service,)] = float(count)
        return gauges

    def _status(self, standing: Standing, lag_seconds: float, now: float) -> dict[str, object]:
        state, plan = standing.state, standing.plan
        return {
            "job": self._settings.stream.job_name,
            "leader": True,
            "epoch": standing.commit.epoch,
            "batch": standing.commit.batch,
            "batch_interval_seconds": self._settings.stream.batch_seconds,
            "started": iso(self._started),
            "last_batch": self._last_batch.to_json(),
            "rate_limit": {"lines_per_second": plan.lines_per_second, "because": plan.because},
            "lag": {"records": sum(standing.lag.values()), "seconds": lag_seconds},
            "totals": totals(state),
            "completeness": state.completeness,
            "load": load_status(state, now),
            "attackers": attackers_status(state, now),
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
