"""Incidents → what Alertmanager must hear about. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from alerts.incident_notice import IncidentNotice
from streaming.attacks.incident import Attacker, IncidentBook

_TOLD_AFTER_END_SECONDS = 600
"""A closed incident is offered for this long, so that its end is told; older ones are history."""


def incident_notices(book: IncidentBook, topic: str, now: float) -> list[IncidentNotice]:
    """Open incidents, and those that ended a short while ago."""
    told_until = book.policy.resolve_after_seconds + _TOLD_AFTER_END_SECONDS
    return [
        _notice(book, one, topic, now)
        for one in book.incidents()
        if now - one.last_seen < told_until
    ]


def _notice(book: IncidentBook, attacker: Attacker, topic: str, now: float) -> IncidentNotice:
    partition, (first_offset, last_offset) = min(attacker.evidence.items(), default=(-1, (0, 0)))
    return IncidentNotice(
        id=attacker.incident_id,
        service=attacker.service,
        client=attacker.client,
        score=book.score(attacker, now),
        detectors=tuple(sorted(attacker.detectors)),
        requests=attacker.requests,
        first_seen=datetime.fromtimestamp(attacker.first_seen, tz=UTC),
        last_seen=datetime.fromtimestamp(attacker.last_seen, tz=UTC),
        open=book.is_open(attacker, now),
        topic=topic,
        partition=partition,
        first_offset=first_offset,
        last_offset=last_offset,
        sample=attacker.sample,
    )
