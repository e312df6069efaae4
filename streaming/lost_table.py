"""The ledger's `lost` table: offsets that were given up, why, and where their partition goes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from offsets.offset_range import LostRange

LOST_SCHEMA = {
    "topic": pl.String,
    "partition": pl.Int32,
    "from_offset": pl.Int64,
    "until_offset": pl.Int64,
    "reason": pl.String,
    "continue_at": pl.Int64,
}


def lost_table(lost: Iterable[LostRange]) -> pl.DataFrame:
    """One row for each loss; `continue_at` is null where the partition was forgotten."""
    rows = [
        {
            "topic": one.range.partition.topic,
            "partition": one.range.partition.partition,
            "from_offset": one.range.from_offset,
            "until_offset": one.range.until_offset,
            "reason": one.reason,
            "continue_at": one.continue_at,
        }
        for one in lost
    ]
    return pl.DataFrame(rows, schema=LOST_SCHEMA)
