"""Read exactly `[from, until)` of a partition. I/O, inside a Spark task.

The consumer is assigned, never a member of a group; a missing offset is an error, never a jump. The end of a
range is found at the first record at or past it, or at the end of the partition: records hidden by compaction
or aborted transactions are never waited for.

A consumer serves one reader at a time. Spark guarantees that: each running task has a worker process of its own,
which runs one task after the other, so a cached consumer is never shared. It outlives its batch, its assignment
does not; whatever fails, the next attempt starts with a new one.
"""

from __future__ import annotations

import atexit
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from offsets.offset_range import OffsetRange
from streaming.errors import KafkaUnavailable, RangeNotReadable

Properties = dict[str, str | int | float | bool]

_MESSAGES_PER_CALL = 10_000
_WAIT_SECONDS = 0.5
_SETTLE_SECONDS = 1.0
"""A partition's end can step back for a moment when its leader changes: only an end that stays low is damage."""
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
    "fetch.wait.max.ms": 5,  # the end of a partition, and the next range, wait for it
    "fetch.min.bytes": 1,
    "fetch.message.max.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 64 * 1024,
}

_consumers: dict[tuple[tuple[str, object], ...], Consumer] = {}
"""One consumer for each connection of this worker process."""


@dataclass(slots=True)
class RangeRecords:
    """What was in a range: its visible records in order, and what Kafka had deleted before it could be read."""

    messages: list[Message] = field(default_factory=list)
    lost: list[OffsetRange] = field(default_factory=list)


def read_range(
    properties: Properties,
    wanted: OffsetRange,
    timeout_seconds: float,
    skip_lost: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
) -> RangeRecords:
    """The records of a range; with `skip_lost`, deleted offsets are given back as lost instead of refused."""
    consumer = _consumer(properties)
    reading = _Reading(consumer, wanted, skip_lost)
    try:
        reading.run(timeout_seconds, monotonic)
        consumer.unassign()
    except BaseException as error:
        # What state the client is in is unknown now: the next attempt starts with a clean one.
        _forget(properties)
        if isinstance(error, KafkaException):
            raise _unavailable(error, wanted, reading.position) from error
        raise
    return reading.found


class _Reading:
    """One pass over a range: where it stands and what it found."""

    def __init__(self, consumer: Consumer, wanted: OffsetRange, skip_lost: bool) -> None:
        self.found = RangeRecords()
        self.position = wanted.from_offset
        self._consumer = consumer
        self._wanted = wanted
        self._skip_lost = skip_lost
        self._low_end: int | None = None
        """The partition's end, where it was seen below the range's."""

    def run(self, timeout_seconds: float, monotonic: Callable[[], float]) -> None:
        """Read until the end of the range is proven."""
        last_progress = monotonic()
        if self.position < self._wanted.until_offset:
            self._assign()
        while self.position < self._wanted.until_offset:
            before = self.position
            # Wait for one message only: a call waits until it has all it asked for, or for its whole time.
            self._take(self._consumer.consume(1, timeout=_WAIT_SECONDS))
            if before < self.position < self._wanted.until_offset:
                self._take(self._consumer.consume(_MESSAGES_PER_CALL, timeout=0))
            if self.position > before:
                last_progress, self._low_end = monotonic(), None
            else:
                self._check_patience(monotonic() - last_progress, timeout_seconds)

    def _assign(self) -> None:
        place = self._wanted.partition
        self._consumer.assign([KafkaPartition(place.topic, place.partition, self.position)])

    def _take(self, batch: Sequence[Message]) -> None:
        if all(error is None for error in map(Message.error, batch)):
            self._keep(batch)
            return
        for message in batch:
            error = message.error()
            if error is None:
                self._keep([message])
            else:
                self._event(error, message.offset() or 0)

    def _keep(self, batch: Sequence[Message]) -> None:
        if not batch:
            return
        last = batch[-1].offset() or 0
        if last < self._wanted.until_offset:
            self.found.messages.extend(batch)
            self.position = last + 1
        else:
            inside = bisect_left(
                batch, self._wanted.until_offset, key=lambda message: message.offset() or 0
            )
            self.found.messages.extend(batch[:inside])
            self.position = self._wanted.until_offset

    def _event(self, error: KafkaError, offset: int) -> None:
        """React to what is no record; raises what makes reading impossible."""
        if error.code() == _END:
            if offset >= self._wanted.until_offset:
                self.position = self._wanted.until_offset
            else:
                self._low_end = offset
        elif error.code() in _MISSING:
            self._step_over_deleted()
        elif error.code() in _HOPELESS or error.fatal():
            text = f"{self._wanted}: cannot be read at offset {self.position} ({error.str()})."
            raise RangeNotReadable(text)
        # Else transport trouble: librdkafka reconnects, our own deadline bounds it.

    def _step_over_deleted(self) -> None:
        place = self._wanted.partition
        marks = self._consumer.get_watermark_offsets(
            KafkaPartition(place.topic, place.partition), timeout=10, cached=False
        )
        if marks is None or marks[0] <= self.position:
            end = "unknown" if marks is None else marks[1]
            text = (
                f"{self._wanted}: offset {self.position} is not in Kafka, the partition ends at {end}: "
                "it was truncated or recreated after the range was fixed."
            )
            raise RangeNotReadable(text)
        until = min(marks[0], self._wanted.until_offset)
        lost = OffsetRange(place, self.position, until)
        if not self._skip_lost:
            text = (
                f"{self._wanted}: offset {self.position} was deleted, Kafka holds this partition from {marks[0]} on. "
                f'Set stream.on_data_loss = "skip" to record {lost} as lost and go on, or raise the retention.'
            )
            raise RangeNotReadable(text)
        self.found.lost.append(lost)
        self.position = until
        if until < self._wanted.until_offset:
            self._assign()

    def _check_patience(self, waited: float, timeout_seconds: float) -> None:
        if self._low_end is not None and waited > _SETTLE_SECONDS:
            text = (
                f"{self._wanted}: the partition ends at {self._low_end}, below the range that was "
                "fixed: it was truncated or recreated."
            )
            raise RangeNotReadable(text)
        if waited > timeout_seconds:
            text = f"{self._wanted}: no record arrived at offset {self.position} for {timeout_seconds:g} s."
            raise KafkaUnavailable(text)


def _unavailable(error: KafkaException, wanted: OffsetRange, position: int) -> KafkaUnavailable:
    return KafkaUnavailable(f"{wanted}: reading at offset {position} failed ({error.args[0]}).")


def _consumer(properties: Properties) -> Consumer:
    connection = tuple(sorted(properties.items()))
    if connection not in _consumers:
        _consumers[connection] = Consumer({**properties, **_READER_PROPERTIES})
    return _consumers[connection]


def _forget(properties: Properties) -> None:
    consumer = _consumers.pop(tuple(sorted(properties.items())), None)
    if consumer is not None:
        consumer.close()


@atexit.register
def _close_consumers() -> None:
    while _consumers:
        _consumers.popitem()[1].close()
