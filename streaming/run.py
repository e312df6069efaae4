"""Kafka → ledger → metrics and incidents, one micro-batch at a time. READ ME FIRST.

In:      the topic of log records (see `ingest.log_record`).
Out:     the ledger (see `streaming.ledger`), and what is published from it (see `streaming.publish`).
Promise: every line counts exactly once in the ledger; offsets move only after it did; publishing repeats
         rather than misses.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from offsets.errors import DataLoss, LeadershipLost, NothingToRead
from offsets.leader_lock import LeaderLock
from offsets.offset_range import OffsetRange, TopicPartition, offsets_after_batch
from offsets.reconcile import Available
from offsets.store import Commit, EpochStart, OffsetStore, Pending
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession
from offsets.zookeeper_store import ZookeeperStore
from streaming.broker_offsets import BrokerOffsets
from streaming.crash_point import crash_point
from streaming.errors import KafkaUnavailable
from streaming.group_mirror import GroupMirror
from streaming.job_state import JobState
from streaming.ledger import Ledger, Tables
from streaming.ledger_entry import LedgerEntry
from streaming.lost_table import lost_table
from streaming.phases import BatchClock
from streaming.plan.batch_plan import BatchPlan, RateLimits, plan_batch
from streaming.plan.rate_estimator import FinishedBatch, RateEstimator
from streaming.plan.split_ranges import SplitLimits
from streaming.plan.subscription import topic_ids_after, unread
from streaming.publish import Publisher, Standing
from streaming.range_task import RangeTask
from streaming.restore import require_known_start, restore_state, tend_ledger
from streaming.settings import JobSettings
from streaming.spark_batch import BatchResult, SparkBatch
from streaming.subscription import Continuation, first_offsets, look, look_for_all

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
    mirror: GroupMirror | None = None
    monotonic: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time

    def pause(self, seconds: float) -> None:
        """Wait, but not past a request to stop."""
        self.stop.wait(seconds)


@dataclass(slots=True)
class Progress:
    """Where the loop stands. `pending` is set as soon as a batch's input is fixed, and stays until it is committed."""

    epoch: int
    commit: Commit
    pending: Pending | None
    state: JobState
    estimator: RateEstimator
    lines_per_record: float
    """What a record of a partition that was not read yet is taken to hold."""
    packing: dict[TopicPartition, float] = field(default_factory=dict)
    """Lines in a record of each partition, as last seen."""


def lead_and_stream(settings: JobSettings, world: World, until_caught_up: bool = False) -> None:
    """Stand by until this driver leads, then run batches; stand by again if the leadership is lost."""
    paths = ZnodePaths(
        settings.zookeeper.root, settings.stream.job_name, settings.zookeeper.consumers_root
    )
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
    target = look(world.broker, settings.subscription).available if until_caught_up else None
    due = world.monotonic()
    while not world.stop.is_set():
        started = world.monotonic()
        try:
            had_work = run_one_batch(settings, world, store, progress, delay=started - due)
            if target is not None and _is_done(progress, target, had_work):
                return
        except (KafkaUnavailable, NothingToRead) as error:
            if until_caught_up and isinstance(error, NothingToRead):
                raise
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
    if commit.batch == 0 and not commit.offsets and pending is None:
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
    found = look_for_all(world.broker, settings.subscription)
    offsets = first_offsets(world.broker, found, settings.first_start)
    return replace(Commit.nothing_yet(), offsets=offsets, topic_ids=dict(found.topic_ids))


def run_one_batch(
    settings: JobSettings, world: World, store: OffsetStore, progress: Progress, delay: float
) -> bool:
    """1. Plan. 2. Fix the ranges. 3. Read and aggregate. 4. Write the ledger. 5. Commit. 6. Publish.

    False when there was nothing to do.
    """
    clock = BatchClock(world.monotonic, max(delay, 0.0))
    with clock.phase("plan"):
        plan, pending, available = plan_or_repeat(settings, world, progress)  # 1
        if not pending.ranges and not pending.lost:
            mirror(world, progress.commit)
            world.publisher.refresh(
                Standing(progress.commit, progress.state, available, plan, progress.epoch)
            )
            return False
        crash_point("before_pending")
        if pending != progress.pending:
            store.set_pending(pending)  # 2
            progress.pending = pending
        crash_point("after_pending")
    with clock.phase("read"):
        result = read_ranges(settings, world, pending.ranges, progress)  # 3
        crash_point("after_read")
    with clock.phase("output"):
        tables = {
            **result.tables,
            "lost": lost_table((*pending.lost, *result.lost)),
            "timings": world.publisher.timings(),
        }
        world.ledger.write(LedgerEntry(pending.batch, progress.epoch), tables)  # 4
        crash_point("after_output")
    with clock.phase("commit"):
        commit = next_commit(progress, pending, world.wall_clock())
        store.commit(commit)  # 5
        crash_point("after_commit")
    advance(progress, commit, tables, result, clock.finished(result.line_count))
    mirror(world, commit)
    world.publisher.publish(
        Standing(commit, progress.state, available, plan, progress.epoch), clock, result
    )  # 6
    tend_ledger(world.ledger, commit, progress.state, settings.stream.compact_every)
    return True


