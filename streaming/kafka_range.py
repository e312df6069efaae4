"""Read exactly `[from, until)` of a partition. I/O, inside a Spark task.

The consumer is assigned, never a member of a group; a missing offset is an error, never a jump. The end of a
range is found at the first record at or past it, or at the end of the partition: records hidden by compaction
or aborted transactions are never waited for.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from offsets.offset_range import OffsetRange
from streaming.errors import KafkaUnavailable, RangeNotReadable

Properties = dict[str, str | int | float | bool]

_MESSAGES_PER_CALL = 10_000
_WAIT_SECONDS = 0.5
_MISSING = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001 - librdkafka's public code
_END = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's public code
_HOPELESS = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's public code
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - librdkafka's public code
)
_READER_PROPERTIES: Properties = {
    "group.id": "palisade-range-reader",  # required by the client, never joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
    "fetch.min.bytes": 1,
    "fetch.message.max.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 64 * 1024,
}

_consumers: dict[str, Consumer] = {}
"""One consumer for each set of brokers in this worker process: it outlives its batch, its assignment does not."""


def read_range(
    properties: Properties,
    wanted: OffsetRange,
    timeout_seconds: float,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[Message]:
    """The visible records of a range, in order."""
    consumer = _consumer(properties)
    partition = KafkaPartition(
        wanted.partition.topic, wanted.partition.partition, wanted.from_offset
    )
    try:
        consumer.assign([partition])
        return _consume(consumer, wanted, timeout_seconds, monotonic)
    except (KafkaException, KafkaUnavailable):
        # What state the client is in is unknown now: the next attempt starts with a clean one.
        _forget(properties)
        raise
    finally:
        if str(properties["bootstrap.servers"]) in _consumers:
            consumer.unassign()


def _consume(
    consumer: Consumer, wanted: OffsetRange, timeout_seconds: float, monotonic: Callable[[], float]
) -> list[Message]:
    found: list[Message] = []
    position = wanted.from_offset
    last_progress = monotonic()
    while position < wanted.until_offset:
        reached = position
        for message in consumer.consume(_MESSAGES_PER_CALL, timeout=_WAIT_SECONDS):
            error, offset = message.error(), message.offset() or 0
            if error is not None:
                reached = max(reached, _after_event(error, offset, wanted, reached))
            elif offset < wanted.until_offset:
                found.append(message)
                reached = offset + 1
            else:
                reached = wanted.until_offset
        if reached > position:
            position, last_progress = reached, monotonic()
        elif monotonic() - last_progress > timeout_seconds:
            text = f"{wanted}: no record arrived at offset {position} for {timeout_seconds:g} s."
            raise KafkaUnavailable(text)
    return found


def _after_event(error: KafkaError, offset: int, wanted: OffsetRange, position: int) -> int:
    """The position after an event that is no record; raises what makes reading impossible."""
    if error.code() == _END:
        if offset >= wanted.until_offset:
            return wanted.until_offset
        text = f"{wanted}: the partition ends at {offset}, below the range that was fixed."
        raise RangeNotReadable(text)
    if error.code() in _MISSING:
        text = f"{wanted}: offset {position} is gone from Kafka ({error.str()})."
        raise RangeNotReadable(text)
    if error.code() in _HOPELESS or error.fatal():
        text = f"{wanted}: cannot be read at offset {position} ({error.str()})."
        raise RangeNotReadable(text)
    return position  # transport trouble: librdkafka reconnects, our own deadline bounds it


def _consumer(properties: Properties) -> Consumer:
    brokers = str(properties["bootstrap.servers"])
    if brokers not in _consumers:
        _consumers[brokers] = Consumer({**properties, **_READER_PROPERTIES})
    return _consumers[brokers]


def _forget(properties: Properties) -> None:
    consumer = _consumers.pop(str(properties["bootstrap.servers"]), None)
    if consumer is not None:
        consumer.close()


@atexit.register
def _close_consumers() -> None:
    while _consumers:
        _consumers.popitem()[1].close()
