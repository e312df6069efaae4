import pytest
from pydantic import ValidationError

from ingest.settings import KafkaSettings
from offsets.errors import DataLoss, NothingToRead, StartRefused
from offsets.offset_range import LostRange, OffsetRange, TopicPartition
from offsets.reconcile import DELETED_BY_RETENTION, TOPIC_DELETED, Available, Found
from offsets.store import Commit, Pending
from streaming.errors import TopicMissing
from streaming.plan.subscription import (
    FirstStart,
    Subscription,
    given_offsets,
    loss_text,
    topic_ids_after,
    unread,
)
from streaming.settings import StreamSettings, subscription, timestamp_ms
from streaming.subscription import Continuation, first_offsets, look, look_for_all

FIRST = TopicPartition("access-log", 0)
SECOND = TopicPartition("access-log", 1)
OTHER = TopicPartition("other-log", 0)


class FakeBroker:
    """A broker made of tables; `looks` are consumed one by one, the last one stays."""

    servers = "kafka:9092"

    def __init__(self, *looks, ids=None, at_time=None):
        self.looks = list(looks)
        self.ids = ids or {}
        self.at_time = at_time or {}
        self.asked = 0

    def topic_names(self):
        return sorted({one.topic for one in self.looks[0]})

    def topics(self, names):
        self.asked += 1
        now = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        self.now = now
        return {
            name: (
                self.ids.get(name, f"id of {name}"),
                sorted(one for one in now if one.topic == name),
            )
            for name in names
            if any(one.topic == name for one in now)
        }

    def available(self, partitions):
        return {one: self.now[one] for one in partitions}

    def offsets_at(self, partitions, timestamp):
        return dict.fromkeys(partitions, self.at_time[timestamp])


def a_commit(offsets, batch=1, **ids):
    topic_ids = {one.topic: f"id of {one.topic}" for one in offsets}
    return Commit(batch, 1, offsets, {**topic_ids, **ids}, (), 1.0)


def continuing(broker, skip=False, **wanted):
    subscribed = Subscription(**(wanted or {"topics": ("access-log",)}))
    return Continuation(broker, subscribed, skip, sleep=lambda _: None)


# What is read


def test_default_is_the_topic_of_the_kafka_section():
    assert subscription(KafkaSettings(), StreamSettings()).named_topics == ("access-log",)


def test_pattern_matches_whole_names_and_never_kafkas_own_topics():
    some = subscription(KafkaSettings(), StreamSettings(topic_pattern="(__)?access-.*|x"))

    assert some.covers(TopicPartition("access-eu", 3))
    assert not some.covers(TopicPartition("my-access-eu", 0))
    assert not some.covers(TopicPartition("__access-eu", 0))
    assert not some.covers(TopicPartition("xx", 0))


def test_single_partitions_leave_their_neighbours_alone():
    broker = FakeBroker({FIRST: Available(0, 5), SECOND: Available(0, 7), OTHER: Available(0, 1)})

    seen = look(broker, Subscription(partitions=(SECOND,)))

    assert seen == Found({"access-log": "id of access-log"}, {SECOND: Available(0, 7)})


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"topics": ("access-log", "gone")}, "Topic 'gone' does not exist on kafka:9092"),
        ({"pattern": "gone-.*"}, "A topic that matches 'gone-.*' does not exist"),
        ({"partitions": (FIRST, TopicPartition("access-log", 9))}, r"Partition access-log\[9\]"),
    ],
)
def test_b16_what_was_asked_for_and_does_not_exist_is_named(wanted, named):
    with pytest.raises(TopicMissing, match=named):
        look_for_all(FakeBroker({FIRST: Available(0, 5)}), Subscription(**wanted))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param(
            {"topics": ["a"], "topic_pattern": "b"},
            "topics and topic_pattern say different things",
            id="b16 two ways to name the input",
        ),
        pytest.param(
            {"topic_pattern": "a", "partitions": ["a:0"]}, "set only one of them", id="b16 pattern"
        ),
        pytest.param({"topic_pattern": "("}, "no regular expression", id="b16 broken pattern"),
        pytest.param({"topics": [""]}, "topics", id="b16 empty topic"),
        pytest.param({"partitions": ["access-log"]}, "write topic:number", id="b16 no partition"),
        pytest.param({"start_at": "time"}, "needs start_time", id="b20 time without a time"),
        pytest.param({"start_at": "offsets"}, "needs start_offsets", id="b20 offsets without any"),
        pytest.param(
            {"start_time": "2026-11-18T10:00:00+00:00"},
            'used only with start_at = "time"',
            id="b12 time that would be ignored",
        ),
        pytest.param(
            {"start_offsets": {"access-log:0": 1}},
            'used only with start_at = "offsets"',
            id="b12 offsets that would be ignored",
        ),
        pytest.param(
            {"start_at": "offsets", "start_offsets": {"access-log:0": -1}},
            "greater than or equal to 0",
            id="b16 offset below zero",
        ),
        pytest.param(
            {"start_at": "time", "start_time": "2026-11-18T10:00:00"},
            "no time with an offset from UTC",
            id="time without an offset",
        ),
        pytest.param(
            {"start_at": "time", "start_time": "yesterday"}, "no time with", id="no time at all"
        ),
        pytest.param({"start_at": "none"}, "start_at", id="b16 unknown start"),
    ],
)
def test_configuration_that_cannot_be_meant_is_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        StreamSettings(**settings)


