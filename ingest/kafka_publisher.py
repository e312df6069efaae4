"""Send records to Kafka, learn what was confirmed, report what failed.

I/O. In: records in file order. Out: confirmed positions in their generations, counts.
Promise: a record is forgotten only when the broker confirmed it or will never take it; the records
of one generation reach its partition in order.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from ingest.errors import ShipError
from ingest.generation import LogRecord
from ingest.kafka_connection import client_properties
from ingest.kafka_topic import partition_count
from ingest.log_record import PATH_HEADER, encode_key
from ingest.settings import KafkaSettings, ShipSettings
from ingest.ship_metrics import ShipCounts

# What a record costs in memory besides its bytes: keeps many tiny records bounded, too.
_RECORD_OVERHEAD_BYTES = 512
_REFUSED_FOR_EVER = {
    KafkaError.MSG_SIZE_TOO_LARGE: "too_large",
    KafkaError.RECORD_LIST_TOO_LARGE: "too_large",
    KafkaError.INVALID_MSG: "invalid",
    KafkaError.INVALID_RECORD: "invalid",
    KafkaError.POLICY_VIOLATION: "policy",
}
_FIRST_RETRY_SECONDS = 0.1
_LAST_RETRY_SECONDS = 5.0
_FAREWELL_SECONDS = 1.0
_log = logging.getLogger("ship")
# What the library says on its own is reported by us as events, with a remedy.
_librdkafka_log = logging.getLogger("ship.librdkafka")
_librdkafka_log.propagate = False
_librdkafka_log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class _Sent:
    sequence: int
    record: LogRecord

    @property
    def weight(self) -> int:
        return len(self.record.cut.value) + _RECORD_OVERHEAD_BYTES


class KafkaPublisher:
    """Publishes records and keeps each in memory until its fate is known."""

    def __init__(
        self,
        kafka: KafkaSettings,
        ship: ShipSettings,
        counts: ShipCounts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kafka = kafka
        self._ship = ship
        self._counts = counts
        self._clock = clock
        self._partitions = 0
        self._producer: Any = None
        self._sequence = 0
        self._unconfirmed: dict[int, _Sent] = {}
        self._weight = 0
        self._waiting: deque[_Sent] = deque()
        self._failure: KafkaError | None = None
        self._retry_at = 0.0
        self._retry_seconds = _FIRST_RETRY_SECONDS
        self._sends_one_by_one = False
        self._is_cut_off = False

    @contextmanager
    def connected(self) -> Iterator[KafkaPublisher]:
        """Find (or create) the topic and be ready to send until the block ends."""
        self._partitions = partition_count(self._kafka)
        self._producer = self._new_producer()
        try:
            yield self
        finally:
            self._abandon_producer()

    @property
    def unconfirmed_count(self) -> int:
        """Records whose fate is not known yet."""
        return len(self._unconfirmed)

    def has_room(self) -> bool:
        """Whether more may be sent; otherwise reading waits and the log files are the buffer."""
        if self._waiting or self._sends_one_by_one:
            return False
        return self._weight < self._ship.max_unconfirmed_bytes

    def send(self, record: LogRecord) -> None:
        """Take a record: it is remembered now and produced as soon as the producer takes it."""
        generation = record.generation
        if generation.partition is None or generation.partition >= self._partitions:
            generation.partition = partition_of(generation.id, self._partitions)
        generation.position.send(record.cut)
        sent = _Sent(self._sequence, record)
        self._sequence += 1
        self._unconfirmed[sent.sequence] = sent
        self._weight += sent.weight
        self._counts.unconfirmed_bytes += record.cut.end - record.cut.start
        self._waiting.append(sent)
        self._produce_waiting()

    def wait(self, seconds: float) -> None:
        """Spend `seconds` handling confirmations."""
        deadline = self._clock() + seconds
        while self._handle_confirmations(deadline):
            pass

    def wait_for_room(self, seconds: float) -> None:
        """Handle confirmations until there is room again, for at most `seconds`."""
        deadline = self._clock() + seconds
        while self._handle_confirmations(deadline) and not self.has_room():
            pass

    def flush(self, seconds: float) -> bool:
        """Wait until everything is confirmed; False when that took longer than `seconds`."""
        deadline = self._clock() + seconds
        while self._unconfirmed and self._clock() < deadline:
            if not self._waiting and self._failure is None:
                self._serve(self._producer.flush, 0.05)
            else:
                self.wait(0.05)
        return not self._unconfirmed

    def _handle_confirmations(self, deadline: float) -> bool:
        self._recover()
        self._produce_waiting()
        remaining = deadline - self._clock()
        self._serve(self._producer.poll, max(0.0, remaining))
        return remaining > 0

    def _serve(self, call: Callable[[float], object], seconds: float) -> None:
        """Handle confirmations; a producer that has failed for good says so from any call."""
        try:
            call(seconds)
        except KafkaException as error:
            self._fail(error.args[0])

    def _fail(self, error: KafkaError) -> None:
        if self._failure is None:
            self._failure = error

    def _produce_waiting(self) -> None:
        while self._waiting and self._failure is None:
            try:
                self._produce(self._waiting[0])
            except BufferError:
                return
            except KafkaException as error:
                sent = self._waiting.popleft()
                self._delivered(sent, self._sends_one_by_one, error.args[0], None)
                continue
            self._waiting.popleft()

    def _produce(self, sent: _Sent) -> None:
        record = sent.record
        self._producer.produce(
            self._kafka.topic,
            key=encode_key(record.identity()),
            value=record.cut.value,
            partition=record.generation.partition,
            headers=[(PATH_HEADER, record.generation.path.encode("utf-8", "surrogateescape"))],
            on_delivery=partial(self._delivered, sent, self._sends_one_by_one),
        )

    def _delivered(
        self, sent: _Sent, was_alone: bool, error: KafkaError | None, _message: object
    ) -> None:
        if sent.sequence not in self._unconfirmed:
            return
        if error is None:
            self._confirm(sent)
        elif error.code() not in _REFUSED_FOR_EVER:
            self._fail(error)
        elif was_alone:
            self._drop(sent, error)
        else:
            # The broker refused a whole batch: only alone can it be seen which record is at fault.
            self._sends_one_by_one = True
            self._fail(error)

    def _confirm(self, sent: _Sent) -> None:
        cut = sent.record.cut
        self._forget(sent)
        self._counts.records += 1
        self._counts.lines += cut.line_count
        self._counts.bytes += cut.end - cut.start
        self._counts.truncated += cut.is_truncated
        self._retry_seconds = _FIRST_RETRY_SECONDS
        if self._is_cut_off:
            self._is_cut_off = False
            _log.info("brokers reachable again", extra={"unconfirmed": self.unconfirmed_count})

    def _drop(self, sent: _Sent, error: KafkaError) -> None:
        cut = sent.record.cut
        self._forget(sent)
        self._counts.drop(_REFUSED_FOR_EVER[error.code()])
        _log.error(
            "record refused by the broker, its lines are lost",
            extra={
                "path": sent.record.generation.path,
                "generation": sent.record.generation.id,
                "from_byte": cut.start,
                "until_byte": cut.end,
                "lines": cut.line_count,
                "reason": error.name(),
                "remedy": "raise the topic's max.message.bytes above ship.max_record_bytes",
            },
        )

    def _forget(self, sent: _Sent) -> None:
        cut = sent.record.cut
        del self._unconfirmed[sent.sequence]
        self._weight -= sent.weight
        self._counts.unconfirmed_bytes -= cut.end - cut.start
        sent.record.generation.position.confirm(cut.start)

    def _recover(self) -> None:
        """After a failure a new producer gets everything unconfirmed again, in the old order."""
        if self._sends_one_by_one and not self._unconfirmed:
            self._sends_one_by_one = False
            self._restart_producer()
        if self._failure is None or self._clock() < self._retry_at:
            return
        extra = {"reason": self._failure.name(), "records": len(self._unconfirmed)}
        _log.warning("delivery failed, sending again", extra=extra)
        self._retry_at = self._clock() + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, _LAST_RETRY_SECONDS)
        self._restart_producer()
        self._counts.retries += len(self._unconfirmed)
        self._waiting = deque(self._unconfirmed.values())

    def _restart_producer(self) -> None:
        self._abandon_producer()
        self._failure = None
        self._producer = self._new_producer()

    def _abandon_producer(self) -> None:
        # Hear what the old producer still has to tell: which records arrived, which were refused.
        self._producer.purge()
        deadline = self._clock() + _FAREWELL_SECONDS
        while len(self._producer) and self._clock() < deadline:
            self._serve(self._producer.poll, 0.05)

    def _new_producer(self) -> Any:
        ship = self._ship
        properties = client_properties(self._kafka) | {
            "enable.idempotence": True,
            # A record that cannot be sent must not be overtaken by the ones after it.
            "enable.gapless.guarantee": True,
            "acks": "all",
            "compression.type": "lz4",
            "message.timeout.ms": 0,
            "linger.ms": ship.linger_seconds * 1000,
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 2_097_151,
            "error_cb": self._report_error,
        }
        if self._sends_one_by_one:
            properties["batch.num.messages"] = 1
        try:
            return Producer(properties, logger=_librdkafka_log)
        except KafkaException as error:
            message = f"The Kafka producer refuses its settings ({error}): mend [kafka]."
            raise ShipError(message) from error

    def _report_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._is_cut_off:  # noqa: SLF001 - its public name
            self._is_cut_off = True
            extra = {"brokers": self._kafka.bootstrap_servers, "reason": error.str()}
            _log.error("brokers unreachable, waiting", extra=extra)


def partition_of(generation: str, partitions: int) -> int:
    """The partition a generation is assigned when it is first seen."""
    return int.from_bytes(blake2b(generation.encode(), digest_size=8).digest()) % partitions
