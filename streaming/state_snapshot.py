"""The job's state as tables, and back. Pure; the round trip is exact."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import polars as pl

from streaming.generation_book import GenerationBook
from streaming.job_state import RECENT_TABLES, JobState
from streaming.ledger import Tables
from streaming.plan.window_clock import SourceClock, WindowClock

_META = "meta"
_BEHAVIOUR = "behaviour"
_GENERATIONS = "generations"
_GENERATION_SCHEMA = {
    "generation": pl.String,
    "topic": pl.String,
    "partition": pl.Int32,
    "service": pl.String,
    "host": pl.String,
    "path": pl.String,
    "first_offset": pl.Int64,
    "end_offset": pl.Int64,
    "lines": pl.Int64,
    "gap_bytes": pl.Int64,
    "resent_lines": pl.Int64,
}


def to_tables(state: JobState) -> Tables:
    """Everything that `from_tables` needs to continue."""
    meta = {
        "counters": [
            [name, list(labels), value] for (name, labels), value in state.counters.items()
        ],
        "histograms": [
            [name, list(labels), counts]
            for name, series in state.histograms.items()
            for labels, counts in series.items()
        ],
        "watermark": state.window_clock.watermark,
        "sources": [
            [*source, clock.newest_time, clock.newest_append]
            for source, clock in state.window_clock.sources.items()
        ],
        "recent_windows": list(state.recent_windows),
        "last_timestamp_ms": [[*key, value] for key, value in state.last_timestamp_ms.items()],
        "vhost_labels": list(state.vhost_labels),
        "service_labels": list(state.service_labels),
        "incidents": state.incidents.to_document(),
    }
    return {
        _META: pl.DataFrame({"document": [json.dumps(meta)]}),
        _BEHAVIOUR: state.incidents.behaviour,
        _GENERATIONS: _generation_table(state.generations),
        **{name: frame for name, frame in state.recent.items() if name in RECENT_TABLES},
    }


def fill_from_tables(state: JobState, tables: Tables) -> None:
    """Bring an empty state to where `to_tables` was called."""
    meta: dict[str, Any] = json.loads(tables[_META]["document"][0])
    state.counters = {(name, tuple(labels)): value for name, labels, value in meta["counters"]}
    state.histograms = {}
    for name, labels, counts in meta["histograms"]:
        state.histograms.setdefault(name, {})[tuple(labels)] = counts
    state.window_clock = WindowClock(
        meta["watermark"],
        {
            (topic, partition, service): SourceClock(newest_time, newest_append)
            for topic, partition, service, newest_time, newest_append in meta["sources"]
        },
    )
    state.recent_windows = OrderedDict.fromkeys(meta["recent_windows"])
    state.last_timestamp_ms = {
        (topic, partition): value for topic, partition, value in meta["last_timestamp_ms"]
    }
    state.vhost_labels = dict.fromkeys(meta["vhost_labels"])
    state.service_labels = dict.fromkeys(meta["service_labels"])
    state.incidents.fill_from(meta["incidents"], tables[_BEHAVIOUR])
    state.generations = GenerationBook()
    for row in tables[_GENERATIONS].iter_rows(named=True):
        state.generations.insert(row)
    state.recent = {name: tables[name] for name in RECENT_TABLES if name in tables}


def _generation_table(book: GenerationBook) -> pl.DataFrame:
    """One column after the other: several times faster than by row, and there may be many files."""
    names, totals = [], []
    for name, total in book.by_age():
        names.append(name)
        totals.append(total)
    columns = {
        column: [getattr(total, column) for total in totals]
        for column in _GENERATION_SCHEMA
        if column != "generation"
    }
    return pl.DataFrame({"generation": names, **columns}, schema=_GENERATION_SCHEMA)
