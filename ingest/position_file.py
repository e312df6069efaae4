"""Save and load positions so that a crash at any instant leaves a good copy.

In: the generations the follower knows. Out: `positions.json`, and `positions.json.1`, the copy
before it. Promise: what is loaded was written whole; damage is never answered by a silent start at
the beginning or the end.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ingest.errors import PositionsUnreadableError, StateInUseError
from ingest.file_identity import Mark
from ingest.file_position import FilePosition
from ingest.generation import Generation

FORMAT_VERSION = 1
_log = logging.getLogger("ship")


class _BadCopyError(Exception):
    """One copy of the positions cannot be trusted."""


@dataclass(frozen=True, slots=True)
class StoredPositions:
    """What the last run knew: its generations, and when it had last looked at every path."""

    generations: tuple[Generation, ...]
    scanned_at: float


class PositionFile:
    """The positions in a folder that one shipper at a time may use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "positions.json"
        self._previous = folder / "positions.json.1"

    @contextmanager
    def locked(self) -> Iterator[PositionFile]:
        """Own the folder until the block ends; a second shipper is refused."""
        self._make_folder()
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock(descriptor)
            yield self
        finally:
            os.close(descriptor)

    def load(self) -> StoredPositions | None:
        """The stored positions, or None when this folder never held any."""
        if not self._path.exists() and not self._previous.exists():
            return None
        try:
            return _read(self._path)
        except _BadCopyError as problem:
            return self._load_previous(str(problem))

    def save(self, generations: Iterable[Generation], scanned_at: float) -> None:
        """1. Write aside and sync. 2. Keep the old copy. 3. Rename. 4. Sync the folder."""
        fresh = self._folder / "positions.json.new"
        _write_synced(fresh, _encode(generations, scanned_at))  # 1
        if self._path.exists():
            self._keep_previous()  # 2
        fresh.replace(self._path)  # 3
        _sync_folder(self._folder)  # 4

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = self._folder.stat().st_mode & 0o777
        if mode & 0o022:
            _log.warning(
                "state folder is writable by others",
                extra={"folder": str(self._folder), "mode": oct(mode), "remedy": "chmod 700"},
            )

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            message = (
                f"Another shipper (pid {owner}) uses {self._folder}: stop it, "
                f"or give this one its own ship.state_dir."
            )
            raise StateInUseError(message) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def _load_previous(self, problem: str) -> StoredPositions:
        try:
            stored = _read(self._previous)
        except _BadCopyError as second_problem:
            message = (
                f"Positions cannot be read: {problem}; {second_problem}. Restore one of the files, "
                f"or remove both to start again as ship.start_at says (from the beginning, lines "
                f"already in Kafka are recognised)."
            )
            raise PositionsUnreadableError(message) from second_problem
        _log.error("positions damaged, previous copy used", extra={"problem": problem})
        if self._path.exists():
            # Kept for a look at it, and so that it never becomes the previous copy.
            self._path.replace(self._folder / "positions.json.damaged")
        return stored

    def _keep_previous(self) -> None:
        link = self._folder / "positions.json.link"
        link.unlink(missing_ok=True)
        os.link(self._path, link)
        link.replace(self._previous)


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encode(generations: Iterable[Generation], scanned_at: float) -> bytes:
    files = [_to_json(generation) for generation in generations]
    payload = {"scanned_at": scanned_at, "files": files}
    document = {"version": FORMAT_VERSION, "checksum": _checksum(payload), "positions": payload}
    return json.dumps(document).encode("ascii")


def _checksum(payload: object) -> str:
    return sha256(json.dumps(payload, sort_keys=True).encode("ascii")).hexdigest()


def _read(path: Path) -> StoredPositions:
    try:
        document = json.loads(path.read_bytes())
        version, payload = document["version"], document["positions"]
        if version != FORMAT_VERSION:
            message = f"{path} has version {version!r}, this shipper reads version {FORMAT_VERSION}"
            raise _BadCopyError(message)
        if document["checksum"] != _checksum(payload):
            message = f"{path} does not match its checksum"
            raise _BadCopyError(message)
        files = tuple(_from_json(entry) for entry in payload["files"])
        return StoredPositions(files, float(payload["scanned_at"]))
    except OSError as error:
        message = f"{path} cannot be read ({error.strerror})"
        raise _BadCopyError(message) from error
    except (ValueError, KeyError, TypeError) as error:
        message = f"{path} is not a positions file ({type(error).__name__})"
        raise _BadCopyError(message) from error


def _to_json(generation: Generation) -> dict[str, Any]:
    head, tail = generation.head, generation.position.tail
    return {
        "generation": generation.id,
        "path": generation.path,
        "device": generation.device,
        "inode": generation.inode,
        "position": generation.position.confirmed,
        "head": [head.start, head.length, head.digest],
        "tail": [tail.start, tail.length, tail.digest],
        "partition": generation.partition,
        "gone": generation.is_gone,
    }


def _from_json(entry: dict[str, Any]) -> Generation:
    return Generation(
        id=str(entry["generation"]),
        path=str(entry["path"]),
        device=int(entry["device"]),
        inode=int(entry["inode"]),
        head=_mark(entry["head"]),
        position=FilePosition(int(entry["position"]), _mark(entry["tail"])),
        partition=None if entry["partition"] is None else int(entry["partition"]),
        is_gone=bool(entry["gone"]),
    )


def _mark(fields: list[Any]) -> Mark:
    start, length, digest = fields
    return Mark(int(start), int(length), str(digest))
