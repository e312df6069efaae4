"""The shipper against a real broker: every byte arrives, and identity removes what came twice."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.broker_topics import create_topic, read_all
from support.waiting import wait_until

from ingest import kafka_topic
from ingest.errors import BrokerUnreachableError, StateInUseError, TopicMissingError
from ingest.log_record import decode_key
from ingest.run import run_shipper
from ingest.settings import KafkaSettings, ShipSettings, ShipSource
from ingest.ship_metrics import ShipCounts

pytestmark = pytest.mark.integration

SHIPPER_PROCESS = """
import signal, sys, threading
from ingest.run import run_shipper
from ingest.settings import KafkaSettings, ShipSettings
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
kafka = KafkaSettings.model_validate_json(sys.argv[1])
run_shipper(kafka, ShipSettings.model_validate_json(sys.argv[2]), stop)
"""


class Site:
    """A log folder, the settings of its shipper, and what Kafka received from it."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, **ship) -> None:
        self.folder = folder / "logs"
        self.folder.mkdir()
        self.log = self.folder / "access.log"
        self.state = folder / "state"
        self.bootstrap = bootstrap
        self.kafka = KafkaSettings(bootstrap_servers=bootstrap, topic=topic)
        self.ship = ShipSettings(
            sources=[ShipSource(paths=[str(self.log)])],
            host="web1",
            state_dir=str(self.state),
            **ship,
        )

    def write(self, data: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(data)

    @contextmanager
    def shipping(self) -> Iterator[ShipCounts]:
        stop, counts, failures = threading.Event(), ShipCounts(), []

        def run() -> None:
            try:
                run_shipper(self.kafka, self.ship, stop, counts)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield counts
        finally:
            stop.set()
            thread.join(30)
        assert failures == []

    def start_process(self) -> subprocess.Popen:
        settings = [self.kafka.model_dump_json(), self.ship.model_dump_json()]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        process = subprocess.Popen(
            [sys.executable, "-c", SHIPPER_PROCESS, *settings], env=environment
        )
        wait_until(lambda: self.owner() == process.pid)
        return process

    def owner(self) -> int | None:
        """Pid of the shipper that owns the state; None before the first one."""
        lock = self.state / "lock"
        text = lock.read_text().strip() if lock.exists() else ""
        return int(text) if text else None

    def records(self) -> list[tuple]:
        found = read_all(self.bootstrap, self.kafka.topic)
        return [(decode_key(record.key), record.value or b"", record) for record in found]

    def contents(self) -> dict[str, bytes]:
        """Each generation's bytes after dropping what was sent again; a gap fails the test."""
        contents: dict[str, bytes] = {}
        for identity, value, _ in self.records():
            known = contents.setdefault(identity.generation, b"")
            whole = value + b"\n" if identity.truncated_end is None else value
            assert identity.byte_offset <= len(known), "a gap"
            contents[identity.generation] = known + whole[len(known) - identity.byte_offset :]
        return contents

    def resent_bytes(self) -> int:
        shipped = sum(i.end_offset(len(v)) - i.byte_offset for i, v, _ in self.records())
        return shipped - sum(len(content) for content in self.contents().values())


@pytest.fixture
def site(tmp_path, kafka_bootstrap, topic_name):
    create_topic(kafka_bootstrap, topic_name, partitions=3)
    return Site(tmp_path, kafka_bootstrap, topic_name)


def lines(first: int, count: int) -> bytes:
    form = b'192.0.2.%d - - [10/Oct/2000:13:55:36 -0700] "GET /page/%08d HTTP/1.1" 200 2326\n'
    return b"".join(form % (n % 250, n) for n in range(first, first + count))


def bytes_on_disk(site: Site) -> list[bytes]:
    return sorted(path.read_bytes() for path in site.folder.iterdir())


def test_lines_arrive_byte_for_byte_in_one_partition(site):
    hostile = b"\x00\r\xff \xe2\x80\xa8 \x1b[2J ${jndi:ldap://127.0.0.1:1/x}\n\n"
    site.write(lines(0, 2000) + hostile)

    with site.shipping() as counts:
        wait_until(lambda: counts.lines == 2002)

    assert list(site.contents().values()) == [lines(0, 2000) + hostile]
    assert len({record.partition for _, _, record in site.records()}) == 1
    headers = {record.headers for _, _, record in site.records()}
    assert headers == {(("path", str(site.log).encode()),)}
    assert counts.behind_bytes == 0 or counts.unconfirmed_bytes == 0


def test_lines_rotated_every_ten_all_arrive(site):
    with site.shipping() as counts:
        wait_until((site.state / "positions.json").exists)
        for number in range(100):
            site.write(lines(10 * number, 10))
            site.log.rename(site.folder / f"access.log.{number}")
        wait_until(lambda: counts.lines >= 1000, within=20)

    assert sorted(site.contents().values()) == bytes_on_disk(site)
    assert site.resent_bytes() == 0


def test_shifting_rotation_loses_nothing(site):
    """As logrotate does it: .2 becomes .3, .1 becomes .2, the log becomes .1."""
    with site.shipping() as counts:
        wait_until((site.state / "positions.json").exists)
        for number in range(60):
            site.write(lines(10 * number, 10))
            for age in range(number, 0, -1):
                (site.folder / f"access.log.{age}").rename(site.folder / f"access.log.{age + 1}")
            site.log.rename(site.folder / "access.log.1")
        wait_until(lambda: counts.lines >= 600, within=20)

    assert sorted(site.contents().values()) == bytes_on_disk(site)
    assert site.resent_bytes() == 0


def test_killed_shipper_loses_nothing(site):
    total, written = 20_000, 0
    for seconds in (0.3, 0.9, 0.2, 1.2, 0.5, 0.7):
        process = site.start_process()
        wait_until((site.state / "positions.json").exists)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            site.write(lines(written, 50))
            written += 50
            if written % 1000 == 0:
                site.log.rename(site.folder / f"access.log.{written}")
            threading.Event().wait(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    site.write(lines(written, total - written))

    with site.shipping() as counts:
        wait_until(
            lambda: sum(map(len, site.contents().values())) == len(lines(0, total)), within=30
        )

    assert sorted(site.contents().values()) == bytes_on_disk(site)
    assert counts.dropped == {}


def test_clean_stop_leaves_nothing_to_resend(site):
    written = 0
    for _ in range(3):
        process = site.start_process()
        for _ in range(40):
            site.write(lines(written, 25))
            written += 25
            threading.Event().wait(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    with site.shipping() as counts:
        wait_until(lambda: counts.files == 1 and counts.behind_bytes == 0)

    assert list(site.contents().values()) == [lines(0, written)]
    assert site.resent_bytes() == 0


def test_line_over_the_cap_is_cut_and_counted(tmp_path, kafka_bootstrap, topic_name):
    create_topic(kafka_bootstrap, topic_name)
    site = Site(tmp_path, kafka_bootstrap, topic_name, max_line_bytes=1000)
    site.write(b"before\n" + b"x" * 5_000_000 + b"\nafter\n")

    with site.shipping() as counts:
        wait_until(lambda: counts.lines == 3)

    identities = [identity for identity, _, _ in site.records()]
    assert [value for _, value, _ in site.records()] == [b"before", b"x" * 1000, b"after"]
    assert [identity.byte_offset for identity in identities] == [0, 7, 5_000_008]
    assert identities[1].truncated_end == 5_000_008
    assert counts.truncated == 1


def test_refused_record_is_counted_and_others_arrive(tmp_path, kafka_bootstrap, topic_name, caplog):
    create_topic(kafka_bootstrap, topic_name, config={"max.message.bytes": "20000"})
    site = Site(tmp_path, kafka_bootstrap, topic_name, lines_per_record=1)
    incompressible = os.urandom(40_000).replace(b"\n", b" ")
    site.write(lines(0, 500) + incompressible + b"\n" + lines(500, 500))

    with caplog.at_level(logging.ERROR, logger="ship"), site.shipping() as counts:
        wait_until(lambda: counts.lines == 1000, within=20)

    assert counts.dropped == {"too_large": 1}
    assert {value for _, value, _ in site.records()} == set(lines(0, 1000).splitlines())
    assert "record refused by the broker, its lines are lost" in caplog.text
    with site.shipping() as second_counts:
        wait_until(lambda: second_counts.files == 1 and second_counts.behind_bytes == 0)
    assert second_counts.dropped == {}


def test_missing_topic_is_a_clear_error(tmp_path, kafka_bootstrap, topic_name):
    site = Site(tmp_path, kafka_bootstrap, topic_name)

    with pytest.raises(TopicMissingError) as missing:
        run_shipper(site.kafka, site.ship, threading.Event())

    assert str(missing.value) == (
        f"Topic {topic_name!r} does not exist on {kafka_bootstrap}: create it, "
        f"or set kafka.create_topic = true."
    )


def test_missing_topic_is_created_where_allowed(tmp_path, kafka_bootstrap, topic_name):
    site = Site(tmp_path, kafka_bootstrap, topic_name)
    site.kafka = site.kafka.model_copy(update={"create_topic": True, "topic_partitions": 2})
    site.write(lines(0, 10))

    with site.shipping() as counts:
        wait_until(lambda: counts.lines == 10)

    assert list(site.contents().values()) == [lines(0, 10)]


def test_silent_broker_is_an_error_with_its_address(
    tmp_path, kafka_bootstrap, topic_name, monkeypatch
):
    monkeypatch.setattr(kafka_topic, "ANSWER_SECONDS", 1.0)
    site = Site(tmp_path, "127.0.0.1:1", topic_name)

    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1 within 1 s .*bootstrap_serv"):
        run_shipper(site.kafka, site.ship, threading.Event())


def test_second_shipper_on_one_state_is_refused(site):
    site.write(lines(0, 1))
    with site.shipping() as counts:
        wait_until(lambda: counts.lines == 1)

        with pytest.raises(StateInUseError, match=f"pid {os.getpid()}"):
            run_shipper(site.kafka, site.ship, threading.Event())


def test_line_written_to_a_quiet_file_arrives_soon(site):
    site.write(lines(0, 1))
    with site.shipping() as counts:
        wait_until(lambda: counts.lines == 1)
        began = time.monotonic()
        site.write(lines(1, 1))
        wait_until(lambda: counts.lines == 2, every=0.005)
        took = time.monotonic() - began

    assert took < 1.0


def test_lost_broker_delays_lines_and_loses_none(tmp_path, kafka_bootstrap, server_keeper):
    """The broker is stopped; lines are written, rotated and deleted; the broker returns."""
    from support.servers import cache_folder

    from deploy.local import java, kafka

    folder = tmp_path / "kafka"
    found = java.find_java(os.environ)
    program = kafka.find_broker(server_keeper, found, cache_folder(), lambda _: None)
    broker = kafka.start_kafka(server_keeper, program, folder)
    create_topic(broker.bootstrap_servers, "outage")
    site = Site(tmp_path, broker.bootstrap_servers, "outage", max_unconfirmed_bytes=65_536)
    site.write(lines(0, 100))
    with site.shipping() as counts:
        wait_until(lambda: counts.lines == 100)
        broker.process.stop()
        site.write(lines(100, 20_000))
        wait_until(lambda: counts.behind_bytes > 1_000_000)
        site.log.unlink()
        site.write(lines(20_100, 100))
        wait_until(lambda: counts.files == 2)
        site.log.rename(site.folder / "access.log.1")
        assert counts.unconfirmed_bytes <= 2 * 65_536
        assert counts.lines == 100
        broker = kafka._start(server_keeper, program, folder, broker.port)
        wait_until(lambda: counts.lines == 20_200, within=60)

    assert sorted(site.contents().values()) == sorted([lines(0, 20_100), lines(20_100, 100)])
    broker.process.stop()
