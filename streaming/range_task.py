"""What one Spark task does: read a range, prove it, parse it, look for attacks, and return partial sums.

In:      a `RangeTask`: the range, the formats, and up to which byte each file generation was counted before.
Out:     a `RangeResult`: the range's account, its generations' accounts, and its partial tables.
Promise: one pass over the bytes; every record counted; the same task gives the same result wherever it runs.
"""

from __future__ import annotations

import io
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from confluent_kafka import Message

from ingest.log_record import PATH_HEADER
from offsets.offset_range import OffsetRange
from streaming.attacks.detector import load_detectors
from streaming.attacks.match import match_lines
from streaming.completeness import Admission, GenerationAccount, LineSource, admit_records
from streaming.errors import RangeNotReadable, StreamError, TaskFailed, UnknownFormat
from streaming.kafka_range import Properties, RangeRecords, read_range
from streaming.lines.access_line import parse_lines
from streaming.lines.lines_from_bytes import lines_from_bytes
from streaming.lines.log_format import LogFormat, LogFormatError, compile_log_format
from streaming.load.clocks import append_times, read_clocks
from streaming.load.partials import summarise

UNIDENTIFIED_SERVICE = "unidentified"
NO_VHOST = "-"
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class RangeTask:
    """Everything a task needs to know; travels to the worker."""

    wanted: OffsetRange
    properties: Properties
    formats: dict[str, str]
    unidentified_format: str
    counted_until: dict[str, int]
    top_entries: int
    read_timeout_seconds: float
    max_clock_skew_seconds: float = 300.0
    sparse_offsets: bool = False
    """Whether offsets may be missing: the topic is compacted or written in transactions."""
    skip_lost: bool = False
    """Whether deleted offsets are reported as lost instead of refused."""