def plan_or_repeat(
    settings: JobSettings, world: World, progress: Progress
) -> tuple[BatchPlan, Pending, Mapping[TopicPartition, Available]]:
    """The next batch's input; a batch that was started before is repeated over the same ranges."""
    accepts_loss = settings.stream.on_data_loss == "skip"
    continuation = Continuation(world.broker, settings.subscription, accepts_loss, world.pause)
    if progress.pending is not None:
        found, pending = continuation.repeated(progress.pending)
        repeated = BatchPlan(pending.ranges, None, "repeating an unfinished batch")
        return repeated, pending, found.available
    found, start = continuation.next_start(progress.commit)
    latest = {partition: has.latest for partition, has in found.available.items()}
    plan = plan_batch(start.offsets, latest, rate_limits(settings, progress))
    pending = Pending(
        batch=progress.commit.batch + 1,
        epoch=progress.epoch,
        ranges=plan.ranges,
        topic_ids=topic_ids_after(progress.commit, found, start.lost),
        lost=start.lost,
    )
    return plan, pending, found.available


def rate_limits(settings: JobSettings, progress: Progress) -> RateLimits:
    """The limits in force for the next batch."""
    stream = settings.stream
    return RateLimits(
        max_rate_per_partition=stream.max_rate_per_partition,
        min_rate_per_partition=stream.min_rate_per_partition,
        backpressure_rate=progress.estimator.latest_rate if stream.backpressure else None,
        batch_seconds=stream.batch_seconds,
        lines_per_record=progress.lines_per_record,
        initial_rate=stream.initial_rate if stream.backpressure else None,
        max_rate=stream.max_rate,
        redistribute_cut_shares=stream.redistribute_cut_shares,
        fair_minimum=stream.fair_minimum,
        packing=progress.packing,
    )


def split_limits(settings: JobSettings, progress: Progress) -> SplitLimits:
    """How the ranges of the next batch may be cut into tasks."""
    lines_per_record = min(progress.packing.values(), default=progress.lines_per_record)
    return SplitLimits(
        min_records=math.ceil(settings.stream.min_lines_per_task / lines_per_record),
        max_records=settings.stream.max_records_per_task,
    )


def read_ranges(
    settings: JobSettings, world: World, ranges: tuple[OffsetRange, ...], progress: Progress
) -> BatchResult:
    """Run the tasks; again where one met a file of the past that it had not been told about."""
    state, limits = progress.state, split_limits(settings, progress)
    tasks = range_tasks(settings, ranges, state)
    result = world.spark.run(tasks, limits)
    told = {task.wanted.partition: task.counted_until for task in tasks}
    untold = state.generations.untold(result.tables["generations"], told)
    if not untold:
        return result
    knowing = [
        replace(
            task,
            counted_until={**task.counted_until, **untold.get(task.wanted.partition, {})},
        )
        for task in tasks
    ]
    return world.spark.run(knowing, limits)


def range_tasks(
    settings: JobSettings, ranges: tuple[OffsetRange, ...], state: JobState
) -> list[RangeTask]:
    """One task for each range, with what was counted of that partition's files before."""
    return [
        RangeTask(
            wanted=one,
            properties=settings.kafka_properties,
            formats=settings.formats,
            unidentified_format=settings.stream.unidentified_format,
            counted_until=state.counted_until(one.partition),
            top_entries=settings.stream.top_entries,
            read_timeout_seconds=settings.stream.read_timeout_seconds,
            max_clock_skew_seconds=settings.stream.max_clock_skew_seconds,
            sparse_offsets=settings.stream.sparse_offsets,
            skip_lost=settings.stream.on_data_loss == "skip",
        )
        for one in ranges
    ]


def next_commit(progress: Progress, pending: Pending, now: float) -> Commit:
    """What is true once the batch's output is in the ledger."""
    epochs = progress.commit.epochs
    if not epochs or epochs[-1].epoch != progress.epoch:
        epochs = (*epochs, EpochStart(progress.epoch, pending.batch))
    return Commit(
        batch=pending.batch,
        epoch=progress.epoch,
        offsets=offsets_after_batch(progress.commit.offsets, pending.ranges, pending.lost),
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
    for account in result.accounts:
        lines = account.lines + account.resent_lines
        if lines:
            partition = TopicPartition(account.topic, account.partition)
            progress.packing[partition] = max(lines / account.records, 1.0)


def mirror(world: World, commit: Commit) -> None:
    """Show the committed offsets to tools that look at Kafka's consumer groups; nothing waits for it."""
    if world.mirror is not None:
        world.mirror.offer(commit.offsets)


def _is_done(
    progress: Progress, target: Mapping[TopicPartition, Available], had_work: bool
) -> bool:
    """Whether all is committed that was there; without work left and not all read, it is gone."""
    left = unread(progress.commit.offsets, target)
    if left and not had_work:
        message = f"Kafka lost records while we caught up, whatever stream.on_data_loss says: {', '.join(left)}."
        raise DataLoss(message)
    return not left
