"""Ranges → Spark tasks → one merged result. The only module that runs a Spark job of the stream."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice

import polars as pl
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from offsets.offset_range import LostRange, OffsetRange
from offsets.reconcile import DELETED_BY_RETENTION
from streaming.errors import KafkaUnavailable, RangeNotReadable, StreamError, TaskFailed
from streaming.ledger import Tables
from streaming.load.clocks import CLOCKS
from streaming.load.merge import merge_partials
from streaming.plan.split_ranges import SplitLimits, split_ranges
from streaming.range_task import RangeAccount, RangeResult, RangeTask, run_range_task
from streaming.stitch import Misfit, first_misfit, join_accounts

ACCOUNT_SCHEMA = {
    "topic": pl.String,
    "partition": pl.Int32,
    "from_offset": pl.Int64,
    "until_offset": pl.Int64,
    "records": pl.Int64,
    "lines": pl.Int64,
    "bytes": pl.Int64,
    "parsed": pl.Int64,
    "malformed": pl.Int64,
    "quarantined": pl.Int64,
    "resent_lines": pl.Int64,
    "unproven_lines": pl.Int64,
    "gap_bytes": pl.Int64,
    "last_timestamp_ms": pl.Int64,
    "empty_records": pl.Int64,
}
GENERATION_SCHEMA = {
    "generation": pl.String,
    "topic": pl.String,
    "partition": pl.Int32,
    "service": pl.String,
    "host": pl.String,
    "path": pl.String,
    "first_offset": pl.Int64,
    "end_offset": pl.Int64,
    "lines": pl.Int64,
    "bytes": pl.Int64,
    "gap_bytes": pl.Int64,
    "resent_lines": pl.Int64,
}

_SUMMED = (
    *("records", "lines", "bytes", "parsed", "malformed", "quarantined"),
    *("resent_lines", "unproven_lines", "empty_records"),
)
OUTCOME_SCHEMA = {"service": pl.String, "ok": pl.Boolean, "reason": pl.String, "lines": pl.Int64}


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch read, as tables for the ledger."""

    accounts: tuple[RangeAccount, ...]
    tables: Tables
    lost: tuple[LostRange, ...] = ()
    """Parts of the ranges that Kafka deleted before they could be read, as the operator accepted."""

    @property
    def line_count(self) -> int:
        """Lines counted."""
        return sum(account.lines for account in self.accounts)

    @property
    def record_count(self) -> int:
        """Records read."""
        return sum(account.records for account in self.accounts)


