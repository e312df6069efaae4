from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from streaming.attacks.attack_partials import ATTACKS, attack_partial
from streaming.attacks.behaviour import (
    BEHAVIOUR,
    FEW_REQUESTS,
    behaviour_hits,
    count_clients,
    distinct_paths,
)
from streaming.attacks.detector import load_detectors
from streaming.attacks.incident import IncidentBook, IncidentPolicy
from streaming.attacks.match import match_lines
from streaming.lines.access_line import parse_lines
from streaming.lines.log_format import compile_log_format

DETECTORS = load_detectors()
START = 1_794_992_400


def attack(window: int = START, points: int = 5, **fields: Any) -> dict[str, Any]:
    return {
        "window": window,
        "service": "web",
        "client": "203.0.113.9",
        "detector": "sqli",
        "partition": 0,
        "requests": 1,
        "first_requests": 1,
        "points": points,
        "first_offset": 10,
        "last_offset": 20,
        "sample": "a line",
        **fields,
    }


def attacks(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=ATTACKS.schema)


def behaviour(*rows: dict[str, Any]) -> pl.DataFrame:
    zero: dict[str, Any] = dict.fromkeys(BEHAVIOUR.schema, 0)
    place = {"window": START, "service": "web", "client": "203.0.113.9"}
    return pl.DataFrame([{**zero, **place, **row} for row in rows], schema=BEHAVIOUR.schema)


def book(**policy: Any) -> IncidentBook:
    return IncidentBook(DETECTORS, IncidentPolicy(**policy))


def test_points_halve_with_every_half_life() -> None:
    incidents = book(half_life_seconds=300)
    incidents.update(attacks(attack(points=8)), behaviour())
    (attacker,) = incidents.attackers(START)
    assert incidents.score(attacker, START) == 8
    assert incidents.score(attacker, START + 300) == pytest.approx(4)
    assert incidents.score(attacker, START + 600) == pytest.approx(2)
    assert incidents.score(attacker, START - 50) == 8


def test_late_points_count_as_if_they_had_come_in_time() -> None:
    rows = [attack(START, 8), attack(START + 300, 4), attack(START + 30, 5)]
    scores = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        incidents = book()
        for index in order:
            incidents.update(attacks(rows[index]), behaviour())
        scores.append(incidents.score(incidents.attackers(START)[0], START + 300))
    assert scores == pytest.approx([scores[0]] * 3)


def test_an_attacker_is_an_incident_from_the_threshold_until_it_was_quiet() -> None:
    incidents = book(incident_score=15, resolve_after_seconds=300)
    incidents.update(attacks(attack(points=10)), behaviour())
    assert incidents.incidents() == []
    incidents.update(attacks(attack(START + 10, points=10)), behaviour())
    (attacker,) = incidents.incidents()
    assert incidents.opened == {"web": 1}
    first_id = attacker.incident_id
    assert incidents.is_open(attacker, START + 300)
    assert not incidents.is_open(attacker, START + 320)
    incidents.update(attacks(attack(START + 2000, points=20)), behaviour())
    assert incidents.opened == {"web": 2}
    assert attacker.incident_id != first_id


def test_one_attacker_groups_all_detectors_with_its_evidence() -> None:
    incidents = book()
    incidents.update(
        attacks(
            attack(first_offset=30, last_offset=40),
            attack(detector="xss", first_offset=5, last_offset=9, requests=2, first_requests=1),
            attack(partition=3, first_offset=7, last_offset=7),
            attack(service="shop"),
        ),
        behaviour(),
    )
    web = next(one for one in incidents.attackers(START) if one.service == "web")
    assert web.detectors == {"sqli": 2, "xss": 2}
    assert web.evidence == {0: (5, 40), 3: (7, 7)}
    assert (web.requests, web.sample) == (3, "a line")
    assert (web.first_seen, web.last_seen) == (START, START + 10)


def test_the_weakest_make_room() -> None:
    incidents = book(max_attackers=2)
    rows = [attack(client=f"192.0.2.{n}", points=n) for n in (3, 1, 2)]
    incidents.update(attacks(*rows), behaviour())
    assert [one.client for one in incidents.attackers(START)] == ["192.0.2.3", "192.0.2.2"]


def test_a_rebuilt_or_restored_book_is_the_same_book() -> None:
    batches = [
        (
            attacks(attack(START + 10 * n, points=n)),
            behaviour({"window": START + 10 * n, "requests": 50, "dynamic_requests": 50}),
        )
        for n in range(1, 8)
    ]
    first, second = book(), book()
    for batch in batches:
        first.update(*batch)
        second.update(*batch)
    restored = book()
    restored.fill_from(json.loads(json.dumps(first.to_document())), first.behaviour)
    assert first.to_document() == second.to_document() == restored.to_document()
    assert "flood" in first.attackers(START)[0].detectors


def test_brute_force_over_several_windows_counts_once_a_minute() -> None:
    incidents = book()
    for n in range(12):
        row = {"window": START + 10 * n, "requests": 3, "dynamic_requests": 3, "login_failures": 3}
        incidents.update(attacks(), behaviour(row))
    (attacker,) = incidents.attackers(START)
    assert set(attacker.detectors) == {"brute_force"}
    assert attacker.counted_at == {"brute_force": START + 90}
    assert attacker.score_at(START + 90, 300) == pytest.approx(15 + 15 * 0.5 ** (60 / 300))


def test_batches_of_one_window_add_up() -> None:
    incidents = book()
    for _ in range(4):
        incidents.update(
            attacks(), behaviour({"requests": 3, "login_failures": 3, "dynamic_requests": 3})
        )
    assert set(incidents.attackers(START)[0].detectors) == {"brute_force"}


