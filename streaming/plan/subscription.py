"""Which topics and partitions the job reads, where a new job begins in them, and where a running one continues.

Pure: what exists comes in as an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsets.errors import StartRefused
from offsets.offset_range import LostRange, Offsets, TopicPartition
from offsets.reconcile import (
    DELETED_BY_RETENTION,
    TOPIC_DELETED,
    TOPIC_RECREATED,
    TOPIC_TRUNCATED,
    Available,
    Found,
    Start,
    reconcile,
)
from offsets.store import Commit

_EXPLAINED = {
    DELETED_BY_RETENTION: "Kafka deleted records that were never read",
    TOPIC_DELETED: "The topic or partition was deleted",
    TOPIC_RECREATED: "The topic was deleted and created again, so its offsets mean other records now",
    TOPIC_TRUNCATED: "Kafka ends below what was read already, so the topic lost its end",
}


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, by pattern, or single partitions: exactly one of the three."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def covers(self, partition: TopicPartition) -> bool:
        """Whether this partition would be read if it existed."""
        if self.partitions:
            return partition in self.partitions
        return self.covers_topic(partition.topic)

    def covers_topic(self, topic: str) -> bool:
        """Whether any partition of this topic would be read; Kafka's own topics never by pattern."""
        if self.pattern:
            is_internal = topic.startswith("__")
            return not is_internal and re.fullmatch(self.pattern, topic) is not None
        return topic in self.named_topics

    @property
    def named_topics(self) -> tuple[str, ...]:
        """Topics that are known by name without asking."""
        return self.topics or tuple(sorted({one.topic for one in self.partitions}))

    def missing(self, found: Found) -> list[str]:
        """What was asked for and does not exist."""
        if self.partitions:
            return [f"Partition {one}" for one in self.partitions if one not in found.available]
        if self.pattern:
            return [] if found.topic_ids else [f"A topic that matches '{self.pattern}'"]
        return [f"Topic '{topic}'" for topic in self.topics if topic not in found.topic_ids]


@dataclass(frozen=True, slots=True)
class FirstStart:
    """Where a job without offsets begins: `earliest`, `latest`, at a `time`, or at given `offsets`."""

    at: str
    time_ms: int = 0
    offsets: Mapping[TopicPartition, int] | None = None


def given_offsets(
    offsets: Mapping[TopicPartition, int], available: Mapping[TopicPartition, Available]
) -> Offsets:
    """The given offsets, if they name exactly the partitions that exist and lie inside them."""
    if set(offsets) != set(available):
        message = (
            f"stream.start_offsets names {_listed(offsets)}, but the partitions to read are {_listed(available)}: "
            "name each of these once."
        )
        raise StartRefused(message)
    outside = [
        f"{one} at {offset} (it holds {available[one].earliest} to {available[one].latest})"
        for one, offset in sorted(offsets.items())
        if not available[one].earliest <= offset <= available[one].latest
    ]
    if outside:
        message = f"stream.start_offsets lies outside of what Kafka holds: {', '.join(outside)}."
        raise StartRefused(message)
    return dict(offsets)


def continue_from(commit: Commit, subscription: Subscription, found: Found) -> Start:
    """Where the next batch begins in what is subscribed; offsets of anything else only rest."""
    stored = {one: offset for one, offset in commit.offsets.items() if subscription.covers(one)}
    whole_topics = not subscription.partitions
    return reconcile(stored, commit.topic_ids, found, added_start_at_zero=whole_topics)


def unread(offsets: Offsets, target: Mapping[TopicPartition, Available]) -> list[str]:
    """What was in Kafka when `target` was looked up and is not committed yet, in words."""
    return [
        f"{partition} until offset {has.latest}"
        for partition, has in sorted(target.items())
        if offsets.get(partition, has.earliest) < has.latest
    ]


def topic_ids_after(commit: Commit, found: Found, lost: Iterable[LostRange]) -> dict[str, str]:
    """The identities to store with the next batch: resting topics keep theirs, forgotten ones lose it."""
    gone = {loss.range.partition for loss in lost if loss.continue_at is None}
    resting = {one.topic for one in commit.offsets if one not in gone}
    kept = {topic: one for topic, one in commit.topic_ids.items() if topic in resting}
    return {**kept, **found.topic_ids}


def loss_text(lost: Iterable[LostRange]) -> str:
    """What was lost, why, and what the operator can do."""
    by_reason: dict[str, list[str]] = {}
    for loss in lost:
        by_reason.setdefault(loss.reason, []).append(str(loss.range))
    causes = ". ".join(
        f"{_EXPLAINED.get(reason, reason)}: {', '.join(ranges)}"
        for reason, ranges in sorted(by_reason.items())
    )
    return (
        f'{causes}. Nothing was processed. Set stream.on_data_loss = "skip" to record the loss and go on, or choose '
        "where to continue with `palisade offsets reset`."
    )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(one) for one in sorted(partitions)) or "nothing"
