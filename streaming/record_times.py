"""When the first record at an offset was written: how long it has been waiting. I/O, for commands.

A throw-away consumer reads one record of each partition; what does not arrive in time is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message
from confluent_kafka import TopicPartition as KafkaPartition

from ingest.kafka_connection import client_properties
from ingest.settings import KafkaSettings
from offsets.offset_range import Offsets, TopicPartition

_READER_PROPERTIES: dict[str, str | int | float | bool] = {
    "group.id": "palisade-offsets-show",  # required by the client, never joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    # One record of each partition is wanted, not a megabyte.
    "fetch.message.max.bytes": 65_536,
    "queued.max.messages.kbytes": 1_024,
}


def waiting_seconds(
    kafka: KafkaSettings,
    positions: Offsets,
    now: float,
    within_seconds: float = 5.0,
    monotonic: Callable[[], float] = time.monotonic,
) -> dict[TopicPartition, float | None]:
    """For each partition, how old the first record at or after its position is; None where that is not known."""
    times = _first_times(kafka, positions, within_seconds, monotonic) if positions else {}
    written = {one: times.get(one) for one in positions}
    return {one: None if at is None else max(now - at / 1000, 0.0) for one, at in written.items()}


def _first_times(
    kafka: KafkaSettings, positions: Offsets, within_seconds: float, monotonic: Callable[[], float]
) -> Mapping[TopicPartition, int | None]:
    consumer = Consumer({**client_properties(kafka), **_READER_PROPERTIES})
    found: dict[TopicPartition, int | None] = {}
    try:
        consumer.assign(
            [KafkaPartition(one.topic, one.partition, offset) for one, offset in positions.items()]
        )
        deadline = monotonic() + within_seconds
        while len(found) < len(positions) and monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
                if partition not in found:
                    found[partition] = _time_of(message)
                    consumer.pause([KafkaPartition(partition.topic, partition.partition)])
    finally:
        consumer.close()
    return found


def _time_of(message: Message) -> int | None:
    kind, milliseconds = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or milliseconds < 0 else int(milliseconds)