@dataclass(frozen=True, slots=True)
class RangeAccount:
    """What was in a range and what became of it."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    records: int
    lines: int
    bytes: int
    parsed: int
    malformed: int
    quarantined: int
    resent_lines: int
    unproven_lines: int
    gap_bytes: int
    last_timestamp_ms: int | None
    empty_records: int = 0


@dataclass(frozen=True, slots=True)
class RangeResult:
    """What a task returns; `failure` is set when trying again cannot help."""

    account: RangeAccount | None = None
    generations: list[GenerationAccount] = field(default_factory=list)
    tables: dict[str, bytes] = field(default_factory=dict)
    lost: list[OffsetRange] = field(default_factory=list)
    failure: str | None = None


def run_range_task(task: RangeTask) -> RangeResult:
    """Read and summarise one range."""
    try:
        records = read_range(
            task.properties, task.wanted, task.read_timeout_seconds, task.skip_lost
        )
        if not task.sparse_offsets:
            _require_every_record(task.wanted, records)
        return _summarise_records(task, records)
    except (RangeNotReadable, UnknownFormat) as error:
        return RangeResult(failure=str(error))
    except StreamError:
        raise
    except Exception as error:
        # The cause's own text may quote log lines: it stays here, its kind and place are enough to find it.
        raise TaskFailed(_where_it_failed(task.wanted, error)) from None


def _where_it_failed(wanted: OffsetRange, error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{wanted}: the task failed with {type(error).__name__} in {frame.name} ({place})."


def _require_every_record(wanted: OffsetRange, records: RangeRecords) -> None:
    """On a plain topic every offset is a record, unless it was deleted."""
    expected = wanted.count - sum(one.count for one in records.lost)
    if len(records.messages) == expected:
        return
    found = {message.offset() for message in records.messages}
    for one in records.lost:
        found.update(range(one.from_offset, one.until_offset))
    missing = next(o for o in range(wanted.from_offset, wanted.until_offset) if o not in found)
    text = (
        f"{wanted}: {expected - len(records.messages)} of {wanted.count} records are missing, the first at offset "
        f"{missing}. They were not deleted: the partition begins below them. If its topic is compacted or written in "
        "transactions, set stream.sparse_offsets = true; otherwise it lost data."
    )
    raise RangeNotReadable(text)


def _summarise_records(task: RangeTask, records: RangeRecords) -> RangeResult:
    messages = records.messages
    admission = admit_records(
        [message.key() for message in messages],
        [message.value() for message in messages],
        task.counted_until,
        LineSource(UNIDENTIFIED_SERVICE, "", task.unidentified_format),
    )
    for generation, index in admission.first_record_of.items():
        admission.generations[generation].path = _path_of(messages[index])
    record_offsets = np.fromiter((m.offset() for m in messages), np.int64, len(messages))
    frames = [
        _parse_source(task, source, admission, record_offsets)
        for source, lines in admission.sources.items()
        if lines.values
    ]
    lines = pl.concat(frames, how="vertical") if frames else None
    tables = (
        {} if lines is None else summarise(match_lines(lines, load_detectors()), task.top_entries)
    )
    if lines is not None:
        tables["outcomes"] = _outcomes(lines)
        tables["clocks"] = _clocks(task, lines, messages, record_offsets)
    return RangeResult(
        account=_account(task.wanted, messages, admission, lines),
        generations=list(admission.generations.values()),
        tables={name: _to_ipc(table) for name, table in tables.items() if not table.is_empty()},
        lost=records.lost,
    )


def _parse_source(
    task: RangeTask, source: LineSource, admission: Admission, record_offsets: np.ndarray
) -> pl.DataFrame:
    found = admission.sources[source]
    offsets = record_offsets[np.asarray(found.record_indexes, dtype=np.int64)]
    lines = lines_from_bytes(b"\n".join(found.values))
    parsed = parse_lines(lines, _format(source.format_id, task))
    return parsed.with_columns(
        pl.lit(source.service).alias("service"),
        pl.col("vhost").fill_null(source.vhost or NO_VHOST),
        pl.lit(task.wanted.partition.partition, pl.Int32).alias("partition"),
        pl.Series("record_offset", np.repeat(offsets, found.line_counts), pl.Int64),
        lines.alias("line"),
    )


def _account(
    wanted: OffsetRange,
    messages: Sequence[Message],
    admission: Admission,
    lines: pl.DataFrame | None,
) -> RangeAccount:
    generations = admission.generations.values()
    parsed = 0 if lines is None else int(lines["ok"].sum())
    malformed = (
        0 if lines is None else lines.filter(pl.col("ok") & pl.col("reason").is_not_null()).height
    )
    total = 0 if lines is None else lines.height
    return RangeAccount(
        topic=wanted.partition.topic,
        partition=wanted.partition.partition,
        from_offset=wanted.from_offset,
        until_offset=wanted.until_offset,
        records=len(messages),
        lines=total,
        bytes=sum(one.byte_count for one in generations) + admission.unproven_bytes,
        parsed=parsed,
        malformed=malformed,
        quarantined=total - parsed,
        resent_lines=sum(one.resent_lines for one in generations),
        unproven_lines=admission.unproven_lines,
        gap_bytes=sum(one.gap_bytes for one in generations),
        last_timestamp_ms=_last_time(messages),
        empty_records=admission.empty_records,
    )


def _last_time(
    messages: Sequence[Message], wall_clock: Callable[[], float] = time.time
) -> int | None:
    """When the last record was written; times that no clock can have shown are passed over."""
    latest = int(wall_clock() * 1000) + _DAY_MS
    times = (message.timestamp()[1] for message in reversed(messages))
    return next((one for one in times if 0 < one <= latest), None)


def _outcomes(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines that were not clean, by reason; `ok` ones are malformed, the others quarantined."""
    unclean = lines.filter(pl.col("reason").is_not_null())
    return unclean.group_by("service", "ok", "reason").agg(pl.len().cast(pl.Int64).alias("lines"))


def _clocks(
    task: RangeTask, lines: pl.DataFrame, messages: Sequence[Message], record_offsets: np.ndarray
) -> pl.DataFrame:
    """What the lines say about time, against the time that Kafka received them."""
    received = append_times([m.timestamp()[1] for m in messages], round(time.time() * 1000))
    topic = task.wanted.partition.topic
    return read_clocks(lines, topic, record_offsets, received, task.max_clock_skew_seconds)


def _path_of(message: Message) -> str:
    path = dict(message.headers() or []).get(PATH_HEADER) or b""
    return path if isinstance(path, str) else path.decode("utf-8", "replace")


def _format(format_id: str, task: RangeTask) -> LogFormat:
    try:
        return _compiled(task.formats.get(format_id, format_id))
    except LogFormatError as error:
        text = (
            f"{task.wanted}: a record names the log format '{format_id}', which cannot be used ({error}): "
            "define it under [formats]."
        )
        raise UnknownFormat(text) from error


@lru_cache(maxsize=64)
def _compiled(text: str) -> LogFormat:
    return compile_log_format(text)


def _to_ipc(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_ipc(buffer)
    return buffer.getvalue()
