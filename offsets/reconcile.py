"""Decide where each partition continues: what is stored against what Kafka still has.

Pure. Whatever is missing is returned as a loss for the caller to stop on or to record, never skipped silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsets.offset_range import LostRange, OffsetRange, Offsets, TopicPartition

DELETED_BY_RETENTION = "deleted by retention before it was read"
TOPIC_DELETED = "topic deleted"
TOPIC_RECREATED = "topic recreated"
TOPIC_TRUNCATED = "topic truncated"


@dataclass(frozen=True, slots=True)
class Available:
    """What a partition holds: records `earliest` (inclusive) to `latest` (exclusive)."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Found:
    """What Kafka has of what the job reads: each topic's identity, and what each partition holds."""

    topic_ids: Mapping[str, str]
    available: Mapping[TopicPartition, Available]


@dataclass(frozen=True, slots=True)
class Start:
    """Where every partition that can be read continues, and what was lost on the way."""

    offsets: Offsets
    lost: tuple[LostRange, ...]


@dataclass(frozen=True, slots=True)
class Readable:
    """What Kafka still has of fixed ranges, and what it lost of them meanwhile."""

    ranges: tuple[OffsetRange, ...]
    lost: tuple[LostRange, ...]


def reconcile(
    stored: Offsets,
    topic_ids: Mapping[str, str],
    found: Found,
    added_start_at_zero: bool = True,
) -> Start:
    """Stored offsets first; what appeared since then from its earliest record.

    `stored` and `topic_ids` are what was committed of the partitions that the job is meant to read.
    `added_start_at_zero`: a partition that was added to a topic we read must still hold its first record.
    """
    lost: list[LostRange] = []
    offsets: Offsets = {}
    for partition, position in sorted(stored.items()):
        loss = _loss(partition, position, topic_ids, found)
        lost += [loss] if loss else []
        continue_at = loss.continue_at if loss else position
        if continue_at is not None:
            offsets[partition] = continue_at
    for partition, has in sorted(found.available.items()):
        if partition in stored:
            continue
        offsets[partition] = has.earliest
        is_added = partition.topic in topic_ids and not _is_recreated(
            partition.topic, topic_ids, found
        )
        if added_start_at_zero and is_added and has.earliest > 0:
            missed = OffsetRange(partition, 0, has.earliest)
            lost.append(LostRange(missed, DELETED_BY_RETENTION, has.earliest))
    return Start(offsets, tuple(lost))


def still_readable(
    ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str], found: Found
) -> Readable:
    """The part of fixed ranges that Kafka still has, and what it lost of them meanwhile."""
    kept: list[OffsetRange] = []
    lost: list[LostRange] = []
    for one in ranges:
        loss = _loss_in_range(one, topic_ids, found)
        if loss is None:
            kept.append(one)
            continue
        lost.append(loss)
        if loss.range.until_offset < one.until_offset:
            kept.append(OffsetRange(one.partition, loss.range.until_offset, one.until_offset))
    return Readable(tuple(kept), tuple(lost))


def is_doubtful(lost: Iterable[LostRange]) -> bool:
    """Whether a loss was seen that a broker may report by mistake for a moment: worth a second look."""
    return any(loss.reason != DELETED_BY_RETENTION for loss in lost)


def _loss(
    partition: TopicPartition, position: int, topic_ids: Mapping[str, str], found: Found
) -> LostRange | None:
    """What was lost of one partition; how much is only known where retention did it."""
    has = found.available.get(partition)
    unknown = OffsetRange(partition, position, position)
    if _is_recreated(partition.topic, topic_ids, found):
        return LostRange(unknown, TOPIC_RECREATED, has.earliest if has else None)
    if has is None:
        return LostRange(unknown, TOPIC_DELETED, None)
    if position > has.latest:
        return LostRange(unknown, TOPIC_TRUNCATED, has.earliest)
    if position < has.earliest:
        missed = OffsetRange(partition, position, has.earliest)
        return LostRange(missed, DELETED_BY_RETENTION, has.earliest)
    return None


def _loss_in_range(
    one: OffsetRange, topic_ids: Mapping[str, str], found: Found
) -> LostRange | None:
    has = found.available.get(one.partition)
    if _is_recreated(one.partition.topic, topic_ids, found):
        return LostRange(one, TOPIC_RECREATED, has.earliest if has else None)
    if has is None:
        return LostRange(one, TOPIC_DELETED, None)
    if one.until_offset > has.latest:
        return LostRange(one, TOPIC_TRUNCATED, has.earliest)
    if one.from_offset < has.earliest:
        gone = min(has.earliest, one.until_offset)
        missing = OffsetRange(one.partition, one.from_offset, gone)
        return LostRange(missing, DELETED_BY_RETENTION, gone)
    return None


def _is_recreated(topic: str, topic_ids: Mapping[str, str], found: Found) -> bool:
    before, now = topic_ids.get(topic), found.topic_ids.get(topic)
    return before is not None and now is not None and before != now
