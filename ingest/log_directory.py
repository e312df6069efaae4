"""Which names there are now for the files a source describes, and for what rotation made of them.

I/O: lists folders and asks for facts; opens nothing. A missing folder simply shows no names.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ingest.file_identity import FileFacts, is_rotated_name
from ingest.log_file import facts_of
from ingest.settings import ShipSource

_SUFFIX_START = re.compile(r"[._-](?=\d)")


@dataclass(frozen=True, slots=True)
class FoundName:
    """A name under which a log was found; `is_current` when the source itself names it."""

    path: str
    source: ShipSource
    facts: FileFacts
    is_current: bool
    is_rotated_name: bool


def find_names(sources: Iterable[ShipSource]) -> list[FoundName]:
    """Every name of every source once, current names first; the first source to name it has it."""
    found: dict[str, FoundName] = {}
    for source in sources:
        for pattern in source.paths:
            for name in _names_of(source, pattern):
                known = found.get(name.path)
                if known is None or (name.is_current and not known.is_current):
                    found[name.path] = name
    return sorted(found.values(), key=lambda name: not name.is_current)


def folder_times(sources: Iterable[ShipSource]) -> dict[str, int]:
    """When each folder last gained, lost or renamed an entry: cheap to ask for on every look."""
    folders = {str(Path(pattern).parent) for source in sources for pattern in source.paths}
    return {folder: _changed_ns(Path(folder)) for folder in folders if not glob.has_magic(folder)}


def _names_of(source: ShipSource, pattern: str) -> Iterator[FoundName]:
    current = Path(pattern).name
    # The pattern itself comes first: a folder may be searchable although it cannot be listed.
    listed = glob.iglob(pattern + "*", recursive=True)  # noqa: PTH207 - Path.glob wants a relative pattern
    for path in (pattern, *listed):
        facts = _facts_at(path)
        if facts is None:
            continue
        name = Path(path).name
        is_current = path == pattern or fnmatchcase(name, current)
        yield FoundName(path, source, facts, is_current, _looks_rotated(name, current))


def _looks_rotated(name: str, current: str) -> bool:
    """Whether cutting a rotation suffix off `name` leaves a name the pattern matches."""
    bases = (name[: suffix.start()] for suffix in _SUFFIX_START.finditer(name))
    return any(is_rotated_name(name, base) and fnmatchcase(base, current) for base in bases)


def _facts_at(path: str) -> FileFacts | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return None if stat.S_ISDIR(status.st_mode) else facts_of(status)


def _changed_ns(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
