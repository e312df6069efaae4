"""One ZooKeeper session, and our own clock for when it can no longer be trusted.

kazoo reports LOST only once a server said so; cut off from all servers it stays SUSPENDED for ever. So a
timer starts at SUSPENDED, and after two thirds of the session timeout this process must act as if another
driver already leads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from offsets.errors import LeadershipLost, StoreUnavailable
from offsets.settings import ZookeeperSettings

_TRUSTED_PART_OF_TIMEOUT = 2 / 3


class ZookeeperSession:
    """Connects, watches the connection, and says whether writes may still go out under this session."""

    def __init__(
        self, settings: ZookeeperSettings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._state_lock = threading.Lock()
        self._suspended_at: float | None = None
        self._lost = False
        self.client = KazooClient(hosts=settings.hosts, timeout=settings.session_timeout_seconds)

    @contextmanager
    def connected(self) -> Iterator[ZookeeperSession]:
        """Connect, or say which servers did not answer."""
        self.client.add_listener(self._note_state)
        try:
            self.client.start(timeout=self._settings.connect_timeout_seconds)
        except (KazooTimeoutError, KazooException, ValueError) as error:
            self._close()
            message = (
                f"ZooKeeper at {self._settings.hosts} did not answer within "
                f"{self._settings.connect_timeout_seconds:g} s: start it, or set zookeeper.hosts."
            )
            raise StoreUnavailable(message) from error
        try:
            yield self
        finally:
            self._close()

    @property
    def hosts(self) -> str:
        """The servers, for messages."""
        return self._settings.hosts

    @property
    def timeout_seconds(self) -> float:
        """The session timeout."""
        return self._settings.session_timeout_seconds

    def ensure_trusted(self) -> None:
        """Raise unless this session certainly still exists."""
        with self._state_lock:
            lost, suspended_at = self._lost, self._suspended_at
        if lost:
            message = "The ZooKeeper session expired: another driver may lead now."
            raise LeadershipLost(message)
        if suspended_at is None:
            return
        silent = self._monotonic() - suspended_at
        if silent >= self.timeout_seconds * _TRUSTED_PART_OF_TIMEOUT:
            message = (
                f"ZooKeeper at {self.hosts} has been silent for {silent:.1f} s of a session of "
                f"{self.timeout_seconds:g} s: another driver may lead soon."
            )
            raise LeadershipLost(message)

    def wait_until_connected(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Return once servers answer again; raise when the session can no longer be trusted."""
        while self.client.state != KazooState.CONNECTED:
            self.ensure_trusted()
            sleep(0.05)
        self.ensure_trusted()

    def _note_state(self, state: str) -> None:
        # Runs on kazoo's own thread: note it and return, a blocking call here would hang the client.
        with self._state_lock:
            if state == KazooState.LOST:
                self._lost = True
            elif state == KazooState.SUSPENDED and self._suspended_at is None:
                self._suspended_at = self._monotonic()
            elif state == KazooState.CONNECTED:
                self._suspended_at = None

    def _close(self) -> None:
        self.client.remove_listener(self._note_state)
        self.client.stop()
        self.client.close()
