"""M36: as Spark's own stress suite, 50 random steps on a live topic, and exact totals at the end.

Steps: add partitions, append to files, send again, lines of other shippers, records without a value, restart the job
with other splits and limits. Adding and deleting whole topics is in the tests of the subscription.
"""

import random
from dataclasses import dataclass, field

import pytest
from support.broker_topics import add_partitions, create_topic, produce
from support.pipeline import Pipeline, log_lines, make_pipeline, produce_file

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

STEPS = 50
MAX_PARTITIONS = 6


@dataclass
class SentFile:
    """What a shipper would know about one file: its lines, and where each begins."""

    name: str
    partition: int
    lines: list[bytes] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])


@dataclass
class Stress:
    """Random steps, and what must be true after them."""

    pipeline: Pipeline
    chance: random.Random
    partitions: int = 1
    files: list[SentFile] = field(default_factory=list)
    resent_lines: int = 0
    unproven_lines: int = 0

    def add_partition(self):
        if self.partitions < MAX_PARTITIONS:
            self.partitions += 1
            add_partitions(self.pipeline.bootstrap, self.pipeline.topic, self.partitions)

    def add_file(self):
        place = self.chance.randrange(self.partitions)
        self.files.append(SentFile(f"file-{len(self.files)}", place))
        self._append_to(self.files[-1])

    def append(self):
        self._append_to(self.chance.choice(self.files))

    def _append_to(self, file):
        lines = log_lines(self.chance.randrange(1, 60), first=len(file.lines))
        self._send(file, len(file.lines), lines)
        file.lines += lines
        for line in lines:
            file.starts.append(file.starts[-1] + len(line) + 1)

    def send_again(self):
        file = self.chance.choice(self.files)
        first = self.chance.randrange(len(file.lines))
        lines = file.lines[first : first + self.chance.randrange(1, 80)]
        self._send(file, first, lines)
        self.resent_lines += len(lines)

    def send_unidentified(self):
        count = self.chance.randrange(1, 20)
        place = self.chance.randrange(self.partitions)
        produce(self.pipeline.bootstrap, self.pipeline.topic, log_lines(count), place)
        self.unproven_lines += count

    def send_nothing(self):
        place = self.chance.randrange(self.partitions)
        produce(self.pipeline.bootstrap, self.pipeline.topic, [(b"tombstone", None)], place)

    def _send(self, file, first, lines):
        pack = self.chance.choice([1, 3, 25])
        start = file.starts[first]
        produce_file(self.pipeline, lines, file.name, file.partition, start=start, pack=pack)


def test_m36_fifty_random_steps_lose_nothing_and_count_nothing_twice(
    tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name, spark_context
):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    create_topic(kafka_bootstrap, topic_name)

    def job():
        limits = {
            "min_lines_per_task": chance.choice([1, 100, 10_000]),
            "max_records_per_task": chance.choice([0, 5, 40]),
            "max_rate_per_partition": chance.choice([2_000, 100_000]),
            "redistribute_cut_shares": chance.random() < 0.5,
        }
        folder, servers = tmp_path, (kafka_bootstrap, zookeeper_hosts)
        return make_pipeline(folder, *servers, znode_root, topic_name, **limits)

    stress = Stress(job(), chance)
    stress.add_file()
    steps = {
        stress.append: 8,
        stress.send_again: 5,
        stress.add_file: 2,
        stress.add_partition: 2,
        stress.send_unidentified: 2,
        stress.send_nothing: 1,
    }
    for step in range(STEPS):
        chance.choices(list(steps), list(steps.values()))[0]()
        if step % 5 == 4 or chance.random() < 0.2:
            job().catch_up(spark_context)
    job().catch_up(spark_context)

    audit = stress.pipeline.audit()
    assert audit.ok, (seed, audit.problems)
    assert {one.generation: (one.lines, one.bytes) for one in audit.generations} == {
        file.name: (len(file.lines), file.starts[-1]) for file in stress.files
    }, seed
    totals = audit.totals
    assert totals["resent_lines"] == stress.resent_lines, seed
    assert totals["unproven_lines"] == stress.unproven_lines, seed
    sent = sum(len(file.lines) for file in stress.files) + stress.unproven_lines
    assert totals["lines"] == totals["parsed"] == sent, seed
