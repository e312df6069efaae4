"""Find the topic, or create it where that is allowed.

I/O. A broker that does not answer and a topic that is not there become errors that say what to do.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ingest.errors import BrokerUnreachableError, TopicMissingError
from ingest.kafka_connection import client_properties
from ingest.settings import KafkaSettings

ANSWER_SECONDS = 10.0
_log = logging.getLogger("ship")


def partition_count(kafka: KafkaSettings) -> int:
    """How many partitions the topic has; creates it first where it is missing and allowed."""
    troubles: list[str] = []
    properties: dict[str, Any] = {**client_properties(kafka)}
    properties["error_cb"] = lambda error: troubles.append(error.str())
    admin = AdminClient(properties)
    count = _count_if_present(admin, kafka, troubles)
    if count:
        return count
    if not kafka.create_topic:
        message = (
            f"Topic {kafka.topic!r} does not exist on {kafka.bootstrap_servers}: create it, "
            f"or set kafka.create_topic = true."
        )
        raise TopicMissingError(message)
    _create(admin, kafka)
    return _wait_until_present(admin, kafka, troubles)


def _count_if_present(admin: Any, kafka: KafkaSettings, troubles: list[str]) -> int:
    try:
        # Asking for one topic by name would create it on brokers that create topics by themselves.
        topics = admin.list_topics(timeout=ANSWER_SECONDS).topics
    except KafkaException as error:
        last = troubles[-1] if troubles else error.args[0].str()
        message = (
            f"No Kafka broker answered at {kafka.bootstrap_servers} within {ANSWER_SECONDS:.0f} s "
            f"({last}): start it, or correct kafka.bootstrap_servers."
        )
        raise BrokerUnreachableError(message) from error
    topic = topics.get(kafka.topic)
    return len(topic.partitions) if topic is not None and topic.error is None else 0


def _create(admin: Any, kafka: KafkaSettings) -> None:
    topic = NewTopic(kafka.topic, kafka.topic_partitions, kafka.replication_factor)
    try:
        admin.create_topics([topic], request_timeout=ANSWER_SECONDS)[kafka.topic].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        message = (
            f"Topic {kafka.topic!r} cannot be created ({error.args[0].str()}): create it by hand."
        )
        raise TopicMissingError(message) from error
    _log.info("topic created", extra={"topic": kafka.topic, "partitions": kafka.topic_partitions})


def _wait_until_present(admin: Any, kafka: KafkaSettings, troubles: list[str]) -> int:
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        count = _count_if_present(admin, kafka, troubles)
        if count:
            return count
        time.sleep(0.05)
    message = f"Topic {kafka.topic!r} was created but is not visible yet: start the shipper again."
    raise TopicMissingError(message)
