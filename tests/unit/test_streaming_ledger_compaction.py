"""Old batches are merged into blocks; no reader ever sees a batch twice or not at all."""

import itertools
import os
from collections import Counter

import polars as pl
import pytest

from offsets.offset_range import TopicPartition
from offsets.store import Commit, EpochStart
from streaming import ledger_compaction
from streaming.audit import audit_ledger
from streaming.errors import LedgerError
from streaming.ledger import Ledger
from streaming.ledger_block import Block, blocks_that_count
from streaming.ledger_compaction import KEPT_BATCHES
from streaming.ledger_entry import LedgerEntry
from streaming.ledger_files import LocalFiles, RemoteFiles
from streaming.spark_batch import ACCOUNT_SCHEMA

EVERY = 4
FOREVER = 3600.0


class Killed(Exception):
    """The driver was killed before this operation."""


class CrashingFiles(LocalFiles):
    """Ends the driver before its n-th change of the ledger."""

    def __init__(self, root, changes_left):
        super().__init__(root)
        self.changes_left = changes_left

    def _change(self):
        if self.changes_left == 0:
            raise Killed
        self.changes_left -= 1

    def write(self, name, data):
        self._change()
        super().write(name, data)

    def remove(self, name):
        self._change()
        super().remove(name)


def a_commit(batch, epochs=((5, 1),)):
    starts = tuple(EpochStart(*one) for one in epochs)
    partition = TopicPartition("access-log", 0)
    return Commit(batch, starts[-1].epoch, {partition: batch * 10}, {}, starts, 0.0)


def write_batches(ledger, first, last, epoch=5):
    for batch in range(first, last + 1):
        row = {
            **dict.fromkeys(ACCOUNT_SCHEMA, 0),
            "topic": "access-log",
            "from_offset": (batch - 1) * 10,
            "until_offset": batch * 10,
            "records": 10,
            "lines": 10,
            "parsed": 10,
        }
        tables = {"account": pl.DataFrame([row], schema=ACCOUNT_SCHEMA)}
        if batch % 2:
            tables["load"] = pl.DataFrame({"window": [batch, batch], "requests": [1, batch]})
        ledger.write(LedgerEntry(batch, epoch), tables)


def compact(ledger, commit, every=EVERY):
    while ledger.compact(commit, every, FOREVER):
        pass


