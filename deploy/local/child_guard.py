"""The watcher beside the children: when their parent dies, however it dies, it ends them.

Started as `python -m deploy.local.child_guard TOKEN` with a pipe as standard input. The parent
holds the other end for as long as it lives; when the pipe closes, every process carrying the token
is asked to end, then killed. (PR_SET_PDEATHSIG is no alternative: it fires when the starting
*thread* ends, and servers are started by threads.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from deploy.local import process_table

GRACE_SECONDS = 5.0
_PROJECT_ROOT = Path(__file__).resolve().parents[2]


class ChildGuard:
    """The parent's end: while this object lives unclosed, the watcher waits."""

    def __init__(self, token: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "deploy.local.child_guard", token],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=_PROJECT_ROOT,
            start_new_session=True,
        )

    def close(self) -> None:
        """Let the watcher end whatever still carries the token, and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=GRACE_SECONDS * 3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def end_all(token: str, grace_seconds: float) -> int:
    """End every process carrying `token`: ask, wait, kill. Returns how many there were."""
    found = process_table.carrying(token)
    for process in found:
        process_table.send_signal(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while time.monotonic() < deadline and process_table.carrying(token):
        time.sleep(0.05)
    for process in process_table.carrying(token):
        process_table.send_signal(process, signal.SIGKILL)
    return len(found)


def _watch(token: str) -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    while os.read(sys.stdin.fileno(), 4096):
        pass
    end_all(token, GRACE_SECONDS)


if __name__ == "__main__":
    _watch(sys.argv[1])
