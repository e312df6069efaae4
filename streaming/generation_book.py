"""Every log file that was ever counted, and how far: one row for each file generation.

Pure. Work grows with the files of a batch, never with the files of the past: sums are kept while adding, and tasks are
told only about the files that were written to lately. A task that meets an older one is told and runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import polars as pl

from offsets.offset_range import TopicPartition

RECENT_GENERATIONS = 1000
"""Files of one partition that its tasks are told about beforehand."""

Ends = dict[TopicPartition, dict[str, int]]
"""For each partition and each generation in it, the highest byte offset counted."""


@dataclass(slots=True)
class GenerationTotal:
    """One log file over all batches."""

    topic: str
    partition: int
    service: str
    host: str
    path: str
    first_offset: int
    end_offset: int
    lines: int
    gap_bytes: int
    resent_lines: int

    @property
    def byte_count(self) -> int:
        """Bytes counted, newlines included."""
        return self.end_offset - self.first_offset - self.gap_bytes


@dataclass(slots=True)
class GenerationBook:
    """All files; `recent` holds those of each partition, the one written to last at the end."""

    totals: dict[str, GenerationTotal] = field(default_factory=dict)
    recent: dict[TopicPartition, dict[str, None]] = field(default_factory=dict)
    counted_bytes: int = 0
    missing_bytes: int = 0

    @property
    def completeness(self) -> float:
        """Bytes counted of the bytes that are known to exist; 1.0 before anything was read."""
        known = self.counted_bytes + self.missing_bytes
        return 1.0 if known == 0 else self.counted_bytes / known

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a committed batch's accounts."""
        for row in rows:
            known = self.totals.get(row["generation"])
            if known is None:
                self.insert(row)
                continue
            self._forget_sums(known)
            self.recent[TopicPartition(known.topic, known.partition)].pop(row["generation"])
            known.topic, known.partition = row["topic"], row["partition"]
            known.end_offset = max(known.end_offset, row["end_offset"])
            known.path = row["path"] or known.path
            known.lines += row["lines"]
            known.gap_bytes += row["gap_bytes"]
            known.resent_lines += row["resent_lines"]
            self._remember(row["generation"], known)

    def insert(self, row: Mapping[str, Any]) -> None:
        """A file that was not known, as the one written to last."""
        total = GenerationTotal(**{name: row[name] for name in GenerationTotal.__slots__})
        self.totals[row["generation"]] = total
        self._remember(row["generation"], total)

    def counted_until(
        self, partition: TopicPartition, limit: int = RECENT_GENERATIONS
    ) -> dict[str, int]:
        """How far the files of a partition were counted that were written to last."""
        names = islice(reversed(self.recent.get(partition, {})), limit)
        return {name: self.totals[name].end_offset for name in names}

    def untold(self, generations: pl.DataFrame, told: Mapping[TopicPartition, Any]) -> Ends:
        """How far files were counted that tasks met without having been told: their result is wrong."""
        ends: Ends = {}
        for name, topic, number in generations.select(
            "generation", "topic", "partition"
        ).iter_rows():
            partition, known = TopicPartition(topic, number), self.totals.get(name)
            if known is not None and name not in told.get(partition, ()):
                ends.setdefault(partition, {})[name] = known.end_offset
        return ends

    def by_age(self) -> list[tuple[str, GenerationTotal]]:
        """Every file; those of each partition in the order in which they were written to last."""
        return [(name, self.totals[name]) for names in self.recent.values() for name in names]

    def _remember(self, name: str, total: GenerationTotal) -> None:
        self.recent.setdefault(TopicPartition(total.topic, total.partition), {})[name] = None
        self.counted_bytes += total.byte_count
        self.missing_bytes += total.gap_bytes

    def _forget_sums(self, total: GenerationTotal) -> None:
        self.counted_bytes -= total.byte_count
        self.missing_bytes -= total.gap_bytes
