"""What a task's lines say about time: for each service, its newest plausible event time and Kafka's clock.

Pure. A time is plausible when it is near the time its record reached Kafka; hosts with a wrong clock are counted and
otherwise ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from streaming.load.partial_table import Table

CLOCKS = Table(
    keys={"topic": pl.String(), "partition": pl.Int32(), "service": pl.String()},
    sums={"lines": pl.Int64(), "skewed_lines": pl.Int64()},
    maxima={
        "newest_time": pl.Int64(),
        "plausible_append_ms": pl.Int64(),
        "newest_append_ms": pl.Int64(),
    },
    minima={"oldest_append_ms": pl.Int64()},
)
"""`newest_time` is an epoch second; it and `plausible_append_ms` are null where no line had a plausible time."""


def append_times(timestamps_ms: Sequence[int], now_ms: int) -> np.ndarray:
    """When records reached Kafka: producers may stamp them by a clock that is ahead, but none came later than now."""
    times = np.asarray(timestamps_ms, dtype=np.int64)
    return np.where(times > 0, np.minimum(times, now_ms), now_ms)


def read_clocks(
    lines: pl.DataFrame,
    topic: str,
    record_offsets: np.ndarray,
    append_ms: np.ndarray,
    max_skew_seconds: float,
) -> pl.DataFrame:
    """The clocks of the lines that could be read; `append_ms` belongs to `record_offsets`, which ascend."""
    rows = lines.filter("ok").select("service", "partition", "time", "record_offset")
    places = np.searchsorted(record_offsets, rows["record_offset"].to_numpy())
    appended = pl.Series("append_ms", append_ms[places], pl.Int64)
    skew = (pl.col("time").dt.epoch("ms") - pl.col("append_ms")).abs()
    plausible = skew <= round(max_skew_seconds * 1000)
    return CLOCKS.shaped(
        rows.with_columns(appended, topic=pl.lit(topic))
        .group_by("topic", "partition", "service")
        .agg(
            lines=pl.len(),
            skewed_lines=(~plausible).sum(),
            newest_time=pl.col("time").filter(plausible).max().dt.epoch("s"),
            plausible_append_ms=pl.col("append_ms").filter(plausible).max(),
            newest_append_ms=pl.col("append_ms").max(),
            oldest_append_ms=pl.col("append_ms").min(),
        )
    )
