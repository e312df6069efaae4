"""One open log file: what the system says about it, and bytes at any offset.

I/O. Opens regular files only and never waits: no links, no pipes, no devices. The descriptor stays
valid when the file is renamed or deleted.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ingest.file_identity import FileFacts, Mark, digest

_BACKWARD_BYTES = 65_536


class NotALogError(OSError):
    """The path is something that must not be read as a log."""


class LogFile:
    """An open log file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> LogFile:
        """Open `path`, or raise an OSError whose `strerror` says why not."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotALogError(0, "not a regular file")
        return cls(descriptor)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def facts(self) -> FileFacts:
        """Size, identity and last write, now."""
        return facts_of(os.fstat(self._descriptor))

    def bytes_at(self, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`; fewer at the end of the file."""
        return os.pread(self._descriptor, length, start)

    def carries(self, mark: Mark) -> bool:
        """Whether the marked bytes still stand where they stood."""
        return digest(self.bytes_at(mark.start, mark.length)) == mark.digest

    def last_line_start(self, size: int) -> int:
        """Offset of the line that is open at `size`."""
        end = size
        while end > 0:
            start = max(0, end - _BACKWARD_BYTES)
            newline = self.bytes_at(start, end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0


def facts_of(status: os.stat_result) -> FileFacts:
    """The facts in a stat result."""
    return FileFacts(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_nlink
    )