def batches_seen(ledger, commit):
    """How often each reader sees each batch."""
    replayed = [tables["account"]["until_offset"][0] // 10 for tables in ledger.replay(commit, 0)]
    entries = [entry.batch for entry in ledger.entries("account", commit)]
    return [ledger.read_all("account", commit)["batch"].to_list(), replayed, entries]


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    monkeypatch.setattr(ledger_compaction, "KEPT_BATCHES", 2)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(LocalFiles(tmp_path))


def test_a_restart_finds_its_batches_uncompacted():
    assert KEPT_BATCHES >= 100


def test_compacted_ledger_reads_as_before(ledger, tmp_path):
    write_batches(ledger, 1, 11)
    commit = a_commit(11)
    before = {table: ledger.read_all(table, commit) for table in ("account", "load")}
    verdict = audit_ledger(ledger, commit)
    one_by_one = list(ledger.replay(commit, 3))
    seventh = ledger.read("load", LedgerEntry(7, 5))

    compact(ledger, commit)
    compact(ledger, commit)

    for table, frame in before.items():
        assert ledger.read_all(table, commit).equals(frame)
    assert audit_ledger(ledger, commit) == verdict
    assert verdict.ok
    assert ledger.read("load", LedgerEntry(7, 5)).equals(seventh)
    for then, now in zip(one_by_one, ledger.replay(commit, 3), strict=True):
        assert {name: frame.to_dicts() for name, frame in then.items()} == {
            name: frame.to_dicts() for name, frame in now.items()
        }
    assert len(list((tmp_path / "account").iterdir())) == 2 + 3


def test_kill_before_every_change_loses_and_doubles_nothing(tmp_path):
    commit, killed = a_commit(9), 0
    for changes in itertools.count():
        folder = tmp_path / str(changes)
        write_batches(Ledger(LocalFiles(folder)), 1, 9)
        try:
            compact(Ledger(CrashingFiles(folder, changes)), commit)
        except Killed:
            killed += 1
            finished = False
        else:
            finished = True
        after = Ledger(LocalFiles(folder))
        assert batches_seen(after, commit) == [list(range(1, 10))] * 3
        assert audit_ledger(after, commit).ok

        next_commit = a_commit(9, epochs=((5, 1),))
        after.remove_uncommitted(next_commit)
        assert batches_seen(after, commit) == [list(range(1, 10))] * 3
        compact(after, next_commit)
        assert batches_seen(Ledger(LocalFiles(folder)), commit) == [list(range(1, 10))] * 3
        if finished:
            break
    assert killed >= 3 + EVERY


def test_reader_beside_a_compaction_sees_every_batch_once_at_every_step(ledger, tmp_path):
    write_batches(ledger, 1, 11)
    commit, reader, steps = a_commit(11), Ledger(LocalFiles(tmp_path)), 0
    ticks = itertools.count()

    while ledger.compact(commit, EVERY, 1.5, monotonic=lambda: next(ticks)):
        steps += 1
        assert batches_seen(reader, commit) == [list(range(1, 12))] * 3

    assert steps > EVERY


class SlowReader(LocalFiles):
    """Lists files, then lets a compaction finish before it goes on."""

    def __init__(self, root, meanwhile):
        super().__init__(root)
        self.meanwhile = meanwhile

    def names(self, folder):
        found = super().names(folder)
        if folder == "account" and self.meanwhile:
            self.meanwhile.pop()()
        return found


def test_reader_that_was_overtaken_reads_again(ledger, tmp_path):
    write_batches(ledger, 1, 11)
    commit = a_commit(11)
    reader = Ledger(SlowReader(tmp_path, [lambda: compact(ledger, commit)]))

    assert reader.read_all("account", commit)["batch"].to_list() == list(range(1, 12))


def test_second_driver_that_was_overtaken_writes_no_block(ledger, tmp_path):
    """Paused between looking for blocks and listing the files, it would merge what is left of them."""
    write_batches(ledger, 1, 11)
    fenced = Ledger(SlowReader(tmp_path, [lambda: compact(ledger, a_commit(11))]))

    compact(fenced, a_commit(11, epochs=((4, 1),)))

    assert len(list((tmp_path / "blocks").iterdir())) == 1
    assert batches_seen(Ledger(LocalFiles(tmp_path)), a_commit(11)) == [list(range(1, 12))] * 3


def test_entry_of_a_fenced_driver_never_gets_into_a_block(ledger):
    write_batches(ledger, 1, 11, epoch=5)
    write_batches(ledger, 3, 3, epoch=4)

    compact(ledger, a_commit(11))

    counted = Counter(ledger.read_all("account", a_commit(11))["batch"].to_list())
    assert set(counted.values()) == {1}


def test_slice_is_bounded_and_batches_in_between_are_not_touched(ledger):
    write_batches(ledger, 1, 11)
    ticks = itertools.count()

    assert ledger.compact(a_commit(11), EVERY, 3.0, monotonic=lambda: next(ticks))
    assert next(ticks) <= 6


def test_nothing_is_due_before_the_kept_batches_are_there(ledger, tmp_path):
    write_batches(ledger, 1, 5)

    assert not ledger.compact(a_commit(5), EVERY, FOREVER)
    assert not (tmp_path / "blocks").exists()


def test_large_tables_are_cut_into_parts(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_compaction, "ROWS_IN_PART", 2)
    write_batches(ledger, 1, 7)

    compact(ledger, a_commit(7))

    assert len(list((tmp_path / "account").glob("compact-*"))) == 2
    assert batches_seen(ledger, a_commit(7)) == [list(range(1, 8))] * 3


def test_remote_ledger_is_compacted_alike(tmp_path):
    ledger = Ledger(RemoteFiles(f"file://{tmp_path}"))
    write_batches(ledger, 1, 11)

    compact(ledger, a_commit(11))

    assert len(list((tmp_path / "blocks").iterdir())) == 1
    assert batches_seen(ledger, a_commit(11)) == [list(range(1, 12))] * 3


def test_torn_marker_is_no_marker(ledger, tmp_path):
    write_batches(ledger, 1, 7)
    (tmp_path / "blocks").mkdir()
    block = Block(1, 4, 5)
    (tmp_path / "blocks" / f"{block.name}.json").write_bytes(b'{"v": 1, "par')

    assert batches_seen(ledger, a_commit(7)) == [list(range(1, 8))] * 3


def test_ledger_ahead_of_zookeeper_is_refused_with_the_numbers(ledger):
    write_batches(ledger, 1, 7)
    compact(ledger, a_commit(7))

    with pytest.raises(LedgerError, match="up to 4, but only 3 are committed"):
        ledger.remove_uncommitted(a_commit(3))


def test_failed_compaction_is_tried_again_later_and_stops_nothing(ledger, tmp_path):
    write_batches(ledger, 1, 60)
    damaged = tmp_path / "account" / f"{LedgerEntry(2, 5).name}.parquet"
    whole = damaged.read_bytes()
    damaged.write_bytes(b"torn")

    assert not ledger.compact(a_commit(7), EVERY, FOREVER)
    damaged.write_bytes(whole)
    assert not ledger.compact(a_commit(8), EVERY, FOREVER)
    compact(ledger, a_commit(60))

    assert (tmp_path / "blocks").exists()


def test_blocks_of_two_drivers_for_the_same_batches_count_once():
    narrow, wide, next_one = Block(1, 4, 9), Block(1, 8, 5), Block(9, 12, 5)

    assert blocks_that_count([next_one, narrow, wide]) == (wide, next_one)
    assert blocks_that_count([Block(1, 4, 5), Block(1, 4, 7)]) == (Block(1, 4, 7),)


def test_unmarked_files_of_an_older_driver_go_once_a_block_replaced_them(ledger, tmp_path):
    write_batches(ledger, 1, 7)
    orphan = tmp_path / Block(1, 4, 3).part_name("account", 0)
    orphan.write_bytes(b"left by a kill")
    compact(ledger, a_commit(7))

    ledger.remove_uncommitted(a_commit(7))

    assert not orphan.exists()
    assert batches_seen(ledger, a_commit(7)) == [list(range(1, 8))] * 3
