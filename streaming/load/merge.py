"""Partial sums → their sum: of tasks for a batch, of batches for a window.

Pure. Associative and commutative, because every column of every table is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from streaming.attacks.attack_partials import ATTACKS
from streaming.attacks.behaviour import BEHAVIOUR
from streaming.load.partial_table import Table
from streaming.load.partials import LATENCY, LOAD, TOPS, Partials

TABLES: dict[str, Table] = {
    "load": LOAD,
    "latency": LATENCY,
    "tops": TOPS,
    "attacks": ATTACKS,
    "behaviour": BEHAVIOUR,
}
"""Every table of partials; `empty()` gives one without rows."""


def merge_partials(parts: Iterable[Mapping[str, pl.DataFrame]]) -> Partials:
    """The sum of `parts`: every table, whether or not some part has rows for it."""
    given = list(parts)
    return {
        name: table.merge([part[name] for part in given if name in part])
        for name, table in TABLES.items()
    }
