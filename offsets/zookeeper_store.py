"""Offsets, ledger pointer and pending batch in ZooKeeper; every write is one transaction under the leader's epoch.

kazoo's `commit()` of a transaction returns its failures in a list and raises nothing, and a connection lost
during a write leaves open whether it happened. Both are answered here: results are checked one by one, and
after a lost connection the nodes are read again to learn what is true.
The offsets that lag tools read (see `offsets.classic_nodes`) travel in the same transaction.
"""

from __future__ import annotations

import logging

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from offsets.classic_nodes import ClassicNodes, NodeChange, add_to, within_a_commit
from offsets.errors import LeadershipLost, OffsetConflict, StoreUnavailable
from offsets.leader_lock import Leadership
from offsets.store import (
    Commit,
    Pending,
    decode_commit,
    decode_pending,
    encode_commit,
    encode_pending,
)
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession

_log = logging.getLogger("offsets")
# KazooTimeoutError is what a client-side time-out raises; the others come from the protocol.
_AMBIGUOUS = (ConnectionLoss, OperationTimeoutError, ConnectionClosedError, KazooTimeoutError)


class _ClassicNodeChanged(Exception):
    """A node that only lag tools read is not as we left it: nothing was written."""


class ZookeeperStore:
    """The `OffsetStore` of a leading driver."""

    def __init__(
        self, session: ZookeeperSession, paths: ZnodePaths, leadership: Leadership
    ) -> None:
        self._session = session
        self._paths = paths
        self._leadership = leadership
        self._classic = ClassicNodes(session, paths)
        self._commit_version = 0
        self._pending_version = 0

    def load(self) -> tuple[Commit, Pending | None]:
        """What is committed and pending; creates the nodes of a new pipeline."""
        client = self._session.client
        try:
            for path in (self._paths.commit, self._paths.pending):
                client.ensure_path(path)
            # A follower may lag behind what the old leader wrote just before it died.
            client.sync(self._paths.commit)
            return self._read()
        except KazooException as error:
            message = f"ZooKeeper at {self._session.hosts} failed while loading offsets: {error!r}."
            raise StoreUnavailable(message) from error

    def initialise(self, commit: Commit) -> None:
        """Fix where a new pipeline starts, before its first batch."""
        self._session.ensure_trusted()
        transaction = self._session.client.transaction()
        transaction.check(self._paths.epoch, self._leadership.epoch_version)
        transaction.set_data(self._paths.commit, encode_commit(commit), self._commit_version)
        try:
            _, written = self._run(transaction, "fixing the start", operations=2)
            self._commit_version = int(written.version)  # type: ignore[attr-defined]
        except _AMBIGUOUS as error:
            message = f"ZooKeeper at {self._session.hosts} was lost while fixing the start offsets."
            raise LeadershipLost(message) from error
        self._write_apart(within_a_commit(self._classic_changes(commit)), commit)

    def set_pending(self, pending: Pending) -> None:
        """Fix a batch's input before it runs; only the leader can."""
        self._session.ensure_trusted()
        data = encode_pending(pending)
        try:
            self._pending_version = self._transact_pending(data)
        except _AMBIGUOUS:
            self._session.wait_until_connected()
            _, stored = self._read()
            if stored == pending:
                return
            self._pending_version = self._transact_pending(data)

    def commit(self, commit: Commit) -> None:
        """Move offsets and ledger pointer and clear the pending batch, all or nothing."""
        self._session.ensure_trusted()
        try:
            self._transact_commit_and_classic(commit)
        except _AMBIGUOUS:
            self._resolve_ambiguous_commit(commit)

    def _resolve_ambiguous_commit(self, commit: Commit) -> None:
        """The reply was lost: read what is stored, and write again only if it did not happen."""
        self._session.wait_until_connected()
        self._classic.look_again()
        stored, _ = self._read()
        happened = (stored.batch, stored.epoch) == (commit.batch, commit.epoch)
        _log.warning("commit reply was lost", extra={"batch": commit.batch, "committed": happened})
        if happened:
            return
        try:
            self._transact_commit_and_classic(commit)
        except _AMBIGUOUS as error:
            message = (
                f"ZooKeeper at {self._session.hosts} was lost twice while committing batch {commit.batch}: "
                "whether it is committed is decided at the next start."
            )
            raise LeadershipLost(message) from error

    def _transact_pending(self, data: bytes) -> int:
        transaction = self._session.client.transaction()
        transaction.check(self._paths.epoch, self._leadership.epoch_version)
        transaction.set_data(self._paths.pending, data, self._pending_version)
        _, written = self._run(transaction, "starting a batch", operations=2)
        return int(written.version)  # type: ignore[attr-defined]

    def _transact_commit_and_classic(self, commit: Commit) -> None:
        """The commit with the nodes of lag tools; without them where somebody else changes these."""
        first, *others = within_a_commit(self._classic_changes(commit))
        try:
            self._transact_commit(commit, first)
        except _ClassicNodeChanged as error:
            _log.warning("offset nodes of lag tools changed under us", extra={"cause": str(error)})
            self._classic.look_again()
            self._transact_commit(commit, [])
            return
        self._write_apart(others, commit)

    def _transact_commit(self, commit: Commit, classic: list[NodeChange]) -> None:
        transaction = self._session.client.transaction()
        transaction.check(self._paths.epoch, self._leadership.epoch_version)
        transaction.set_data(self._paths.commit, encode_commit(commit), self._commit_version)
        transaction.set_data(self._paths.pending, b"", self._pending_version)
        add_to(transaction, classic)
        results = self._run(transaction, "committing", operations=3 + len(classic), ours=3)
        self._commit_version = int(results[1].version)  # type: ignore[attr-defined]
        self._pending_version = int(results[2].version)  # type: ignore[attr-defined]

    def _classic_changes(self, commit: Commit) -> list[NodeChange]:
        try:
            return self._classic.changes(commit.offsets)
        except (KazooException, KazooTimeoutError) as error:
            _log.warning("offset nodes of lag tools cannot be read", extra={"cause": repr(error)})
            self._classic.look_again()
            return []

    def _write_apart(self, parts: list[list[NodeChange]], commit: Commit) -> None:
        """What did not fit into the commit: for lag tools only, so a failure is only noted."""
        try:
            for part in filter(None, parts):
                transaction = self._session.client.transaction()
                transaction.check(self._paths.epoch, self._leadership.epoch_version)
                add_to(transaction, part)
                self._run(transaction, "writing for lag tools", operations=1 + len(part), ours=1)
            self._classic.note(commit.offsets)
        except (KazooException, KazooTimeoutError, _ClassicNodeChanged) as error:
            _log.warning("offset nodes of lag tools not written", extra={"cause": repr(error)})
            self._classic.look_again()

    def _run(
        self, transaction: object, doing: str, operations: int, ours: int | None = None
    ) -> list[object]:
        """Run a transaction and raise what kazoo would only return; only the first `ours` operations concern us."""
        try:
            # Without a time limit kazoo waits as long as it has no connection.
            asked = transaction.commit_async()  # type: ignore[attr-defined]
            results = list(asked.get(timeout=self._session.timeout_seconds))
        except SessionExpiredError as error:
            message = f"The ZooKeeper session expired while {doing}: another driver may lead now."
            raise LeadershipLost(message) from error
        failures = [result for result in results if isinstance(result, Exception)]
        if isinstance(next(iter(failures), None), _AMBIGUOUS):
            raise failures[0]
        culprit = next((i for i, one in enumerate(results) if _is_cause(one)), None)
        if ours is not None and culprit is not None and culprit >= ours:
            raise _ClassicNodeChanged(repr(results[culprit]))
        if failures or len(results) != operations:
            if results and isinstance(results[0], Exception) and self._was_fenced():
                message = f"Another driver took over while {doing}: nothing was written."
                raise LeadershipLost(message)
            names = ", ".join(type(failure).__name__ for failure in failures) or "missing results"
            message = (
                f"{self._paths.pipeline} changed under us while {doing} ({names}): another job uses the same "
                "stream.job_name. Stop it, or give this one another name."
            )
            raise OffsetConflict(message)
        return results

    def _was_fenced(self) -> bool:
        _, stat = self._session.client.get(self._paths.epoch)
        return int(stat.version) != self._leadership.epoch_version

    def _read(self) -> tuple[Commit, Pending | None]:
        read = KazooRetry(max_tries=5, ignore_expire=False)
        client = self._session.client
        commit_data, commit_stat = read(client.get, self._paths.commit)
        pending_data, pending_stat = read(client.get, self._paths.pending)
        self._commit_version = commit_stat.version
        self._pending_version = pending_stat.version
        return (
            decode_commit(commit_data, self._paths.commit),
            decode_pending(pending_data, self._paths.pending),
        )


def _is_cause(result: object) -> bool:
    """Whether this operation failed by itself, not because another one of its transaction did."""
    return isinstance(result, Exception) and not isinstance(
        result, RolledBackError | RuntimeInconsistency
    )
