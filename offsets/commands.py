"""`palisade offsets show` and `palisade offsets reset`: look at the stored offsets, and replace them by hand.

A reset is refused while a job runs, keeps the replaced commit below the `previous` node, notes itself below
the `resets` node for the audit, and never touches the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from kazoo.exceptions import KazooException, NoNodeError

from offsets.classic_nodes import ClassicNodes, add_to, within_a_commit
from offsets.errors import OffsetConflict, StoreUnavailable
from offsets.leader_lock import lock_holder
from offsets.offset_range import Offsets, TopicPartition
from offsets.reconcile import Available
from offsets.store import (
    Commit,
    Pending,
    Reset,
    decode_commit,
    decode_pending,
    decode_reset,
    encode_commit,
    encode_reset,
)
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession


@dataclass(frozen=True, slots=True)
class StoredPipeline:
    """What ZooKeeper holds about a pipeline."""

    commit: Commit
    pending: Pending | None
    leader: str | None
    resets: tuple[Reset, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """One partition: what is committed against what Kafka has. Lag in seconds is None where it is unknown."""

    topic: str
    partition: int
    committed: int | None
    earliest: int
    latest: int
    lag: int
    lag_seconds: float | None = None

    def to_json(self) -> dict[str, object]:
        """The row of `palisade offsets show --json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ResetRow:
    """One partition of a reset: records that would be skipped or read again."""

    partition: TopicPartition
    committed: int | None
    target: int
    asked: int | None = None
    """What was asked for, where Kafka does not have that."""

    @property
    def effect(self) -> str:
        """What the reset means for this partition, in words."""
        return self._move + (
            f" (asked for {self.asked}, which Kafka does not have)"
            if self.asked is not None
            else ""
        )

    @property
    def _move(self) -> str:
        if self.committed is None:
            return "starts here"
        count = abs(self.target - self.committed)
        if count == 0:
            return "unchanged"
        return (
            f"skips {count} records" if self.target > self.committed else f"repeats {count} records"
        )


def read_pipeline(session: ZookeeperSession, paths: ZnodePaths) -> StoredPipeline:
    """Read without creating or changing anything."""
    try:
        return StoredPipeline(
            commit=decode_commit(_data(session, paths.commit), paths.commit),
            pending=decode_pending(_data(session, paths.pending), paths.pending),
            leader=lock_holder(session, paths),
            resets=_resets(session, paths),
        )
    except KazooException as error:
        message = f"ZooKeeper at {session.hosts} failed while reading offsets: {error!r}."
        raise StoreUnavailable(message) from error


def offset_rows(
    commit: Commit,
    available: Mapping[TopicPartition, Available],
    lag_seconds: Mapping[TopicPartition, float | None] | None = None,
) -> list[OffsetRow]:
    """Every partition with its lag; a partition never committed lags by everything it holds."""
    rows = []
    for partition, has in sorted(available.items()):
        lag = max(has.latest - commit.offsets.get(partition, has.earliest), 0)
        rows.append(
            OffsetRow(
                topic=partition.topic,
                partition=partition.partition,
                committed=commit.offsets.get(partition),
                earliest=has.earliest,
                latest=has.latest,
                lag=lag,
                lag_seconds=(lag_seconds or {}).get(partition) if lag else 0.0,
            )
        )
    return rows


def reset_rows(
    commit: Commit,
    available: Mapping[TopicPartition, Available],
    targets: Mapping[TopicPartition, int],
) -> list[ResetRow]:
    """What a reset to `targets` would do; a target outside of what Kafka holds moves to the nearest it does.

    Partitions without a target stay where they are; those that were never read start at their earliest record.
    """
    rows = []
    for partition, has in sorted(available.items()):
        committed = commit.offsets.get(partition)
        asked = targets.get(partition, has.earliest if committed is None else committed)
        target = min(max(asked, has.earliest), has.latest)
        rows.append(ResetRow(partition, committed, target, asked if asked != target else None))
    return rows


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """A reset as it was shown to the operator: what it starts from and what it leads to."""

    shown: StoredPipeline
    rows: tuple[ResetRow, ...]
    offsets: Offsets
    topic_ids: dict[str, str]


def plan_reset(
    stored: StoredPipeline,
    rows: list[ResetRow],
    topic_ids: Mapping[str, str],
    is_read: Callable[[TopicPartition], bool],
) -> PlannedReset:
    """The offsets after a reset: the rows' targets; what the job does not read (`is_read`) keeps its own."""
    commit = stored.commit
    resting = {one: offset for one, offset in commit.offsets.items() if not is_read(one)}
    offsets = {**resting, **{row.partition: row.target for row in rows}}
    resting_topics = {one.topic for one in resting}
    kept = {topic: one for topic, one in commit.topic_ids.items() if topic in resting_topics}
    return PlannedReset(stored, tuple(rows), offsets, {**kept, **topic_ids})


def reset(session: ZookeeperSession, paths: ZnodePaths, planned: PlannedReset, now: float) -> str:
    """Replace the stored offsets and drop the pending batch; gives the node that keeps the old offsets."""
    stored = read_pipeline(session, paths)
    refuse_while_running(stored)
    if (stored.commit, stored.pending) != (planned.shown.commit, planned.shown.pending):
        message = (
            "The offsets changed meanwhile: nothing was written. Look at them, then try again."
        )
        raise OffsetConflict(message)
    client = session.client
    for path in (paths.commit, paths.pending, paths.previous, paths.resets):
        client.ensure_path(path)
    data, commit_stat = client.get(paths.commit)
    _, pending_stat = client.get(paths.pending)
    changed = replace(stored.commit, offsets=planned.offsets, topic_ids=planned.topic_ids)
    transaction = client.transaction()
    transaction.create(f"{paths.previous}/commit-", data, sequence=True)
    transaction.create(
        f"{paths.resets}/reset-", encode_reset(_act(stored, planned, now)), sequence=True
    )
    transaction.set_data(paths.commit, encode_commit(changed), commit_stat.version)
    transaction.set_data(paths.pending, b"", pending_stat.version)
    results = transaction.commit()
    failures = [result for result in results if isinstance(result, Exception)]
    if failures:
        message = (
            f"The offsets changed meanwhile ({failures[0]!r}): nothing was written. Try again."
        )
        raise OffsetConflict(message)
    _show_to_lag_tools(session, paths, planned.offsets)
    return str(results[0])


def refuse_while_running(stored: StoredPipeline) -> None:
    """Raise when a driver leads."""
    if stored.leader is not None:
        message = f"The job is running ({stored.leader}): stop it before changing its offsets."
        raise OffsetConflict(message)


def _act(stored: StoredPipeline, planned: PlannedReset, now: float) -> Reset:
    before, after = stored.commit.offsets, planned.offsets
    moved = {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
    return Reset(
        batch=stored.commit.batch,
        at=now,
        before={one: before[one] for one in moved if one in before},
        after={one: after[one] for one in moved if one in after},
        dropped_batch=stored.pending.batch if stored.pending else None,
    )


def _show_to_lag_tools(session: ZookeeperSession, paths: ZnodePaths, offsets: Offsets) -> None:
    for part in within_a_commit(ClassicNodes(session, paths).changes(offsets)):
        transaction = session.client.transaction()
        add_to(transaction, part)
        transaction.commit()


def _resets(session: ZookeeperSession, paths: ZnodePaths) -> tuple[Reset, ...]:
    try:
        names = sorted(session.client.get_children(paths.resets))
    except NoNodeError:
        return ()
    nodes = [f"{paths.resets}/{name}" for name in names]
    return tuple(decode_reset(_data(session, node), node) for node in nodes)


def _data(session: ZookeeperSession, path: str) -> bytes:
    try:
        data, _ = session.client.get(path)
        return bytes(data)
    except NoNodeError:
        return b""
