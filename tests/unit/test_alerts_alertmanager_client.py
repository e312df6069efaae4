"""The outbox: told once, repeated, resolved, and kept while Alertmanager is down."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from alerts.alertmanager_client import AlertmanagerClient, AlertmanagerOutbox
from alerts.incident_notice import IncidentNotice

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
AN_INCIDENT = IncidentNotice(
    id="shop-198.51.100.7-1",
    service="shop",
    client="198.51.100.7",
    score=42.0,
    detectors=("sql_injection", "scanner"),
    requests=17,
    first_seen=NOON - timedelta(minutes=2),
    last_seen=NOON - timedelta(seconds=30),
    open=True,
    topic="access-log",
    partition=3,
    first_offset=100,
    last_offset=120,
    sample="GET /?id=1 OR 1=1",
)
CLOSED = replace(AN_INCIDENT, open=False)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@dataclass
class FakeAlertmanager:
    """Answers with `status`, or not at all when it is None, and remembers what it was sent."""

    status: int | None = 200
    requests: list[list[dict[str, Any]]] = field(default_factory=list)
    while_answering: Callable[[], None] = lambda: None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.status is None:
            message = "connection refused"
            raise httpx.ConnectError(message, request=request)
        self.requests.append(json.loads(request.content))
        self.while_answering()
        headers = {"location": "http://elsewhere.example/"} if self.status == 302 else {}
        return httpx.Response(self.status, headers=headers, text="answer\x1b[2J")

    @property
    def alerts(self) -> list[dict[str, Any]]:
        return [alert for request in self.requests for alert in request]

    def states(self) -> list[tuple[str, bool]]:
        """Severity of each alert it got, and whether it was to fire for another five minutes."""
        return [
            (alert["labels"]["severity"], alert["endsAt"] > alert["startsAt"])
            for alert in self.alerts
        ]


@pytest.fixture
def alertmanager() -> FakeAlertmanager:
    return FakeAlertmanager()


@pytest.fixture
def outbox(alertmanager: FakeAlertmanager) -> AlertmanagerOutbox:
    return an_outbox(alertmanager)


def an_outbox(alertmanager: FakeAlertmanager, capacity: int = 1000) -> AlertmanagerOutbox:
    client = AlertmanagerClient(
        "http://alertmanager.example/prefix/", httpx.MockTransport(alertmanager)
    )
    return AlertmanagerOutbox(client, capacity=capacity)


def ends_at(alert: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(alert["endsAt"])


def many(count: int) -> Sequence[IncidentNotice]:
    return [
        replace(AN_INCIDENT, id=str(number), client=f"192.0.2.{number}") for number in range(count)
    ]


def test_new_incident_is_sent_at_once_and_fires_for_five_minutes(outbox, alertmanager):
    outbox.offer([AN_INCIDENT], NOON)

    report = outbox.flush(NOON)

    assert (report.sent, report.waiting, report.problem) == (1, 0, None)
    assert [ends_at(alert) for alert in alertmanager.alerts] == [NOON + 5 * MINUTE]


def test_open_incident_is_repeated_every_minute_and_not_between(outbox, alertmanager):
    for second in range(0, 130, 10):
        now = NOON + second * SECOND
        outbox.offer([AN_INCIDENT], now)
        outbox.flush(now)

    assert [ends_at(alert) for alert in alertmanager.alerts] == [
        NOON + 5 * MINUTE,
        NOON + 6 * MINUTE,
        NOON + 7 * MINUTE,
    ]


def test_closed_incident_is_resolved_once(outbox, alertmanager):
    outbox.offer([AN_INCIDENT], NOON)
    outbox.flush(NOON)
    later = NOON + 10 * MINUTE
    for second in (0, 1, 70):
        outbox.offer([CLOSED], later + second * SECOND)
        outbox.flush(later + second * SECOND)

    assert [ends_at(alert) for alert in alertmanager.alerts] == [NOON + 5 * MINUTE, later]


def test_incident_that_closes_at_once_still_fires_long_enough_to_be_notified(outbox, alertmanager):
    outbox.offer([AN_INCIDENT], NOON)
    outbox.flush(NOON)
    outbox.offer([CLOSED], NOON + SECOND)
    outbox.flush(NOON + SECOND)
    assert len(alertmanager.alerts) == 1

    outbox.flush(NOON + 2 * MINUTE)

    assert ends_at(alertmanager.alerts[-1]) == NOON + 2 * MINUTE


def test_incident_that_is_over_before_anybody_heard_of_it_fires_first(outbox, alertmanager):
    alertmanager.status = None
    outbox.offer([AN_INCIDENT], NOON)
    outbox.flush(NOON)
    outbox.offer([CLOSED], NOON + MINUTE)
    alertmanager.status = 200
    hour_later = NOON + 60 * MINUTE

    outbox.flush(hour_later)
    outbox.flush(hour_later + 3 * MINUTE)

    assert [ends_at(alert) for alert in alertmanager.alerts] == [
        hour_later + 5 * MINUTE,
        hour_later + 3 * MINUTE,
    ]
    assert alertmanager.alerts[0]["annotations"]["description"].endswith("It has ended.")


def test_newest_state_wins_while_alertmanager_is_down(outbox, alertmanager):
    alertmanager.status = None
    for requests in (17, 18, 400):
        outbox.offer([replace(AN_INCIDENT, requests=requests)], NOON)
        outbox.flush(NOON)
    alertmanager.status = 200

    outbox.flush(NOON + 5 * MINUTE)

    assert len(alertmanager.alerts) == 1
    assert "sent 400 attack requests" in alertmanager.alerts[0]["annotations"]["description"]


def test_pauses_between_attempts_grow_and_end_with_success(outbox, alertmanager):
    attempts: list[int] = []
    alertmanager.status = None
    outbox.offer([AN_INCIDENT], NOON)
    for second in range(200):
        report = outbox.flush(NOON + second * SECOND)
        assert report.waiting == 1
        if report.problem and "does not answer" in report.problem:
            attempts.append(second)
    alertmanager.status = 200

    report = outbox.flush(NOON + 300 * SECOND)

    assert attempts == [0, 2, 6, 14, 30, 62, 122, 182]
    assert (report.sent, report.problem) == (1, None)


@pytest.mark.parametrize("status", [302, 401, 404, 413, 500, 503])
def test_refusal_of_the_whole_request_keeps_the_alerts(outbox, alertmanager, status: int):
    alertmanager.status = status
    outbox.offer([AN_INCIDENT], NOON)

    report = outbox.flush(NOON)

    assert (report.sent, report.waiting) == (0, 1)
    assert f"answered {status}" in report.problem
    assert report.problem.isprintable()
    assert len(alertmanager.requests) == 1


def test_alert_refused_as_malformed_is_given_up_for_this_round_only(outbox, alertmanager, caplog):
    alertmanager.status = 400
    outbox.offer([AN_INCIDENT], NOON)

    report = outbox.flush(NOON)

    assert (report.sent, report.problem) == (1, None)
    assert caplog.messages == ["alert refused"]


def test_rising_score_ends_the_ticket_and_pages_and_never_falls_back(outbox, alertmanager):
    for minute, score in enumerate((42.0, 150.0, 20.0)):
        now = NOON + minute * MINUTE
        outbox.offer([replace(AN_INCIDENT, score=score)], now)
        outbox.flush(now)

    sent = [(alert["labels"]["severity"], ends_at(alert)) for alert in alertmanager.alerts]
    assert sent == [
        ("ticket", NOON + 5 * MINUTE),
        ("ticket", NOON + MINUTE),
        ("page", NOON + 6 * MINUTE),
        ("page", NOON + 7 * MINUTE),
    ]


def test_incident_that_opens_again_after_its_end_fires_again(outbox, alertmanager):
    for minute, notice in ((0, AN_INCIDENT), (5, CLOSED), (6, AN_INCIDENT)):
        now = NOON + minute * MINUTE
        outbox.offer([notice], now)
        outbox.flush(now)

    assert [ends_at(alert) - NOON for alert in alertmanager.alerts] == [
        5 * MINUTE,
        5 * MINUTE,
        11 * MINUTE,
    ]


def test_state_offered_while_alertmanager_answers_is_not_lost(outbox, alertmanager):
    alertmanager.while_answering = lambda: outbox.offer([CLOSED], NOON + SECOND)
    outbox.offer([AN_INCIDENT], NOON)
    outbox.flush(NOON)
    alertmanager.while_answering = lambda: None

    outbox.flush(NOON + 2 * MINUTE)

    assert ends_at(alertmanager.alerts[-1]) == NOON + 2 * MINUTE


def test_incident_that_is_offered_no_more_is_not_repeated_for_ever(outbox, alertmanager):
    outbox.offer([AN_INCIDENT], NOON)
    for minute in range(60):
        outbox.flush(NOON + minute * MINUTE)

    assert len(alertmanager.alerts) == 15


def test_many_incidents_are_sent_in_requests_of_bounded_size(outbox, alertmanager):
    outbox.offer(many(120), NOON)

    report = outbox.flush(NOON)

    assert report.sent == 120
    assert [len(request) for request in alertmanager.requests] == [50, 50, 20]


def test_outbox_is_bounded_and_leaves_out_what_was_seen_longest_ago(alertmanager, caplog):
    outbox = an_outbox(alertmanager, capacity=3)
    seen = [
        replace(notice, last_seen=NOON + index * SECOND) for index, notice in enumerate(many(5))
    ]

    outbox.offer(seen, NOON)
    outbox.flush(NOON)

    assert [alert["annotations"]["incident"] for alert in alertmanager.alerts] == ["2", "3", "4"]
    assert caplog.messages == ["incidents left out"]


def test_password_in_the_address_is_used_and_never_shown():
    client = AlertmanagerClient(
        "http://user:secret@alertmanager.example", httpx.MockTransport(FakeAlertmanager(status=503))
    )
    outbox = AlertmanagerOutbox(client)
    outbox.offer([AN_INCIDENT], NOON)

    report = outbox.flush(NOON)

    assert "alertmanager.example" in report.problem
    assert "secret" not in report.problem
