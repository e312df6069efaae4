"""Continue after a restart: the newest snapshot, then the committed batches after it."""

from __future__ import annotations

import logging

from offsets.errors import OffsetConflict
from offsets.store import Commit, Pending
from streaming.attacks.detector import load_detectors
from streaming.attacks.incident import IncidentBook, IncidentPolicy
from streaming.job_state import JobState
from streaming.ledger import Ledger
from streaming.ledger_entry import LedgerEntry
from streaming.settings import JobSettings
from streaming.state_snapshot import fill_from_tables, to_tables

SNAPSHOT_EVERY = 50
"""Batches between snapshots: a restart reads at most so many."""
COMPACTION_SECONDS = 0.02
"""How long a batch may be held up by the merging of old ones."""

_log = logging.getLogger("stream")


def require_known_start(ledger: Ledger, commit: Commit, pending: Pending | None) -> None:
    """Refuse to start from nothing when the ledger says that there was something."""
    if commit.batch == 0 and pending is None and not ledger.is_empty():
        message = (
            "ZooKeeper holds no commit of this job, but its ledger holds batches: ZooKeeper's data was lost or "
            "stream.job_name changed. Restore it, or point stream.ledger at an empty folder to begin anew."
        )
        raise OffsetConflict(message)


def empty_state(settings: JobSettings) -> JobState:
    """The state before the first batch."""
    policy = IncidentPolicy(
        incident_score=settings.alerts.incident_score,
        half_life_seconds=settings.alerts.score_half_life_seconds,
        resolve_after_seconds=settings.alerts.resolve_after_seconds,
    )
    book = IncidentBook(load_detectors(), policy)
    return JobState(
        incidents=book,
        known_vhosts=frozenset(settings.stream.vhosts),
        max_vhosts=settings.stream.max_vhosts,
        window_rules=settings.stream.window_rules,
    )


def restore_state(ledger: Ledger, commit: Commit, settings: JobSettings) -> JobState:
    """The state after the last committed batch."""
    state = empty_state(settings)
    snapshot = ledger.latest_snapshot(commit)
    done = 0
    if snapshot is not None:
        entry, tables = snapshot
        fill_from_tables(state, tables)
        done = entry.batch
    replayed = 0
    for tables in ledger.replay(commit, after=done):
        state.apply(tables)
        replayed += 1
    _log.info("state restored", extra={"snapshot_batch": done, "batches_replayed": replayed})
    return state


def tend_ledger(ledger: Ledger, commit: Commit, state: JobState, compact_every: int) -> None:
    """After a commit: a snapshot when one is due, and a little of the merging of old batches."""
    if commit.batch % SNAPSHOT_EVERY == 0:
        ledger.write_snapshot(LedgerEntry(commit.batch, commit.epoch), to_tables(state))
    ledger.compact(commit, compact_every, COMPACTION_SECONDS)
