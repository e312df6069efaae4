"""Offset ranges: the exact input of a batch.

Pure. A range is half-open: `from_offset` is read, `until_offset` is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

Offsets = dict["TopicPartition", int]
"""For each partition, the next offset to read."""

_PARTITION_TEXT = re.compile(r"^([A-Za-z0-9._-]{1,249}):(\d{1,9})$")


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"

    @staticmethod
    def parse(text: str) -> TopicPartition:
        """A partition as people write it: `access-log:0`."""
        match = _PARTITION_TEXT.match(text.strip())
        if match is None:
            message = f"'{text}' is no partition: write topic:number, as in access-log:0"
            raise ValueError(message)
        return TopicPartition(match[1], int(match[2]))


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Records `from_offset` (inclusive) to `until_offset` (exclusive) of one partition."""

    partition: TopicPartition
    from_offset: int
    until_offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.from_offset <= self.until_offset:
            message = (
                f"{self.partition}: a range cannot go from {self.from_offset} until {self.until_offset}: "
                "the start was given wrongly, or the topic lost its end."
            )
            raise ValueError(message)

    @property
    def count(self) -> int:
        """How many offsets the range spans."""
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return f"{self.partition}@{self.from_offset}..{self.until_offset}"


def offsets_after(start: Offsets, ranges: Iterable[OffsetRange]) -> Offsets:
    """Where every partition continues once `ranges` are done."""
    return {**start, **{one.partition: one.until_offset for one in ranges}}


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets that were given up: the range (empty where nobody knows how much was lost), why, and what comes next.

    `continue_at` is where the partition goes on; None where it is gone and forgotten.
    """

    range: OffsetRange
    reason: str
    continue_at: int | None

    def __str__(self) -> str:
        return f"{self.range} ({self.reason})"


def offsets_after_batch(
    start: Offsets, ranges: Iterable[OffsetRange], lost: Iterable[LostRange]
) -> Offsets:
    """Where every partition continues once a batch is done: losses first, then what was read."""
    offsets = dict(start)
    for loss in lost:
        if loss.continue_at is None:
            offsets.pop(loss.range.partition, None)
        else:
            offsets[loss.range.partition] = loss.continue_at
    return offsets_after(offsets, ranges)
