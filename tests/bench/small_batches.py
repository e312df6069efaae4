"""What a small batch costs from plan to commit, an idle cycle, and whether both stay flat over many batches."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measurements import Measurement
from pyspark import SparkContext
from support.broker_topics import create_topic
from support.pipeline import Pipeline, log_lines, make_pipeline, produce_file
from support.waiting import wait_until

from streaming.broker_offsets import BrokerOffsets
from streaming.publish import Publisher
from streaming.published import Published
from streaming.restore import restore_state
from streaming.run import World, lead_and_stream
from streaming.spark_batch import SparkBatch

PARTITIONS = 4
LINES = 10_000
LARGE_INTERVAL_SECONDS = 1.0
SMALL_INTERVAL_SECONDS = 0.05
RESTLESS_SECONDS = 0.001


class RecordingPublisher(Publisher):
    """Keeps the clock of every batch and counts idle cycles."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.batch_seconds: list[float] = []
        self.batch_lines: list[int] = []
        self.looks = 0

    def publish(self, standing: Any, clock: Any, result: Any) -> None:
        """As the product does; then note how long the batch took."""
        super().publish(standing, clock, result)
        self.batch_lines.append(result.line_count)
        self.batch_seconds.append(clock.total_seconds)

    def refresh(self, standing: Any) -> None:
        """As the product does; then count."""
        super().refresh(standing)
        self.looks += 1


@dataclass(frozen=True)
class Footprint:
    """What a process holds."""

    descriptors: int
    threads: int
    resident_bytes: int

    @staticmethod
    def now() -> Footprint:
        """Of this process."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return Footprint(
            descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            threads=threading.active_count(),
            resident_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
        )


def measure_small_batches(
    folder: Path, bootstrap: str, zookeeper: str, context: SparkContext, quick: bool
) -> list[Measurement]:
    """Run a real job in this process, feed it, and look at its own clocks."""
    folder.mkdir(parents=True)
    topic = "bench"
    create_topic(bootstrap, topic, partitions=PARTITIONS)
    pipeline = make_pipeline(
        folder,
        bootstrap,
        zookeeper,
        "/bench",
        topic,
        batch_seconds=LARGE_INTERVAL_SECONDS,
        backpressure=False,
        max_rate_per_partition=10_000_000,
    )
    feeder = Feeder(pipeline)
    large = _large_batches(pipeline, feeder, context, times=10 if quick else 30)
    _change_interval(pipeline, LARGE_INTERVAL_SECONDS, SMALL_INTERVAL_SECONDS)
    with running_job(pipeline, context) as publisher:
        feeder.feed(publisher, 40, times=20)
        before, first = Footprint.now(), statistics.median(publisher.batch_seconds)
        feeder.feed(publisher, 40, times=150 if quick else 1000)
        after, last = Footprint.now(), statistics.median(publisher.batch_seconds[-20:])
    idle = _idle_cycle_seconds(pipeline, context)
    started = time.monotonic()
    restore_state(pipeline.ledger, pipeline.commit(), pipeline.job_settings())
    restart = time.monotonic() - started
    growth = (after.resident_bytes - before.resident_bytes) / 1e6
    return [
        Measurement(
            "batch of 10,000 lines, plan to commit (median)", statistics.median(large), "s", 0.6
        ),
        Measurement("idle cycle without new data", idle * 1000, "ms", 20),
        Measurement("last small batch ÷ first small batch", last / first, "", 1.5),
        Measurement(
            "descriptors gained over all batches", after.descriptors - before.descriptors, "", 5
        ),
        Measurement("threads gained over all batches", after.threads - before.threads, "", 2),
        Measurement("driver memory gained over all batches", growth, "MB", 50),
        Measurement("restart: state restored in", restart, "s", 5),
    ]


@dataclass
class Feeder:
    """Sends lines as a shipper would and waits until each lot is committed."""

    pipeline: Pipeline
    written: int = 0

    def feed(self, publisher: RecordingPublisher, lines: int, times: int) -> None:
        """`times` lots of `lines`, each in batches of its own."""
        for _ in range(times):
            part = lines // PARTITIONS
            seen = len(publisher.batch_seconds)
            for partition in range(PARTITIONS):
                name = f"{self.written}-{partition}"
                produce_file(self.pipeline, log_lines(part), name, partition, pack=500)
            self.written += 1
            wait_until(lambda seen=seen: len(publisher.batch_seconds) > seen, within=60)
            wait_until(lambda: not _lag(publisher), within=60)


@contextmanager
def running_job(pipeline: Pipeline, context: SparkContext) -> Iterator[RecordingPublisher]:
    """The job in a thread of this process."""
    settings = pipeline.job_settings()
    publisher = RecordingPublisher(settings, Published(), None)
    stop = threading.Event()
    world = World(
        broker=BrokerOffsets(settings.kafka),
        spark=SparkBatch(context),
        ledger=pipeline.ledger,
        publisher=publisher,
        stop=stop,
    )
    job = threading.Thread(target=lead_and_stream, args=(settings, world))
    job.start()
    try:
        wait_until(lambda: publisher.looks > 0, within=60)
        yield publisher
    finally:
        stop.set()
        job.join(timeout=60)


def _large_batches(
    pipeline: Pipeline, feeder: Feeder, context: SparkContext, times: int
) -> list[float]:
    """Seconds of the batches that held exactly one lot; those that caught a lot half sent do not count."""
    with running_job(pipeline, context) as publisher:
        feeder.feed(publisher, LINES, times=times + 3)
        pairs = zip(publisher.batch_lines, publisher.batch_seconds, strict=True)
        whole = [seconds for lines, seconds in pairs if lines == LINES]
    return whole[1:]


def _change_interval(pipeline: Pipeline, before: float, after: float) -> None:
    text = pipeline.config.read_text()
    assert f"batch_seconds = {before}" in text
    pipeline.config.write_text(
        text.replace(f"batch_seconds = {before}", f"batch_seconds = {after}")
    )


def _idle_cycle_seconds(pipeline: Pipeline, context: SparkContext, cycles: int = 100) -> float:
    """Time of a cycle without data: a job that does not wait between two looks."""
    _change_interval(pipeline, SMALL_INTERVAL_SECONDS, RESTLESS_SECONDS)
    with running_job(pipeline, context) as publisher:
        before, started = publisher.looks, time.monotonic()
        wait_until(lambda: publisher.looks >= before + cycles, within=60)
        return (time.monotonic() - started) / (publisher.looks - before)


def _lag(publisher: RecordingPublisher) -> int:
    status = publisher._published.picture.status
    return int(status["lag"]["records"]) if status else 1
