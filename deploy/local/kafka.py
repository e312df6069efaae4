"""A real Kafka broker (KRaft, one node) on a free port of 127.0.0.1. I/O.

The storage is formatted once and the result kept in the cache: a copy of two small files saves a
Java start later.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.local import loopback, spark_jars
from deploy.local.broker_jars import KAFKA_VERSION, broker_jars
from deploy.local.child_process import ChildCommand, ChildKeeper, ChildProcess
from deploy.local.stack_errors import ServerDidNotStart
from palisade_output import printable

_READY_SECONDS = 90
_CLUSTER_ID = "UGFsaXNhZGVMb2NhbFN0aw"


@dataclass(frozen=True, slots=True)
class Kafka:
    """A running broker. `bootstrap_servers` is what clients connect to."""

    process: ChildProcess
    port: int

    @property
    def bootstrap_servers(self) -> str:
        """Connection string."""
        return f"{loopback.ADDRESS}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerProgram:
    """What a broker is started with: Java, the class path, and the cache folder."""

    java: Path
    class_path: str
    cache: Path


def find_broker(
    keeper: ChildKeeper, java: Path, cache: Path, report: Callable[[str], None]
) -> BrokerProgram:
    """The broker's program; downloads it when the cache does not have it yet."""
    jars = broker_jars(keeper, cache, java, report)
    # Kafka's jars bring no logger: without one, a broker that cannot start would not say why.
    return BrokerProgram(java, f"{spark_jars.logger_class_path()}:{jars}/*", cache)


def configuration(data: Path, port: int, controller_port: int) -> str:
    """`server.properties` of a single node that is broker and controller."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{loopback.ADDRESS}:{controller_port}",
        "listeners": (
            f"PLAINTEXT://{loopback.ADDRESS}:{port},CONTROLLER://{loopback.ADDRESS}:{controller_port}"
        ),
        "advertised.listeners": f"PLAINTEXT://{loopback.ADDRESS}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def start_kafka(
    keeper: ChildKeeper, program: BrokerProgram, folder: Path, port: int | None = None
) -> Kafka:
    """Start it with its data and configuration in `folder`, and return when it serves clients.

    On the given port, or on a free one.
    """
    if port is not None:
        return _start(keeper, program, folder, port)
    return loopback.on_free_port(lambda port: _start(keeper, program, folder, port))


def _start(keeper: ChildKeeper, program: BrokerProgram, folder: Path, port: int) -> Kafka:
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    properties = folder / "server.properties"
    properties.write_text(configuration(data, port, loopback.free_port()), encoding="utf-8")
    logger = folder / "log4j2.properties"
    logger.write_text(spark_jars.LOG4J_PROPERTIES, encoding="utf-8")
    if not data.exists():
        _prepare_storage(program, properties, data)
    argv = [*_java(program, logger, "-Xmx512m"), "kafka.Kafka", properties]
    process = keeper.start(ChildCommand("kafka", argv, folder / "kafka.log"))
    process.wait_until_ready(lambda: is_ready(port), within_seconds=_READY_SECONDS)
    return Kafka(process, port)


def is_ready(port: int) -> bool:
    """Whether the broker on this port tells clients about itself."""
    if not loopback.accepts_connections(port):
        return False
    from confluent_kafka import KafkaException  # noqa: PLC0415 - the generator must not need it
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    servers = f"{loopback.ADDRESS}:{port}"
    try:
        metadata = AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(
            timeout=2
        )
    except KafkaException:
        return False
    return bool(metadata.brokers)


def _java(program: BrokerProgram, logger: Path, heap: str) -> list[str | Path]:
    options = [heap, *spark_jars.QUICK_START, f"-Dlog4j2.configurationFile={logger}"]
    return [program.java, *options, "-cp", program.class_path]


def _prepare_storage(program: BrokerProgram, properties: Path, data: Path) -> None:
    formatted = program.cache / f"kafka-{KAFKA_VERSION}-formatted"
    if formatted.is_dir():
        shutil.copytree(formatted, data)
        return
    _format(program, properties)
    temporary = formatted.with_name(f"{formatted.name}.{properties.parent.name}.{id(data)}")
    shutil.copytree(data, temporary)
    try:
        temporary.rename(formatted)
    except OSError:  # another process was quicker; its copy is as good
        shutil.rmtree(temporary)


def _format(program: BrokerProgram, properties: Path) -> None:
    logger = properties.with_name("log4j2.properties")
    command = [*_java(program, logger, "-Xmx128m"), "kafka.tools.StorageTool", "format"]
    command += ["-t", _CLUSTER_ID, "-c", properties]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        told = printable((done.stdout + done.stderr).strip()[-500:])
        message = f"Kafka could not format its storage beside {properties}: {told}"
        raise ServerDidNotStart(message)