# Where a new job begins


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        (FirstStart("earliest"), {FIRST: 3, SECOND: 0}),
        (FirstStart("latest"), {FIRST: 9, SECOND: 4}),
        (FirstStart("time", 1_000), {FIRST: 2, SECOND: 2}),
        (FirstStart("offsets", offsets={FIRST: 5, SECOND: 4}), {FIRST: 5, SECOND: 4}),
    ],
)
def test_new_job_begins_where_it_was_told_to(start, offsets):
    has = {FIRST: Available(3, 9), SECOND: Available(0, 4)}
    broker = FakeBroker(has, at_time={1_000: 2})

    assert first_offsets(broker, Found({}, has), start) == offsets


@pytest.mark.parametrize("given", [{FIRST: 1}, {FIRST: 1, SECOND: 1, OTHER: 1}, {}])
def test_f7_f10_start_offsets_must_name_every_partition_and_no_other(given):
    has = {FIRST: Available(0, 5), SECOND: Available(0, 5)}

    with pytest.raises(StartRefused, match=r"but the partitions to read are access-log\[0\], acc"):
        given_offsets(given, has)


@pytest.mark.parametrize("offset", [2, 10])
def test_b22_start_offset_outside_of_the_partition_is_refused(offset):
    with pytest.raises(StartRefused, match=rf"\[0\] at {offset} \(it holds 3 to 9\)"):
        given_offsets({FIRST: offset}, {FIRST: Available(3, 9)})


def test_time_is_milliseconds_since_1970_wherever_it_was_written():
    assert timestamp_ms("1970-01-01T01:00:01+01:00") == timestamp_ms("1970-01-01T00:00:01Z") == 1000


# Where a running job continues


def test_end_that_goes_back_for_one_look_is_no_damage():
    broker = FakeBroker({FIRST: Available(0, 5)}, {FIRST: Available(0, 12)})

    _, start = continuing(broker).next_start(a_commit({FIRST: 10}))

    assert (start.offsets, start.lost) == ({FIRST: 10}, ())


def test_end_that_stays_back_stops_the_job():
    broker = FakeBroker({FIRST: Available(0, 5)})

    with pytest.raises(DataLoss, match=r"lost its end: access-log\[0\]@10\.\.10"):
        continuing(broker).next_start(a_commit({FIRST: 10}))
    assert broker.asked == 3


def test_idle_look_asks_only_once():
    broker = FakeBroker({FIRST: Available(0, 10)})
    continuing(broker).next_start(a_commit({FIRST: 10}))

    assert broker.asked == 1


def test_m12_everything_gone_is_waited_for_and_never_becomes_an_empty_map():
    with pytest.raises(NothingToRead, match="waiting until it is created again"):
        continuing(FakeBroker({}), skip=True).next_start(a_commit({FIRST: 10}))
    with pytest.raises(DataLoss, match="deleted"):
        continuing(FakeBroker({})).next_start(a_commit({FIRST: 10}))


