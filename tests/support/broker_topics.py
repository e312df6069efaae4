"""Topics of a real broker, in a few words: create, fill, read, count, remove."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


@dataclass(frozen=True)
class ReadRecord:
    """A record as a test sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def admin(bootstrap: str) -> AdminClient:
    """Keep it in a variable until its futures are done: they fail when it is collected."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    """Create the topic and return when the broker leads all its partitions."""
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})
    client = admin(bootstrap)
    client.create_topics([new])[topic].result(timeout=30)


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    from confluent_kafka.admin import NewPartitions

    client = admin(bootstrap)
    client.create_partitions([NewPartitions(topic, total)])[topic].result(timeout=30)


def topic_exists(bootstrap: str, topic: str) -> bool:
    return topic in admin(bootstrap).list_topics(timeout=10).topics


def delete_topic_if_present(bootstrap: str, topic: str) -> None:
    client = admin(bootstrap)
    try:
        client.delete_topics([topic])[topic].result(timeout=30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | tuple[bytes | None, bytes]],
    partition: int = 0,
    headers: list[tuple[str, bytes]] | None = None,
) -> None:
    """Send values, or (key, value) pairs, to one partition; return when all are confirmed."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    failures: list[KafkaError] = []
    for item in values:
        key, value = item if isinstance(item, tuple) else (None, item)
        producer.produce(
            topic,
            value,
            key=key,
            partition=partition,
            headers=headers,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    left = producer.flush(30)
    assert left == 0 and not failures, f"{left} records unconfirmed, failures: {failures[:3]}"


def watermarks(bootstrap: str, topic: str) -> dict[int, tuple[int, int]]:
    """(earliest, latest) of every partition."""
    consumer = _consumer(bootstrap)
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            for partition in partitions
        }
    finally:
        consumer.close()


def read_all(bootstrap: str, topic: str) -> list[ReadRecord]:
    """Every record that is in the topic now, by partition and offset."""
    consumer = _consumer(bootstrap)
    try:
        return [
            record
            for partition, (low, high) in sorted(watermarks(bootstrap, topic).items())
            for record in _read_partition(consumer, TopicPartition(topic, partition, low), high)
        ]
    finally:
        consumer.close()


def delete_records_before(bootstrap: str, topic: str, partition: int, offset: int) -> None:
    """What retention does: the partition now begins at `offset`."""
    place = TopicPartition(topic, partition, offset)
    client = admin(bootstrap)
    client.delete_records([place])[place].result(timeout=30)


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests-never-commit",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )


def _read_partition(consumer: Consumer, place: TopicPartition, until: int) -> list[ReadRecord]:
    consumer.assign([place])
    records: list[ReadRecord] = []
    position = place.offset
    while position < until:
        message = consumer.poll(10)
        assert message is not None and message.error() is None, f"stuck at {position} of {until}"
        position = message.offset() + 1
        records.append(
            ReadRecord(
                message.partition(),
                message.offset(),
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )
        )
    return records