def hits(*rows: dict[str, Any]) -> set[str]:
    return set(behaviour_hits(behaviour(*rows), DETECTORS)["detector"])


SIXTEEN_PATHS = (1 << 16) - 1


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"login_failures": 9, "requests": 9, "dynamic_requests": 9}], set()),
        ([{"login_failures": 10, "requests": 10, "dynamic_requests": 10}], {"brute_force"}),
        ([{"requests": 900, "dynamic_requests": 199}], set()),
        ([{"requests": 200, "dynamic_requests": 200}], {"flood"}),
        (
            [{"window": START + 50 * n, "requests": 100, "dynamic_requests": 100} for n in (0, 1)],
            {"flood"},
        ),
        (
            [{"window": START + 60 * n, "requests": 100, "dynamic_requests": 100} for n in (0, 1)],
            set(),
        ),
        (
            [
                {
                    "requests": 20,
                    "dynamic_requests": 20,
                    "not_found": 20,
                    "not_found_paths": SIXTEEN_PATHS,
                }
            ],
            {"not_found_sweep"},
        ),
        (
            [
                {
                    "requests": 99,
                    "dynamic_requests": 99,
                    "not_found": 20,
                    "not_found_paths": SIXTEEN_PATHS,
                }
            ],
            set(),
        ),
        ([{"requests": 50, "dynamic_requests": 50, "not_found": 50, "not_found_paths": 3}], set()),
    ],
)
def test_behaviour_reaches_its_thresholds(rows: list[dict[str, Any]], expected: set[str]) -> None:
    assert hits(*rows) == expected


def request_rows(*rows: dict[str, Any]) -> pl.DataFrame:
    base = {
        "window": START,
        "service": "web",
        "client": "203.0.113.9",
        "method": "GET",
        "path": "/",
        "status": 200,
        "bytes": 10,
        "duration_us": 5,
    }
    return pl.DataFrame([{**base, **row} for row in rows], schema_overrides={"status": pl.Int32})


@pytest.mark.parametrize(
    ("row", "counted"),
    [
        ({"method": "POST", "path": "/login", "status": 401}, 1),
        ({"method": "POST", "path": "/wp-login.php", "status": 200}, 1),
        ({"method": "POST", "path": "/account/sign-in", "status": 403}, 1),
        ({"method": "POST", "path": "/login", "status": 302}, 0),
        ({"method": "POST", "path": "/login", "status": 200}, 0),
        ({"method": "GET", "path": "/login", "status": 401}, 0),
        ({"method": "POST", "path": "/blogging", "status": 403}, 0),
    ],
)
def test_a_failed_login_is_a_refused_post_to_a_login_page(
    row: dict[str, Any], counted: int
) -> None:
    clients, _ = count_clients(request_rows(row))
    assert clients["login_failures"].to_list() == [counted]


def test_only_clients_that_could_matter_travel_to_the_driver() -> None:
    few = [{"client": "192.0.2.1"}] * (FEW_REQUESTS - 1)
    many = [{"client": "192.0.2.2", "path": "/x.css"}] * FEW_REQUESTS
    refused = [{"client": "192.0.2.3", "status": 404, "path": f"/{n}"} for n in range(3)]
    clients, table = count_clients(request_rows(*few, *many, *refused, {"client": None}))
    assert clients.height == 4
    rows = table.rows_by_key("client", named=True, unique=True)
    assert set(rows) == {"192.0.2.2", "192.0.2.3"}
    assert (rows["192.0.2.2"]["requests"], rows["192.0.2.2"]["dynamic_requests"]) == (
        FEW_REQUESTS,
        0,
    )
    assert rows["192.0.2.3"]["not_found"] == 3
    assert rows["192.0.2.3"]["not_found_paths"].bit_count() in (2, 3)
    assert rows["192.0.2.2"]["not_found_paths"] == 0


def test_sets_of_paths_merge_by_union() -> None:
    merged = BEHAVIOUR.merge(
        [behaviour({"not_found_paths": 0b011}), behaviour({"not_found_paths": 0b110})]
    )
    assert merged["not_found_paths"].to_list() == [0b111]
    assert_frame_equal(merged, BEHAVIOUR.merge([merged, BEHAVIOUR.empty()]))


def test_the_number_of_distinct_paths_is_estimated_from_their_bits() -> None:
    bits = pl.DataFrame({"bits": [0, 1, (1 << 14) - 1, (1 << 63) - 1]})
    assert bits.select(distinct_paths(pl.col("bits"))).to_series().to_list() == [0, 1, 16, 305]


def test_a_request_that_two_detectors_recognise_is_one_request() -> None:
    line = (
        '203.0.113.9 - - [18/Nov/2026:10:00:00 +0000] "GET /?id=1%27+union+select+password+from+users '
        'HTTP/1.1" 200 5 "-" "sqlmap/1.7"'
    )
    rows = parse_lines(pl.Series([line]), compile_log_format("combined")).with_columns(
        service=pl.lit("web"),
        partition=pl.lit(0, pl.Int32),
        record_offset=pl.lit(7, pl.Int64),
        line=pl.lit(line),
        window=pl.lit(START, pl.Int64),
    )
    incidents = book()

    incidents.update(attack_partial(match_lines(rows, DETECTORS)), behaviour())

    (attacker,) = incidents.attackers(START)
    assert attacker.detectors == {"scanner_agent": 1, "sqli": 1}
    assert attacker.requests == 1
