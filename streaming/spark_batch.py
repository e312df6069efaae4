"""Ranges → Spark tasks → one merged result. The only module that runs a Spark job of the stream."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import polars as pl
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from streaming.errors import KafkaUnavailable, RangeNotReadable, StreamError
from streaming.ledger import Tables
from streaming.load.merge import merge_partials
from streaming.range_task import RangeAccount, RangeResult, RangeTask, run_range_task

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

OUTCOME_SCHEMA = {"service": pl.String, "ok": pl.Boolean, "reason": pl.String, "lines": pl.Int64}


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch read, as tables for the ledger."""

    accounts: tuple[RangeAccount, ...]
    tables: Tables

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

    def run(self, tasks: Sequence[RangeTask]) -> BatchResult:
        """One Spark task for each range; the merged result."""
        inputs = self._context.parallelize(list(tasks), numSlices=max(len(tasks), 1))
        try:
            results = inputs.mapPartitions(_run_tasks).collect()
        except Py4JJavaError as error:
            raise _task_failure(error) from error
        failures = [result.failure for result in results if result.failure]
        if failures:
            raise RangeNotReadable("; ".join(failures))
        return merge_results(results)


def merge_results(results: Sequence[RangeResult]) -> BatchResult:
    """The tables of all tasks as one set."""
    accounts = tuple(result.account for result in results if result.account is not None)
    generations = [generation for result in results for generation in result.generations]
    partials = [
        {name: pl.read_ipc(io.BytesIO(data)) for name, data in result.tables.items()}
        for result in results
    ]
    tables: Tables = {
        "account": pl.DataFrame([asdict(one) for one in accounts], schema=ACCOUNT_SCHEMA),
        "generations": pl.DataFrame(generations, schema=GENERATION_SCHEMA),
        "outcomes": _outcomes(partials),
        **merge_partials(partials),
    }
    return BatchResult(accounts, tables)


def _outcomes(partials: Sequence[Tables]) -> pl.DataFrame:
    parts = [part["outcomes"] for part in partials if "outcomes" in part]
    every = pl.concat([pl.DataFrame(schema=OUTCOME_SCHEMA), *parts])
    return every.group_by("service", "ok", "reason").agg(pl.col("lines").sum())


def _run_tasks(tasks: Iterable[RangeTask]) -> Iterable[RangeResult]:
    return map(run_range_task, tasks)


def _task_failure(error: Py4JJavaError) -> StreamError:
    """The Python error inside Spark's report, as one of ours."""
    report = str(error.java_exception)
    reason = next(
        (
            line.split(": ", 1)[1]
            for line in report.splitlines()
            if line.startswith("streaming.errors.KafkaUnavailable: ")
        ),
        None,
    )
    if reason is not None:
        return KafkaUnavailable(reason)
    first_lines = " ".join(report.splitlines()[:3])[:500]
    return StreamError(f"A Spark task failed in every attempt: {first_lines}")
