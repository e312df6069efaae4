"""access.log → Kafka: follow files, cut records, publish, remember positions.

In:   the files of `[[ship.sources]]`.     Out: records as `ingest.log_record` describes them.
Promise: a position is remembered only after Kafka confirmed every byte before it, so a crash
repeats lines and never skips one; the identity of a record lets the job drop what was repeated.
"""

from __future__ import annotations

import logging
import re
import resource
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

from ingest.cut_records import CutLimits
from ingest.errors import PositionsNotSavedError, ShipError
from ingest.kafka_publisher import KafkaPublisher
from ingest.log_follower import FollowRules, LogFollower
from ingest.position_file import PositionFile
from ingest.position_saver import PositionSaver
from ingest.settings import KafkaSettings, ShipSettings
from ingest.ship_metrics import ShipCounts

LOOK_SECONDS = 0.1
FLUSH_SECONDS = 10.0
_OTHER_DESCRIPTORS = 64
_MOST_LOG_FILES = 100_000
_log = logging.getLogger("ship")


def run_shipper(
    kafka: KafkaSettings,
    ship: ShipSettings,
    stop: threading.Event,
    counts: ShipCounts | None = None,
) -> None:
    """Ship until `stop` is set, then await confirmations (bounded) and save the last positions."""
    if not ship.sources:
        message = "No log files are configured: add a [[ship.sources]] table with paths."
        raise ShipError(message)
    counts = counts if counts is not None else ShipCounts()
    with (
        PositionFile(Path(ship.state_dir)).locked() as position_file,
        closing(open_follower(ship, position_file)) as follower,
    ):
        saver = PositionSaver(position_file, follower)
        saver.save_if_due(time.monotonic())
        with KafkaPublisher(kafka, ship, counts).connected() as publisher:
            ship_until_stopped(follower, publisher, saver, stop, counts)
            finish(publisher, saver)


def open_follower(ship: ShipSettings, position_file: PositionFile) -> LogFollower:
    """Go on where the last run stopped. The files are looked at before Kafka is asked for anything.

    So the first start is remembered even when no broker answers: lines written from then on count.
    """
    follower = LogFollower(ship.sources, follow_rules(ship), position_file.load())
    follower.look(time.monotonic(), time.time())
    return follower


def ship_until_stopped(
    follower: LogFollower,
    publisher: KafkaPublisher,
    saver: PositionSaver,
    stop: threading.Event,
    counts: ShipCounts,
) -> None:
    """Read, publish and remember, over and over; wait only when there is nothing to do."""
    _log.info("shipper started")
    while not stop.is_set():
        ship_once(follower, publisher, counts)
        saver.save_if_due(time.monotonic())
        if follower.has_more():
            publisher.wait_for_room(0.0 if publisher.has_room() else LOOK_SECONDS)
        else:
            publisher.wait(LOOK_SECONDS)


def ship_once(follower: LogFollower, publisher: KafkaPublisher, counts: ShipCounts) -> None:
    """1. Look for names. 2. Read while Kafka keeps up. 3. Say how far behind we are.

    Looking goes on while Kafka does not answer: a file that was opened is read even after it was
    rotated and deleted.
    """
    now = time.monotonic()
    follower.look(now, time.time())  # 1
    if publisher.has_room():
        for records in follower.read(now):  # 2
            for record in records:
                publisher.send(record)
            if not publisher.has_room():
                break
    measure(follower, counts, now)  # 3


def finish(publisher: KafkaPublisher, saver: PositionSaver) -> None:
    """Leave nothing to send again: wait for confirmations, then save the positions."""
    if not publisher.flush(FLUSH_SECONDS):
        extra = {"records": publisher.unconfirmed_count, "seconds": FLUSH_SECONDS}
        _log.error("shipper stops with unconfirmed records, they will be sent again", extra=extra)
    try:
        saver.save()
    except OSError as error:
        message = (
            f"The last positions could not be saved ({error}): make room in ship.state_dir; "
            f"the next start sends some lines again."
        )
        raise PositionsNotSavedError(message) from error
    _log.info("shipper stopped")


def measure(follower: LogFollower, counts: ShipCounts, now: float) -> None:
    """Bring the gauges up to date."""
    files = list(follower.files)
    counts.files = len(files)
    counts.behind_bytes = sum(file.behind_bytes for file in files)
    counts.behind_seconds = max((file.seconds_behind(now) for file in files), default=0.0)


def follow_rules(ship: ShipSettings) -> FollowRules:
    """The part of `[ship]` that the follower needs."""
    return FollowRules(
        host=ship.host or host_name(socket.gethostname()),
        limits=CutLimits(ship.lines_per_record, ship.max_record_bytes, ship.max_line_bytes),
        start_at_end=ship.start_at == "end",
        scan_seconds=ship.poll_seconds,
        # Long enough that a scan between two renames cannot take a current file for a rotated one.
        rotated_quiet_seconds=max(5.0, 2 * ship.poll_seconds),
        chunk_bytes=min(1_048_576, ship.max_unconfirmed_bytes),
        max_open_files=max_log_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )


def max_log_files(descriptor_limit: int) -> int:
    """How many logs may be open at once: some descriptors are left to Kafka and the positions."""
    if descriptor_limit == resource.RLIM_INFINITY:
        return _MOST_LOG_FILES
    return min(_MOST_LOG_FILES, max(8, descriptor_limit - _OTHER_DESCRIPTORS))


def host_name(name: str) -> str:
    """A host name in the characters a record key may hold."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).strip("-._")[:63] or "localhost"
