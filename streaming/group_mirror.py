"""The committed offsets once more, in a Kafka consumer group: for tools that look for lag there.

Best effort: never waited for by a batch, never a reason to fail one, and never read by the job.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from ingest.kafka_connection import client_properties
from ingest.settings import KafkaSettings
from offsets.offset_range import Offsets

_ANSWER_SECONDS = 5.0
_log = logging.getLogger("stream")


class GroupMirror:
    """Hands offsets to a consumer group, at most one request at a time."""

    def __init__(self, kafka: KafkaSettings, group: str) -> None:
        self._admin = AdminClient(client_properties(kafka))
        self._group = group
        self._wanted: Offsets = {}
        self._mirrored: Offsets = {}
        self._under_way: Future[Any] | None = None

    def offer(self, offsets: Offsets) -> None:
        """Send what changed; while an earlier request is under way, it goes with a later call."""
        self._wanted = offsets
        changed = {one: at for one, at in offsets.items() if self._mirrored.get(one) != at}
        if not changed or (self._under_way is not None and not self._under_way.done()):
            return
        places = [KafkaPartition(one.topic, one.partition, at) for one, at in changed.items()]
        request = ConsumerGroupTopicPartitions(self._group, places)
        try:
            futures = self._admin.alter_consumer_group_offsets(
                [request], request_timeout=_ANSWER_SECONDS
            )
        except (KafkaException, ValueError, TypeError) as error:
            self._warn(str(error))
            return
        self._mirrored = {**self._mirrored, **changed}
        self._under_way = futures[self._group]
        self._under_way.add_done_callback(self._note)

    def finish(self) -> None:
        """Before the job ends: a last try, waited for a little."""
        for _ in range(2):
            self.offer(self._wanted)
            if self._under_way is not None:
                wait([self._under_way], timeout=_ANSWER_SECONDS)

    def _note(self, answer: Future[Any]) -> None:
        """Runs on the client's own thread."""
        error = answer.exception()
        causes = [str(error)] if error else []
        if not error:
            places = answer.result().topic_partitions or []
            causes = [str(place.error) for place in places if place.error]
        if causes:
            self._mirrored = {}
            self._warn(causes[0])

    def _warn(self, cause: str) -> None:
        _log.warning("offsets not mirrored", extra={"group": self._group, "cause": cause})


def mirror_of(kafka: KafkaSettings, group: str) -> GroupMirror | None:
    """The mirror for a configured group; None where none is configured."""
    return GroupMirror(kafka, group) if group else None
