"""What one Spark task of `palisade analyze` does: a byte range of a file → partial sums and records.

In:      a `FileSplit`: plain files in ranges that are moved to line boundaries, gzip files whole.
Out:     a `SplitResult`: counts, partial tables as Arrow, and a file of JSON Lines if asked for.
Promise: bounded blocks, whatever the size of the file; every line in exactly one split.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import polars as pl

from streaming.attacks.detector import Detector, load_detectors
from streaming.attacks.match import match_lines
from streaming.lines.access_line import LINE_SCHEMA, parse_lines
from streaming.lines.lines_from_bytes import lines_from_bytes
from streaming.lines.log_format import LogFormat
from streaming.load.merge import merge_partials
from streaming.load.partials import Partials, cut_tops, summarise_whole

BLOCK_BYTES = 8 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024
SERVICE = "file"
NO_VHOST = "-"
_RECORD_COLUMNS = (*LINE_SCHEMA, "detectors", "score")
_CORRUPT = (OSError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A part of a file; travels to the worker. `first_line` is the number of its first line."""

    path: str
    file_index: int
    start: int
    end: int
    size: int
    is_gzip: bool
    log_format: LogFormat
    top_entries: int
    first_line: int = 1
    records_path: str | None = None
    names_file: bool = False


@dataclass(slots=True)
class SplitResult:
    """What a task returns; `failure` is one sentence for the operator."""

    lines: int = 0
    parsed: int = 0
    malformed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first_time: datetime | None = None
    last_time: datetime | None = None
    tables: dict[str, bytes] = field(default_factory=dict)
    failure: str | None = None


def count_lines(split: FileSplit) -> int:
    """Lines in a split of a plain file; what the next split's line numbers start from."""
    with Path(split.path).open("rb") as file:
        return sum(block.count(b"\n") + 1 for block in _plain_blocks(file, split))


def analyze_split(split: FileSplit) -> SplitResult:
    """Read, parse and match one split."""
    result, parts = SplitResult(), []
    try:
        with _records_file(split) as records:
            for block in _blocks(split):
                frame = _matched(block, split, result.lines)
                _count(result, frame)
                _write_records(frame, records, split)
                parts.append(summarise_whole(frame, split.top_entries))
                parts = [_merged(parts, split.top_entries)]
    except _CORRUPT as error:
        return SplitResult(failure=_failure(split, error))
    tables = parts[0] if parts else {}
    result.tables = {name: to_ipc(table) for name, table in tables.items() if table.height}
    return result


def to_ipc(table: pl.DataFrame) -> bytes:
    """A table as Arrow IPC bytes."""
    buffer = io.BytesIO()
    table.write_ipc(buffer)
    return buffer.getvalue()


def _merged(parts: list[Partials], top_entries: int) -> Partials:
    merged = merge_partials(parts)
    return {**merged, "tops": cut_tops(merged["tops"], top_entries)}


def _matched(block: bytes, split: FileSplit, lines_before: int) -> pl.DataFrame:
    lines = lines_from_bytes(block)
    numbers = pl.int_range(pl.len(), dtype=pl.Int64) + split.first_line + lines_before
    parsed = parse_lines(lines, split.log_format).with_columns(
        pl.lit(SERVICE).alias("service"),
        pl.lit(split.file_index, pl.Int32).alias("partition"),
        lines.alias("line"),
        numbers.alias("record_offset"),
    )
    known_vhost = parsed["vhost"]
    filled = parsed.with_columns(pl.col("vhost").fill_null(NO_VHOST))
    return match_lines(filled, _detectors()).with_columns(known_vhost.alias("own_vhost"))


def _count(result: SplitResult, frame: pl.DataFrame) -> None:
    result.lines += frame.height
    result.parsed += int(frame["ok"].sum())
    result.malformed += frame.filter(pl.col("ok") & pl.col("reason").is_not_null()).height
    reasons = frame["reason"].drop_nulls().value_counts()
    result.reasons.update(dict(reasons.iter_rows()))
    times = frame.filter("ok").select(first=pl.col("time").min(), last=pl.col("time").max()).row(0)
    result.first_time = min((t for t in (result.first_time, times[0]) if t), default=None)
    result.last_time = max((t for t in (result.last_time, times[1]) if t), default=None)


def _records_file(split: FileSplit) -> BinaryIO:
    return Path(split.records_path).open("wb") if split.records_path else io.BytesIO()


def _write_records(frame: pl.DataFrame, records: BinaryIO, split: FileSplit) -> None:
    if split.records_path is None:
        return
    named = [pl.lit(split.path).alias("file")] if split.names_file else []
    time = pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ")
    columns = ["line_no", *_RECORD_COLUMNS]
    frame.with_columns(time, line_no="record_offset", vhost="own_vhost").select(
        *named, *columns
    ).write_ndjson(records)


def _blocks(split: FileSplit) -> Iterator[bytes]:
    with Path(split.path).open("rb") as file:
        if not split.is_gzip:
            yield from _plain_blocks(file, split)
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield from _whole_lines(unpacked, None)


def _plain_blocks(file: BinaryIO, split: FileSplit) -> Iterator[bytes]:
    start, end = (
        _line_start(file, split.start, split.size),
        _line_start(file, split.end, split.size),
    )
    file.seek(start)
    yield from _whole_lines(file, end - start)


def _line_start(file: BinaryIO, offset: int, size: int) -> int:
    """The first byte at or after `offset` that begins a line."""
    if offset == 0 or offset >= size:
        return min(offset, size)
    file.seek(offset - 1)
    position = offset - 1
    while chunk := file.read(BLOCK_BYTES):
        found = chunk.find(b"\n")
        if found >= 0:
            return min(position + found + 1, size)
        position += len(chunk)
    return size


def _whole_lines(file: BinaryIO | gzip.GzipFile, length: int | None) -> Iterator[bytes]:
    """Blocks that end with a line, without its newline; `length` bytes, or all there are."""
    rest, left = b"", length
    while chunk := file.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)):
        left = None if left is None else left - len(chunk)
        complete, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield rest + complete
            rest = tail
        else:
            rest += chunk
        if len(rest) > MAX_LINE_BYTES:
            message = f"a line is longer than {MAX_LINE_BYTES} bytes"
            raise OSError(message)
    if rest:
        yield rest


def _failure(split: FileSplit, error: BaseException) -> str:
    cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
    kind = "gzip file is damaged or cut off" if split.is_gzip else "file cannot be read"
    return f"{split.path}: this {kind} ({cause}): name a complete log file."


@lru_cache(maxsize=1)
def _detectors() -> tuple[Detector, ...]:
    return load_detectors()
