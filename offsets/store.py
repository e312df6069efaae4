"""What is stored about a pipeline: the commit, the pending batch, and the contract of a store.

Pure values with their versioned JSON form. `Commit` says what is done, `Pending` fixes what a started batch
reads, for ever.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from offsets.errors import StoredStateInvalid
from offsets.offset_range import LostRange, OffsetRange, Offsets, TopicPartition
from offsets.reconcile import DELETED_BY_RETENTION

FORMAT_VERSION = 1
MAX_NODE_BYTES = 512 * 1024
"""ZooKeeper refuses packets of about 1 MiB, and a transaction a little above it once stopped a whole service."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A leader's epoch and the first batch it committed: decides which ledger files count."""

    epoch: int
    first_batch: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The last committed batch: where every partition continues and which ledger entry holds the result."""

    batch: int
    epoch: int
    offsets: Offsets
    topic_ids: dict[str, str]
    epochs: tuple[EpochStart, ...]
    committed_at: float

    @staticmethod
    def nothing_yet() -> Commit:
        """Before the first batch."""
        return Commit(batch=0, epoch=0, offsets={}, topic_ids={}, epochs=(), committed_at=0.0)


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch that was started: its id names these ranges, whoever runs it."""

    batch: int
    epoch: int
    ranges: tuple[OffsetRange, ...]
    topic_ids: dict[str, str]
    lost: tuple[LostRange, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Reset:
    """An operator's act: after which batch and when which partitions were set to continue elsewhere."""

    batch: int
    at: float
    before: Offsets
    after: Offsets
    """Both hold only what changed; a partition missing in `after` was forgotten."""
    dropped_batch: int | None = None


class OffsetStore(Protocol):
    """Where the driver keeps its progress. Every write happens under the leader's epoch or raises."""

    def load(self) -> tuple[Commit, Pending | None]:
        """What is committed and what is pending."""

    def initialise(self, commit: Commit) -> None:
        """Fix where a new pipeline starts, before its first batch."""

    def set_pending(self, pending: Pending) -> None:
        """Fix a batch's input before it runs."""

    def commit(self, commit: Commit) -> None:
        """Move offsets and ledger pointer and clear the pending batch, all or nothing."""


def encode_commit(commit: Commit) -> bytes:
    """The commit as stored. An empty map of offsets would look like a job that never ran: it is refused."""
    if commit.batch > 0 and not commit.offsets:
        message = f"Batch {commit.batch} would leave no offset at all: nothing was stored."
        raise StoredStateInvalid(message)
    return _encode(
        {
            "batch": commit.batch,
            "epoch": commit.epoch,
            "offsets": _offsets_to_json(commit.offsets),
            "topic_ids": commit.topic_ids,
            "epochs": [[start.epoch, start.first_batch] for start in commit.epochs],
            "committed_at": commit.committed_at,
        }
    )


def decode_commit(data: bytes, where: str) -> Commit:
    """The commit in a node; an empty node means nothing was committed yet."""
    return _decode(data, where, _commit_from) if data else Commit.nothing_yet()


def encode_pending(pending: Pending) -> bytes:
    """The pending batch as stored."""
    return _encode(
        {
            "batch": pending.batch,
            "epoch": pending.epoch,
            "ranges": [_range_to_json(one) for one in pending.ranges],
            "topic_ids": pending.topic_ids,
            "lost": [
                [*_range_to_json(one.range), one.reason, one.continue_at] for one in pending.lost
            ],
        }
    )


def decode_pending(data: bytes, where: str) -> Pending | None:
    """The pending batch in a node; an empty node means there is none."""
    return _decode(data, where, _pending_from) if data else None


def encode_reset(reset: Reset) -> bytes:
    """The reset as stored."""
    return _encode(
        {
            "batch": reset.batch,
            "at": reset.at,
            "before": _offsets_to_json(reset.before),
            "after": _offsets_to_json(reset.after),
            "dropped_batch": reset.dropped_batch,
        }
    )


def decode_reset(data: bytes, where: str) -> Reset:
    """The reset in a node."""
    return _decode(data, where, _reset_from)


def _commit_from(document: dict[str, Any]) -> Commit:
    return Commit(
        batch=int(document["batch"]),
        epoch=int(document["epoch"]),
        offsets=_offsets_from_json(document["offsets"]),
        topic_ids=dict(document["topic_ids"]),
        epochs=tuple(EpochStart(int(epoch), int(first)) for epoch, first in document["epochs"]),
        committed_at=float(document["committed_at"]),
    )


def _pending_from(document: dict[str, Any]) -> Pending:
    return Pending(
        batch=int(document["batch"]),
        epoch=int(document["epoch"]),
        ranges=tuple(_range_from_json(row) for row in document["ranges"]),
        topic_ids=dict(document["topic_ids"]),
        lost=tuple(_lost_from_json(row) for row in document["lost"]),
    )


def _reset_from(document: dict[str, Any]) -> Reset:
    dropped = document["dropped_batch"]
    return Reset(
        batch=int(document["batch"]),
        at=float(document["at"]),
        before=_offsets_from_json(document["before"]),
        after=_offsets_from_json(document["after"]),
        dropped_batch=None if dropped is None else int(dropped),
    )


def _offsets_to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return topics


def _offsets_from_json(document: dict[str, dict[str, Any]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in document.items()
        for partition, offset in partitions.items()
    }


def _range_to_json(one: OffsetRange) -> list[object]:
    return [one.partition.topic, one.partition.partition, one.from_offset, one.until_offset]


def _range_from_json(row: list[Any]) -> OffsetRange:
    topic, partition, start, until = row
    return OffsetRange(TopicPartition(str(topic), int(partition)), int(start), int(until))


def _lost_from_json(row: list[Any]) -> LostRange:
    """A row without a reason is from before there were several."""
    lost = _range_from_json(row[:4])
    if len(row) == 4:
        return LostRange(lost, DELETED_BY_RETENTION, lost.until_offset)
    reason, continue_at = row[4:]
    return LostRange(lost, str(reason), None if continue_at is None else int(continue_at))


def _encode(body: dict[str, object]) -> bytes:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    envelope = {"v": FORMAT_VERSION, "crc": zlib.crc32(text.encode()), "body": body}
    data = json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode()
    if len(data) > MAX_NODE_BYTES:
        message = (
            f"The offsets to store take {len(data)} bytes, more than the {MAX_NODE_BYTES} that are safe in ZooKeeper: "
            "split the topics over several jobs."
        )
        raise StoredStateInvalid(message)
    return data


def _decode(data: bytes, where: str, build: Callable[[dict[str, Any]], Value]) -> Value:
    try:
        if len(data) > MAX_NODE_BYTES:
            raise ValueError(f"{len(data)} bytes are more than we store")  # noqa: EM102 - wrapped just below
        envelope = json.loads(data)
        version = envelope["v"]
        if version != FORMAT_VERSION:
            message = (
                f"{where} has format version {version}, this program reads version {FORMAT_VERSION}: "
                "run the program that wrote it, or upgrade."
            )
            raise StoredStateInvalid(message)
        text = json.dumps(envelope["body"], sort_keys=True, separators=(",", ":"))
        if zlib.crc32(text.encode()) != envelope["crc"]:
            raise ValueError("its checksum does not match")  # noqa: EM101 - wrapped just below
        return build(envelope["body"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = (
            f"{where} cannot be read ({error}): nothing was processed. Restore the node; replaced commits are kept "
            "beside it, below `previous`."
        )
        raise StoredStateInvalid(message) from error
