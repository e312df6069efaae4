"""Cut large ranges into parts, so that every core has work and no task holds more than it should.

Pure. The same arithmetic as Spark's own Kafka source: parts in proportion to size, small ranges stay whole and do
not count in the proportion, rounding errors go to the later parts. The parts of a range tile it: no offset is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from offsets.offset_range import OffsetRange


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """How ranges may be cut, in offsets. A maximum of 0 means no bound on a part."""

    min_records: int = 1
    """Smaller parts cost more than they win; only `max_records` goes below it."""
    max_records: int = 0


def split_ranges(
    ranges: Sequence[OffsetRange], wanted_parts: int, limits: SplitLimits | None = None
) -> list[tuple[OffsetRange, ...]]:
    """For each range that is not empty its parts, in order; `wanted_parts` over all ranges where they allow it."""
    filled = [one for one in ranges if one.count]
    limits = limits or SplitLimits()
    parts = _part_counts([one.count for one in filled], wanted_parts)
    return [
        divided(one, max(min(count, one.count // limits.min_records), _bound(one, limits), 1))
        for one, count in zip(filled, parts, strict=True)
    ]


def divided(one: OffsetRange, parts: int) -> tuple[OffsetRange, ...]:
    """A range in `parts` nearly equal parts; fewer where it has fewer offsets."""
    cuts = [one.from_offset]
    for part in range(parts):
        cuts.append(cuts[-1] + (one.until_offset - cuts[-1]) // (parts - part))
    return tuple(
        OffsetRange(one.partition, start, until) for start, until in pairwise(cuts) if until > start
    )


def _part_counts(sizes: Sequence[int], wanted_parts: int) -> list[int]:
    if len(sizes) >= wanted_parts:
        return [1] * len(sizes)
    total = sum(sizes)
    whole = [size for size in sizes if _share(size, total, wanted_parts) == 1]
    left_parts, left_total = max(wanted_parts - len(whole), 1), total - sum(whole)
    return [
        1 if _share(size, total, wanted_parts) == 1 else _share(size, left_total, left_parts)
        for size in sizes
    ]


def _share(size: int, total: int, parts: int) -> int:
    """The part of `parts` that `size` of `total` deserves, rounded half up, at least one."""
    return max((2 * size * parts + total) // (2 * total), 1)


def _bound(one: OffsetRange, limits: SplitLimits) -> int:
    """How many parts the maximum of a part asks for."""
    return -(-one.count // limits.max_records) if limits.max_records else 1
