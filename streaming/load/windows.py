"""Windows and what is read from them: their start, quantiles from buckets, status classes.

Pure. A window is 10 s of event time, named by the epoch second of its start.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from alerts.metric_names import DURATION_BUCKETS_SECONDS

WINDOW_SECONDS = 10


def window_start(time: pl.Expr) -> pl.Expr:
    """Epoch second (Int64) of the start of the window that `time` falls in."""
    return (time.dt.epoch("s") // WINDOW_SECONDS * WINDOW_SECONDS).cast(pl.Int64)


def duration_bucket(microseconds: pl.Series) -> pl.Series:
    """Index of the first bound that is not below the duration; the last index is +Inf; null stays null."""
    bounds = pl.Series(
        [round(bound * 1_000_000) for bound in DURATION_BUCKETS_SECONDS], dtype=pl.Int64
    )
    index = bounds.search_sorted(microseconds.fill_null(0), side="left").cast(pl.Int16)
    return index.set(microseconds.is_null(), None).alias("bucket")


def quantile_seconds(latency: pl.DataFrame, quantile: float) -> float | None:
    """The quantile of a latency table's counts, linear inside its bucket as Prometheus does; None without any."""
    counts = dict(latency.group_by("bucket").agg(pl.col("count").sum()).iter_rows())
    return quantile_of_counts(
        [counts.get(i, 0) for i in range(len(DURATION_BUCKETS_SECONDS) + 1)], quantile
    )


def quantile_of_counts(counts: Sequence[int], quantile: float) -> float | None:
    """The same for one count for each bucket; what lies above the last bound is reported as that bound."""
    total = sum(counts)
    if total == 0:
        return None
    rank, seen, lower = quantile * total, 0, 0.0
    for upper, count in zip(DURATION_BUCKETS_SECONDS, counts, strict=False):
        if count and seen + count >= rank:
            return lower + (upper - lower) * max(rank - seen, 0) / count
        seen, lower = seen + count, upper
    return DURATION_BUCKETS_SECONDS[-1]


def status_class(status: pl.Expr) -> pl.Expr:
    """`2xx` and so on; `other` for what is no HTTP status."""
    return (
        pl.when(status.is_between(100, 599))
        .then(pl.format("{}xx", status // 100))
        .otherwise(pl.lit("other"))
        .alias("status_class")
    )
