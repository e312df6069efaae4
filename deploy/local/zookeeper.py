"""A real ZooKeeper on a free port of 127.0.0.1, from the jars inside PySpark. I/O."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from deploy.local import loopback, spark_jars
from deploy.local.child_process import ChildCommand, ChildKeeper, ChildProcess

_READY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Zookeeper:
    """A running ZooKeeper. `hosts` is what clients connect to."""

    process: ChildProcess
    port: int

    @property
    def hosts(self) -> str:
        """Connection string."""
        return f"{loopback.ADDRESS}:{self.port}"


def configuration(folder: Path, port: int) -> str:
    """`zoo.cfg` of a single server that only this machine reaches."""
    return "\n".join(
        (
            f"dataDir={folder / 'data'}",
            f"clientPort={port}",
            f"clientPortAddress={loopback.ADDRESS}",
            # A short tick allows short sessions, so that failover can be watched.
            "tickTime=500",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=ruok,srvr",
            "",
        )
    )


def start_zookeeper(
    keeper: ChildKeeper, java: Path, folder: Path, port: int | None = None
) -> Zookeeper:
    """Start it with its data and configuration in `folder`, and return when it answers.

    On the given port, or on a free one.
    """
    if port is not None:
        return _start(keeper, java, folder, port)
    return loopback.on_free_port(lambda port: _start(keeper, java, folder, port))


def _start(keeper: ChildKeeper, java: Path, folder: Path, port: int) -> Zookeeper:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zoo.cfg").write_text(configuration(folder, port), encoding="utf-8")
    logger = folder / "log4j2.properties"
    logger.write_text(spark_jars.LOG4J_PROPERTIES, encoding="utf-8")
    argv: list[str | Path] = [java, "-Xmx128m", *spark_jars.QUICK_START]
    argv += [f"-Dlog4j2.configurationFile={logger}", "-cp", spark_jars.zookeeper_class_path()]
    argv += ["org.apache.zookeeper.server.ZooKeeperServerMain", folder / "zoo.cfg"]
    process = keeper.start(ChildCommand("zookeeper", argv, folder / "zookeeper.log"))
    process.wait_until_ready(lambda: is_ready(port), within_seconds=_READY_SECONDS)
    return Zookeeper(process, port)


def is_ready(port: int) -> bool:
    """Whether the server on this port says it is well (`ruok` is answered with `imok`)."""
    try:
        with socket.create_connection((loopback.ADDRESS, port), timeout=1) as connection:
            connection.sendall(b"ruok")
            return connection.recv(16) == b"imok"
    except OSError:
        return False
