"""Kafka → ledger → metrics and incidents, one micro-batch at a time. READ ME FIRST.

In:      the topic of log records (see `ingest.log_record`).
Out:     the ledger (see `streaming.ledger`), and what is published from it (see `streaming.publish`).
Promise: every line counts exactly once in the ledger; offsets move only after it did; publishing repeats
         rather than misses.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from offsets.errors import DataLoss, LeadershipLost
from offsets.leader_lock import LeaderLock
from offsets.offset_range import OffsetRange, Offsets, TopicPartition, offsets_after
from offsets.reconcile import Available, reconcile, recreated_topics
from offsets.store import Commit, EpochStart, OffsetStore, Pending
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession
from offsets.zookeeper_store import ZookeeperStore
from streaming.broker_offsets import BrokerOffsets
from streaming.crash_point import crash_point
from streaming.errors import KafkaUnavailable
from streaming.job_state import JobState
from streaming.ledger import Ledger, Tables
from streaming.ledger_entry import LedgerEntry
from streaming.phases import BatchClock
from streaming.plan.batch_plan import BatchPlan, RateLimits, plan_batch
from streaming.plan.rate_estimator import FinishedBatch, RateEstimator
from streaming.publish import Publisher, Standing
from streaming.range_task import RangeTask
from streaming.restore import require_known_start, restore_state, snapshot_if_due
from streaming.settings import JobSettings
from streaming.spark_batch import BatchResult, SparkBatch

_log = logging.getLogger("stream")
_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class World:
    """Every outside system the loop touches, so that tests can replace any of them."""

    broker: BrokerOffsets
    spark: SparkBatch
    ledger: Ledger
    publisher: Publisher
    stop: threading.Event
    monotonic: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time


@dataclass(slots=True)
class Progress:
    """Where the loop stands. `pending` is set as soon as a batch's input is fixed, and stays until it is committed."""

    epoch: int
    commit: Commit
    pending: Pending | None
    state: JobState
    estimator: RateEstimator
    lines_per_record: float


def lead_and_stream(settings: JobSettings, world: World, until_caught_up: bool = False) -> None:
    """Stand by until this driver leads, then run batches; stand by again if the leadership is lost."""
    paths = ZnodePaths(settings.zookeeper.root, settings.stream.job_name)
    while not world.stop.is_set():
        try:
            with ZookeeperSession(settings.zookeeper).connected() as session:
                lock = LeaderLock(session, paths)
                leadership = lock.acquire(world.stop.is_set)
                if leadership is None:
                    return
                try:
                    store = ZookeeperStore(session, paths, leadership)
                    run_batches(settings, world, store, leadership.epoch, until_caught_up)
                    return
                finally:
                    lock.release()
        except LeadershipLost as error:
            world.publisher.not_leading()
            _log.warning("leadership lost", extra={"cause": str(error)})


def run_batches(
    settings: JobSettings, world: World, store: OffsetStore, epoch: int, until_caught_up: bool
) -> None:
    """Work until asked to stop, or until what was there at the start is done."""
    progress = resume(settings, world, store, epoch)
    target = _latest(settings, world) if until_caught_up else None
    due = world.monotonic()
    while not world.stop.is_set():
        if target is not None and _has_reached(progress.commit.offsets, target):
            return
        started = world.monotonic()
        try:
            run_one_batch(settings, world, store, progress, delay=started - due)
        except KafkaUnavailable as error:
            _log.warning("kafka unavailable", extra={"cause": str(error)})
            world.stop.wait(_RETRY_SECONDS)
        due = started + (0.0 if until_caught_up else settings.stream.batch_seconds)
        world.stop.wait(max(due - world.monotonic(), 0.0))


def resume(settings: JobSettings, world: World, store: OffsetStore, epoch: int) -> Progress:
    """Continue exactly where the last commit stopped: clean what was unfinished, rebuild the totals."""
    commit, pending = store.load()
    require_known_start(world.ledger, commit, pending)
    removed = world.ledger.remove_uncommitted(commit)
    state = restore_state(world.ledger, commit, settings)
    if not commit.offsets and pending is None:
        commit = first_commit(settings, world)
        store.initialise(commit)
    _log.info(
        "resumed",
        extra={
            "batch": commit.batch,
            "epoch": epoch,
            "unfinished_files_removed": removed,
            "pending": pending is not None,
        },
    )
    return Progress(
        epoch=epoch,
        commit=commit,
        pending=pending,
        state=state,
        estimator=settings.stream.new_estimator(),
        lines_per_record=float(settings.assumed_lines_per_record),
    )


def first_commit(settings: JobSettings, world: World) -> Commit:
    """The start of a new pipeline: fixed once, so that a restart before the first batch skips nothing."""
    topic_id, partitions = world.broker.topic(settings.kafka.topic)
    start = reconcile({}, world.broker.available(partitions), settings.stream.start_at)
    return replace(
        Commit.nothing_yet(), offsets=start.offsets, topic_ids={settings.kafka.topic: topic_id}
    )