class SparkBatch:
    """Runs the tasks of a batch on Spark."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def run(self, tasks: Sequence[RangeTask], limits: SplitLimits | None = None) -> BatchResult:
        """A Spark task for each range, or several where cores would be idle; the merged result."""
        filled = [task for task in tasks if task.wanted.count]
        splits = self._split([task.wanted for task in filled], limits)
        parts = [
            [replace(task, wanted=part) for part in split]
            for task, split in zip(filled, splits, strict=True)
        ]
        done = self._run_parts(parts)
        while misfits := _misfits(done):
            again = [
                [
                    replace(
                        parts[index][misfit.part],
                        counted_until={**parts[index][misfit.part].counted_until, **misfit.ends},
                    )
                ]
                for index, misfit in misfits.items()
            ]
            for (index, misfit), (result,) in zip(
                misfits.items(), self._run_parts(again), strict=True
            ):
                done[index][misfit.part] = result
        return merge_results(done)

    def _split(
        self, ranges: Sequence[OffsetRange], limits: SplitLimits | None
    ) -> list[tuple[OffsetRange, ...]]:
        return split_ranges(ranges, self._context.defaultParallelism, limits)

    def _run_parts(self, parts: Sequence[Sequence[RangeTask]]) -> list[list[RangeResult]]:
        """One Spark job; the results in the shape of the tasks."""
        flat = [task for of_range in parts for task in of_range]
        if not flat:
            return []
        inputs = self._context.parallelize(flat, numSlices=len(flat))
        try:
            results = inputs.mapPartitions(_run_tasks).collect()
        except Py4JJavaError as error:
            raise _task_failure(error) from error
        failures = [result.failure for result in results if result.failure]
        if failures:
            raise RangeNotReadable("; ".join(failures))
        in_order = iter(results)
        return [list(islice(in_order, len(of_range))) for of_range in parts]


def _misfits(done: Sequence[Sequence[RangeResult]]) -> dict[int, Misfit]:
    """For each range whose parts do not fit, the first part that does not."""
    found = (first_misfit([part.generations for part in parts]) for parts in done)
    return {index: misfit for index, misfit in enumerate(found) if misfit is not None}


def merge_results(done: Sequence[Sequence[RangeResult]]) -> BatchResult:
    """The tables of all ranges, each given by its parts in order, as one set."""
    accounts = tuple(_joined_account(parts) for parts in done)
    partials = [
        {name: pl.read_ipc(io.BytesIO(data)) for name, data in part.tables.items()}
        for parts in done
        for part in parts
    ]
    tables: Tables = {
        "account": pl.DataFrame([asdict(one) for one in accounts], schema=ACCOUNT_SCHEMA),
        "generations": pl.DataFrame(
            [row for parts in done for row in _generation_rows(parts)], schema=GENERATION_SCHEMA
        ),
        "outcomes": _outcomes(partials),
        "clocks": CLOCKS.merge([part["clocks"] for part in partials if "clocks" in part]),
        **merge_partials(partials),
    }
    lost = _touching_joined(one for parts in done for part in parts for one in part.lost)
    return BatchResult(
        accounts,
        tables,
        tuple(LostRange(one, DELETED_BY_RETENTION, one.until_offset) for one in lost),
    )


def _touching_joined(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Ranges in order; those of one partition that follow each other without a gap as one."""
    joined: list[OffsetRange] = []
    for one in ranges:
        last = joined[-1] if joined else None
        if last and (last.partition, last.until_offset) == (one.partition, one.from_offset):
            joined[-1] = replace(last, until_offset=one.until_offset)
        else:
            joined.append(one)
    return joined


def _joined_account(parts: Sequence[RangeResult]) -> RangeAccount:
    accounts = [part.account for part in parts if part.account is not None]
    generations = join_accounts([part.generations for part in parts])
    times = [one.last_timestamp_ms for one in accounts if one.last_timestamp_ms is not None]
    return replace(
        accounts[0],
        until_offset=accounts[-1].until_offset,
        gap_bytes=sum(one.gap_bytes for one in generations),
        last_timestamp_ms=times[-1] if times else None,
        **{name: sum(getattr(one, name) for one in accounts) for name in _SUMMED},
    )


def _generation_rows(parts: Sequence[RangeResult]) -> list[dict[str, object]]:
    place = next(part.account for part in parts if part.account is not None)
    return [
        {
            **{name: getattr(one, name) for name in GENERATION_SCHEMA if hasattr(one, name)},
            "bytes": one.byte_count,
            "topic": place.topic,
            "partition": place.partition,
        }
        for one in join_accounts([part.generations for part in parts])
    ]


def _outcomes(partials: Sequence[Tables]) -> pl.DataFrame:
    parts = [part["outcomes"] for part in partials if "outcomes" in part]
    every = pl.concat([pl.DataFrame(schema=OUTCOME_SCHEMA), *parts])
    return every.group_by("service", "ok", "reason").agg(pl.col("lines").sum())


def _run_tasks(tasks: Iterable[RangeTask]) -> Iterable[RangeResult]:
    return map(run_range_task, tasks)


def _task_failure(error: Py4JJavaError) -> StreamError:
    """The Python error inside Spark's report, as one of ours."""
    report = str(error.java_exception)
    for line in report.splitlines():
        for kind in (KafkaUnavailable, TaskFailed):
            name = f"{kind.__module__}.{kind.__name__}: "
            if line.startswith(name):
                return kind(line.removeprefix(name))
    first_lines = " ".join(report.splitlines()[:3])[:500]
    return StreamError(f"A Spark task failed in every attempt: {first_lines}")
