"""What Kafka has: partitions, topic identity, earliest and latest offsets. I/O, in the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ingest.kafka_connection import client_properties
from ingest.settings import KafkaSettings
from offsets.offset_range import TopicPartition
from offsets.reconcile import Available
from streaming.errors import KafkaUnavailable, TopicMissing

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class BrokerOffsets:
    """Asks the brokers; every call is bounded by `timeout_seconds` and raises `KafkaUnavailable` beyond it."""

    def __init__(self, kafka: KafkaSettings, timeout_seconds: float = 10.0) -> None:
        self._kafka = kafka
        self._timeout = timeout_seconds
        self._admin = AdminClient(client_properties(kafka))

    def topic(self, name: str) -> tuple[str, list[TopicPartition]]:
        """A topic's identity and partitions; a recreated topic has another identity."""
        futures = self._ask(
            lambda: self._admin.describe_topics(
                TopicCollection([name]), request_timeout=self._timeout
            )
        )
        try:
            description = futures[name].result(timeout=self._timeout)
        except KafkaException as error:
            if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
                message = (
                    f"Topic '{name}' does not exist on {self._kafka.bootstrap_servers}: create it, start the shipper "
                    "with kafka.create_topic = true, or set kafka.topic."
                )
                raise TopicMissing(message) from error
            raise self._unavailable(error) from error
        except TimeoutError as error:
            raise self._unavailable(error) from error
        partitions = [TopicPartition(name, one.id) for one in description.partitions]
        return str(description.topic_id), sorted(partitions)

    def available(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Available]:
        """Earliest and latest offset of each partition, latest being the end of committed transactions."""
        earliest = self._offsets(partitions, _EARLIEST)
        latest = self._offsets(partitions, _LATEST)
        return {one: Available(earliest[one], latest[one]) for one in partitions}

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last readable record of each partition."""
        return self._offsets(partitions, _LATEST)

    def _offsets(
        self, partitions: Sequence[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
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
        cause = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        message = (
            f"Kafka at {self._kafka.bootstrap_servers} did not answer within {self._timeout:g} s ({cause}): "
            "start it, or set kafka.bootstrap_servers."
        )
        return KafkaUnavailable(message)
