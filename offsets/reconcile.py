"""Decide where each partition continues: what is stored against what Kafka still has.

Pure. Missing records are returned as lost ranges for the caller to stop on or to report, never skipped silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsets.offset_range import OffsetRange, Offsets, TopicPartition


@dataclass(frozen=True, slots=True)
class Available:
    """What a partition holds: records `earliest` (inclusive) to `latest` (exclusive)."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Start:
    """Where every partition continues, what was lost on the way, and what makes continuing impossible."""

    offsets: Offsets
    lost: tuple[OffsetRange, ...]
    impossible: tuple[str, ...]


def reconcile(
    stored: Offsets, available: Mapping[TopicPartition, Available], first_start: str
) -> Start:
    """Stored offsets first; new partitions of a running job from their earliest record.

    `first_start` (`earliest` or `latest`) is for a job that has never stored an offset.
    """
    offsets: Offsets = {}
    lost: list[OffsetRange] = []
    impossible: list[str] = [
        f"{partition} was read until offset {offset} and is gone from Kafka"
        for partition, offset in sorted(stored.items())
        if partition not in available
    ]
    for partition, has in sorted(available.items()):
        position = stored.get(partition)
        if position is None:
            from_the_end = not stored and first_start == "latest"
            offsets[partition] = has.latest if from_the_end else has.earliest
        elif position > has.latest:
            impossible.append(
                f"{partition} was read until offset {position} but Kafka ends at {has.latest}"
            )
        elif position < has.earliest:
            lost.append(OffsetRange(partition, position, has.earliest))
            offsets[partition] = has.earliest
        else:
            offsets[partition] = position
    return Start(offsets, tuple(lost), tuple(impossible))


def recreated_topics(stored: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Topics whose identity changed: their offsets look valid and mean other records."""
    return sorted(
        topic
        for topic, topic_id in stored.items()
        if topic in current and current[topic] != topic_id
    )
