"""Rows with detectors → the `attacks` table: who fired what, when, and where the lines stand.

Pure, frame → partial. Partition is a key, so that the offsets are an exact range to read again. A request that
several detectors recognised is in `first_requests` of one of them only: their sum counts requests once.
"""

from __future__ import annotations

import polars as pl

from streaming.load.partial_table import Table

SAMPLE_LENGTH = 300
_VERDICT = ("detectors", "detector_points")
ATTACKS = Table(
    keys={
        "window": pl.Int64(),
        "service": pl.String(),
        "client": pl.String(),
        "detector": pl.String(),
        "partition": pl.Int32(),
    },
    sums={"requests": pl.Int64(), "first_requests": pl.Int64(), "points": pl.Int64()},
    maxima={"last_offset": pl.Int64()},
    minima={"first_offset": pl.Int64(), "sample": pl.String()},
)


def attack_partial(rows: pl.DataFrame) -> pl.DataFrame:
    """The table of a task's rows, as `match_lines` left them, with `window`; empty before it did."""
    if "detectors" not in rows.columns:
        return ATTACKS.empty()
    fired = rows.filter((pl.col("score") > 0) & pl.col("client").is_not_null()).select(
        "window", "service", "client", "partition", "record_offset", "line", *_VERDICT
    )
    return ATTACKS.shaped(
        fired.with_columns(first=pl.col("detectors").list.first())
        .explode(*_VERDICT)
        .group_by("window", "service", "client", "partition", pl.col("detectors").alias("detector"))
        .agg(
            requests=pl.len(),
            first_requests=(pl.col("detectors") == pl.col("first")).sum(),
            points=pl.col("detector_points").sum(),
            last_offset=pl.col("record_offset").max(),
            first_offset=pl.col("record_offset").min(),
            sample=pl.col("line").str.head(SAMPLE_LENGTH).min(),
        )
    )
