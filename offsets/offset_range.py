"""Offset ranges: the exact input of a batch.

Pure. A range is half-open: `from_offset` is read, `until_offset` is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Offsets = dict["TopicPartition", int]
"""For each partition, the next offset to read."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


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
