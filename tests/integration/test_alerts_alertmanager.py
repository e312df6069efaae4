"""Incidents in a real Alertmanager: shown, notified, resolved, and sent later when it was down."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.waiting import wait_until

from alerts.alertmanager_client import AlertmanagerClient, AlertmanagerOutbox
from alerts.incident_notice import IncidentNotice
from alerts.incident_outbox import DeliveryPace

pytestmark = pytest.mark.integration

# The configured group wait is 5 s; a resolve may follow as soon as the firing was notified.
QUICK = DeliveryPace(at_least=timedelta(0))


def an_incident(client: str) -> IncidentNotice:
    now = datetime.now(tz=UTC)
    return IncidentNotice(
        id=f"shop-{client}",
        service="shop",
        client=client,
        score=42.0,
        detectors=("sql_injection",),
        requests=17,
        first_seen=now - timedelta(minutes=2),
        last_seen=now,
        open=True,
        topic="access-log",
        partition=3,
        first_offset=100,
        last_offset=120,
        sample="GET /<script>alert(1)</script>\x1b[2J\r\nBcc: everybody HTTP/1.1",
    )


@pytest.fixture
def notifications() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook receiver on a free port: its address and what it received."""
    received: list[dict[str, Any]] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/notifications", received
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def notifying_alertmanager(
    server_keeper: Any, alertmanager_program: Path, tmp_path: Path, notifications: Any
) -> Iterator[Any]:
    from deploy.local.alertmanager import start_alertmanager

    server = start_alertmanager(server_keeper, alertmanager_program, tmp_path, notifications[0])
    yield server
    server.process.stop()


def alert_of(server: Any, client: str) -> dict[str, Any] | None:
    return next(
        (alert for alert in server.alerts() if alert["labels"].get("client") == client), None
    )


def test_incident_is_notified_and_resolved(notifying_alertmanager: Any, notifications: Any):
    received = notifications[1]
    client = AlertmanagerClient(notifying_alertmanager.url)
    outbox = AlertmanagerOutbox(client, QUICK)
    incident = an_incident("198.51.100.7")

    outbox.offer([incident], datetime.now(tz=UTC))
    assert outbox.flush(datetime.now(tz=UTC)).problem is None
    wait_until(lambda: alert_of(notifying_alertmanager, "198.51.100.7"))
    firing = wait_until(lambda: received and received[0], within=30)
    outbox.offer([replace(incident, open=False)], datetime.now(tz=UTC))
    report = outbox.flush(datetime.now(tz=UTC))
    wait_until(lambda: alert_of(notifying_alertmanager, "198.51.100.7") is None)
    client.close()

    assert (firing["status"], firing["alerts"][0]["labels"]["severity"]) == ("firing", "ticket")
    sample = firing["alerts"][0]["annotations"]["sample"]
    assert sample.isprintable()
    assert "<" not in sample
    assert report.sent == 1


def test_incident_of_the_time_alertmanager_was_down_is_sent_when_it_is_back(
    alertmanager_server: Any,
):
    now = datetime.now(tz=UTC)
    down = AlertmanagerClient("http://127.0.0.1:9")
    back = AlertmanagerClient(alertmanager_server.url)
    outbox = AlertmanagerOutbox(down, QUICK)
    outbox.offer([an_incident("203.0.113.9")], now)

    failed = outbox.flush(now)
    outbox._client = back
    sent = outbox.flush(now + timedelta(seconds=10))
    alert = wait_until(lambda: alert_of(alertmanager_server, "203.0.113.9"))
    down.close()
    back.close()

    assert (failed.sent, failed.waiting) == (0, 1)
    assert "does not answer" in failed.problem
    assert sent.sent == 1
    assert alert["annotations"]["evidence"] == "topic access-log, partition 3, offsets 100 to 120"


def test_alertmanager_takes_whatever_a_stranger_wrote(alertmanager_server: Any):
    client = AlertmanagerClient(alertmanager_server.url)
    outbox = AlertmanagerOutbox(client, QUICK)
    now = datetime.now(tz=UTC)
    hostile = "\x00\udcff\u202e{{ .Labels }}<!channel>" * 100
    outbox.offer([replace(an_incident(hostile), id="hostile", sample=hostile)], now)

    report = outbox.flush(now)
    alert = wait_until(
        lambda: next(
            (
                a
                for a in alertmanager_server.alerts()
                if a["annotations"].get("incident") == "hostile"
            ),
            None,
        )
    )
    client.close()

    assert report.problem is None
    assert len(alert["labels"]["client"]) <= 100
