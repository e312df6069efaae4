"""The generator as a process: writes and rotates a living access.log, counts every line. I/O.

`python -m deploy.local.traffic --log FILE --ledger FILE`. SIGTERM or SIGINT ends it after a
complete line; the ledger then says `finished`, and holds for every physical file the lines and
bytes that are in it.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from deploy.local.traffic_ledger import TrafficLedger, WrittenFile
from deploy.local.traffic_model import TrafficModel
from deploy.local.traffic_request import access_log_line

_SLICE_SECONDS = 0.1
_SAVE_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a file is renamed, and how many renamed ones are kept."""

    after_bytes: int
    after_seconds: float
    keep: int


class AccessLog:
    """The growing file: appends, rotates, counts."""

    def __init__(self, path: Path, rotation: Rotation, ledger: TrafficLedger) -> None:
        self._path = path
        self._rotation = rotation
        self._ledger = ledger
        self._rotated: list[Path] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open(opened_at=0.0)

    def append(self, lines: list[str]) -> None:
        """Write whole lines."""
        data = "".join(lines).encode("ascii")
        written = 0
        while written < len(data):
            written += os.write(self._descriptor, data[written:])
        self._ledger.files[-1].lines += len(lines)
        self._ledger.files[-1].bytes += len(data)

    def rotate_when_due(self, now: float) -> None:
        """Rename the file and begin a new one, as `logrotate` does; the oldest renamed ones go."""
        current = self._ledger.files[-1]
        due = current.bytes >= self._rotation.after_bytes
        due = due or now - self._opened_at >= self._rotation.after_seconds
        if not due or not current.lines:
            return
        renamed = self._path.with_name(f"{self._path.name}.{len(self._ledger.files):04}")
        self._path.rename(renamed)
        current.path = str(renamed)
        os.close(self._descriptor)
        self._rotated.append(renamed)
        while len(self._rotated) > self._rotation.keep:
            self._rotated.pop(0).unlink(missing_ok=True)
        self._open(opened_at=now)

    def close(self) -> None:
        """Everything on disk, file closed."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)

    def _open(self, opened_at: float) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = os.open(self._path, flags, 0o644)
        self._opened_at = opened_at
        self._ledger.files.append(WrittenFile(str(self._path)))


def write_traffic(
    model: TrafficModel,
    log: AccessLog,
    ledger: TrafficLedger,
    ledger_path: Path,
    stop: threading.Event,
) -> None:
    """Write in real time until `stop`; the ledger file follows every second, final at the end."""
    epoch, begun = time.time(), time.monotonic()
    since = saved = 0.0
    while not stop.wait(_SLICE_SECONDS):
        until = time.monotonic() - begun
        log.append([access_log_line(request) for request in model.requests(epoch, since, until)])
        log.rotate_when_due(until)
        ledger.attack_requests = dict(model.attack_requests)
        if until - saved >= _SAVE_EVERY_SECONDS:
            ledger.save(ledger_path)
            saved = until
        since = until
    log.close()
    ledger.finished = True
    ledger.save(ledger_path)


def main() -> None:
    """Read the arguments, write until asked to stop."""
    arguments = _arguments()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    rotation = Rotation(arguments.rotate_bytes, arguments.rotate_seconds, arguments.keep)
    ledger = TrafficLedger()
    log = AccessLog(arguments.log, rotation, ledger)
    model = TrafficModel(Random(arguments.seed), arguments.rate)  # noqa: S311 - traffic, no secret
    write_traffic(model, log, ledger, arguments.ledger, stop)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Write a realistic Apache access log in real time."
    )
    parser.add_argument("--log", type=Path, required=True, help="the access log to write")
    parser.add_argument("--ledger", type=Path, required=True, help="account of every line (JSON)")
    parser.add_argument("--rate", type=float, default=250.0, help="lines a second without attacks")
    parser.add_argument("--seed", type=int, default=None, help="same seed, same visitors")
    parser.add_argument("--rotate-bytes", type=int, default=4_000_000, help="rotate at this size")
    parser.add_argument("--rotate-seconds", type=float, default=25.0, help="rotate at this age")
    parser.add_argument("--keep", type=int, default=20, help="rotated files to keep")
    return parser.parse_args()


if __name__ == "__main__":
    main()
