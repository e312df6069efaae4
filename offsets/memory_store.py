"""The store's contract in memory: for dry runs and for tests of the driver loop without ZooKeeper."""

from __future__ import annotations

from offsets.errors import OffsetConflict
from offsets.store import Commit, Pending


class MemoryStore:
    """Keeps a commit and a pending batch as long as the process lives."""

    def __init__(self, commit: Commit | None = None) -> None:
        self._commit = commit or Commit.nothing_yet()
        self._pending: Pending | None = None

    def load(self) -> tuple[Commit, Pending | None]:
        """What is committed and what is pending."""
        return self._commit, self._pending

    def initialise(self, commit: Commit) -> None:
        """Fix where a new pipeline starts."""
        if self._commit.batch or self._commit.offsets:
            message = f"The pipeline already stands at batch {self._commit.batch}."
            raise OffsetConflict(message)
        self._commit = commit

    def set_pending(self, pending: Pending) -> None:
        """Fix a batch's input before it runs."""
        if pending.batch != self._commit.batch + 1:
            message = f"Batch {pending.batch} cannot follow committed batch {self._commit.batch}."
            raise OffsetConflict(message)
        self._pending = pending

    def commit(self, commit: Commit) -> None:
        """Move offsets and clear the pending batch."""
        if self._pending is None or self._pending.batch != commit.batch:
            message = (
                f"Batch {commit.batch} is not pending: it was committed already or never started."
            )
            raise OffsetConflict(message)
        self._commit, self._pending = commit, None