def test_one_of_two_topics_gone_is_a_recorded_loss_when_accepted():
    broker = FakeBroker({OTHER: Available(0, 3)})
    job = continuing(broker, skip=True, topics=("access-log", "other-log"))

    seen, start = job.next_start(a_commit({FIRST: 10, OTHER: 1}))

    assert start.offsets == {OTHER: 1}
    assert [(loss.reason, loss.continue_at) for loss in start.lost] == [(TOPIC_DELETED, None)]
    commit = a_commit({FIRST: 10, OTHER: 1})
    assert topic_ids_after(commit, seen, start.lost) == {"other-log": "id of other-log"}


def test_forgotten_topic_does_not_stop_a_job_that_accepts_losses():
    broker = FakeBroker({OTHER: Available(0, 3)})
    job = continuing(broker, skip=True, topics=("access-log", "other-log"))

    assert job.next_start(a_commit({OTHER: 1}))[1].lost == ()


def test_topic_that_is_no_longer_subscribed_rests_and_keeps_its_offsets():
    broker = FakeBroker({FIRST: Available(0, 12), OTHER: Available(0, 3)})
    commit = a_commit({FIRST: 10, OTHER: 1})

    seen, start = continuing(broker).next_start(commit)

    assert (start.offsets, start.lost) == ({FIRST: 10}, ())
    assert topic_ids_after(commit, seen, ())["other-log"] == "id of other-log"


def a_pending(**ids):
    topic_ids = {"access-log": "id of access-log", **ids}
    return Pending(2, 1, (OffsetRange(FIRST, 2, 10),), topic_ids)


def test_m34_started_batch_is_repeated_over_its_own_ranges_though_partitions_were_added():
    broker = FakeBroker({FIRST: Available(0, 30), SECOND: Available(0, 8)})

    seen, pending = continuing(broker).repeated(a_pending())

    assert pending == a_pending()
    assert SECOND in seen.available


def test_m34_started_batch_is_repeated_though_its_topic_is_no_longer_subscribed():
    broker = FakeBroker({OTHER: Available(0, 8)})

    assert continuing(broker, topics=("other-log",)).repeated(a_pending())[1] == a_pending()


def test_started_batch_whose_records_are_gone_stops_the_job_or_shrinks_when_loss_is_accepted():
    broker = FakeBroker({FIRST: Available(5, 30)})

    with pytest.raises(DataLoss, match=r"never read: access-log\[0\]@2\.\.5"):
        continuing(broker).repeated(a_pending())
    _, pending = continuing(broker, skip=True).repeated(a_pending())

    assert pending.ranges == (OffsetRange(FIRST, 5, 10),)
    assert pending.lost == (LostRange(OffsetRange(FIRST, 2, 5), DELETED_BY_RETENTION, 5),)


def test_started_batch_of_a_recreated_topic_is_not_read_from_the_new_one():
    broker = FakeBroker({FIRST: Available(0, 30)}, ids={"access-log": "another"})

    with pytest.raises(DataLoss, match="deleted and created again"):
        continuing(broker).repeated(a_pending())
    _, pending = continuing(broker, skip=True).repeated(a_pending())

    assert pending.ranges == ()
    assert pending.topic_ids == {"access-log": "another"}


def test_loss_text_names_every_cause_with_its_ranges_and_the_remedy():
    text = loss_text(
        [
            LostRange(OffsetRange(FIRST, 2, 5), DELETED_BY_RETENTION, 5),
            LostRange(OffsetRange(OTHER, 9, 9), TOPIC_DELETED, None),
        ]
    )

    assert "never read: access-log[0]@2..5" in text
    assert "deleted: other-log[0]@9..9" in text
    assert 'stream.on_data_loss = "skip"' in text


def test_unread_is_what_lies_between_the_commit_and_the_target():
    target = {FIRST: Available(0, 10), SECOND: Available(4, 4), OTHER: Available(0, 2)}

    assert unread({FIRST: 7}, target) == [
        "access-log[0] until offset 10",
        "other-log[0] until offset 2",
    ]
