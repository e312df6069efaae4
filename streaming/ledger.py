"""The ledger: the partial tables of every batch, as Parquet, and snapshots of the state they add up to.

`<table>/<entry>.parquet` holds a batch's part of a table. Entries beyond the committed batch do not count. A
snapshot lets a restart read a few batches instead of all of them; it is written after its batch was committed
and complete once its manifest is there.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Mapping

import polars as pl

from offsets.store import Commit
from streaming.errors import LedgerError
from streaming.ledger_entry import LedgerEntry, committed_entries, uncommitted_entries
from streaming.ledger_files import LedgerFiles

FORMAT_VERSION = 1
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
)
_SNAPSHOTS = "snapshots"
_MANIFEST = "manifest.json"
_SNAPSHOTS_KEPT = 2
_log = logging.getLogger("stream")

Tables = dict[str, pl.DataFrame]


class Ledger:
    """Reads and writes entries; knows nothing about what is in the tables."""

    def __init__(self, files: LedgerFiles) -> None:
        self._files = files

    def write(self, entry: LedgerEntry, tables: Mapping[str, pl.DataFrame]) -> None:
        """Store a batch's tables, replacing what an unfinished attempt left."""
        for table, frame in tables.items():
            if not frame.is_empty():
                self._files.write(f"{table}/{entry.name}.parquet", _to_parquet(frame))

    def read(self, table: str, entry: LedgerEntry) -> pl.DataFrame:
        """One batch's part of a table."""
        name = f"{entry.name}.parquet"
        return _from_parquet(self._files.read(f"{table}/{name}"), f"{table}/{name}")

    def entries(self, table: str, commit: Commit) -> list[LedgerEntry]:
        """The committed entries of a table, in order."""
        return committed_entries(self._files.names(table), commit)

    def read_all(self, table: str, commit: Commit) -> pl.DataFrame | None:
        """A table over all committed batches, with their numbers in `batch`; None when it is empty."""
        frames = [
            self.read(table, entry).with_columns(pl.lit(entry.batch, pl.Int64).alias("batch"))
            for entry in self.entries(table, commit)
        ]
        return pl.concat(frames, how="diagonal_relaxed") if frames else None

    def is_empty(self) -> bool:
        """Whether no batch was ever written."""
        return not self._files.names("account")

    def remove_uncommitted(self, commit: Commit) -> int:
        """Delete what unfinished batches and fenced drivers left; how many files that were."""
        removed = 0
        for table in TABLES:
            for entry in uncommitted_entries(self._files.names(table), commit):
                self._files.remove(f"{table}/{entry.name}.parquet")
                removed += 1
        return removed

    def write_snapshot(self, entry: LedgerEntry, tables: Mapping[str, pl.DataFrame]) -> None:
        """Store the state after a committed batch and forget old snapshots."""
        for table, frame in tables.items():
            self._files.write(f"{_SNAPSHOTS}/{entry.name}.{table}.parquet", _to_parquet(frame))
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
                table: _from_parquet(self._files.read(name), name) for table, name in names.items()
            }
        except (LedgerError, ValueError, KeyError) as error:
            _log.warning(
                "snapshot cannot be used", extra={"snapshot": entry.name, "cause": str(error)}
            )
            return None

    def _forget_snapshots(self, before: LedgerEntry) -> None:
        names = self._files.names(_SNAPSHOTS)
        entries = sorted(
            {one for name in names if (one := LedgerEntry.parse(name)) and one <= before}
        )
        forgotten = {entry.name for entry in entries[:-_SNAPSHOTS_KEPT]}
        for name in names:
            if name.split(".", 1)[0] in forgotten:
                self._files.remove(f"{_SNAPSHOTS}/{name}")


def _to_parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False)
    return buffer.getvalue()


def _from_parquet(data: bytes, name: str) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(data))
    except pl.exceptions.PolarsError as error:
        message = f"Ledger file {name} is damaged ({error}): restore it from a copy."
        raise LedgerError(message) from error
