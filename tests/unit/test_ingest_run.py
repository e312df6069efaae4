"""The small decisions of the shipper's main loop."""

import resource
import threading

import pytest

from ingest.errors import ShipError
from ingest.kafka_publisher import partition_of
from ingest.run import follow_rules, host_name, max_log_files, run_shipper
from ingest.settings import KafkaSettings, ShipSettings


def test_no_sources_is_an_error_that_says_what_to_add():
    with pytest.raises(ShipError, match=r"\[\[ship\.sources\]\]"):
        run_shipper(KafkaSettings(), ShipSettings(), threading.Event())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web1.example.org", "web1.example.org"),
        ("web|1", "web-1"),
        ("-web", "web"),
        ("", "localhost"),
        ("x" * 80, "x" * 63),
    ],
)
def test_host_name_fits_into_a_record_key(name, expected):
    assert host_name(name) == expected


@pytest.mark.parametrize(
    ("limit", "files"),
    [(1024, 960), (100, 36), (20, 8), (resource.RLIM_INFINITY, 100_000)],
)
def test_some_descriptors_are_left_to_kafka(limit, files):
    assert max_log_files(limit) == files


def test_rotated_file_stays_open_longer_than_two_scans():
    rules = follow_rules(ShipSettings(poll_seconds=30))

    assert rules.rotated_quiet_seconds >= 2 * rules.scan_seconds


def test_generation_has_a_stable_partition():
    assert partition_of("0123456789abcdef", 12) == partition_of("0123456789abcdef", 12)
    assert {partition_of(f"{n:016x}", 4) for n in range(100)} == {0, 1, 2, 3}
