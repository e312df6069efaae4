from __future__ import annotations

import ipaddress
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import polars as pl
import pytest

from deploy.local.traffic import AccessLog, Rotation
from deploy.local.traffic_attacks import EPISODES
from deploy.local.traffic_ledger import TrafficLedger, load_ledger
from deploy.local.traffic_model import TrafficModel, rhythm
from deploy.local.traffic_request import LOG_FORMAT, Request, access_log_line

EPOCH = 1_790_000_000.0
DOCUMENTATION = [
    ipaddress.ip_network(network)
    for network in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]


@cache
def requests_of(seconds: int, seed: int = 7) -> list[Request]:
    model = TrafficModel(Random(seed), 250)
    return [r for second in range(seconds) for r in model.requests(EPOCH, second, second + 1)]


def test_same_seed_gives_the_same_traffic_and_another_seed_another() -> None:
    assert requests_of(5) == requests_of(5)
    assert requests_of(5) != requests_of(5, seed=8)


def test_every_attack_happens_in_the_first_minute_and_injection_within_twenty_seconds() -> None:
    model = TrafficModel(Random(1), 50)

    for second in range(20):
        model.requests(EPOCH, second, second + 1)
    first = set(model.attack_requests)
    for second in range(20, 60):
        model.requests(EPOCH, second, second + 1)

    assert "sql injection" in first
    assert set(model.attack_requests) == {episode.name for episode in EPISODES}


def test_attacks_come_back_in_the_next_cycle() -> None:
    injection = EPISODES[0]

    assert injection.active_seconds(10, 10.5) == pytest.approx(0.5)
    assert injection.active_seconds(130, 130.5) == pytest.approx(0.5)
    assert injection.active_seconds(100, 100.5) == 0


def test_requests_lie_inside_their_slice_in_order() -> None:
    model = TrafficModel(Random(3), 250)

    times = [request.at for request in model.requests(EPOCH, 2.0, 2.5)]

    assert times == sorted(times)
    assert EPOCH + 2.0 <= times[0] <= times[-1] < EPOCH + 2.5


def test_rate_is_between_200_and_400_lines_a_second_without_attacks() -> None:
    model = TrafficModel(Random(5), 250)

    lines = sum(len(model.requests(EPOCH, second, second + 1)) for second in range(120))

    assert 200 < (lines - model.attack_requests.total()) / 120 < 400


def test_day_has_a_rhythm() -> None:
    day = [rhythm(second) for second in range(240)]

    assert min(day) == pytest.approx(0.6, abs=0.01)
    assert max(day) == pytest.approx(1.4, abs=0.01)


def test_every_address_is_reserved_for_documentation() -> None:
    addresses = {ipaddress.ip_address(request.client) for request in requests_of(60)}

    assert len(addresses) > 100
    assert not [a for a in addresses if not any(a in network for network in DOCUMENTATION)]


def test_several_sites_crawlers_and_errors_occur() -> None:
    requests = requests_of(60)

    assert {r.vhost for r in requests} == {"shop.example", "blog.example", "api.example"}
    assert any("Googlebot" in r.agent for r in requests)
    assert {2, 3, 4, 5} <= set(Counter(r.status // 100 for r in requests))


def test_every_generated_line_is_read_by_the_jobs_own_parser() -> None:
    from streaming.lines.access_line import parse_lines
    from streaming.lines.log_format import compile_log_format

    requests = requests_of(60)
    lines = pl.Series([access_log_line(request).removesuffix("\n") for request in requests])

    frame = parse_lines(lines, compile_log_format(LOG_FORMAT))

    assert frame["ok"].all()
    assert frame["client"].to_list() == [request.client for request in requests]
    assert frame["status"].to_list() == [request.status for request in requests]
    assert frame["duration_us"].to_list() == [request.duration_us for request in requests]


def test_line_looks_as_apache_writes_it() -> None:
    request = Request(
        at=1_794_999_600.0,
        vhost="shop.example",
        client="2001:db8::1",
        line="GET / HTTP/1.1",
        status=200,
        size=12,
        duration_us=345,
    )

    assert access_log_line(request) == (
        "shop.example:443 2001:db8::1 - - [18/Nov/2026:11:00:00 +0000] "
        '"GET / HTTP/1.1" 200 12 "-" "-" 345\n'
    )


def test_account_of_every_file_is_what_is_in_it_across_rotation(tmp_path: Path) -> None:
    ledger = TrafficLedger()
    log = AccessLog(tmp_path / "access.log", Rotation(10_000, 60, keep=50), ledger)
    model = TrafficModel(Random(9), 250)

    for second in range(5):
        log.append([access_log_line(r) for r in model.requests(EPOCH, second, second + 1)])
        log.rotate_when_due(second)
    log.close()

    found = {str(p): (p.read_bytes().count(b"\n"), p.stat().st_size) for p in tmp_path.iterdir()}
    assert {file.path: (file.lines, file.bytes) for file in ledger.files} == found
    assert len(found) == 6


def test_oldest_rotated_files_go_and_stay_in_the_account(tmp_path: Path) -> None:
    ledger = TrafficLedger()
    log = AccessLog(tmp_path / "access.log", Rotation(1, 60, keep=2), ledger)

    for _ in range(5):
        log.append(["a\n"])
        log.rotate_when_due(0)
    log.close()

    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["access.log", "access.log.0004", "access.log.0005"]
    assert ledger.lines == 5


def test_file_without_lines_is_not_rotated(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "access.log", Rotation(1, 1, keep=2), TrafficLedger())

    log.rotate_when_due(100)
    log.close()

    assert [path.name for path in tmp_path.iterdir()] == ["access.log"]


def test_ledger_survives_writing_and_reading(tmp_path: Path) -> None:
    ledger = TrafficLedger(attack_requests={"scan": 3}, finished=True)

    ledger.save(tmp_path / "generator.json")

    assert load_ledger(tmp_path / "generator.json") == ledger
    assert load_ledger(tmp_path / "missing.json") is None


def test_ordinary_visitors_ask_for_fewer_than_200_pages_a_minute() -> None:
    """Else the flood detector would rightly take them for attackers."""
    attackers = {episode.attack(Random(1), 0.0).client for episode in EPISODES[:3]}
    busiest_minute = TrafficModel(Random(4), 250)

    requests = [
        r for second in range(60, 120) for r in busiest_minute.requests(EPOCH, second, second + 1)
    ]
    pages = Counter(r.client for r in requests if "/static/" not in r.line)

    assert not attackers & set(pages)
    assert max(pages.values()) < 200
