"""The job's state as tables, and back. Pure; the round trip is exact."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import asdict
from typing import Any

import polars as pl

from streaming.job_state import RECENT_TABLES, GenerationTotal, JobState
from streaming.ledger import Tables

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
    rows = [{"generation": name, **asdict(total)} for name, total in state.generations.items()]
    meta = {
        "counters": [
            [name, list(labels), value] for (name, labels), value in state.counters.items()
        ],
        "duration_buckets": [
            [list(labels), counts] for labels, counts in state.duration_buckets.items()
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
        _GENERATIONS: pl.DataFrame(rows, schema=_GENERATION_SCHEMA),
        **{name: frame for name, frame in state.recent.items() if name in RECENT_TABLES},
    }


def fill_from_tables(state: JobState, tables: Tables) -> None:
    """Bring an empty state to where `to_tables` was called."""
    meta: dict[str, Any] = json.loads(tables[_META]["document"][0])
    state.counters = {(name, tuple(labels)): value for name, labels, value in meta["counters"]}
    state.duration_buckets = {tuple(labels): counts for labels, counts in meta["duration_buckets"]}
    state.recent_windows = OrderedDict.fromkeys(meta["recent_windows"])
    state.last_timestamp_ms = {
        (topic, partition): value for topic, partition, value in meta["last_timestamp_ms"]
    }
    state.vhost_labels = dict.fromkeys(meta["vhost_labels"])
    state.service_labels = dict.fromkeys(meta["service_labels"])
    state.incidents.fill_from(meta["incidents"], tables[_BEHAVIOUR])
    state.generations = {
        row.pop("generation"): GenerationTotal(**row)
        for row in tables[_GENERATIONS].iter_rows(named=True)
    }
    state.recent = {name: tables[name] for name in RECENT_TABLES if name in tables}
