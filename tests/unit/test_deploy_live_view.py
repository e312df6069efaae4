from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from deploy.local.live_view import DemoView, live_view, share_bar, sparkline, status_mix

PROCESSES = dict.fromkeys(("kafka", "zookeeper", "ship", "stream"), "running")
URLS = {"metrics": "http://127.0.0.1:1/metrics", "grafana": "missing: install it"}


def a_status(client: str = "192.0.2.77", url: str = "/login") -> dict[str, Any]:
    return {
        "batch_interval_seconds": 2.0,
        "last_batch": {"seconds": 0.5},
        "rate_limit": {"lines_per_second": None, "because": "no limit"},
        "lag": {"records": 3, "seconds": 0.4},
        "totals": {"lines": 1234},
        "completeness": 1.0,
        "load": {
            "requests_per_second": 312.4,
            "bytes_per_second": 5_200_000,
            "status": {"2xx": 900, "4xx": 99, "5xx": 1},
            "p50_ms": 4.2,
            "p90_ms": 80.0,
            "p99_ms": None,
            "windows": [{"requests": 100}, {"requests": 300}],
            "top_urls": [{"key": url, "requests": 900, "bytes": 1}, {"key": "", "requests": 5}],
            "top_clients": [{"key": client, "requests": 90, "bytes": 1}],
        },
        "attackers": [
            {
                "id": "x",
                "client": client,
                "score": 431.2,
                "detectors": ["sql_injection"],
                "requests": 84,
                "open": True,
            }
        ],
    }


def drawn(view: DemoView, width: int = 100, height: int = 35) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=width, height=height, color_system=None)
    console.print(live_view(view, height), height=height)
    return screen.getvalue()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 35), (200, 60)])
def test_screen_fills_the_terminal_exactly(width: int, height: int) -> None:
    view = DemoView(61, PROCESSES, URLS, a_status(), [], 1300)

    lines = drawn(view, width, height).splitlines()

    assert len(lines) == height
    assert max(len(line) for line in lines) <= width


@pytest.mark.parametrize(
    "shown",
    [
        "312 requests/s",
        "5.2 MB/s",
        "2xx 90% 4xx 9.9% 5xx 0.1%",
        "p50 4 ms  p90 80 ms  p99 -",
        "batch 0.50 of 2 s",
        "limit none (no limit)",
        "lag 3 records, 0.4 s",
        "complete 100.000%  1,234/1,300",
        "/login",
        "sql_injection",
        "AttackIncident 192.0.2.77",
        "http://127.0.0.1:1/metrics",
        "grafana missing: install it",
        "1:01",
    ],
)
def test_screen_shows_everything_at_the_smallest_size(shown: str) -> None:
    alerts = [{"labels": {"alertname": "AttackIncident", "client": "192.0.2.77"}}]

    assert shown in drawn(DemoView(61, PROCESSES, URLS, a_status(), alerts, 1300), 80, 24)


def test_screen_before_the_job_answers_says_so() -> None:
    text = drawn(DemoView(1, PROCESSES, URLS))

    assert "the job is starting" in text
    assert "waiting for the first window" in text


def test_hostile_strings_move_no_cursor_and_are_no_markup() -> None:
    hostile = "\x1b[2J\x07[bold red]\u202egnp"
    alerts = [{"labels": {"alertname": hostile, "client": hostile}}]

    text = drawn(DemoView(1, PROCESSES, URLS, a_status(hostile, hostile), alerts), 160, 40)

    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert r"\x1b[2J\x07[bold red]\u202egnp" in text


def test_dead_process_is_visible() -> None:
    assert "stream ended" in drawn(DemoView(1, PROCESSES | {"stream": "ended"}, URLS))


def test_status_mix_leaves_out_what_did_not_occur() -> None:
    assert status_mix({"2xx": 1}).plain == "2xx 100% "
    assert status_mix({}).plain == ""


def test_sparkline_is_as_high_as_its_values() -> None:
    assert sparkline([0, 50, 100], 16).plain == "▁▄█"
    assert sparkline([], 16).plain == ""


def test_bar_is_never_longer_than_its_place() -> None:
    assert share_bar(0.5, 10).plain == "█████░░░░░"
    assert share_bar(3.0, 10).plain == "█" * 10
