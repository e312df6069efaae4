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
from offsets.offset_range import OffsetRange, Offsets, TopicPartition

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
    lost: tuple[OffsetRange, ...] = field(default=())


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
    """The commit as stored."""
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
            "ranges": _ranges_to_json(pending.ranges),
            "topic_ids": pending.topic_ids,
            "lost": _ranges_to_json(pending.lost),
        }
    )


def decode_pending(data: bytes, where: str) -> Pending | None:
    """The pending batch in a node; an empty node means there is none."""
    return _decode(data, where, _pending_from) if data else None


def _commit_from(document: dict[str, Any]) -> Commit:
    return Commit(
        batch=int(document["batch"]),
        epoch=int(document["epoch"]),
        offsets={
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in document["offsets"].items()
            for partition, offset in partitions.items()
        },
        topic_ids=dict(document["topic_ids"]),
        epochs=tuple(EpochStart(int(epoch), int(first)) for epoch, first in document["epochs"]),
        committed_at=float(document["committed_at"]),
    )


def _pending_from(document: dict[str, Any]) -> Pending:
    return Pending(
        batch=int(document["batch"]),
        epoch=int(document["epoch"]),
        ranges=_ranges_from_json(document["ranges"]),
        topic_ids=dict(document["topic_ids"]),
        lost=_ranges_from_json(document["lost"]),
    )


def _offsets_to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return topics


def _ranges_to_json(ranges: tuple[OffsetRange, ...]) -> list[list[object]]:
    return [
        [one.partition.topic, one.partition.partition, one.from_offset, one.until_offset]
        for one in ranges
    ]


def _ranges_from_json(rows: list[list[Any]]) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(TopicPartition(str(topic), int(partition)), int(start), int(until))
        for topic, partition, start, until in rows
    )


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
            f"{where} cannot be read ({error}): nothing was processed. Restore the node, or set new offsets with "
            "`palisade offsets reset`."
        )
        raise StoredStateInvalid(message) from error
