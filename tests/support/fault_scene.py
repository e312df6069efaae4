"""Everything one fault test needs: a pipeline, an oracle that feeds it, and a direct look at what is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from support.broker_topics import create_topic, watermarks
from support.drivers import Totals
from support.oracle import Oracle, Verdict, read_commit, read_node, seed_of
from support.pipeline import Pipeline, make_pipeline
from support.waiting import wait_until

SESSION_SECONDS = 2.0


@dataclass
class Scene:
    """One run. `zookeeper` is the server itself, whatever way the driver takes to it."""

    pipeline: Pipeline
    oracle: Oracle
    zookeeper: str
    root: str
    partitions: int
    broker: str
    totals: Totals = field(default_factory=Totals)

    @property
    def ledger(self) -> Path:
        return self.pipeline.folder / "ledger"

    def commit(self) -> dict[str, Any]:
        """The commit node as it is on the server."""
        return read_commit(self.zookeeper, self.root)

    def node(self, name: str) -> bytes:
        """The bytes of a node of this job."""
        return read_node(self.zookeeper, f"{self.root}/pipelines/palisade/{name}")

    def ship(self, lines: int, resend: float = 0.2) -> None:
        """Send lines to every partition."""
        self.oracle.ship_many(lines, self.partitions, resend)

    def is_caught_up(self) -> bool:
        """Whether everything in Kafka is committed."""
        offsets = self.commit()["offsets"].get(self.pipeline.topic, {})
        ends = watermarks(self.broker, self.pipeline.topic)
        return all(offsets.get(str(partition), 0) >= end for partition, (_, end) in ends.items())

    def wait_until_caught_up(
        self, within: float = 60, check: Callable[[], object] = lambda: None
    ) -> None:
        """Wait; `check` may fail early, for instance when the driver ended."""

        def caught_up() -> bool:
            check()
            return self.is_caught_up()

        wait_until(caught_up, within=within, every=0.2)

    def catch_up(self, context: SparkContext) -> None:
        """Process what is there, in this process."""
        published = self.pipeline.catch_up(context)
        self.totals.see(dict(published.picture.counters))

    def verdict(self, plain: bool = True) -> Verdict:
        """What the oracle says, the product's own audit, and the exported totals, all in one."""
        verdict = self.oracle.check(self.ledger, self.zookeeper, self.root, plain)
        verdict.problems += self.totals.steps_back
        audit = self.pipeline.audit()
        if not audit.ok:
            verdict.problems.append(f"audit: {audit.problems or audit.totals}")
        if audit.totals["lines"] != self.oracle.line_count:
            verdict.problems.append(f"audit tells {audit.totals['lines']} lines")
        return verdict


def make_scene(
    folder: Path,
    broker: str,
    zookeeper: str,
    root: str,
    topic: str,
    partitions: int = 2,
    driver_zookeeper: str | None = None,
    driver_broker: str | None = None,
    **stream: object,
) -> Scene:
    """A new topic with its pipeline and oracle; the driver may go through proxies."""
    create_topic(broker, topic, partitions)
    stream = {"batch_seconds": 0.3, "backpressure": False, **stream}
    pipeline = make_pipeline(
        folder, driver_broker or broker, driver_zookeeper or zookeeper, root, topic, **stream
    )
    text = pipeline.config.read_text()
    pipeline.config.write_text(
        text.replace("session_timeout_seconds = 4", f"session_timeout_seconds = {SESSION_SECONDS}")
    )
    oracle = Oracle(folder, broker, topic, seed_of())
    return Scene(pipeline, oracle, zookeeper, root, partitions, broker)
