"""`palisade offsets`: what is committed against what Kafka has, and what a reset would do. I/O in one place."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from offsets.commands import (
    OffsetRow,
    PlannedReset,
    StoredPipeline,
    offset_rows,
    plan_reset,
    read_pipeline,
    refuse_while_running,
    reset_rows,
)
from offsets.errors import StartRefused
from offsets.offset_range import Offsets, TopicPartition
from offsets.reconcile import Found
from offsets.store import Commit
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession
from streaming.broker_offsets import BrokerOffsets
from streaming.plan.subscription import FirstStart
from streaming.record_times import waiting_seconds
from streaming.settings import JobSettings, timestamp_ms
from streaming.subscription import first_offsets, look, look_for_all

Target = Literal["earliest", "latest", "time", "offsets"]


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """What the operator asked for."""

    to: Target
    time: str = ""
    offsets: str = ""

    def first_start(self) -> FirstStart:
        """The same in the words of a job's start; refuses values that do not belong together."""
        for needs, option, given in (
            ("time", "--time", self.time),
            ("offsets", "--offsets", self.offsets),
        ):
            if (self.to == needs) != bool(given):
                message = f"--to {needs} and {option} belong together: give both or none."
                raise StartRefused(message)
        try:
            time_ms = timestamp_ms(self.time) if self.time else 0
            return FirstStart(self.to, time_ms, parse_offsets(self.offsets))
        except ValueError as error:
            message = f"{error}."
            raise StartRefused(message) from error


def parse_offsets(text: str) -> Offsets:
    """`access-log:0=5,access-log:1=7` as offsets."""
    offsets: Offsets = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        place, _, number = part.partition("=")
        if not number.strip().isdecimal():
            message = f"'{part}' is no offset: write topic:partition=offset, as in access-log:0=5"
            raise ValueError(message)
        offsets[TopicPartition.parse(place)] = int(number)
    return offsets


def overview(
    settings: JobSettings, session: ZookeeperSession, paths: ZnodePaths
) -> tuple[StoredPipeline, list[OffsetRow]]:
    """Where the job stands, and how far behind."""
    stored = read_pipeline(session, paths)
    found = look(BrokerOffsets(settings.kafka), settings.subscription)
    waiting = waiting_seconds(settings.kafka, _waiting(stored.commit, found), time.time())
    return stored, offset_rows(stored.commit, found.available, waiting)


def prepare_reset(
    settings: JobSettings, session: ZookeeperSession, paths: ZnodePaths, request: ResetRequest
) -> PlannedReset:
    """What the reset would do, to be shown before it is done."""
    start = request.first_start()
    stored = read_pipeline(session, paths)
    refuse_while_running(stored)
    broker = BrokerOffsets(settings.kafka)
    found = look_for_all(broker, settings.subscription)
    targets = (
        _known(start.offsets or {}, found)
        if request.to == "offsets"
        else first_offsets(broker, found, start)
    )
    rows = reset_rows(stored.commit, found.available, targets)
    return plan_reset(stored, rows, found.topic_ids, settings.subscription.covers)


def _known(offsets: Mapping[TopicPartition, int], found: Found) -> Mapping[TopicPartition, int]:
    unknown = sorted(one for one in offsets if one not in found.available)
    if unknown:
        message = (
            f"--offsets names {', '.join(map(str, unknown))}, but the partitions to read are "
            f"{', '.join(map(str, sorted(found.available)))}."
        )
        raise StartRefused(message)
    return offsets


def _waiting(commit: Commit, found: Found) -> Offsets:
    """The first unread offset of every partition that lags."""
    positions = {
        one: max(commit.offsets.get(one, has.earliest), has.earliest)
        for one, has in found.available.items()
    }
    return {one: at for one, at in positions.items() if at < found.available[one].latest}
