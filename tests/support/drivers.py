"""Drivers to injure: one in a thread of this process, or one as a process of its own that can be killed or paused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from support.pipeline import Pipeline

from streaming.broker_offsets import BrokerOffsets
from streaming.publish import Publisher
from streaming.published import Picture, Published
from streaming.run import World, lead_and_stream
from streaming.spark_batch import SparkBatch

_COUNTER = re.compile(r"^(palisade_\w+_total(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


class Totals:
    """Every exported total ever seen; notes each that stepped back."""

    def __init__(self) -> None:
        self.highest: dict[object, float] = {}
        self.steps_back: list[str] = []

    def see(self, counters: dict[Any, float]) -> None:
        for name, value in counters.items():
            before = self.highest.get(name, 0.0)
            if value < before:
                self.steps_back.append(f"{name} from {before} to {value}")
            self.highest[name] = max(before, value)


class WatchedPublished(Published):
    """What is published, with a memory."""

    def __init__(self, totals: Totals) -> None:
        super().__init__()
        self._totals = totals

    def replace(self, picture: Picture) -> None:
        if picture.has_totals:
            self._totals.see(dict(picture.counters))
        super().replace(picture)


class DriverThread:
    """`palisade stream` in a thread, on a Spark that is already running."""

    def __init__(
        self, pipeline: Pipeline, context: SparkContext, totals: Totals | None = None, **parts: Any
    ) -> None:
        settings = pipeline.job_settings()
        self.published = WatchedPublished(totals or Totals())
        self.stop_requested = threading.Event()
        world = World(
            broker=BrokerOffsets(settings.kafka),
            spark=SparkBatch(context),
            ledger=pipeline.ledger,
            publisher=Publisher(settings, self.published, None),
            stop=self.stop_requested,
        )
        self._world = replace(world, **parts)
        self._settings = settings
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    def _run(self) -> None:
        try:
            lead_and_stream(self._settings, self._world)
        except BaseException as error:
            self.error = error

    @property
    def status(self) -> dict[str, Any]:
        """The status document as published now."""
        return dict(self.published.picture.status)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def ended(self) -> BaseException | None:
        """The error it ended with, once it did."""
        return None if self.is_running else self.error

    def __enter__(self) -> DriverThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_requested.set()
        self._thread.join(timeout=60)
        assert not self.is_running, "the driver did not stop"


class DriverProcess:
    """`palisade stream` as its own process."""

    def __init__(self, pipeline: Pipeline, name: str = "driver") -> None:
        self.log_file = pipeline.folder / f"{name}.log"
        environment = {k: v for k, v in os.environ.items() if k != "PALISADE_CRASH_POINT"}
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "palisade", "stream", "--config", str(pipeline.config)],
                cwd=pipeline.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """As a power cut would: the driver and, as its JVM cannot outlive it, its whole session."""
        self._process.kill()
        self._process.wait(timeout=30)
        self._end_session()

    def stop(self) -> int:
        """Ask it to stop and wait."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            return self._process.wait(timeout=60)
        finally:
            self._end_session()

    def wait(self, within: float) -> int:
        return self._process.wait(timeout=within)

    def leads(self) -> bool:
        assert self.exit_code is None, self.log[-3000:]
        return (
            re.search(r"^palisade_leader 1(\.0)?$", self.scrape() or "", re.MULTILINE) is not None
        )

    def scrape(self) -> str | None:
        """The text of /metrics; None when there is none now."""
        found = re.findall(r"http://127\.0\.0\.1:\d+/metrics", self.log)
        if not found:
            return None
        try:
            with urllib.request.urlopen(found[-1], timeout=2) as answer:
                return str(answer.read().decode())
        except (OSError, urllib.error.URLError):
            return None

    def see(self, totals: Totals) -> None:
        """Scrape into `totals`."""
        text = self.scrape() or ""
        totals.see({name: float(value) for name, value in _COUNTER.findall(text)})

    def __enter__(self) -> DriverProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.exit_code is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(timeout=30)
        self._end_session()

    def _end_session(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def children_of(pid: int) -> dict[int, str]:
    """Descendants of a process with their command lines."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                )
                commands[int(entry.name)] = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
            except (OSError, ValueError):
                continue
    found: dict[int, str] = {}
    front = {pid}
    while front:
        front = {child for child, parent in parents.items() if parent in front} - found.keys()
        found |= {child: commands.get(child, "") for child in front}
    return found


def spark_workers_of(pid: int) -> list[int]:
    """The Python workers that Spark forked from its daemon, without the daemon itself."""
    daemons = {child for child, command in children_of(pid).items() if "pyspark.daemon" in command}
    return sorted({worker for daemon in daemons for worker in children_of(daemon)})
