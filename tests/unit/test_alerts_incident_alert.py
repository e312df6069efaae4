"""An incident as Alertmanager gets it, whatever strangers wrote into their requests."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.incident_alert import incident_alert, incident_severity, inert_text, safe_name
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
SOON = NOON + timedelta(minutes=5)


def test_alert_carries_identity_times_and_evidence():
    alert = incident_alert(AN_INCIDENT, "ticket", NOON, SOON)

    assert alert["labels"] == {
        "alertname": "AttackIncident",
        "service": "shop",
        "client": "198.51.100.7",
        "severity": "ticket",
    }
    assert alert["startsAt"] == "2026-05-01T11:58:00.000Z"
    assert alert["endsAt"] == "2026-05-01T12:05:00.000Z"
    assert alert["annotations"] == {
        "summary": "198.51.100.7 attacks shop (score 42)",
        "description": (
            "198.51.100.7 sent 17 attack requests to shop between 2026-05-01T11:58:00.000Z and "
            "2026-05-01T11:59:30.000Z. Score 42.0, detectors: sql_injection, scanner."
        ),
        "detectors": "sql_injection, scanner",
        "evidence": "topic access-log, partition 3, offsets 100 to 120",
        "sample": "GET /?id=1 OR 1=1",
        "incident": "shop-198.51.100.7-1",
        "runbook_url": "alerts/runbooks/AttackInProgress.md",
        "dashboard": "/d/palisade-overview?var-service=shop&from=now-1h&to=now",
    }


def test_alert_never_starts_after_it_ends_although_a_log_clock_runs_ahead():
    ahead = replace(
        AN_INCIDENT, first_seen=NOON + timedelta(hours=1), last_seen=NOON + timedelta(hours=1)
    )

    alert = incident_alert(ahead, "ticket", NOON, NOON)

    assert alert["startsAt"] == alert["endsAt"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("198.51.100.7", "198.51.100.7", id="address"),
        pytest.param("2001:db8::/32", "2001:db8::/32", id="network"),
        pytest.param("host-1.example", "host-1.example", id="host name"),
        pytest.param("<!channel>\r\nBcc: x@y", "__channel___Bcc:_x_y", id="chat and mail header"),
        pytest.param("http://evil.example/", "http:/_evil.example/", id="no link to click"),
        pytest.param("", "unknown", id="empty, which Alertmanager would drop"),
    ],
)
def test_label_values_hold_only_names_and_addresses(text: str, expected: str):
    assert safe_name(text) == expected


def test_sample_cannot_move_a_cursor_or_mark_up_a_message():
    shown = inert_text("\x1b[2J<b>hi</b>\u202e `x` @here [a](b) *c*\n")

    assert shown.isprintable()
    assert not set("<>`@[]*") & set(shown)
    assert "\\x1b" in shown


@given(text=st.text(max_size=2000), number=st.floats())
def test_any_text_makes_a_bounded_payload_that_is_valid_json(text: str, number: float):
    notice = replace(
        AN_INCIDENT,
        id=text,
        service=text,
        client=text,
        score=number,
        detectors=(text,) * 50,
        topic=text,
        sample=text,
    )

    encoded = json.dumps(incident_alert(notice, "page", NOON, SOON), ensure_ascii=False).encode()

    assert len(encoded) < 12_000
    assert all(byte >= 0x20 and byte != 0x7F for byte in encoded)


@pytest.mark.parametrize(
    ("score", "severity"), [(15.0, "ticket"), (99.9, "ticket"), (100.0, "page")]
)
def test_a_score_far_above_the_incident_score_pages(score: float, severity: str):
    assert incident_severity(score) == severity
