"""The range reader against a real broker: exactly the range, or a clear refusal."""

import pytest
from confluent_kafka import Producer
from support.broker_topics import create_topic, delete_records_before, produce

from ingest.kafka_connection import client_properties
from ingest.settings import KafkaSettings
from offsets.offset_range import OffsetRange, TopicPartition
from streaming.broker_offsets import BrokerOffsets
from streaming.errors import KafkaUnavailable, RangeNotReadable, TopicMissing
from streaming.kafka_range import read_range

pytestmark = pytest.mark.integration


@pytest.fixture
def kafka(kafka_bootstrap, topic_name):
    return KafkaSettings(bootstrap_servers=kafka_bootstrap, topic=topic_name)


def read(kafka, from_offset, until_offset, partition=0, timeout=10):
    wanted = OffsetRange(TopicPartition(kafka.topic, partition), from_offset, until_offset)
    return [m.value() for m in read_range(client_properties(kafka), wanted, timeout)]


def test_r1_range_returns_exactly_its_records(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic)
    produce(kafka.bootstrap_servers, kafka.topic, [b"0", b"1", b"2", b"3"])

    assert read(kafka, 0, 4) == [b"0", b"1", b"2", b"3"]
    assert read(kafka, 1, 3) == [b"1", b"2"]
    assert read(kafka, 2, 2) == []


def test_r1_range_past_the_end_is_refused(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic)
    produce(kafka.bootstrap_servers, kafka.topic, [b"0"])

    with pytest.raises(RangeNotReadable, match="the partition ends at 1"):
        read(kafka, 0, 2)


def test_r3_records_written_later_never_appear(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic)
    produce(kafka.bootstrap_servers, kafka.topic, [b"0", b"1"])
    assert read(kafka, 0, 2) == [b"0", b"1"]
    produce(kafka.bootstrap_servers, kafka.topic, [b"2"])

    assert read(kafka, 0, 2) == [b"0", b"1"]


def test_deleted_offset_is_an_error_and_never_a_jump(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic)
    produce(kafka.bootstrap_servers, kafka.topic, [b"0", b"1", b"2"])
    delete_records_before(kafka.bootstrap_servers, kafka.topic, 0, 2)

    with pytest.raises(RangeNotReadable, match=r"offset 0 is gone"):
        read(kafka, 0, 3)


def test_m23_aborted_records_never_appear_and_are_not_waited_for(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": kafka.topic,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    for value, keep in ((b"kept", True), (b"aborted", False)):
        producer.begin_transaction()
        producer.produce(kafka.topic, value, partition=0)
        producer.flush(10)
        if keep:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    _, partitions = BrokerOffsets(kafka).topic(kafka.topic)
    latest = BrokerOffsets(kafka).latest(partitions)[partitions[0]]

    assert latest == 4  # two records and their two markers
    assert read(kafka, 0, latest) == [b"kept"]


def test_missing_topic_is_named_with_the_remedy(kafka):
    with pytest.raises(TopicMissing, match=r"does not exist.*create_topic = true"):
        BrokerOffsets(kafka).topic(kafka.topic)


def test_unreachable_broker_is_one_sentence_with_the_remedy():
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:1")

    with pytest.raises(KafkaUnavailable, match=r"127.0.0.1:1 did not answer.*bootstrap_servers"):
        BrokerOffsets(nowhere, timeout_seconds=1).topic("access-log")


def test_silent_broker_ends_the_task_with_partition_and_offset():
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:1", topic="access-log")

    with pytest.raises(
        KafkaUnavailable, match=r"access-log\[0\]@5..9: no record arrived at offset 5"
    ):
        read(nowhere, 5, 9, timeout=1)
