"""A real pipeline for one test: a topic, a znode root, a ledger folder, and `palisade` as its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext
from support.broker_topics import produce

from ingest.kafka_connection import client_properties
from ingest.log_record import PATH_HEADER, RecordIdentity, encode_key
from offsets.commands import StoredPipeline, read_pipeline
from offsets.store import Commit
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession
from palisade_config import Configuration, load_configuration
from streaming.audit import Audit, audit_ledger
from streaming.broker_offsets import BrokerOffsets
from streaming.group_mirror import mirror_of
from streaming.ledger import Ledger
from streaming.ledger_files import open_ledger_files
from streaming.publish import Publisher
from streaming.published import Published
from streaming.run import World, lead_and_stream
from streaming.settings import JobSettings
from streaming.spark_batch import SparkBatch

LINE = '192.0.2.{host} - - [18/Nov/2026:10:00:{second:02d} +0000] "GET /item/{number} HTTP/1.1" 200 512 "-" "test"'


@dataclass(frozen=True)
class Pipeline:
    """Where everything of one test is."""

    folder: Path
    config: Path
    bootstrap: str
    topic: str

    def palisade(
        self, *arguments: str, crash_point: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        environment = {**os.environ, "PALISADE_CRASH_POINT": crash_point}
        if not crash_point:
            del environment["PALISADE_CRASH_POINT"]
        return subprocess.run(
            [sys.executable, "-m", "palisade", *arguments, "--config", str(self.config)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    @property
    def configuration(self) -> Configuration:
        """What the configuration file says now."""
        return load_configuration(self.config, {})

    def catch_up(self, context: SparkContext, published: Published | None = None) -> Published:
        """Process everything that is in the topic, in this process; gives what was published."""
        settings = self.job_settings()
        published = published or Published()
        mirror = mirror_of(settings.kafka, settings.stream.mirror_group)
        world = World(
            broker=BrokerOffsets(settings.kafka),
            spark=SparkBatch(context),
            ledger=self.ledger,
            publisher=Publisher(settings, published, None),
            stop=threading.Event(),
            mirror=mirror,
        )
        lead_and_stream(settings, world, until_caught_up=True)
        if mirror is not None:
            mirror.finish()
        return published

    def job_settings(self) -> JobSettings:
        """As `palisade stream` would make them."""
        configuration = self.configuration
        return JobSettings(
            kafka=configuration.kafka,
            zookeeper=configuration.zookeeper,
            stream=configuration.stream,
            alerts=configuration.alerts,
            formats=dict(configuration.formats),
            kafka_properties=client_properties(configuration.kafka),
            assumed_lines_per_record=configuration.ship.lines_per_record,
        )

    @property
    def ledger(self) -> Ledger:
        """The ledger on disk."""
        return Ledger(open_ledger_files(self.configuration.stream.ledger))

    def commit(self) -> Commit:
        """What ZooKeeper says is committed."""
        return self.stored().commit

    def stored(self) -> StoredPipeline:
        """Everything ZooKeeper holds about the job."""
        settings = self.configuration
        paths = ZnodePaths(settings.zookeeper.root, settings.stream.job_name)
        with ZookeeperSession(settings.zookeeper).connected() as session:
            return read_pipeline(session, paths)

    def audit(self) -> Audit:
        """What the ledger proves."""
        stored = self.stored()
        return audit_ledger(self.ledger, stored.commit, stored.resets)


def make_pipeline(
    folder: Path, bootstrap: str, zookeeper: str, root: str, topic: str, **stream: object
) -> Pipeline:
    """Write a configuration for one test."""
    settings = {
        "ledger": str(folder / "ledger"),
        "listen": "127.0.0.1:0",
        "master": "local[2,4]",
        **stream,
    }
    lines = [
        "[kafka]",
        f'bootstrap_servers = "{bootstrap}"',
        f'topic = "{topic}"',
        "[zookeeper]",
        f'hosts = "{zookeeper}"',
        f'root = "{root}"',
        f'consumers_root = "{root}/consumers"',
        "session_timeout_seconds = 4",
        "[stream]",
        *(f"{key} = {_toml(value)}" for key, value in settings.items()),
    ]
    config = folder / "palisade.toml"
    config.write_text("\n".join(lines) + "\n")
    return Pipeline(folder, config, bootstrap, topic)


def _toml(value: object) -> str:
    """A value as TOML writes it: as JSON does, but for tables."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{" + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + "}"


def log_lines(count: int, first: int = 0) -> list[bytes]:
    """Well-formed lines, each with its own number in the path."""
    return [
        LINE.format(host=number % 250, second=number % 60, number=number).encode()
        for number in range(first, first + count)
    ]


def produce_file(
    pipeline: Pipeline,
    lines: list[bytes],
    generation: str,
    partition: int,
    start: int = 0,
    pack: int = 10,
) -> int:
    """Send lines as a shipper would; gives the byte offset after the last one."""
    offset, records = start, []
    for begin in range(0, len(lines), pack):
        value = b"\n".join(lines[begin : begin + pack])
        identity = RecordIdentity("shop", "web-1", "shop.example", "combined", generation, offset)
        records.append((encode_key(identity), value))
        offset += len(value) + 1
    path = f"/var/log/apache2/{generation}.log".encode()
    produce(pipeline.bootstrap, pipeline.topic, records, partition, [(PATH_HEADER, path)])
    return offset