def run_one_batch(
    settings: JobSettings, world: World, store: OffsetStore, progress: Progress, delay: float
) -> None:
    """1. Plan. 2. Fix the ranges. 3. Read and aggregate. 4. Write the ledger. 5. Commit. 6. Publish."""
    clock = BatchClock(world.monotonic, max(delay, 0.0))
    with clock.phase("plan"):
        plan, pending, available = plan_or_repeat(settings, world, progress)  # 1
        if not pending.ranges and not pending.lost:
            world.publisher.refresh(Standing(progress.commit, progress.state, available, plan))
            return
        crash_point("before_pending")
        if progress.pending is None:
            store.set_pending(pending)  # 2
            progress.pending = pending
        crash_point("after_pending")
    with clock.phase("read"):
        result = world.spark.run(range_tasks(settings, pending.ranges, progress.state))  # 3
        crash_point("after_read")
    with clock.phase("output"):
        tables = {**result.tables, "lost": _lost_table(pending)}
        world.ledger.write(LedgerEntry(pending.batch, progress.epoch), tables)  # 4
        crash_point("after_output")
    with clock.phase("commit"):
        commit = next_commit(progress, pending, world.wall_clock())
        store.commit(commit)  # 5
        crash_point("after_commit")
    advance(progress, commit, tables, result, clock.finished(result.line_count))
    world.publisher.publish(Standing(commit, progress.state, available, plan), clock, result)  # 6
    snapshot_if_due(world.ledger, commit, progress.state)


def plan_or_repeat(
    settings: JobSettings, world: World, progress: Progress
) -> tuple[BatchPlan, Pending, dict[TopicPartition, Available]]:
    """The next batch's input; a batch that was started before is repeated over the same ranges."""
    topic = settings.kafka.topic
    topic_id, partitions = world.broker.topic(topic)
    available = world.broker.available(partitions)
    if progress.pending is not None:
        repeated = BatchPlan(progress.pending.ranges, None, "repeating an unfinished batch")
        return repeated, progress.pending, available
    if recreated_topics(progress.commit.topic_ids, {topic: topic_id}):
        message = (
            f"Topic '{topic}' was deleted and created again: its offsets mean other records now. "
            "Check what was lost, then set a start with `palisade offsets reset`."
        )
        raise DataLoss(message)
    start = reconcile(progress.commit.offsets, available, settings.stream.start_at)
    _stop_on_loss(start.impossible, start.lost, settings.stream.on_data_loss)
    latest = {partition: has.latest for partition, has in available.items()}
    plan = plan_batch(start.offsets, latest, rate_limits(settings, progress))
    pending = Pending(
        progress.commit.batch + 1, progress.epoch, plan.ranges, {topic: topic_id}, start.lost
    )
    return plan, pending, available


def rate_limits(settings: JobSettings, progress: Progress) -> RateLimits:
    """The limits in force for the next batch."""
    stream = settings.stream
    rate = progress.estimator.latest_rate or (stream.initial_rate or None)
    return RateLimits(
        max_rate_per_partition=stream.max_rate_per_partition,
        min_rate_per_partition=stream.min_rate_per_partition,
        backpressure_rate=rate if stream.backpressure else None,
        batch_seconds=stream.batch_seconds,
        lines_per_record=progress.lines_per_record,
    )


def range_tasks(
    settings: JobSettings, ranges: tuple[OffsetRange, ...], state: JobState
) -> list[RangeTask]:
    """One task for each range, with what was counted of that partition's files before."""
    counted_until = state.counted_until()
    return [
        RangeTask(
            wanted=one,
            properties=settings.kafka_properties,
            formats=settings.formats,
            unidentified_format=settings.stream.unidentified_format,
            counted_until=counted_until.get(one.partition, {}),
            top_entries=settings.stream.top_entries,
            read_timeout_seconds=settings.stream.read_timeout_seconds,
        )
        for one in ranges
    ]


def next_commit(progress: Progress, pending: Pending, now: float) -> Commit:
    """What is true once the batch's output is in the ledger."""
    epochs = progress.commit.epochs
    if not epochs or epochs[-1].epoch != progress.epoch:
        epochs = (*epochs, EpochStart(progress.epoch, pending.batch))
    skipped = offsets_after(progress.commit.offsets, pending.lost)
    return Commit(
        batch=pending.batch,
        epoch=progress.epoch,
        offsets=offsets_after(skipped, pending.ranges),
        topic_ids=pending.topic_ids,
        epochs=epochs,
        committed_at=now,
    )


def advance(
    progress: Progress, commit: Commit, tables: Tables, result: BatchResult, finished: FinishedBatch
) -> None:
    """The batch is committed: add it to the totals, learn the rate and the packing from it."""
    progress.commit = commit
    progress.pending = None
    progress.state.apply(tables)
    progress.estimator = progress.estimator.after(finished)
    if result.line_count:
        progress.lines_per_record = max(result.line_count / result.record_count, 1.0)


def _stop_on_loss(
    impossible: tuple[str, ...], lost: tuple[OffsetRange, ...], on_data_loss: str
) -> None:
    if impossible:
        message = f"{'; '.join(impossible)}: the topic lost data. Check it, then use `palisade offsets reset`."
        raise DataLoss(message)
    if lost and on_data_loss == "stop":
        ranges = ", ".join(str(one) for one in lost)
        message = (
            f'Kafka deleted records that were never read: {ranges}. Set stream.on_data_loss = "skip" to record the '
            "loss and go on, or raise the topic's retention."
        )
        raise DataLoss(message)


def _lost_table(pending: Pending) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "from_offset": one.from_offset,
                "until_offset": one.until_offset,
                "reason": "deleted by retention before it was read",
            }
            for one in pending.lost
        ],
        schema={
            "topic": pl.String,
            "partition": pl.Int32,
            "from_offset": pl.Int64,
            "until_offset": pl.Int64,
            "reason": pl.String,
        },
    )


def _latest(settings: JobSettings, world: World) -> Offsets:
    _, partitions = world.broker.topic(settings.kafka.topic)
    return world.broker.latest(partitions)


def _has_reached(offsets: Offsets, target: Offsets) -> bool:
    return all(offsets.get(partition, 0) >= offset for partition, offset in target.items())
