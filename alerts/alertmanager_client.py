"""Incidents to Alertmanager: at least once, never in the job's way, kept while it is down.

The job's thread calls `offer`, which only remembers. One background thread of the caller calls
`flush` every few seconds, which talks. Neither waits for the other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx

from alerts.incident_alert import Payload
from alerts.incident_notice import IncidentNotice
from alerts.incident_outbox import (
    Delivery,
    DeliveryPace,
    after_sending,
    alerts_due,
    is_forgotten,
    newly_offered,
    offered_again,
)
from palisade_output import printable

log = logging.getLogger("alerts")

TIMEOUT_SECONDS = 3.0
CAPACITY = 1000
INCIDENTS_PER_REQUEST = 50
FIRST_RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(minutes=1)


class AlertmanagerError(Exception):
    """Alertmanager did not take the alerts; they are kept and sent later."""


@dataclass(frozen=True, slots=True)
class FlushReport:
    """What one flush did: incidents told, incidents that wait, and why (None: all is well)."""

    sent: int
    waiting: int
    problem: str | None = None


class AlertmanagerClient:
    """Posts alerts to one Alertmanager's API v2: no redirect, no proxy, three seconds at most."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        self._address = httpx.URL(url.rstrip("/") + "/api/v2/alerts")
        self._http = httpx.Client(
            timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=False, transport=transport
        )

    @property
    def shown_address(self) -> str:
        """The address without a password, for messages."""
        return str(self._address.copy_with(username=None, password=None))

    def post(self, alerts: Sequence[Payload]) -> None:
        """Send alerts; raise `AlertmanagerError` unless it took them.

        An alert that it refuses as malformed (400) is logged and given up: it takes the others of
        the same request, and the same text would be refused for ever.
        """
        try:
            answer = self._http.post(self._address, json=list(alerts))
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__}: {error}"
            message = f"Alertmanager at {self.shown_address} does not answer ({reason})"
            raise AlertmanagerError(message) from error
        if answer.status_code == httpx.codes.BAD_REQUEST:
            log.error(
                "alert refused",
                extra={"alertmanager": self.shown_address, "answer": printable(answer.text)},
            )
        elif not answer.is_success:
            said = f"{answer.status_code}: {printable(answer.text, 200)}"
            message = f"Alertmanager at {self.shown_address} answered {said}"
            raise AlertmanagerError(message)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AlertmanagerOutbox:
    """What Alertmanager must know: newest state of each incident, repeated, resolved, bounded."""

    def __init__(
        self, client: AlertmanagerClient, pace: DeliveryPace | None = None, capacity: int = CAPACITY
    ) -> None:
        self._client = client
        self._pace = pace or DeliveryPace()
        self._capacity = capacity
        self._deliveries: dict[str, Delivery] = {}
        self._guard = threading.Lock()
        self._retry_after = FIRST_RETRY
        self._silent_until: datetime | None = None

    def offer(self, notices: Sequence[IncidentNotice], now: datetime) -> None:
        """Remember the newest state of these incidents; never waits for the network.

        Offer every open incident again with each batch, and each one once more when it closed. An
        open incident that is offered no more is forgotten after `pace.forget_after` and ends in
        Alertmanager by itself.
        """
        with self._guard:
            for notice in notices:
                known = self._deliveries.get(notice.id)
                self._deliveries[notice.id] = (
                    offered_again(known, notice, now) if known else newly_offered(notice, now)
                )
            self._make_room()

    def flush(self, now: datetime) -> FlushReport:
        """Send what is due. A failure keeps everything; the pauses grow up to a minute."""
        due = self._due(now)
        if self._silent_until is not None and now < self._silent_until:
            return FlushReport(sent=0, waiting=len(due), problem="waiting before the next attempt")
        sent = 0
        for chunk in _chunks(due, INCIDENTS_PER_REQUEST):
            try:
                self._client.post([alert for _, alerts in chunk for alert in alerts])
            except AlertmanagerError as error:
                return self._failed(error, sent, waiting=len(due) - sent, now=now)
            self._mark_sent([delivery for delivery, _ in chunk], now)
            sent += len(chunk)
        self._succeeded(sent)
        return FlushReport(sent=sent, waiting=0)

    def _due(self, now: datetime) -> list[tuple[Delivery, list[Payload]]]:
        with self._guard:
            self._deliveries = {
                key: delivery
                for key, delivery in self._deliveries.items()
                if not is_forgotten(delivery, self._pace, now)
            }
            deliveries = list(self._deliveries.values())
        pairs = ((delivery, alerts_due(delivery, self._pace, now)) for delivery in deliveries)
        return [(delivery, alerts) for delivery, alerts in pairs if alerts]

    def _mark_sent(self, told: Sequence[Delivery], now: datetime) -> None:
        """Keep what was offered while we talked: the next flush judges it."""
        with self._guard:
            for delivery in told:
                key = delivery.notice.id
                if key in self._deliveries:
                    self._deliveries[key] = after_sending(delivery, self._deliveries[key], now)

    def _make_room(self) -> None:
        surplus = len(self._deliveries) - self._capacity
        if surplus <= 0:
            return
        oldest_first = sorted(
            self._deliveries,
            key=lambda key: (
                not self._deliveries[key].resolved,
                self._deliveries[key].notice.last_seen,
            ),
        )
        for key in oldest_first[:surplus]:
            del self._deliveries[key]
        log.warning("incidents left out", extra={"incidents": surplus, "capacity": self._capacity})

    def _failed(
        self, error: AlertmanagerError, sent: int, waiting: int, now: datetime
    ) -> FlushReport:
        if self._silent_until is None:
            log.warning("alertmanager unavailable", extra={"error": str(error), "waiting": waiting})
        self._silent_until = now + self._retry_after
        self._retry_after = min(self._retry_after * 2, LONGEST_RETRY)
        return FlushReport(sent=sent, waiting=waiting, problem=str(error))

    def _succeeded(self, sent: int) -> None:
        if self._silent_until is not None and sent:
            log.info("alertmanager available again", extra={"sent": sent})
            self._silent_until = None
            self._retry_after = FIRST_RETRY


def _chunks(
    due: Sequence[tuple[Delivery, list[Payload]]], size: int
) -> Iterator[Sequence[tuple[Delivery, list[Payload]]]]:
    for start in range(0, len(due), size):
        yield due[start : start + size]
