"""Which incidents Alertmanager must hear about now: a small state for each, and the decision.

Pure. Alertmanager forgets an alert at its `endsAt`, so an open incident is sent again and again
with an end that lies ahead; a closed one is sent with an end that has come. An incident that nobody
heard of yet fires first, even when it is over already: Alertmanager tells nobody about an alert
that arrives resolved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from alerts.incident_alert import Payload, incident_alert, incident_severity
from alerts.incident_notice import IncidentNotice


@dataclass(frozen=True, slots=True)
class DeliveryPace:
    """How often, how long. `fires_for` exceeds `repeat_every` and `at_least` several times."""

    repeat_every: timedelta = timedelta(minutes=1)
    fires_for: timedelta = timedelta(minutes=5)
    at_least: timedelta = timedelta(minutes=2)
    forget_after: timedelta = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is known about one incident, and what Alertmanager was told about it."""

    notice: IncidentNotice
    offered_at: datetime
    severity: str
    first_sent_at: datetime | None = None
    last_sent_at: datetime | None = None
    sent_severity: str | None = None
    resolved: bool = False


def newly_offered(notice: IncidentNotice, now: datetime) -> Delivery:
    """An incident that the outbox did not know."""
    return Delivery(notice=notice, offered_at=now, severity=incident_severity(notice.score))


def offered_again(delivery: Delivery, notice: IncidentNotice, now: datetime) -> Delivery:
    """The newest state wins; severity only rises, or a pager would ring and calm in turns."""
    if notice.open and delivery.resolved:
        return newly_offered(notice, now)
    risen = "page" if "page" in (delivery.severity, incident_severity(notice.score)) else "ticket"
    return replace(delivery, notice=notice, offered_at=now, severity=risen)


def alerts_due(delivery: Delivery, pace: DeliveryPace, now: datetime) -> list[Payload]:
    """The alerts to send now for this incident; empty when Alertmanager is up to date."""
    if delivery.resolved:
        return []
    if delivery.first_sent_at is None or delivery.last_sent_at is None:
        return [_firing(delivery, pace, now)]
    if not delivery.notice.open:
        return [_ended(delivery, now)] if now >= delivery.first_sent_at + pace.at_least else []
    if delivery.sent_severity != delivery.severity:
        # Severity is part of the identity: the calmer alert must end, or it stays beside the other.
        return [_ended(delivery, now), _firing(delivery, pace, now)]
    return (
        [_firing(delivery, pace, now)] if now >= delivery.last_sent_at + pace.repeat_every else []
    )


def after_sending(told: Delivery, current: Delivery, now: datetime) -> Delivery:
    """What holds once Alertmanager took what was due for `told`; `current` was offered since."""
    ended = told.first_sent_at is not None and not told.notice.open
    if ended and current.notice.open:
        return newly_offered(current.notice, current.offered_at)
    return replace(
        current,
        first_sent_at=told.first_sent_at or now,
        last_sent_at=now,
        sent_severity=told.severity,
        resolved=ended,
    )


def is_forgotten(delivery: Delivery, pace: DeliveryPace, now: datetime) -> bool:
    """Told, and offered no more: Alertmanager lets it end. What was never told is kept."""
    if delivery.first_sent_at is None:
        return False
    return now >= max(delivery.offered_at, delivery.first_sent_at) + pace.forget_after


def _firing(delivery: Delivery, pace: DeliveryPace, now: datetime) -> Payload:
    return incident_alert(delivery.notice, delivery.severity, now, now + pace.fires_for)


def _ended(delivery: Delivery, now: datetime) -> Payload:
    return incident_alert(delivery.notice, delivery.sent_severity or delivery.severity, now, now)
