"""Small files of old batches → blocks, a little after each batch.

Crash-safe at every step: the block's files, then its marker, then the small files go. A reader that sees no marker
reads the small files, one that sees it reads the block. Two drivers at it at once do no harm: small files disappear
only after a marker was written, so whoever sees no marker *after* reading has read all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import polars as pl

from offsets.store import Commit
from streaming.errors import LedgerError
from streaming.ledger_block import Block, blocks_that_count
from streaming.ledger_entry import LedgerEntry, committed_entries
from streaming.ledger_files import LedgerFiles
from streaming.ledger_tables import from_parquet, to_parquet, with_batch

BLOCKS = "blocks"
KEPT_BATCHES = 100
"""Batches that always stay as they are: a restart reads those after the last snapshot."""
ROWS_IN_PART = 250_000
_PAUSE_AFTER_FAILURE = 50

_log = logging.getLogger("stream")


class BlockMarkers:
    """Reads which blocks count; markers never change, so each is read once."""

    def __init__(self, files: LedgerFiles) -> None:
        self._files = files
        self._known: dict[str, Block | None] = {}

    def blocks(self) -> tuple[Block, ...]:
        """The blocks that count now, in order."""
        names = self._files.names(BLOCKS)
        marked = (self._block(name) for name in names)
        return blocks_that_count(block for block in marked if block is not None)

    def _block(self, name: str) -> Block | None:
        if self._known.get(name) is None:
            self._known[name] = Block.from_marker(name, self._files.read(f"{BLOCKS}/{name}"))
        return self._known[name]


class Compactor:
    """Builds one block at a time, in slices of bounded time."""

    def __init__(self, files: LedgerFiles, markers: BlockMarkers, tables: Sequence[str]) -> None:
        self._files = files
        self._markers = markers
        self._tables = tables
        self._next_batch: int | None = None
        self._not_before = 0
        self._steps: Iterator[None] | None = None

    def work(
        self, commit: Commit, every: int, budget_seconds: float, monotonic: Callable[[], float]
    ) -> bool:
        """Go on for a while if a block is due; whether there is more to do."""
        started = monotonic()
        try:
            if self._steps is None and not self._begin(commit, every):
                return False
            while self._steps is not None and monotonic() - started < budget_seconds:
                self._step()
        except LedgerError as error:
            _log.warning("compaction failed", extra={"cause": str(error)})
            self._steps, self._next_batch = None, None
            self._not_before = commit.batch + _PAUSE_AFTER_FAILURE
        return self._steps is not None

    def _begin(self, commit: Commit, every: int) -> bool:
        if commit.batch < self._not_before:
            return False
        if self._next_batch is None:
            blocks = self._markers.blocks()
            self._next_batch = blocks[-1].last + 1 if blocks else 1
        last = self._next_batch + every - 1
        if commit.batch < last + KEPT_BATCHES:
            return False
        self._steps = self._build(Block(self._next_batch, last, commit.epoch), commit)
        return True

    def _step(self) -> None:
        if self._steps is not None and next(self._steps, self) is self:
            self._steps, self._next_batch = None, None

    def _build(self, block: Block, commit: Commit) -> Iterator[None]:
        for table in self._tables:
            yield from self._merge(block, table, commit)
        if any(one.last >= block.first for one in self._markers.blocks()):
            return
        self._files.write(f"{BLOCKS}/{block.name}.json", block.to_marker())
        yield
        for table in self._tables:
            yield from remove_covered(self._files, table, (block,))
        _log.info("compacted", extra={"first_batch": block.first, "last_batch": block.last})

    def _merge(self, block: Block, table: str, commit: Commit) -> Iterator[None]:
        entries = committed_entries(self._files.names(table), commit)
        frames: list[pl.DataFrame] = []
        for entry in entries:
            if block.covers(entry.batch):
                name = f"{table}/{entry.name}.parquet"
                frames.append(with_batch(from_parquet(self._files.read(name), name), entry.batch))
                yield
            if sum(frame.height for frame in frames) >= ROWS_IN_PART:
                self._write_part(block, table, frames)
                yield
        if frames:
            self._write_part(block, table, frames)
            yield

    def _write_part(self, block: Block, table: str, frames: list[pl.DataFrame]) -> None:
        part = block.parts.get(table, 0)
        merged = pl.concat(frames, how="diagonal_relaxed")
        self._files.write(block.part_name(table, part), to_parquet(merged))
        block.parts[table] = part + 1
        frames.clear()


def remove_covered(files: LedgerFiles, table: str, blocks: Sequence[Block]) -> Iterator[None]:
    """Delete the small files whose batches are in a block, one at a step."""
    for name in files.names(table):
        entry = LedgerEntry.parse(name)
        if entry is not None and any(block.covers(entry.batch) for block in blocks):
            files.remove(f"{table}/{name}")
            yield
