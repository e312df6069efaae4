"""`palisade offsets show` and `palisade offsets reset`: look at the stored offsets, and replace them by hand.

A reset is refused while a job runs, keeps the replaced commit below the `previous` node, and never touches the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from kazoo.exceptions import KazooException, NoNodeError

from offsets.errors import OffsetConflict, StoreUnavailable
from offsets.leader_lock import lock_holder
from offsets.offset_range import Offsets, TopicPartition
from offsets.reconcile import Available
from offsets.store import Commit, Pending, decode_commit, decode_pending, encode_commit
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession


@dataclass(frozen=True, slots=True)
class StoredPipeline:
    """What ZooKeeper holds about a pipeline."""

    commit: Commit
    pending: Pending | None
    leader: str | None


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """One partition: what is committed against what Kafka has."""

    topic: str
    partition: int
    committed: int | None
    earliest: int
    latest: int
    lag: int

    def to_json(self) -> dict[str, object]:
        """The row of `palisade offsets show --json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ResetRow:
    """One partition of a reset: records that would be skipped or read again."""

    partition: TopicPartition
    committed: int | None
    target: int

    @property
    def effect(self) -> str:
        """What the reset means for this partition, in words."""
        if self.committed is None or self.target == self.committed:
            return "starts here" if self.committed is None else "unchanged"
        count = abs(self.target - self.committed)
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
        )
    except KazooException as error:
        message = f"ZooKeeper at {session.hosts} failed while reading offsets: {error!r}."
        raise StoreUnavailable(message) from error


def offset_rows(commit: Commit, available: Mapping[TopicPartition, Available]) -> list[OffsetRow]:
    """Every partition with its lag; a partition never committed lags by everything it holds."""
    return [
        OffsetRow(
            topic=partition.topic,
            partition=partition.partition,
            committed=commit.offsets.get(partition),
            earliest=has.earliest,
            latest=has.latest,
            lag=max(has.latest - commit.offsets.get(partition, has.earliest), 0),
        )
        for partition, has in sorted(available.items())
    ]


def reset_rows(
    commit: Commit, available: Mapping[TopicPartition, Available], to: str
) -> list[ResetRow]:
    """What a reset to `earliest` or `latest` would do."""
    return [
        ResetRow(
            partition,
            commit.offsets.get(partition),
            has.earliest if to == "earliest" else has.latest,
        )
        for partition, has in sorted(available.items())
    ]


def reset(
    session: ZookeeperSession, paths: ZnodePaths, offsets: Offsets, topic_ids: Mapping[str, str]
) -> str:
    """Replace the stored offsets; gives the node that keeps the old ones."""
    stored = read_pipeline(session, paths)
    if stored.leader is not None:
        message = f"The job is running ({stored.leader}): stop it before changing its offsets."
        raise OffsetConflict(message)
    client = session.client
    for path in (paths.commit, paths.pending, paths.previous):
        client.ensure_path(path)
    data, stat = client.get(paths.commit)
    changed = replace(stored.commit, offsets=offsets, topic_ids=dict(topic_ids))
    transaction = client.transaction()
    transaction.create(f"{paths.previous}/commit-", data, sequence=True)
    transaction.set_data(paths.commit, encode_commit(changed), stat.version)
    transaction.set_data(paths.pending, b"", -1)
    results = transaction.commit()
    failures = [result for result in results if isinstance(result, Exception)]
    if failures:
        message = (
            f"The offsets changed meanwhile ({failures[0]!r}): nothing was written. Try again."
        )
        raise OffsetConflict(message)
    return str(results[0])


def _data(session: ZookeeperSession, path: str) -> bytes:
    try:
        data, _ = session.client.get(path)
        return bytes(data)
    except NoNodeError:
        return b""
