import polars as pl
import pytest

from offsets.offset_range import TopicPartition
from offsets.store import Commit, EpochStart
from streaming.audit import audit_ledger
from streaming.errors import LedgerError
from streaming.ledger import Ledger
from streaming.ledger_entry import (
    LedgerEntry,
    committed_entries,
    epoch_in_force,
    uncommitted_entries,
)
from streaming.ledger_files import LocalFiles
from streaming.spark_batch import ACCOUNT_SCHEMA, GENERATION_SCHEMA

FIRST = TopicPartition("access-log", 0)


def a_commit(batch, until=0, epochs=((5, 1),)):
    starts = tuple(EpochStart(epoch, first) for epoch, first in epochs)
    return Commit(batch, starts[-1].epoch, {FIRST: until}, {}, starts, 0.0)


def an_account(from_offset, until_offset, lines=None, **fields):
    lines = until_offset - from_offset if lines is None else lines
    row = {
        **dict.fromkeys(ACCOUNT_SCHEMA, 0),
        "topic": "access-log",
        "from_offset": from_offset,
        "until_offset": until_offset,
        "records": until_offset - from_offset,
        "lines": lines,
        "parsed": lines,
    }
    return pl.DataFrame([{**row, **fields}], schema=ACCOUNT_SCHEMA)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(LocalFiles(tmp_path))


def test_entry_names_sort_by_batch_and_read_back():
    names = [LedgerEntry(batch, 7).name for batch in (2, 10, 1)]

    assert sorted(names) == [LedgerEntry(batch, 7).name for batch in (1, 2, 10)]
    assert LedgerEntry.parse(f"{names[0]}.parquet") == LedgerEntry(2, 7)
    assert LedgerEntry.parse("notes.txt") is None


def test_epoch_in_force_is_the_one_that_committed_the_batch():
    commit = a_commit(9, epochs=((5, 1), (8, 4)))

    assert [epoch_in_force(batch, commit) for batch in (1, 3, 4, 9, 10)] == [5, 5, 8, 8, None]


def test_entry_of_a_fenced_driver_does_not_count():
    names = [
        LedgerEntry(3, 5).name,
        LedgerEntry(4, 5).name,
        LedgerEntry(4, 8).name,
        LedgerEntry(5, 8).name,
    ]
    commit = a_commit(4, epochs=((5, 1), (8, 4)))

    assert committed_entries(names, commit) == [LedgerEntry(3, 5), LedgerEntry(4, 8)]
    assert uncommitted_entries(names, commit) == [LedgerEntry(4, 5), LedgerEntry(5, 8)]


def test_unfinished_batch_is_removed_and_its_rerun_replaces_it(ledger):
    ledger.write(LedgerEntry(1, 5), {"account": an_account(0, 10)})
    ledger.write(LedgerEntry(2, 5), {"account": an_account(10, 99)})

    assert ledger.remove_uncommitted(a_commit(1)) == 1
    ledger.write(LedgerEntry(2, 5), {"account": an_account(10, 12)})
    ledger.write(LedgerEntry(2, 5), {"account": an_account(10, 13)})

    assert ledger.read_all("account", a_commit(2))["until_offset"].to_list() == [10, 13]


def test_snapshot_without_its_manifest_is_no_snapshot(ledger, tmp_path):
    for batch in (1, 2):
        ledger.write_snapshot(LedgerEntry(batch, 5), {"meta": pl.DataFrame({"batch": [batch]})})
    (tmp_path / "snapshots" / f"{LedgerEntry(2, 5).name}.manifest.json").unlink()

    entry, tables = ledger.latest_snapshot(a_commit(9))

    assert entry == LedgerEntry(1, 5)
    assert tables["meta"]["batch"].to_list() == [1]


def test_damaged_snapshot_falls_back_to_the_one_before(ledger, tmp_path):
    for batch in (1, 2):
        ledger.write_snapshot(LedgerEntry(batch, 5), {"meta": pl.DataFrame({"batch": [batch]})})
    (tmp_path / "snapshots" / f"{LedgerEntry(2, 5).name}.meta.parquet").write_bytes(b"torn")

    assert ledger.latest_snapshot(a_commit(9))[0] == LedgerEntry(1, 5)


def test_snapshot_ahead_of_the_commit_is_not_used(ledger):
    ledger.write_snapshot(LedgerEntry(7, 5), {"meta": pl.DataFrame({"batch": [7]})})

    assert ledger.latest_snapshot(a_commit(6)) is None


