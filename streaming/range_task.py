"""What one Spark task does: read a range, prove it, parse it, look for attacks, and return partial sums.

In:      a `RangeTask`: the range, the formats, and up to which byte each file generation was counted before.
Out:     a `RangeResult`: the range's account, its generations' accounts, and its partial tables.
Promise: one pass over the bytes; every record counted; the same task gives the same result wherever it runs.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache

import numpy as np
import polars as pl
from confluent_kafka import Message

from ingest.log_record import PATH_HEADER
from offsets.offset_range import OffsetRange
from streaming.attacks.detector import load_detectors
from streaming.attacks.match import match_lines
from streaming.completeness import Admission, LineSource, admit_records
from streaming.errors import RangeNotReadable, UnknownFormat
from streaming.kafka_range import Properties, read_range
from streaming.lines.access_line import parse_lines
from streaming.lines.lines_from_bytes import lines_from_bytes
from streaming.lines.log_format import LogFormat, LogFormatError, compile_log_format
from streaming.load.partials import summarise

UNIDENTIFIED_SERVICE = "unidentified"
NO_VHOST = "-"


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


@dataclass(frozen=True, slots=True)
class RangeResult:
    """What a task returns; `failure` is set when trying again cannot help."""

    account: RangeAccount | None = None
    generations: list[dict[str, object]] = field(default_factory=list)
    tables: dict[str, bytes] = field(default_factory=dict)
    failure: str | None = None


def run_range_task(task: RangeTask) -> RangeResult:
    """Read and summarise one range."""
    try:
        messages = read_range(task.properties, task.wanted, task.read_timeout_seconds)
        _require_every_record(task.wanted, messages)
        return _summarise_messages(task, messages)
    except (RangeNotReadable, UnknownFormat) as error:
        return RangeResult(failure=str(error))


def _require_every_record(wanted: OffsetRange, messages: Sequence[Message]) -> None:
    if len(messages) == wanted.count:
        return
    found = {message.offset() for message in messages}
    missing = next(o for o in range(wanted.from_offset, wanted.until_offset) if o not in found)
    text = (
        f"{wanted}: {wanted.count - len(messages)} of {wanted.count} records are missing, "
        f"the first at offset {missing}: the topic is compacted or transactional, or it lost data."
    )
    raise RangeNotReadable(text)


def _summarise_messages(task: RangeTask, messages: Sequence[Message]) -> RangeResult:
    admission = admit_records(
        [message.key() for message in messages],
        [message.value() for message in messages],
        task.counted_until,
        LineSource(UNIDENTIFIED_SERVICE, "", task.unidentified_format),
    )
    for generation, index in admission.first_record_of.items():
        admission.generations[generation].path = _path_of(messages[index])
    record_offsets = np.fromiter((m.offset() for m in messages), np.int64, len(messages))
    frames = [_parse_source(task, source, admission, record_offsets) for source in admission.values]
    lines = pl.concat(frames, how="vertical") if frames else None
    tables = (
        {} if lines is None else summarise(match_lines(lines, load_detectors()), task.top_entries)
    )
    if lines is not None:
        tables["outcomes"] = _outcomes(lines)
    return RangeResult(
        account=_account(task.wanted, messages, admission, lines),
        generations=[
            {
                **asdict(one),
                "bytes": one.byte_count,
                "topic": task.wanted.partition.topic,
                "partition": task.wanted.partition.partition,
            }
            for one in admission.generations.values()
        ],
        tables={name: _to_ipc(table) for name, table in tables.items() if not table.is_empty()},
    )


def _parse_source(
    task: RangeTask, source: LineSource, admission: Admission, record_offsets: np.ndarray
) -> pl.DataFrame:
    values = admission.values[source]
    lines_in_record = np.fromiter((v.count(b"\n") + 1 for v in values), np.int64, len(values))
    offsets = record_offsets[np.asarray(admission.record_indexes[source], dtype=np.int64)]
    lines = lines_from_bytes(b"\n".join(values))
    parsed = parse_lines(lines, _format(source.format_id, task))
    return parsed.with_columns(
        pl.lit(source.service).alias("service"),
        pl.col("vhost").fill_null(source.vhost or NO_VHOST),
        pl.lit(task.wanted.partition.partition, pl.Int32).alias("partition"),
        pl.Series("record_offset", np.repeat(offsets, lines_in_record), pl.Int64),
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
        last_timestamp_ms=messages[-1].timestamp()[1] if messages else None,
    )


def _outcomes(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines that were not clean, by reason; `ok` ones are malformed, the others quarantined."""
    unclean = lines.filter(pl.col("reason").is_not_null())
    return unclean.group_by("service", "ok", "reason").agg(pl.len().cast(pl.Int64).alias("lines"))


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
