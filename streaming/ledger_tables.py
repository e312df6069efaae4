"""Tables of the ledger as Parquet bytes, and back."""

from __future__ import annotations

import io

import polars as pl

from streaming.errors import LedgerError


def to_parquet(frame: pl.DataFrame) -> bytes:
    """A table as a file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False)
    return buffer.getvalue()


def from_parquet(data: bytes, name: str) -> pl.DataFrame:
    """A file as a table; a damaged one is named."""
    try:
        return pl.read_parquet(io.BytesIO(data))
    except pl.exceptions.PolarsError as error:
        message = f"Ledger file {name} is damaged ({error}): restore it from a copy."
        raise LedgerError(message) from error


def with_batch(frame: pl.DataFrame, batch: int) -> pl.DataFrame:
    """A table with its batch's number in `batch`."""
    return frame.with_columns(pl.lit(batch, pl.Int64).alias("batch"))
