import pytest

from offsets.classic_nodes import MAX_BYTES_IN_COMMIT, NodeChange, within_a_commit
from offsets.commands import StoredPipeline, offset_rows, plan_reset, reset_rows
from offsets.errors import StartRefused
from offsets.offset_range import OffsetRange, TopicPartition
from offsets.reconcile import Available
from offsets.store import Commit, Pending
from offsets.znode_paths import ZnodePaths
from streaming.offsets_commands import ResetRequest, parse_offsets
from streaming.offsets_report import offsets_document, reset_lines

FIRST = TopicPartition("access-log", 0)
SECOND = TopicPartition("access-log", 1)
OTHER = TopicPartition("other-log", 0)
COMMIT = Commit(3, 7, {FIRST: 10, OTHER: 4}, {"access-log": "a", "other-log": "o"}, (), 1.0)
HAS = {FIRST: Available(2, 20), SECOND: Available(0, 5)}


def test_lag_is_zero_without_records_waiting_and_unknown_where_no_time_was_found():
    available = {FIRST: Available(0, 10), SECOND: Available(0, 5)}

    rows = offset_rows(COMMIT, available, {SECOND: None})

    assert [(row.committed, row.lag, row.lag_seconds) for row in rows] == [
        (10, 0, 0.0),
        (None, 5, None),
    ]


def test_longest_wait_counts_unless_one_is_unknown():
    stored = StoredPipeline(COMMIT, None, None)
    known = offset_rows(COMMIT, HAS, {FIRST: 12.5, SECOND: 3.0})
    unknown = offset_rows(COMMIT, HAS, {FIRST: 12.5, SECOND: None})

    assert offsets_document("job", stored, known)["lag_seconds"] == 12.5
    assert offsets_document("job", stored, unknown)["lag_seconds"] is None


@pytest.mark.parametrize(
    ("targets", "effects"),
    [
        ({FIRST: 2, SECOND: 0}, ["repeats 8 records", "starts here"]),
        ({FIRST: 20, SECOND: 5}, ["skips 10 records", "starts here"]),
        ({FIRST: 10}, ["unchanged", "starts here"]),
        (
            {FIRST: 0, SECOND: 99},
            [
                "repeats 8 records (asked for 0, which Kafka does not have)",
                "starts here (asked for 99, which Kafka does not have)",
            ],
        ),
    ],
)
def test_reset_says_what_it_would_do_and_stays_within_what_kafka_has(targets, effects):
    rows = reset_rows(COMMIT, HAS, targets)

    assert [row.effect for row in rows] == effects
    assert all(
        HAS[row.partition].earliest <= row.target <= HAS[row.partition].latest for row in rows
    )


def test_reset_leaves_what_the_job_does_not_read_alone():
    rows = reset_rows(COMMIT, HAS, {FIRST: 2})
    stored = StoredPipeline(COMMIT, None, None)

    planned = plan_reset(stored, rows, {"access-log": "b"}, lambda one: one.topic == "access-log")

    assert planned.offsets == {FIRST: 2, SECOND: 0, OTHER: 4}
    assert planned.topic_ids == {"access-log": "b", "other-log": "o"}


def test_reset_explains_repeats_skips_and_the_dropped_batch():
    pending = Pending(4, 7, (OffsetRange(FIRST, 10, 12),), {})
    stored = StoredPipeline(COMMIT, pending, None)

    def said(target):
        rows = reset_rows(COMMIT, {FIRST: HAS[FIRST]}, {FIRST: target})
        return "\n".join(reset_lines(plan_reset(stored, rows, {}, lambda _: True)))

    assert "dropped as re-sends" in said(2)
    assert "the audit shows a gap" in said(20)
    assert "Batch 4 was started and not finished: it is dropped" in said(10)


def test_offsets_are_read_from_the_command_line():
    assert parse_offsets("access-log:0=5, access-log:1=7") == {FIRST: 5, SECOND: 7}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (ResetRequest("time"), "--to time and --time belong together"),
        (ResetRequest("latest", time="2026-11-18T10:00:00Z"), "--time belong together"),
        (ResetRequest("offsets"), "--offsets belong together"),
        (ResetRequest("time", time="noon"), "no time with an offset from UTC"),
        (ResetRequest("offsets", offsets="access-log:0"), "write topic:partition=offset"),
        (ResetRequest("offsets", offsets="access-log=5"), "write topic:number"),
    ],
)
def test_reset_with_values_that_do_not_fit_is_refused(request_, said):
    with pytest.raises(StartRefused, match=said):
        request_.first_start()


def test_offsets_for_lag_tools_lie_where_these_look():
    paths = ZnodePaths("/palisade", "job", "/consumers")

    assert paths.classic_offset(SECOND) == "/consumers/job/offsets/access-log/1"


def test_offsets_for_lag_tools_never_make_a_transaction_too_large():
    changes = [NodeChange(f"/consumers/job/offsets/a/{n}", b"1", True) for n in range(10_000)]

    parts = within_a_commit(changes)

    assert [change for part in parts for change in part] == changes
    assert len(parts) > 1
    assert all(sum(len(one.path) for one in part) < MAX_BYTES_IN_COMMIT for part in parts)
    assert within_a_commit([]) == [[]]
