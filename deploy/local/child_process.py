"""Start a server as a child, wait until it is ready, stop it for certain.

A child has its own session (a Ctrl-C at the terminal does not reach it), writes to its own log
file, carries the run's token, and is ended by the guard should we die. Stopping is: ask, wait a
bounded time, kill whatever of it is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local import process_table
from deploy.local.child_guard import ChildGuard
from deploy.local.process_table import TOKEN_VARIABLE, ProcessName
from deploy.local.run_file import RunFile
from deploy.local.stack_errors import ServerDidNotStart
from palisade_output import printable

_POLL_SECONDS = 0.05
_SHOWN_LOG_LINES = 8


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """What to start: a name for people, the program, where its output goes, and its environment.

    It inherits ours without `dropped`, and with `environment` added.
    """

    name: str
    argv: Sequence[str | Path]
    log_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    dropped: Collection[str] = ()

    def whole_environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The child's environment."""
        kept = {name: value for name, value in inherited.items() if name not in self.dropped}
        return kept | dict(self.environment)


class ChildProcess:
    """A running child. Made by `ChildKeeper.start`."""

    def __init__(self, command: ChildCommand, token: str) -> None:
        self.name = command.name
        self.log_file = command.log_file
        self._command_token = token
        command.log_file.parent.mkdir(parents=True, exist_ok=True)
        with command.log_file.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    [str(part) for part in command.argv],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=command.folder,
                    env=command.whole_environment(os.environ) | {TOKEN_VARIABLE: token},
                    start_new_session=True,
                )
            except OSError as error:
                message = f"{command.name} cannot be started: {error}."
                raise ServerDidNotStart(message) from error

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """How it ended, or None while it runs."""
        return self._process.poll()

    def wait_until_ready(self, is_ready: Callable[[], bool], *, within_seconds: float) -> None:
        """Return when `is_ready()`; raise, with the end of its log, when it ends or time is up."""
        deadline = time.monotonic() + within_seconds
        while not is_ready():
            code = self.exit_code()
            if code is not None:
                what = f"ended with exit code {code} before it was ready"
                raise self._failure(what)
            if time.monotonic() > deadline:
                what = f"was not ready within {within_seconds:.0f} s"
                raise self._failure(what)
            time.sleep(_POLL_SECONDS)

    def stop(self, *, grace_seconds: float = 10.0) -> int:
        """Ask it to end, kill what is left of it after `grace_seconds`; returns its exit code."""
        if self.exit_code() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._kill_session()
        return self._process.wait()

    def last_log_lines(self, count: int = _SHOWN_LOG_LINES) -> list[str]:
        """The end of its log, safe to print."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 16_384))
                text = log.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [printable(line.expandtabs(4)) for line in text.splitlines()[-count:]]

    def _kill_session(self) -> None:
        for process in process_table.carrying(self._command_token):
            if process_table.session_of(process) == self.pid:
                process_table.send_signal(process, signal.SIGKILL)

    def _failure(self, what: str) -> ServerDidNotStart:
        lines = self.last_log_lines()
        told = "\n  ".join(lines) if lines else "(it wrote nothing)"
        in_use = any("address already in use" in line.lower() for line in self.last_log_lines(200))
        message = f"{self.name} {what}; the end of {self.log_file}:\n  {told}"
        return ServerDidNotStart(message, address_in_use=in_use)


class ChildKeeper:
    """Keeps the children of one run: none is forgotten, all end with `close`, or with us."""

    def __init__(self, folder: Path) -> None:
        self._run_file = RunFile(folder)
        self._guard = ChildGuard(self._run_file.token)
        self._children: list[ChildProcess] = []
        self._registering = threading.Lock()
        self._closed = False

    @property
    def leftovers(self) -> int:
        """How many processes of an earlier, dead run were ended when this one began."""
        return self._run_file.leftovers

    @property
    def closed(self) -> bool:
        """Whether everything is being stopped."""
        return self._closed

    @property
    def token(self) -> str:
        """What every process of this run carries in its environment."""
        return self._run_file.token

    def start(self, command: ChildCommand) -> ChildProcess:
        """Start a child; callable from several threads."""
        with self._registering:
            if self._closed:
                message = f"{command.name} was not started: everything is being stopped."
                raise ServerDidNotStart(message)
            child = ChildProcess(command, self._run_file.token)
            self._children.append(child)
            started = process_table.name_of(child.pid) or ProcessName(child.pid, 0)
            self._run_file.add(command.name, started)
        return child

    def close(self) -> None:
        """Stop every child that still runs, last started first, then let the folder go. Once."""
        with self._registering:
            if self._closed:
                return
            self._closed = True
        for child in reversed(self._children):
            child.stop()
        self._guard.close()
        self._run_file.close()

    def __enter__(self) -> ChildKeeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
