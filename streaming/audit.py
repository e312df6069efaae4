"""`palisade audit`: what the ledger proves, by arithmetic over committed batches.

Ranges of consecutive batches must tile each partition's offsets; bytes of each log file must follow each
other. What is missing is named; anything missing makes the audit fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

import polars as pl

from offsets.offset_range import OffsetRange, TopicPartition
from offsets.store import Commit
from streaming.ledger import Ledger

_TOTALS = (
    "lines",
    "bytes",
    "records",
    "parsed",
    "malformed",
    "quarantined",
    "gap_bytes",
    "resent_lines",
    "unproven_lines",
)
_MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class AuditedPartition:
    """What committed batches read of one partition."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class AuditedGeneration:
    """What arrived of one physical log file."""

    generation: str
    service: str
    host: str
    path: str
    lines: int
    bytes: int
    first_offset: int
    end_offset: int
    gap_bytes: int
    resent_lines: int


@dataclass(frozen=True, slots=True)
class LostRange:
    """Records that were gone before they could be read, as the operator accepted."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    batch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The whole verdict."""

    batch_count: int
    first_batch: int
    last_batch: int
    partitions: tuple[AuditedPartition, ...]
    generations: tuple[AuditedGeneration, ...]
    totals: dict[str, int]
    lost_ranges: tuple[LostRange, ...]
    problems: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing is missing."""
        return not self.problems and not self.lost_ranges and self.totals["gap_bytes"] == 0

    def to_json(self) -> dict[str, object]:
        """The document of `palisade audit --json`."""
        return {
            "ok": self.ok,
            "batches": {
                "count": self.batch_count,
                "first": self.first_batch,
                "last": self.last_batch,
                "tile": not self.problems,
                "problems": list(self.problems),
            },
            "partitions": [asdict(one) for one in self.partitions],
            "generations": [asdict(one) for one in self.generations],
            "totals": self.totals,
            "lost_ranges": [asdict(one) for one in self.lost_ranges],
        }


def audit_ledger(ledger: Ledger, commit: Commit) -> Audit:
    """Add up what is committed."""
    account = ledger.read_all("account", commit)
    generations = ledger.read_all("generations", commit)
    lost = _lost_ranges(ledger.read_all("lost", commit))
    if account is None:
        nothing = dict.fromkeys(_TOTALS, 0)
        missing = (f"the ledger holds none of the {commit.batch} committed batches",)
        return Audit(0, 0, 0, (), (), nothing, lost, missing if commit.batch else ())
    ranges = account.sort("batch", "topic", "partition", "from_offset")
    batches = sorted(set(ranges["batch"]))
    problems = [
        *_missing_batches(batches, commit, lost),
        *_untiled(ranges, lost, commit),
        *_miscounted(ranges),
    ]
    return Audit(
        batch_count=len(batches),
        first_batch=batches[0],
        last_batch=batches[-1],
        partitions=_partitions(ranges),
        generations=_generations(generations),
        totals={name: int(ranges[name].sum()) for name in _TOTALS},
        lost_ranges=lost,
        problems=tuple(problems[:_MAX_PROBLEMS]),
    )


def _missing_batches(batches: list[int], commit: Commit, lost: Iterable[LostRange]) -> list[str]:
    present = set(batches) | {one.batch for one in lost}
    return [
        f"batch {batch} is committed but not in the ledger"
        for batch in range(1, commit.batch + 1)
        if batch not in present
    ]


def _untiled(ranges: pl.DataFrame, lost: Iterable[LostRange], commit: Commit) -> list[str]:
    """Where one batch's end is not the next one's start, lost ranges counted as read."""
    skipped = {(one.batch, TopicPartition(one.topic, one.partition)): one for one in lost}
    problems = []
    reached: dict[TopicPartition, int] = {}
    for row in ranges.iter_rows(named=True):
        partition = TopicPartition(row["topic"], row["partition"])
        one = OffsetRange(partition, row["from_offset"], row["until_offset"])
        loss = skipped.get((row["batch"], partition))
        start = loss.from_offset if loss else one.from_offset
        expected = reached.get(partition, start)
        if start != expected:
            kind = "gap" if start > expected else "overlap"
            problems.append(
                f"batch {row['batch']}: {kind} in {partition}, {one} follows offset {expected}"
            )
        reached[partition] = one.until_offset
    problems += [
        f"{partition} is committed until {commit.offsets.get(partition)} but read until {until}"
        for partition, until in sorted(reached.items())
        if commit.offsets.get(partition) != until
    ]
    return problems


def _miscounted(ranges: pl.DataFrame) -> list[str]:
    lines_add_up = pl.col("parsed") + pl.col("quarantined") == pl.col("lines")
    wrong = ranges.filter(~lines_add_up)
    return [
        f"batch {row['batch']}: {row['topic']}[{row['partition']}] parsed {row['parsed']} and quarantined "
        f"{row['quarantined']} of {row['lines']} lines"
        for row in wrong.iter_rows(named=True)
    ]


def _partitions(ranges: pl.DataFrame) -> tuple[AuditedPartition, ...]:
    sums = ranges.group_by("topic", "partition").agg(
        pl.col("from_offset").min(), pl.col("until_offset").max(), pl.col("records").sum()
    )
    return tuple(
        AuditedPartition(**row) for row in sums.sort("topic", "partition").iter_rows(named=True)
    )


def _generations(generations: pl.DataFrame | None) -> tuple[AuditedGeneration, ...]:
    if generations is None:
        return ()
    sums = (
        generations.sort("batch")
        .group_by("generation")
        .agg(
            pl.col("service", "host").first(),
            pl.col("path").last(),
            pl.col("lines", "bytes", "gap_bytes", "resent_lines").sum(),
            pl.col("first_offset").min(),
            pl.col("end_offset").max(),
        )
    )
    return tuple(
        AuditedGeneration(**row)
        for row in sums.sort("service", "host", "path", "generation").iter_rows(named=True)
    )


def _lost_ranges(lost: pl.DataFrame | None) -> tuple[LostRange, ...]:
    return () if lost is None else tuple(LostRange(**row) for row in lost.iter_rows(named=True))
