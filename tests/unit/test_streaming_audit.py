import polars as pl
import pytest

from offsets.offset_range import LostRange, OffsetRange, TopicPartition
from offsets.reconcile import DELETED_BY_RETENTION, TOPIC_DELETED, TOPIC_RECREATED
from offsets.store import Commit, EpochStart, Reset
from streaming.audit import audit_ledger
from streaming.ledger import Ledger
from streaming.ledger_entry import LedgerEntry
from streaming.ledger_files import LocalFiles
from streaming.lost_table import lost_table
from streaming.spark_batch import ACCOUNT_SCHEMA

FIRST = TopicPartition("access-log", 0)


@pytest.fixture
def audited(tmp_path):
    """Audit a ledger of (ranges, losses) for each batch that ends at `until`."""

    def audit(batches, until, resets=()):
        ledger = Ledger(LocalFiles(tmp_path))
        for number, (ranges, lost) in enumerate(batches, start=1):
            ledger.write(
                LedgerEntry(number, 5),
                {"account": accounts(ranges), "lost": lost_table(lost)},
            )
        offsets = {} if until is None else {FIRST: until}
        commit = Commit(len(batches), 5, offsets, {}, (EpochStart(5, 1),), 0.0)
        return audit_ledger(ledger, commit, resets)

    return audit


def accounts(ranges):
    rows = [
        {
            **dict.fromkeys(ACCOUNT_SCHEMA, 0),
            "topic": "access-log",
            "from_offset": a,
            "until_offset": b,
        }
        for a, b in ranges
    ]
    return pl.DataFrame(rows, schema=ACCOUNT_SCHEMA)


def loss(start, until, reason, continue_at):
    return LostRange(OffsetRange(FIRST, start, until), reason, continue_at)


def test_reset_backwards_is_an_operators_act_and_no_overlap(audited):
    batches = [([(0, 10)], []), ([(10, 20)], []), ([(5, 20)], [])]
    reset = Reset(2, 1.0, {FIRST: 20}, {FIRST: 5})

    assert audited(batches, 20).problems
    audit = audited(batches, 20, [reset])
    assert audit.problems == ()
    assert [(one.after_batch, one.from_offset, one.to_offset) for one in audit.resets] == [
        (2, 20, 5)
    ]


def test_reset_after_the_last_batch_explains_the_committed_offset(audited):
    batches = [([(0, 10)], [])]

    assert audited(batches, 40).problems
    assert audited(batches, 40, [Reset(1, 1.0, {FIRST: 10}, {FIRST: 40})]).problems == ()


def test_reset_excuses_no_other_gap(audited):
    batches = [([(0, 10)], []), ([(15, 20)], []), ([(5, 20)], [])]

    problems = audited(batches, 20, [Reset(2, 1.0, {FIRST: 20}, {FIRST: 5})]).problems

    assert len(problems) == 1
    assert problems[0].startswith("batch 2: gap in access-log[0]")


def test_two_resets_in_a_row_count_as_the_last(audited):
    resets = [Reset(1, 1.0, {FIRST: 10}, {FIRST: 0}), Reset(1, 2.0, {FIRST: 0}, {FIRST: 7})]

    assert audited([([(0, 10)], []), ([(7, 20)], [])], 20, resets).problems == ()


def test_recreated_topic_goes_on_where_the_loss_says(audited):
    lost = [loss(10, 10, TOPIC_RECREATED, 0)]

    audit = audited([([(0, 10)], []), ([(0, 30)], lost)], 30)

    assert audit.problems == ()
    assert not audit.ok


def test_deleted_topic_is_not_missed_in_the_commit(audited):
    lost = [loss(10, 10, TOPIC_DELETED, None)]

    assert audited([([(0, 10)], []), ([], lost)], None).problems == ()


def test_retention_tiles_with_what_was_read_before_and_after(audited):
    lost = [loss(10, 14, DELETED_BY_RETENTION, 14)]

    assert audited([([(0, 10)], []), ([(14, 30)], lost)], 30).problems == ()
