"""Tell which physical file this is, and whether it was rotated, truncated or replaced.

Pure. Facts come in as plain values, verdicts go out. A file is known by device, inode and the
digests of two places in its content: its first line, and the last bytes before our position.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

HEAD_BYTES = 1024
TAIL_BYTES = 64
_ROTATED_SUFFIX = re.compile(r"[._-]\d[\d._-]*")
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".Z")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What the operating system says about a file."""

    device: int
    inode: int
    size: int
    modified_ns: int
    links: int = 1

    @property
    def key(self) -> tuple[int, int]:
        """The physical file, as long as it exists."""
        return (self.device, self.inode)


@dataclass(frozen=True, slots=True)
class Mark:
    """A digest of bytes `[start, start + length)`: content recognised without keeping it."""

    start: int
    length: int
    digest: str

    @property
    def end(self) -> int:
        """Offset right after the marked bytes."""
        return self.start + self.length


class Change(StrEnum):
    """What happened to a path since we opened the file that was there."""

    SAME = "same"
    GROWN = "grown"
    TOUCHED = "touched"
    TRUNCATED = "truncated"
    REPLACED = "replaced"
    DELETED = "deleted"


def digest(data: bytes) -> str:
    """Sixteen hexadecimal digits that stand for `data`."""
    return blake2b(data, digest_size=8).hexdigest()


def mark(data: bytes, start: int) -> Mark:
    """The mark of `data` standing at offset `start`."""
    return Mark(start, len(data), digest(data))


def first_line(head: bytes) -> bytes | None:
    """The first line with its newline, cut at `HEAD_BYTES`; None while it is not complete."""
    newline = head.find(b"\n", 0, HEAD_BYTES)
    if newline >= 0:
        return head[: newline + 1]
    return head[:HEAD_BYTES] if len(head) >= HEAD_BYTES else None


def generation_id(host: str, device: int, inode: int, line: bytes) -> str:
    """The same file on the same host always gets the same id, with or without stored state."""
    place = f"{host}|{device}|{inode}|".encode()
    return digest(place + line.removesuffix(b"\n"))


def unused_generation_id(base: str, taken: Container[str]) -> str:
    """`base`, or `base.N` when the file began with the same line before it was rewritten."""
    if base not in taken:
        return base
    number = 1
    while f"{base}.{number}" in taken:
        number += 1
    return f"{base}.{number}"


def what_happened(known: FileFacts, at_path: FileFacts | None, read_until: int) -> Change:
    """Compare the file we follow with what its path shows now.

    `TOUCHED` (written, yet not longer than what we read) needs a look at the content: it may have
    been rewritten.
    """
    if at_path is None:
        return Change.DELETED
    if at_path.key != known.key:
        return Change.REPLACED
    if at_path.size < read_until:
        return Change.TRUNCATED
    if at_path.size > read_until:
        return Change.GROWN
    return Change.SAME if at_path.modified_ns == known.modified_ns else Change.TOUCHED


def is_beyond_head(head: Mark, position: int) -> bool:
    """Whether bytes before `position` say more than a first line, which two files may share."""
    return position >= head.end + TAIL_BYTES


def is_compressed(name: str) -> bool:
    """Whether a name says that the file is not text any more."""
    return name.endswith(_COMPRESSED_SUFFIXES)


def is_rotated_name(name: str, current: str) -> bool:
    """Whether `name` is how rotation renames `current`: access.log.1, access.log-20260131."""
    return name.startswith(current) and _ROTATED_SUFFIX.fullmatch(name[len(current) :]) is not None
