"""Save positions once a second while they change, else once a minute, and at the end.

I/O through `PositionFile`. A full disk is reported and tried again; shipping goes on from memory.
"""

from __future__ import annotations

import logging

from ingest.log_follower import LogFollower
from ingest.position_file import PositionFile

_CHANGED_SECONDS = 1.0
_UNCHANGED_SECONDS = 60.0
_log = logging.getLogger("ship")


class PositionSaver:
    """Saves what the follower knows, no more often than needed."""

    def __init__(self, position_file: PositionFile, follower: LogFollower) -> None:
        self._file = position_file
        self._follower = follower
        self._saved: list[tuple[object, ...]] | None = None
        self._saved_at = 0.0
        self._has_failed = False

    def save_if_due(self, now: float) -> None:
        """Save when positions changed and the last save is a second old; first call saves."""
        waited = now - self._saved_at
        if self._saved is not None and waited < _CHANGED_SECONDS:
            return
        if self._saved == self._snapshot() and waited < _UNCHANGED_SECONDS:
            return
        # The first save tells nothing that a crash could lose: the next one need not wait for it.
        self._saved_at = now if self._saved is not None else self._saved_at
        try:
            self.save()
        except OSError as error:
            if not self._has_failed:
                _log.error("positions cannot be saved", extra={"reason": str(error)})
            self._has_failed = True

    def save(self) -> None:
        """Save now; an OSError says why not."""
        snapshot = self._snapshot()
        self._file.save(self._follower.generations, self._follower.scanned_at)
        self._saved = snapshot
        if self._has_failed:
            _log.info("positions saved again")
        self._has_failed = False

    def _snapshot(self) -> list[tuple[object, ...]]:
        return [
            (g.id, g.position.confirmed, g.partition, g.is_gone) for g in self._follower.generations
        ]
