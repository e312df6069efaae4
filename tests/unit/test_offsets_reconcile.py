from offsets.offset_range import OffsetRange, TopicPartition
from offsets.reconcile import Available, reconcile, recreated_topics

FIRST = TopicPartition("access-log", 0)
SECOND = TopicPartition("access-log", 1)


def test_new_job_starts_at_the_earliest_record():
    assert reconcile({}, {FIRST: Available(3, 9)}, "earliest").offsets == {FIRST: 3}


def test_new_job_starts_at_the_end_when_asked_to():
    assert reconcile({}, {FIRST: Available(3, 9)}, "latest").offsets == {FIRST: 9}


def test_partition_added_while_running_starts_at_its_earliest_record_even_for_latest():
    start = reconcile({FIRST: 5}, {FIRST: Available(0, 9), SECOND: Available(0, 4)}, "latest")

    assert start.offsets == {FIRST: 5, SECOND: 0}


def test_records_deleted_before_they_were_read_are_named():
    start = reconcile({FIRST: 2}, {FIRST: Available(5, 9)}, "earliest")

    assert start.lost == (OffsetRange(FIRST, 2, 5),)
    assert start.offsets == {FIRST: 5}


def test_end_below_what_was_read_is_impossible_to_continue():
    start = reconcile({FIRST: 10}, {FIRST: Available(0, 5)}, "earliest")

    assert start.impossible == ("access-log[0] was read until offset 10 but Kafka ends at 5",)


def test_vanished_partition_is_impossible_to_continue():
    assert (
        len(reconcile({FIRST: 1, SECOND: 1}, {FIRST: Available(0, 5)}, "earliest").impossible) == 1
    )


def test_topic_with_another_identity_is_recreated():
    assert recreated_topics({"a": "1", "b": "2"}, {"a": "9", "b": "2"}) == ["a"]
