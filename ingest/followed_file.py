"""An open file: what was read of it, and whether it is still the content we know.

I/O through its `LogFile` only; which files to follow is decided in `ingest.log_follower`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ingest.cut_records import CutLimits, CutRecord, Uncut, cut_last_line, cut_records
from ingest.file_identity import (
    HEAD_BYTES,
    TAIL_BYTES,
    Change,
    FileFacts,
    Mark,
    first_line,
    is_beyond_head,
    mark,
    what_happened,
)
from ingest.file_position import FilePosition, WaitingBytes
from ingest.generation import Generation, LogRecord, Origin
from ingest.log_file import LogFile


@dataclass(slots=True)
class FollowedFile:
    """One open file. `generation` is None until its first line is complete."""

    log: LogFile
    origin: Origin
    path: str
    facts: FileFacts
    quiet_since: float
    is_current: bool
    has_rotated_name: bool
    generation: Generation | None = None
    uncut: Uncut = field(default_factory=lambda: Uncut(0))
    read_bytes: bytes = b""
    waiting: WaitingBytes = field(default_factory=WaitingBytes)

    @property
    def is_caught_up(self) -> bool:
        """Whether everything seen is read, and everything sent is confirmed."""
        settled = self.generation is None or self.generation.position.is_settled
        return settled and self.uncut.read_until >= self.facts.size

    @property
    def behind_bytes(self) -> int:
        """Bytes on disk that are not confirmed."""
        confirmed = self.generation.position.confirmed if self.generation else 0
        return max(0, self.facts.size - confirmed)

    def look(self, now: float) -> Change:
        """Ask for fresh facts and say what changed since the last time."""
        facts = self.log.facts()
        change = what_happened(self.facts, facts, self.uncut.read_until)
        if facts != self.facts:
            self.quiet_since = now
        self.facts = facts
        return change

    def head(self, *, is_whole: bool) -> bytes | None:
        """The first line; None while it is incomplete, unless the file `is_whole`."""
        data = self.log.bytes_at(0, HEAD_BYTES)
        return first_line(data) or (data if is_whole and data else None)

    def starts_like(self, generation: Generation) -> bool:
        """Whether the content is that generation, at least as far as it was confirmed."""
        position = generation.position
        return (
            self.facts.size >= position.confirmed
            and self.log.carries(generation.head)
            and self.log.carries(position.tail)
        )

    def is_intact(self) -> bool:
        """Whether what was read still stands in the file: it was not truncated or rewritten."""
        known = len(self.read_bytes)
        before = self.log.bytes_at(self.uncut.read_until - known, known)
        return before == self.read_bytes and self._keeps_its_head()

    def has_same_bytes_as(self, other: FollowedFile, head: Mark) -> bool:
        """Whether this is a copy of `other`, judged where the shorter of the two ends."""
        end = min(self.log.facts().size, other.log.facts().size)
        if not is_beyond_head(head, end):
            return self.has_rotated_name
        start = end - TAIL_BYTES
        return self.log.bytes_at(start, TAIL_BYTES) == other.log.bytes_at(start, TAIL_BYTES)

    def begin(self, generation: Generation) -> None:
        """Follow `generation` from its confirmed position."""
        start = generation.position.confirmed
        self.generation = generation
        self.uncut = Uncut(start)
        self.read_bytes = self._bytes_before(start)

    def position_at(self, start: int) -> FilePosition:
        """A position that begins at `start`."""
        before = self._bytes_before(start)
        return FilePosition(start, mark(before, start - len(before)))

    def forget(self) -> list[LogRecord]:
        """The content was replaced in place: the open line is the last of its generation."""
        last = self.last_line()
        self.generation, self.uncut, self.read_bytes = None, Uncut(0), b""
        self.waiting.clear()
        return last

    def last_line(self) -> list[LogRecord]:
        """The open line as a record, because its newline will not come."""
        last = self._as_records(cut_last_line(self.uncut))
        self.uncut = Uncut(self.uncut.read_until)
        return last

    def read(self, chunk_bytes: int, limits: CutLimits) -> list[LogRecord] | None:
        """The next complete lines as records; None when earlier bytes are not what we read."""
        known = len(self.read_bytes)
        data = self.log.bytes_at(self.uncut.read_until - known, known + chunk_bytes)
        if not data.startswith(self.read_bytes) or not self._keeps_its_head():
            return None
        cut, self.uncut = cut_records(self.uncut, data[known:], limits)
        self.read_bytes = data[-TAIL_BYTES:]
        return self._as_records(cut)

    def seconds_behind(self, now: float) -> float:
        """How long the oldest unconfirmed byte of a complete line has waited."""
        if self.is_caught_up:
            self.waiting.clear()
        else:
            self.waiting.notice(self.facts.size, now)
            self.waiting.confirm(self.facts.size - self.behind_bytes)
        return self.waiting.seconds(now)

    def _keeps_its_head(self) -> bool:
        return self.generation is None or self.log.carries(self.generation.head)

    def _bytes_before(self, start: int) -> bytes:
        first = max(0, start - TAIL_BYTES)
        return self.log.bytes_at(first, start - first)

    def _as_records(self, cut: list[CutRecord]) -> list[LogRecord]:
        if self.generation is None:
            return []
        return [LogRecord(self.origin, self.generation, record) for record in cut]
