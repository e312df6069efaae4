"""Which processes are ours: read from /proc, never guessed from a bare process id.

A process id is reused after its process ended; together with the start time it names one process
for ever. Everything we start carries a token in its environment, so that grandchildren that left
the group are still recognised.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOKEN_VARIABLE = "LOCAL_STACK_TOKEN"  # noqa: S105 - names a run, opens nothing
_PROC = Path("/proc")
_SESSION_FIELD = 3  # both counted after the command's closing parenthesis
_START_TIME_FIELD = 19
_DEAD_STATES = ("Z", "X")


@dataclass(frozen=True, slots=True)
class ProcessName:
    """One process, for ever: its id and its start time in clock ticks since boot."""

    pid: int
    start_ticks: int


def name_of(pid: int) -> ProcessName | None:
    """The process that has this id now, or None when it ended (a zombie has ended)."""
    fields = _stat_fields(pid)
    if not fields or fields[0] in _DEAD_STATES:
        return None
    return ProcessName(pid, int(fields[_START_TIME_FIELD]))


def session_of(process: ProcessName) -> int | None:
    """The session it belongs to (the id of the process that began it), or None when it ended."""
    fields = _stat_fields(process.pid)
    return int(fields[_SESSION_FIELD]) if fields and is_alive(process) else None


def is_alive(process: ProcessName) -> bool:
    """Whether exactly this process still runs."""
    return name_of(process.pid) == process


def carrying(token: str) -> list[ProcessName]:
    """Every live process of ours that was started with `token`, and its descendants."""
    wanted = f"{TOKEN_VARIABLE}={token}".encode()
    return [
        process
        for pid in _process_ids()
        if wanted in _environment(pid) and (process := name_of(pid)) is not None
    ]


def send_signal(process: ProcessName, signal_number: int) -> None:
    """Signal exactly this process; silent when it ended meanwhile."""
    if is_alive(process):
        try:
            os.kill(process.pid, signal_number)
        except ProcessLookupError:
            return


def _stat_fields(pid: int) -> list[str]:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    # The command may hold spaces and parentheses; the fields begin after its last parenthesis.
    return text.rpartition(")")[2].split()


def _process_ids() -> Iterator[int]:
    own = os.getpid()
    try:
        entries = list(_PROC.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.isdecimal() and int(entry.name) != own:
            yield int(entry.name)


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
