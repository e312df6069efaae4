"""`palisade audit`: what the ledger proves, by arithmetic over committed batches.

Ranges of consecutive batches must tile each partition's offsets; bytes of each log file must follow each
other. What is missing is named; anything missing makes the audit fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

import polars as pl

from offsets.offset_range import OffsetRange, TopicPartition
from offsets.store import Commit, Reset
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
    continue_at: int | None = None
    """Where the partition went on; None where it was gone and forgotten."""


@dataclass(frozen=True, slots=True)
class AuditedReset:
    """A partition that an operator moved by hand: no fault, and no loss that the job saw."""

    topic: str
    partition: int
    after_batch: int
    from_offset: int | None
    to_offset: int | None
    at: float


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
    resets: tuple[AuditedReset, ...] = field(default=())

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
            "resets": [asdict(one) for one in self.resets],
        }


def audit_ledger(ledger: Ledger, commit: Commit, resets: Sequence[Reset] = ()) -> Audit:
    """Add up what is committed; `resets` are the places where an operator moved the offsets by hand."""
    account = ledger.read_all("account", commit)
    generations = ledger.read_all("generations", commit)
    lost = _lost_ranges(ledger.read_all("lost", commit))
    if account is None:
        nothing = dict.fromkeys(_TOTALS, 0)
        missing = (f"the ledger holds none of the {commit.batch} committed batches",)
        absent = missing if commit.batch and not lost else ()
        return Audit(0, 0, 0, (), (), nothing, lost, absent, _audited_resets(resets))
    ranges = account.sort("batch", "topic", "partition", "from_offset")
    batches = sorted(set(ranges["batch"]))
    problems = [
        *_missing_batches(batches, commit, lost),
        *_untiled(ranges, lost, commit, resets),
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
        resets=_audited_resets(resets),
    )


def _missing_batches(batches: list[int], commit: Commit, lost: Iterable[LostRange]) -> list[str]:
    present = set(batches) | {one.batch for one in lost}
    return [
        f"batch {batch} is committed but not in the ledger"
        for batch in range(1, commit.batch + 1)
        if batch not in present
    ]


def _untiled(
    ranges: pl.DataFrame, lost: Iterable[LostRange], commit: Commit, resets: Sequence[Reset]
) -> list[str]:
    """Where one batch's end is not the next one's start; what was lost counts as read, resets as moves."""
    problems = []
    reached: dict[TopicPartition, int] = {}
    waiting = sorted(resets, key=lambda reset: reset.batch)
    for batch, one, end in _steps(ranges, lost):
        while waiting and waiting[0].batch < batch:
            _move(reached, waiting.pop(0))
        expected = reached.get(one.partition, one.from_offset)
        if one.from_offset != expected:
            kind = "gap" if one.from_offset > expected else "overlap"
            problems.append(
                f"batch {batch}: {kind} in {one.partition}, {one} follows offset {expected}"
            )
        if end is None:
            reached.pop(one.partition, None)
        else:
            reached[one.partition] = end
    for reset in waiting:
        _move(reached, reset)
    problems += [
        f"{partition} is committed until {commit.offsets.get(partition)} but read until {until}"
        for partition, until in sorted(reached.items())
        if commit.offsets.get(partition) != until
    ]
    return problems


def _move(reached: dict[TopicPartition, int], reset: Reset) -> None:
    for partition in reset.before:
        reached.pop(partition, None)
    reached.update(reset.after)


def _steps(
    ranges: pl.DataFrame, lost: Iterable[LostRange]
) -> list[tuple[int, OffsetRange, int | None]]:
    """Batch, offsets, and where the partition stood after them: of each batch its losses first, then what it read.

    What was lost inside a range, after the range was fixed, is no step of its own.
    """
    read = [
        (
            row["batch"],
            _span(row["topic"], row["partition"], row["from_offset"], row["until_offset"]),
        )
        for row in ranges.iter_rows(named=True)
    ]
    holding = {(batch, one.partition): one for batch, one in read}
    losses = []
    for loss in lost:
        one = _span(loss.topic, loss.partition, loss.from_offset, loss.until_offset)
        around = holding.get((loss.batch, one.partition))
        is_inside = around is not None and around.from_offset <= one.from_offset < one.until_offset
        if not is_inside:
            losses.append((loss.batch, one, loss.continue_at))
    steps = [*losses, *((batch, one, one.until_offset) for batch, one in read)]
    return sorted(steps, key=lambda step: step[0])


def _span(topic: str, partition: int, from_offset: int, until_offset: int) -> OffsetRange:
    return OffsetRange(TopicPartition(topic, partition), from_offset, until_offset)


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


def _audited_resets(resets: Iterable[Reset]) -> tuple[AuditedReset, ...]:
    return tuple(
        AuditedReset(
            topic=one.topic,
            partition=one.partition,
            after_batch=reset.batch,
            from_offset=reset.before.get(one),
            to_offset=reset.after.get(one),
            at=reset.at,
        )
        for reset in resets
        for one in sorted(reset.before.keys() | reset.after.keys())
    )