def test_snapshot_of_another_version_is_not_read(ledger, tmp_path):
    ledger.write_snapshot(LedgerEntry(1, 5), {"meta": pl.DataFrame({"batch": [1]})})
    manifest = tmp_path / "snapshots" / f"{LedgerEntry(1, 5).name}.manifest.json"
    manifest.write_text('{"v": 1, "tables": ["meta"]}')

    assert ledger.latest_snapshot(a_commit(9)) is None


def test_only_the_last_snapshots_are_kept(ledger, tmp_path):
    for batch in range(1, 6):
        ledger.write_snapshot(LedgerEntry(batch, 5), {"meta": pl.DataFrame({"batch": [batch]})})

    assert len(list((tmp_path / "snapshots").glob("*.manifest.json"))) == 2


def test_damaged_entry_is_named(ledger, tmp_path):
    ledger.write(LedgerEntry(1, 5), {"account": an_account(0, 10)})
    path = tmp_path / "account" / f"{LedgerEntry(1, 5).name}.parquet"
    path.write_bytes(path.read_bytes()[:-9])

    with pytest.raises(LedgerError, match=r"account/b000000000001.* is damaged"):
        ledger.read_all("account", a_commit(1))


def test_audit_of_ranges_that_tile_is_complete(ledger):
    ledger.write(LedgerEntry(1, 5), {"account": an_account(0, 10)})
    ledger.write(LedgerEntry(2, 5), {"account": an_account(10, 15)})

    audit = audit_ledger(ledger, a_commit(2, until=15))

    assert audit.ok
    assert audit.totals["lines"] == 15


@pytest.mark.parametrize(
    ("second", "until", "said"),
    [
        pytest.param((12, 15), 15, "gap in access-log[0]", id="gap"),
        pytest.param((8, 15), 15, "overlap in access-log[0]", id="overlap"),
        pytest.param((10, 15), 20, "committed until 20 but read until 15", id="pointer ahead"),
    ],
)
def test_audit_names_what_does_not_tile(ledger, second, until, said):
    ledger.write(LedgerEntry(1, 5), {"account": an_account(0, 10)})
    ledger.write(LedgerEntry(2, 5), {"account": an_account(*second)})

    audit = audit_ledger(ledger, a_commit(2, until=until))

    assert not audit.ok
    assert said in " ".join(audit.problems)


def test_audit_misses_a_batch_that_is_gone_from_the_ledger(ledger):
    ledger.write(LedgerEntry(1, 5), {"account": an_account(0, 10)})

    assert (
        "batch 2 is committed but not in the ledger"
        in audit_ledger(ledger, a_commit(2, until=10)).problems
    )


def test_audit_of_an_emptied_ledger_is_not_ok(ledger):
    assert not audit_ledger(ledger, a_commit(3)).ok
    assert audit_ledger(ledger, Commit.nothing_yet()).ok


def test_lost_range_that_was_accepted_tiles_but_is_not_ok(ledger):
    lost = pl.DataFrame(
        [
            {
                "topic": "access-log",
                "partition": 0,
                "from_offset": 10,
                "until_offset": 20,
                "reason": "retention",
            }
        ]
    )
    ledger.write(LedgerEntry(1, 5), {"account": an_account(0, 10)})
    ledger.write(LedgerEntry(2, 5), {"account": an_account(20, 25), "lost": lost})

    audit = audit_ledger(ledger, a_commit(2, until=25))

    assert audit.problems == ()
    assert not audit.ok
    assert audit.lost_ranges[0].until_offset == 20


def test_audit_counts_gaps_of_a_file(ledger):
    row = dict.fromkeys(GENERATION_SCHEMA, 0) | {
        "generation": "g",
        "topic": "t",
        "service": "s",
        "host": "h",
        "path": "/a",
    }
    generations = pl.DataFrame(
        [row | {"end_offset": 50, "gap_bytes": 5, "bytes": 45}], schema=GENERATION_SCHEMA
    )
    tables = {"account": an_account(0, 10, gap_bytes=5), "generations": generations}
    ledger.write(LedgerEntry(1, 5), tables)

    audit = audit_ledger(ledger, a_commit(1, until=10))

    assert not audit.ok
    assert (audit.generations[0].bytes, audit.generations[0].gap_bytes) == (45, 5)
