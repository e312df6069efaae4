"""Who runs in this folder: a lock, and a record by which the rest of a dead run is found.

`run.json` is written before the first child starts. The lock is released by the kernel whenever its
holder dies, so a lock that can be taken beside a `run.json` means: that run is dead, and whatever
still carries its token is a leftover.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from deploy.local import process_table
from deploy.local.child_guard import end_all
from deploy.local.process_table import ProcessName
from deploy.local.stack_errors import AlreadyRunning

_STALE_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What `run.json` says: the run's token, its owner, and the children by name."""

    token: str
    owner: ProcessName
    children: tuple[tuple[str, ProcessName], ...] = ()

    def to_json(self) -> str:
        """The file's content."""
        children = [
            {"name": name, "pid": process.pid, "start_ticks": process.start_ticks}
            for name, process in self.children
        ]
        owner = {"pid": self.owner.pid, "start_ticks": self.owner.start_ticks}
        document = {"version": 1, "token": self.token, "owner": owner, "children": children}
        return json.dumps(document, indent=1)


def read_record(text: str) -> RunRecord | None:
    """The record in the file's content, or None when it was cut short or is of another make."""
    try:
        document = json.loads(text)
        children = tuple(
            (str(child["name"]), ProcessName(int(child["pid"]), int(child["start_ticks"])))
            for child in document["children"]
        )
        owner = ProcessName(int(document["owner"]["pid"]), int(document["owner"]["start_ticks"]))
        return RunRecord(str(document["token"]), owner, children)
    except (ValueError, KeyError, TypeError):
        return None


class RunFile:
    """The lock and `run.json` of one folder, held from `__init__` to `close`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "run.json"
        self._lock = _take_lock(folder / "run.lock", self._path)
        self.leftovers = self._end_leftovers()
        owner = process_table.name_of(os.getpid()) or ProcessName(os.getpid(), 0)
        self._record = RunRecord(secrets.token_hex(16), owner)
        self._write()

    @property
    def token(self) -> str:
        """What every child of this run carries in its environment."""
        return self._record.token

    def add(self, name: str, process: ProcessName) -> None:
        """Remember a child, durably."""
        children = (*self._record.children, (name, process))
        self._record = RunRecord(self._record.token, self._record.owner, children)
        self._write()

    def close(self) -> None:
        """The run is over: forget it and let the next one in."""
        self._path.unlink(missing_ok=True)
        self._lock.close()

    def _write(self) -> None:
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(self._record.to_json(), encoding="utf-8")
        temporary.replace(self._path)

    def _end_leftovers(self) -> int:
        """End what an earlier, dead run left behind; returns how many processes there were."""
        if not self._path.exists():
            return 0
        record = read_record(self._path.read_text(encoding="utf-8", errors="replace"))
        return end_all(record.token, _STALE_GRACE_SECONDS) if record else 0


def _take_lock(lock_path: Path, record_path: Path) -> IO[str]:
    lock = lock_path.open("a", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        record = read_record(record_path.read_text(encoding="utf-8", errors="replace"))
        owner = f" (process {record.owner.pid})" if record else ""
        message = (
            f"Another run{owner} uses {lock_path.parent}: stop it with Ctrl-C in its terminal, "
            f"or give this one another folder."
        )
        raise AlreadyRunning(message) from error
    return lock
