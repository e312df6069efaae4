"""Ask Kafka what of the subscription exists, and decide where to read next. I/O around `streaming.plan.subscription`.

Topics and partitions that appear while the job runs are found by the next look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from offsets.errors import DataLoss, NothingToRead
from offsets.offset_range import Offsets
from offsets.reconcile import Found, Readable, Start, is_doubtful, still_readable
from offsets.store import Commit, Pending
from streaming.broker_offsets import BrokerOffsets
from streaming.errors import TopicMissing
from streaming.plan.subscription import (
    FirstStart,
    Subscription,
    continue_from,
    given_offsets,
    loss_text,
)

_LOOKS = 3
_LOOK_AGAIN_SECONDS = 0.3

Decision = TypeVar("Decision", Start, Readable)


def look(broker: BrokerOffsets, subscription: Subscription) -> Found:
    """What of the subscription exists now."""
    names = (
        [name for name in broker.topic_names() if subscription.covers_topic(name)]
        if subscription.pattern
        else subscription.named_topics
    )
    topics = broker.topics(names)
    partitions = [one for _, every in topics.values() for one in every if subscription.covers(one)]
    read = {one.topic for one in partitions}
    return Found(
        topic_ids={name: topic_id for name, (topic_id, _) in topics.items() if name in read},
        available=broker.available(partitions),
    )


def look_for_all(broker: BrokerOffsets, subscription: Subscription) -> Found:
    """As `look`, but everything that was asked for must exist."""
    found = look(broker, subscription)
    missing = subscription.missing(found)
    if missing:
        raise TopicMissing(_missing_text(broker, missing))
    return found


def first_offsets(broker: BrokerOffsets, found: Found, start: FirstStart) -> Offsets:
    """Where a new job begins in every partition; a time after the last record means the end."""
    if start.at == "time":
        return broker.offsets_at(list(found.available), start.time_ms)
    if start.at == "offsets":
        return given_offsets(start.offsets or {}, found.available)
    return {
        partition: has.earliest if start.at == "earliest" else has.latest
        for partition, has in found.available.items()
    }


class Continuation:
    """Where a running job continues. Losses stop it, unless they are accepted; then they are recorded.

    Damage is believed only after several looks agree: a broker may report an older end, or not know a topic, for a
    moment after a change of leader.
    """

    def __init__(
        self,
        broker: BrokerOffsets,
        subscription: Subscription,
        accepts_loss: bool,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._broker = broker
        self._subscription = subscription
        self._accepts_loss = accepts_loss
        self._sleep = sleep

    def next_start(self, commit: Commit) -> tuple[Found, Start]:
        """What exists, and where the next batch begins."""
        found, start = self._certain(lambda found: continue_from(commit, self._subscription, found))
        if start.lost and not start.offsets:
            message = f"Nothing is left to read, waiting until it is created again. {loss_text(start.lost)}"
            raise NothingToRead(message)
        missing = self._subscription.missing(found)
        if missing and not self._accepts_loss:
            raise TopicMissing(_missing_text(self._broker, missing))
        return found, start

    def repeated(self, pending: Pending) -> tuple[Found, Pending]:
        """A started batch over its own ranges, whatever was added since; less only where Kafka lost part of them."""
        covered = [one for one in pending.ranges if self._subscription.covers(one.partition)]
        others = [one for one in pending.ranges if one not in covered]
        found, readable = self._certain(
            lambda found: still_readable(covered, pending.topic_ids, found)
        )
        if not readable.lost:
            return found, pending
        ranges = tuple(sorted([*readable.ranges, *others]))
        topic_ids = {**pending.topic_ids, **found.topic_ids}
        lost = pending.lost + readable.lost
        return found, replace(pending, ranges=ranges, lost=lost, topic_ids=topic_ids)

    def _certain(self, decide: Callable[[Found], Decision]) -> tuple[Found, Decision]:
        """Decide on what exists; a loss that may be a passing mistake is looked at again."""
        for attempt in range(_LOOKS):
            if attempt:
                self._sleep(_LOOK_AGAIN_SECONDS)
            found = look(self._broker, self._subscription)
            decision = decide(found)
            if not is_doubtful(decision.lost):
                break
        if decision.lost and not self._accepts_loss:
            raise DataLoss(loss_text(decision.lost))
        return found, decision


def _missing_text(broker: BrokerOffsets, missing: Sequence[str]) -> str:
    verb = "does" if len(missing) == 1 else "do"
    return (
        f"{', '.join(missing)} {verb} not exist on {broker.servers}: create it, start the shipper with "
        "kafka.create_topic = true, or set kafka.topic or stream.topics."
    )
