"""A broker and a ZooKeeper of one test's own: stopped, killed, paused and started again on the same port and data."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from unittest import mock

from support.servers import cache_folder

from deploy.local import java, kafka, loopback, zookeeper
from deploy.local.child_process import ChildKeeper, ChildProcess

_PLAIN_CONFIGURATION = kafka.configuration


class _OwnServer:
    """What both have in common."""

    def __init__(self, keeper: ChildKeeper, folder: Path, port: int | None = None) -> None:
        self._keeper = keeper
        self._folder = folder
        self.port = port
        self._process: ChildProcess | None = None
        self.start()

    def start(self) -> None:
        self._process, self.port = self._start(self.port)

    def _start(self, port: int | None) -> tuple[ChildProcess, int]:
        raise NotImplementedError

    @property
    def address(self) -> str:
        return f"{loopback.ADDRESS}:{self.port}"

    @property
    def process(self) -> ChildProcess:
        assert self._process is not None
        return self._process

    def stop(self) -> None:
        """Ask it to end."""
        self.process.stop(grace_seconds=30)

    def kill(self) -> None:
        """kill -9."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.stop()

    def restart(self, *, clean: bool = True) -> None:
        self.stop() if clean else self.kill()
        self.start()

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)


class OwnKafka(_OwnServer):
    """A broker. With `advertised_port`, clients come back through that port: a proxy's."""

    def __init__(
        self,
        keeper: ChildKeeper,
        folder: Path,
        port: int | None = None,
        advertised_port: int | None = None,
    ) -> None:
        self._advertised_port = advertised_port
        self._program = kafka.find_broker(
            keeper, java.find_java(os.environ), cache_folder(), lambda _: None
        )
        super().__init__(keeper, folder, port)

    def _start(self, port: int | None) -> tuple[ChildProcess, int]:
        with mock.patch.object(kafka, "configuration", self._configuration):
            running = kafka.start_kafka(self._keeper, self._program, self._folder, port)
        return running.process, running.port

    def _configuration(self, data: Path, port: int, controller_port: int) -> str:
        text = _PLAIN_CONFIGURATION(data, port, controller_port)
        if self._advertised_port is None:
            return text
        own = f"advertised.listeners=PLAINTEXT://{loopback.ADDRESS}:"
        return text.replace(f"{own}{port}", f"{own}{self._advertised_port}")


class OwnZookeeper(_OwnServer):
    """A ZooKeeper."""

    def _start(self, port: int | None) -> tuple[ChildProcess, int]:
        running = zookeeper.start_zookeeper(
            self._keeper, java.find_java(os.environ), self._folder, port
        )
        return running.process, running.port
