"""What a table of partials is: keys, and columns that merge by sum, maximum, minimum or union.

Pure. Because each of these is associative and commutative, so is the merge of whole tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

Columns = dict[str, pl.DataType]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of partials: its columns, which of them are keys, and how each other column merges."""

    keys: Columns
    sums: Columns
    maxima: Columns = field(default_factory=dict)
    minima: Columns = field(default_factory=dict)
    bit_sets: Columns = field(default_factory=dict)

    @property
    def schema(self) -> Columns:
        """Columns in order."""
        return {**self.keys, **self.sums, **self.maxima, **self.minima, **self.bit_sets}

    def empty(self) -> pl.DataFrame:
        """The table without a row."""
        return pl.DataFrame(schema=self.schema)

    def shaped(self, rows: pl.DataFrame) -> pl.DataFrame:
        """`rows` with exactly this table's columns, in order, sorted by key."""
        chosen = rows.select(self.schema.keys()).cast(self.schema)  # type: ignore[arg-type]
        return chosen.sort(list(self.keys))

    def merge(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """One row for each key; an empty table for no parts."""
        rows = [part.select(self.schema.keys()) for part in parts if part.height]
        if not rows:
            return self.empty()
        merged = (
            pl.concat(rows)
            .group_by(list(self.keys))
            .agg(
                *(pl.col(name).sum() for name in self.sums),
                *(pl.col(name).max() for name in self.maxima),
                *(pl.col(name).min() for name in self.minima),
                *(pl.col(name).bitwise_or() for name in self.bit_sets),
            )
        )
        return self.shaped(merged)
