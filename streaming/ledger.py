"""The ledger: the partial tables of every batch, as Parquet, and snapshots of the state they add up to.

`<table>/<entry>.parquet` holds a batch's part of a table. Entries beyond the committed batch do not count. Old
batches are merged into blocks (see `streaming.ledger_compaction`), which readers see like the files they replace. A
snapshot lets a restart read a few batches instead of all of them; it is written after its batch was committed
and complete once its manifest is there.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import polars as pl

from offsets.store import Commit
from streaming.errors import LedgerError
from streaming.ledger_block import Block, is_superseded
from streaming.ledger_compaction import BlockMarkers, Compactor, remove_covered
from streaming.ledger_entry import (
    LedgerEntry,
    committed_entries,
    epoch_in_force,
    uncommitted_entries,
)
from streaming.ledger_files import LedgerFiles
from streaming.ledger_tables import from_parquet, to_parquet, with_batch

FORMAT_VERSION = 2
"""Of snapshots: one of another version is not read, the batches are."""
TABLES = (
    "account",
    "generations",
    "lost",
    "load",
    "latency",
    "tops",
    "attacks",
    "behaviour",
    "outcomes",
    "clocks",
    "timings",
)
_SNAPSHOTS = "snapshots"
_MANIFEST = "manifest.json"
_SNAPSHOTS_KEPT = 2
_READ_ATTEMPTS = 20
_log = logging.getLogger("stream")

Tables = dict[str, pl.DataFrame]
Result = TypeVar("Result")


class Ledger:
    """Reads and writes entries; knows nothing about what is in the tables."""

    def __init__(self, files: LedgerFiles) -> None:
        self._files = files
        self._markers = BlockMarkers(files)
        self._compactor = Compactor(files, self._markers, TABLES)

    def write(self, entry: LedgerEntry, tables: Mapping[str, pl.DataFrame]) -> None:
        """Store a batch's tables, replacing what an unfinished attempt left."""
        for table, frame in tables.items():
            if not frame.is_empty():
                self._files.write(f"{table}/{entry.name}.parquet", to_parquet(frame))

    def read(self, table: str, entry: LedgerEntry) -> pl.DataFrame:
        """One batch's part of a table."""

        def read(blocks: Sequence[Block]) -> pl.DataFrame:
            for block in blocks:
                if block.covers(entry.batch):
                    rows = self._read_block(table, block, entry.batch, entry.batch)
                    return pl.concat(rows, how="diagonal_relaxed").drop("batch")
            return self._read_file(f"{table}/{entry.name}.parquet")

        return self._consistently(read)

    def entries(self, table: str, commit: Commit) -> list[LedgerEntry]:
        """The committed entries of a table, in order."""

        def read(blocks: Sequence[Block]) -> list[LedgerEntry]:
            frames = [f for b in blocks for f in self._read_block(table, b, 1, commit.batch)]
            batches = sorted({batch for frame in frames for batch in frame["batch"].unique()})
            compacted = [LedgerEntry(b, epoch_in_force(b, commit) or 0) for b in batches]
            return [*compacted, *self._small_entries(table, commit, blocks)]

        return self._consistently(read)

    def read_all(self, table: str, commit: Commit) -> pl.DataFrame | None:
        """A table over all committed batches, with their numbers in `batch`; None when it is empty."""

        def read(blocks: Sequence[Block]) -> list[pl.DataFrame]:
            small = [
                with_batch(self._read_file(f"{table}/{entry.name}.parquet"), entry.batch)
                for entry in self._small_entries(table, commit, blocks)
            ]
            return [
                *(f for b in blocks for f in self._read_block(table, b, 1, commit.batch)),
                *small,
            ]

        frames = self._consistently(read)
        return pl.concat(frames, how="diagonal_relaxed") if frames else None

    def replay(self, commit: Commit, after: int) -> Iterator[Tables]:
        """The tables of each committed batch after `after`, in order; a block at a time, for the only driver."""
        blocks = self._markers.blocks()
        for block in blocks:
            if block.last > after:
                yield from self._replay_block(block, after + 1, commit.batch)
        present = {
            table: set(self._small_entries(table, commit, blocks, after)) for table in TABLES
        }
        for entry in sorted(set().union(*present.values())):
            yield {
                table: self._read_file(f"{table}/{entry.name}.parquet")
                for table in TABLES
                if entry in present[table]
            }

    def compact(
        self,
        commit: Commit,
        every: int,
        budget_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> bool:
        """Merge old batches into blocks for about so long; whether there is more to do now."""
        return self._compactor.work(commit, every, budget_seconds, monotonic)

    def is_empty(self) -> bool:
        """Whether no batch was ever written."""
        return not self._files.names("account")

    def remove_uncommitted(self, commit: Commit) -> int:
        """Delete what unfinished batches, fenced drivers and unfinished compactions left; how many files."""
        blocks = self._markers.blocks()
        if blocks and blocks[-1].last > commit.batch:
            message = (
                f"The ledger holds merged batches up to {blocks[-1].last}, but only {commit.batch} are committed: "
                "ZooKeeper's data is older than the ledger. Restore it, or point stream.ledger at an empty folder."
            )
            raise LedgerError(message)
        removed = 0
        for table in TABLES:
            names = self._files.names(table)
            for entry in uncommitted_entries(names, commit):
                self._files.remove(f"{table}/{entry.name}.parquet")
                removed += 1
            removed += sum(1 for _ in remove_covered(self._files, table, blocks))
            for name in names:
                block = Block.parse(name)
                if block is not None and is_superseded(block, blocks):
                    self._files.remove(f"{table}/{name}")
                    removed += 1
        return removed

    def write_snapshot(self, entry: LedgerEntry, tables: Mapping[str, pl.DataFrame]) -> None:
        """Store the state after a committed batch and forget old snapshots."""
        for table, frame in tables.items():
            self._files.write(f"{_SNAPSHOTS}/{entry.name}.{table}.parquet", to_parquet(frame))
        manifest = {"v": FORMAT_VERSION, "tables": sorted(tables)}
        self._files.write(f"{_SNAPSHOTS}/{entry.name}.{_MANIFEST}", json.dumps(manifest).encode())
        self._forget_snapshots(before=entry)

    def latest_snapshot(self, commit: Commit) -> tuple[LedgerEntry, Tables] | None:
        """The newest complete snapshot that is not ahead of the commit."""
        manifests = [name for name in self._files.names(_SNAPSHOTS) if name.endswith(_MANIFEST)]
        for entry in reversed(committed_entries(manifests, commit)):
            tables = self._read_snapshot(entry)
            if tables is not None:
                return entry, tables
        return None

    def _read_snapshot(self, entry: LedgerEntry) -> Tables | None:
        try:
            manifest = json.loads(self._files.read(f"{_SNAPSHOTS}/{entry.name}.{_MANIFEST}"))
            if manifest["v"] != FORMAT_VERSION:
                return None
            names = {
                table: f"{_SNAPSHOTS}/{entry.name}.{table}.parquet" for table in manifest["tables"]
            }
            return {
                table: from_parquet(self._files.read(name), name) for table, name in names.items()
            }
        except (LedgerError, ValueError, KeyError) as error:
            _log.warning(
                "snapshot cannot be used", extra={"snapshot": entry.name, "cause": str(error)}
            )
            return None

    def _small_entries(
        self, table: str, commit: Commit, blocks: Sequence[Block], after: int = 0
    ) -> list[LedgerEntry]:
        """Committed entries that are not in a block; blocks hold the first batches without a hole."""
        done = max(after, blocks[-1].last if blocks else 0)
        names = self._files.names(table)
        return [entry for entry in committed_entries(names, commit) if entry.batch > done]

    def _read_block(self, table: str, block: Block, first: int, last: int) -> list[pl.DataFrame]:
        wanted = pl.col("batch").is_between(first, last)
        return [self._read_file(name).filter(wanted) for name in block.files(table)]

    def _replay_block(self, block: Block, first: int, last: int) -> Iterator[Tables]:
        batches: dict[int, Tables] = {}
        for table in TABLES:
            for part in self._read_block(table, block, first, last):
                for frame in part.partition_by("batch", maintain_order=True):
                    tables = batches.setdefault(frame["batch"][0], {})
                    rows = frame.drop("batch")
                    both = [tables[table], rows] if table in tables else [rows]
                    tables[table] = pl.concat(both, how="diagonal_relaxed")
        for batch in sorted(batches):
            yield batches[batch]

    def _read_file(self, name: str) -> pl.DataFrame:
        return from_parquet(self._files.read(name), name)

    def _consistently(self, read: Callable[[Sequence[Block]], Result]) -> Result:
        """Read while files may be merged: again if a block appeared meanwhile, for then small files went."""
        blocks = self._markers.blocks()
        for _ in range(_READ_ATTEMPTS):
            failure: LedgerError | None = None
            try:
                result = read(blocks)
            except LedgerError as error:
                failure = error
            before, blocks = blocks, self._markers.blocks()
            if before == blocks:
                if failure is not None:
                    raise failure
                return result
        message = (
            f"The ledger changed during each of {_READ_ATTEMPTS} attempts to read it: try again."
        )
        raise LedgerError(message)

    def _forget_snapshots(self, before: LedgerEntry) -> None:
        names = self._files.names(_SNAPSHOTS)
        entries = sorted(
            {one for name in names if (one := LedgerEntry.parse(name)) and one <= before}
        )
        forgotten = {entry.name for entry in entries[:-_SNAPSHOTS_KEPT]}
        for name in names:
            if name.split(".", 1)[0] in forgotten:
                self._files.remove(f"{_SNAPSHOTS}/{name}")
