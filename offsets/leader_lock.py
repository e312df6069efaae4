"""One driver leads a pipeline: an ephemeral lock, and an epoch that fences whoever led before.

    lock = LeaderLock(session, paths)
    leadership = lock.acquire(stop_requested)      # waits as a standby; None when asked to stop

The epoch is the creation id (czxid) of our lock node, which only grows. It is written to the epoch node with
a versioned set; every later write checks that version in the same transaction, so a paused old leader fails
there.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from kazoo.exceptions import BadVersionError, KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from offsets.errors import LeadershipLost, OffsetConflict, StoredStateInvalid
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession

_LOOK_AGAIN_SECONDS = 0.25
_log = logging.getLogger("offsets")


@dataclass(frozen=True, slots=True)
class Leadership:
    """Proof of leading: the fencing epoch and the version of the epoch node that carries it."""

    epoch: int
    epoch_version: int


class LeaderLock:
    """Contends for the leadership of one pipeline, in order of arrival."""

    def __init__(
        self,
        session: ZookeeperSession,
        paths: ZnodePaths,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session = session
        self._paths = paths
        self._sleep = sleep
        self._node: str | None = None

    def acquire(self, stop_requested: Callable[[], bool]) -> Leadership | None:
        """Wait until this driver leads; None when asked to stop before that."""
        try:
            czxid = self._enqueue()
            standing_by = False
            while not self._is_first():
                if stop_requested():
                    self.release()
                    return None
                if not standing_by:
                    standing_by = True
                    _log.info("standing by", extra={"leader": self.holder()})
                self._session.ensure_trusted()
                self._sleep(_LOOK_AGAIN_SECONDS)
            return self._fence(czxid)
        except KazooException as error:
            message = (
                f"ZooKeeper at {self._session.hosts} was lost while taking the lock: {error!r}."
            )
            raise LeadershipLost(message) from error

    def release(self) -> None:
        """Let the next driver lead at once instead of after the session timeout."""
        node, self._node = self._node, None
        if node is None:
            return
        if not self._session.client.connected:
            return  # kazoo would wait until it is; the node goes with the session
        try:
            self._session.client.delete_async(node).get(timeout=self._session.timeout_seconds)
        except (KazooException, KazooTimeoutError):
            _log.debug("lock node is gone already", extra={"node": node})

    def holder(self) -> str | None:
        """Who leads now, as `host pid`; None when nobody does."""
        return lock_holder(self._session, self._paths)

    def _enqueue(self) -> int:
        client = self._session.client
        client.ensure_path(self._paths.lock)
        identity = f"{socket.gethostname()} pid {os.getpid()}".encode()
        self._node, stat = client.create(
            f"{self._paths.lock}/driver-",
            identity,
            ephemeral=True,
            sequence=True,
            include_data=True,
        )
        return int(stat.czxid)

    def _is_first(self) -> bool:
        if self._node is None:
            return False
        contenders = self._session.client.get_children(self._paths.lock)
        own = self._node.rsplit("/", 1)[1]
        if own not in contenders:
            message = "Our lock node vanished: the session expired or somebody removed it."
            raise LeadershipLost(message)
        return bool(own == min(contenders))

    def _fence(self, czxid: int) -> Leadership:
        client = self._session.client
        client.ensure_path(self._paths.epoch)
        data, stat = client.get(self._paths.epoch)
        stored = _epoch_in(data, self._paths.epoch)
        if stored >= czxid:
            message = (
                f"{self._paths.epoch} holds epoch {stored}, not below ours ({czxid}): ZooKeeper's data was replaced. "
                "Check the ledger, then remove that node to go on."
            )
            raise OffsetConflict(message)
        try:
            written = client.set(self._paths.epoch, str(czxid).encode(), version=stat.version)
        except BadVersionError as error:
            message = f"{self._paths.epoch} changed while we took the lock: another driver leads."
            raise LeadershipLost(message) from error
        _log.info("leading", extra={"epoch": czxid})
        return Leadership(epoch=czxid, epoch_version=written.version)


def lock_holder(session: ZookeeperSession, paths: ZnodePaths) -> str | None:
    """Who leads the pipeline now, as `host pid`; None when nobody does."""
    try:
        contenders = session.client.get_children(paths.lock)
        if not contenders:
            return None
        data, _ = session.client.get(f"{paths.lock}/{min(contenders)}")
        return str(data.decode("utf-8", "replace"))
    except NoNodeError:
        return None


def _epoch_in(data: bytes, where: str) -> int:
    try:
        return int(data or b"0")
    except ValueError as error:
        message = f"{where} holds {data[:40]!r} instead of a number: somebody wrote to it. Restore or remove it."
        raise StoredStateInvalid(message) from error
