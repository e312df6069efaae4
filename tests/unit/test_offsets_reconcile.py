import pytest

from offsets.offset_range import LostRange, OffsetRange, TopicPartition, offsets_after_batch
from offsets.reconcile import (
    DELETED_BY_RETENTION,
    TOPIC_DELETED,
    TOPIC_RECREATED,
    TOPIC_TRUNCATED,
    Available,
    Found,
    is_doubtful,
    reconcile,
    still_readable,
)

FIRST = TopicPartition("access-log", 0)
SECOND = TopicPartition("access-log", 1)
OTHER = TopicPartition("other-log", 0)
IDS = {"access-log": "id-1"}


def found(available, **ids):
    return Found({**IDS, **ids}, available)


def lost_nothing_known(partition, position, reason, continue_at):
    return (LostRange(OffsetRange(partition, position, position), reason, continue_at),)


def test_stored_offsets_come_first():
    start = reconcile({FIRST: 5}, IDS, found({FIRST: Available(0, 9)}))

    assert (start.offsets, start.lost) == ({FIRST: 5}, ())


def test_partition_added_while_running_starts_at_its_first_record():
    start = reconcile({FIRST: 5}, IDS, found({FIRST: Available(0, 9), SECOND: Available(0, 4)}))

    assert (start.offsets, start.lost) == ({FIRST: 5, SECOND: 0}, ())


def test_added_partition_that_lost_its_first_records_before_it_was_seen_is_a_loss():
    has = {FIRST: Available(0, 9), SECOND: Available(3, 4)}
    start = reconcile({FIRST: 5}, IDS, found(has))

    assert start.lost == (LostRange(OffsetRange(SECOND, 0, 3), DELETED_BY_RETENTION, 3),)
    assert reconcile({FIRST: 5}, IDS, found(has), added_start_at_zero=False).lost == ()


def test_new_topic_starts_at_whatever_is_its_earliest_record():
    has = {FIRST: Available(0, 9), OTHER: Available(30, 40)}
    start = reconcile({FIRST: 5}, IDS, Found({**IDS, "other-log": "id-2"}, has))

    assert (start.offsets, start.lost) == ({FIRST: 5, OTHER: 30}, ())


def test_records_deleted_before_they_were_read_are_named():
    start = reconcile({FIRST: 2}, IDS, found({FIRST: Available(5, 9)}))

    assert start.lost == (LostRange(OffsetRange(FIRST, 2, 5), DELETED_BY_RETENTION, 5),)
    assert start.offsets == {FIRST: 5}
    assert not is_doubtful(start.lost)


def test_end_below_what_was_read_is_a_truncation_to_be_looked_at_again():
    start = reconcile({FIRST: 10}, IDS, found({FIRST: Available(1, 5)}))

    assert start.lost == lost_nothing_known(FIRST, 10, TOPIC_TRUNCATED, 1)
    assert start.offsets == {FIRST: 1}
    assert is_doubtful(start.lost)


def test_vanished_partition_is_lost_and_forgotten():
    start = reconcile({FIRST: 1, SECOND: 7}, IDS, found({FIRST: Available(0, 5)}))

    assert start.lost == lost_nothing_known(SECOND, 7, TOPIC_DELETED, None)
    assert start.offsets == {FIRST: 1}


def test_topic_with_another_identity_is_read_from_its_beginning_and_its_past_is_lost():
    has = Found({"access-log": "id-2"}, {FIRST: Available(4, 50), SECOND: Available(6, 60)})
    start = reconcile({FIRST: 10}, IDS, has)

    assert start.lost == lost_nothing_known(FIRST, 10, TOPIC_RECREATED, 4)
    assert start.offsets == {FIRST: 4, SECOND: 6}


@pytest.mark.parametrize(
    ("has", "ranges", "lost"),
    [
        pytest.param(Available(0, 20), ((2, 10),), (), id="all there"),
        pytest.param(
            Available(5, 20), ((5, 10),), ((2, 5, DELETED_BY_RETENTION, 5),), id="start deleted"
        ),
        pytest.param(Available(15, 20), (), ((2, 10, DELETED_BY_RETENTION, 10),), id="all deleted"),
        pytest.param(Available(1, 7), (), ((2, 10, TOPIC_TRUNCATED, 1),), id="end gone"),
        pytest.param(None, (), ((2, 10, TOPIC_DELETED, None),), id="partition gone"),
    ],
)
def test_m34_fixed_ranges_stay_as_they_are_as_far_as_kafka_has_them(has, ranges, lost):
    added = {SECOND: Available(0, 100), **({FIRST: has} if has else {})}

    left = still_readable([OffsetRange(FIRST, 2, 10)], IDS, found(added))

    assert left.ranges == tuple(OffsetRange(FIRST, start, until) for start, until in ranges)
    assert left.lost == tuple(
        LostRange(OffsetRange(FIRST, start, until), reason, continue_at)
        for start, until, reason, continue_at in lost
    )


def test_fixed_ranges_of_a_recreated_topic_are_lost_though_its_offsets_exist_again():
    has = Found({"access-log": "id-2"}, {FIRST: Available(0, 50)})

    left = still_readable([OffsetRange(FIRST, 2, 10)], IDS, has)

    assert left.ranges == ()
    assert left.lost == (LostRange(OffsetRange(FIRST, 2, 10), TOPIC_RECREATED, 0),)


def test_offsets_after_a_batch_follow_losses_then_ranges():
    lost = (
        LostRange(OffsetRange(FIRST, 2, 5), DELETED_BY_RETENTION, 5),
        LostRange(OffsetRange(SECOND, 7, 7), TOPIC_DELETED, None),
        LostRange(OffsetRange(OTHER, 9, 9), TOPIC_RECREATED, 0),
    )
    start = {FIRST: 2, SECOND: 7, OTHER: 9}

    assert offsets_after_batch(start, [OffsetRange(FIRST, 5, 8)], lost) == {FIRST: 8, OTHER: 0}


@pytest.mark.parametrize("text", ["access-log", "access-log:", ":0", "access-log:-1", "a b:0"])
def test_text_that_names_no_partition_is_refused(text):
    with pytest.raises(ValueError, match="write topic:number"):
        TopicPartition.parse(text)


def test_partition_reads_back_from_its_text():
    assert TopicPartition.parse(" access-log:12 ") == TopicPartition("access-log", 12)
