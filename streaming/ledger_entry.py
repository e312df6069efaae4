"""Names of ledger entries, and which of them count.

Pure. An entry is named by its batch and the epoch of the driver that wrote it. A driver that lost its
leadership may still write: such an entry has an epoch that was not in force for that batch, and does not
count.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from offsets.store import Commit

_NAME = re.compile(r"^b(\d{12})-e(\d{20})$")


@dataclass(frozen=True, slots=True, order=True)
class LedgerEntry:
    """One batch as written by one driver."""

    batch: int
    epoch: int

    @property
    def name(self) -> str:
        """The entry's file name without ending; names sort by batch."""
        return f"b{self.batch:012d}-e{self.epoch:020d}"

    @staticmethod
    def parse(file_name: str) -> LedgerEntry | None:
        """The entry a file belongs to; None for files that are not ours."""
        match = _NAME.match(file_name.split(".", 1)[0])
        return LedgerEntry(int(match[1]), int(match[2])) if match else None


def epoch_in_force(batch: int, commit: Commit) -> int | None:
    """The epoch under which a batch was committed; None when it was not."""
    return epochs_in_force(commit)(batch)


def epochs_in_force(commit: Commit) -> Callable[[int], int | None]:
    """The same for many batches."""
    starts = sorted(commit.epochs, key=lambda start: start.first_batch)
    first_batches = [start.first_batch for start in starts]

    def epoch_of(batch: int) -> int | None:
        place = bisect_right(first_batches, batch)
        return starts[place - 1].epoch if place and batch <= commit.batch else None

    return epoch_of


def committed_entries(file_names: Iterable[str], commit: Commit) -> list[LedgerEntry]:
    """The entries that count, in order of their batches."""
    entries = (LedgerEntry.parse(name) for name in file_names)
    epoch_of = epochs_in_force(commit)
    return sorted(
        entry for entry in entries if entry is not None and epoch_of(entry.batch) == entry.epoch
    )


def uncommitted_entries(file_names: Iterable[str], commit: Commit) -> list[LedgerEntry]:
    """What unfinished batches and fenced drivers left behind."""
    entries = {entry for name in file_names if (entry := LedgerEntry.parse(name)) is not None}
    epoch_of = epochs_in_force(commit)
    return sorted(entry for entry in entries if epoch_of(entry.batch) != entry.epoch)
