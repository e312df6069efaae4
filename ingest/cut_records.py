r"""Cut the bytes of a log file into records of complete lines.

Pure. Lines end at `\n` only; every other byte passes untouched. The records tile the file: each
ends where the next begins. The work is done by searches over whole buffers: a few calls for each
record, not for each line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingest.file_identity import TAIL_BYTES, Mark, mark

_NEWLINE = b"\n"


@dataclass(frozen=True, slots=True)
class CutLimits:
    """How large a record may become, and where a line is cut."""

    lines_per_record: int
    record_bytes: int
    line_bytes: int

    @property
    def line_cap(self) -> int:
        """Bytes of a line that can travel: never more than a record may hold."""
        return min(self.line_bytes, self.record_bytes)


@dataclass(frozen=True, slots=True)
class CutRecord:
    """The bytes `[start, end)` of a file as a record: complete lines joined by newlines."""

    start: int
    end: int
    value: bytes
    line_count: int

    @property
    def truncated_end(self) -> int | None:
        """`end` where the value does not tell it: a line cut at the cap, or one without newline."""
        return None if self.end == self.start + len(self.value) + 1 else self.end

    @property
    def is_truncated(self) -> bool:
        """Whether bytes of an over-long line were left out."""
        return self.end > self.start + len(self.value) + 1

    def tail(self) -> Mark:
        """A mark of the last bytes that travelled, by which the file is recognised later."""
        if self.truncated_end is None:
            last = self.value[1 - TAIL_BYTES :] + _NEWLINE
            return mark(last, self.end - len(last))
        last = self.value[-TAIL_BYTES:]
        return mark(last, self.start + len(self.value) - len(last))


@dataclass(frozen=True, slots=True)
class Uncut:
    """A line whose end was not read yet: it begins at `start`, `length` bytes of it were read.

    `data` holds them, or only the first ones once the line is longer than the cap.
    """

    start: int
    data: bytes = b""
    length: int = 0

    @property
    def read_until(self) -> int:
        """Offset of the next byte to read."""
        return self.start + self.length


def cut_records(uncut: Uncut, more: bytes, limits: CutLimits) -> tuple[list[CutRecord], Uncut]:
    """Complete lines of `uncut` and the bytes after it as records, and the line still open."""
    if uncut.length > len(uncut.data):
        return _finish_long_line(uncut, more, limits)
    data = uncut.data + more
    end = data.rfind(_NEWLINE, len(uncut.data)) + 1
    records = list(_pack(data, end, uncut.start, limits)) if end else []
    return records, _open_line(uncut.start + end, data[end:], limits)


def cut_last_line(uncut: Uncut) -> list[CutRecord]:
    """The line that will never get its newline, because the file was rotated away or truncated."""
    if not uncut.length:
        return []
    return [CutRecord(uncut.start, uncut.read_until, uncut.data, 1)]


def _finish_long_line(
    uncut: Uncut, more: bytes, limits: CutLimits
) -> tuple[list[CutRecord], Uncut]:
    newline = more.find(_NEWLINE)
    if newline < 0:
        return [], Uncut(uncut.start, uncut.data, uncut.length + len(more))
    end = uncut.read_until + newline + 1
    long_line = CutRecord(uncut.start, end, uncut.data, 1)
    records, rest = cut_records(Uncut(end), more[newline + 1 :], limits)
    return [long_line, *records], rest


def _open_line(start: int, data: bytes, limits: CutLimits) -> Uncut:
    return Uncut(start, data[: limits.line_cap], len(data))


def _pack(data: bytes, end: int, base: int, limits: CutLimits) -> Iterator[CutRecord]:
    """Records of the complete lines in `data[:end]`, which begins at file offset `base`."""
    start = 0
    while start < end:
        until = _end_of_fitting_lines(data, start, end, limits)
        if until > start:
            value = data[start : until - 1]
            yield CutRecord(base + start, base + until, value, value.count(_NEWLINE) + 1)
        else:
            until = data.find(_NEWLINE, start, end) + 1
            value = data[start : start + limits.line_cap]
            yield CutRecord(base + start, base + until, value, 1)
        start = until


def _end_of_fitting_lines(data: bytes, start: int, end: int, limits: CutLimits) -> int:
    """Where a record begun at `start` ends; `start` itself when its first line is too long."""
    limit = min(end, start + limits.record_bytes + 1)
    until = start
    # A step as wide as the longest allowed line finds a newline unless a line is too long.
    while until < limit:
        newline = data.rfind(_NEWLINE, until, min(until + limits.line_cap + 1, limit))
        if newline < 0:
            break
        until = newline + 1
    return _after_lines(data, start, until, limits.lines_per_record)


def _after_lines(data: bytes, start: int, end: int, count: int) -> int:
    """Index after the `count`-th newline in `data[start:end]`, or `end` when there are fewer."""
    high = min(end, start + 256 * count)
    while high < end and data.count(_NEWLINE, start, high) < count:
        high = min(end, 2 * high - start)
    if data.count(_NEWLINE, start, high) <= count and high == end:
        return end
    low, missing = start, count
    while missing > 1:
        middle = (low + high) // 2
        found = data.count(_NEWLINE, low, middle)
        if found >= missing:
            high = middle
        else:
            low, missing = middle, missing - found
    return data.find(_NEWLINE, low, high) + 1
