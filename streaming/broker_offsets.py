"""What Kafka has: partitions, topic identity, earliest and latest offsets. I/O, in the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ingest.kafka_connection import client_properties
from ingest.settings import KafkaSettings
from offsets.offset_range import TopicPartition
from offsets.reconcile import Available
from streaming.errors import KafkaUnavailable, TopicMissing

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LEADER_CHANGES = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
_ATTEMPTS = 3
_ASK_AGAIN_SECONDS = 0.2


class BrokerOffsets:
    """Asks the brokers; every call is bounded by `timeout_seconds` and raises `KafkaUnavailable` beyond it."""

    def __init__(
        self,
        kafka: KafkaSettings,
        timeout_seconds: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._kafka = kafka
        self._timeout = timeout_seconds
        self._sleep = sleep
        self._admin = AdminClient(client_properties(kafka))

    @property
    def servers(self) -> str:
        """The brokers, for messages."""
        return self._kafka.bootstrap_servers

    def topic(self, name: str) -> tuple[str, list[TopicPartition]]:
        """A topic's identity and partitions; a recreated topic has another identity."""
        found = self.topics([name])
        if name not in found:
            message = (
                f"Topic '{name}' does not exist on {self.servers}: create it, start the shipper "
                "with kafka.create_topic = true, or set kafka.topic."
            )
            raise TopicMissing(message)
        return found[name]

    def topics(self, names: Sequence[str]) -> dict[str, tuple[str, list[TopicPartition]]]:
        """Identity and partitions of those of the topics that exist."""
        if not names:
            return {}
        futures = self._ask(
            lambda: self._admin.describe_topics(
                TopicCollection(list(names)), request_timeout=self._timeout
            )
        )
        found = {}
        for name in sorted(names):
            try:
                description = futures[name].result(timeout=self._timeout)
            except KafkaException as error:
                if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
                    continue
                raise self._unavailable(error) from error
            except TimeoutError as error:
                raise self._unavailable(error) from error
            partitions = sorted(TopicPartition(name, one.id) for one in description.partitions)
            found[name] = (str(description.topic_id), partitions)
        return found

    def topic_names(self) -> list[str]:
        """Every topic there is."""
        metadata = self._ask(lambda: self._admin.list_topics(timeout=self._timeout))
        return sorted(metadata.topics)

    def available(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Available]:
        """Earliest and latest offset of each partition, latest being the end of committed transactions."""
        earliest, latest = self._offsets(partitions, _EARLIEST, _LATEST)
        return {one: Available(earliest[one], latest[one]) for one in partitions}

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last readable record of each partition."""
        return self._offsets(partitions, _LATEST)[0]

    def offsets_at(
        self, partitions: Sequence[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """The first record of each partition that is not older than a time; its end where there is none."""
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        matched, latest = self._offsets(partitions, spec, _LATEST)
        return {one: matched[one] if matched[one] >= 0 else latest[one] for one in partitions}

    def _offsets(
        self, partitions: Sequence[TopicPartition], *specs: OffsetSpec
    ) -> list[dict[TopicPartition, int]]:
        """One request for each kind of offset, all under way at once; asked again while leaders change."""
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                asked = [self._ask_offsets(partitions, spec) for spec in specs]
                return [self._answers(futures) for futures in asked]
            except KafkaUnavailable as error:
                if not attempts_left or not _passes_soon(error.__cause__):
                    raise
                self._sleep(_ASK_AGAIN_SECONDS)
        return []

    def _ask_offsets(
        self, partitions: Sequence[TopicPartition], spec: OffsetSpec
    ) -> Mapping[KafkaPartition, Future[Any]]:
        request = {KafkaPartition(one.topic, one.partition): spec for one in partitions}
        if not request:
            return {}
        futures: Mapping[KafkaPartition, Future[Any]] = self._ask(
            lambda: self._admin.list_offsets(
                request,
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=self._timeout,
            )
        )
        return futures

    def _answers(self, futures: Mapping[KafkaPartition, Future[Any]]) -> dict[TopicPartition, int]:
        found = {}
        for partition, future in futures.items():
            try:
                offset = future.result(timeout=self._timeout).offset
            except (KafkaException, TimeoutError) as error:
                raise self._unavailable(error) from error
            found[TopicPartition(partition.topic, partition.partition)] = int(offset)
        return found

    def _ask(self, request: Any) -> Any:
        try:
            return request()
        except KafkaException as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> KafkaUnavailable:
        cause = error.args[0] if isinstance(error, KafkaException) else None
        if (
            cause is not None and cause.code() > 0
        ):  # the broker's own word; below zero it is the client's
            message = f"Kafka at {self.servers} cannot answer now: {cause.str()}."
        else:
            why = cause.str() if cause is not None else "no answer"
            message = (
                f"Kafka at {self.servers} did not answer within {self._timeout:g} s ({why}): "
                "start it, or set kafka.bootstrap_servers."
            )
        return KafkaUnavailable(message)


def _passes_soon(error: BaseException | None) -> bool:
    """Whether a broker said no only because leaders are changing, as they do after a topic was created."""
    return isinstance(error, KafkaException) and error.args[0].code() in _LEADER_CHANGES
