from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from ingest.settings import KafkaSettings
from offsets.offset_range import TopicPartition
from offsets.reconcile import Available
from streaming import broker_offsets
from streaming.broker_offsets import BrokerOffsets
from streaming.errors import KafkaUnavailable

FIRST = TopicPartition("access-log", 0)


class Answer:
    def __init__(self, offset):
        self.offset = offset


class FakeAdmin:
    """Answers every request for offsets with the next of `answers`: an offset or an error code."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests = 0

    def list_offsets(self, request, **_):
        self.requests += 1
        answer = self.answers.pop(0)
        futures = {}
        for partition in request:
            futures[partition] = Future()
            if isinstance(answer, KafkaError):
                futures[partition].set_exception(KafkaException(answer))
            else:
                futures[partition].set_result(Answer(answer))
        return futures


@pytest.fixture
def broker_of(monkeypatch):
    def make(*answers):
        admin = FakeAdmin(answers)
        monkeypatch.setattr(broker_offsets, "AdminClient", lambda _: admin)
        return BrokerOffsets(KafkaSettings(), sleep=lambda _: None), admin

    return make


def passing():
    return KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)


def test_earliest_and_latest_are_one_request_each(broker_of):
    broker, admin = broker_of(2, 9)

    assert broker.available([FIRST]) == {FIRST: Available(2, 9)}
    assert admin.requests == 2


def test_nothing_is_asked_about_no_partitions(broker_of):
    broker, admin = broker_of()

    assert broker.available([]) == {}
    assert admin.requests == 0


def test_f11_offsets_are_asked_for_again_while_leaders_change(broker_of):
    broker, _ = broker_of(passing(), 9, passing(), 9, 2, 9)

    assert broker.available([FIRST]) == {FIRST: Available(2, 9)}


def test_f12_last_error_surfaces_after_three_attempts(broker_of):
    broker, admin = broker_of(*[passing()] * 6)

    with pytest.raises(KafkaUnavailable, match=r"cannot answer now: .*[Nn]ot leader"):
        broker.available([FIRST])
    assert admin.requests == 6


def test_silent_broker_is_not_asked_again(broker_of):
    broker, admin = broker_of(*[KafkaError(KafkaError._TIMED_OUT)] * 2)

    with pytest.raises(KafkaUnavailable, match=r"did not answer within 10 s .*bootstrap_servers"):
        broker.available([FIRST])
    assert admin.requests == 2


def test_time_without_a_later_record_means_the_end(broker_of):
    broker, _ = broker_of(-1, 9)

    assert broker.offsets_at([FIRST], 1_000) == {FIRST: 9}
