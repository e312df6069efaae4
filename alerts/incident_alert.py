"""Incident → the JSON that Alertmanager's API v2 takes, safe for whatever reads it next.

Pure. The labels are the alert's identity in Alertmanager and hold only characters of names and
addresses; free text from log lines appears in one place alone, the annotation `sample`, bounded and
without control characters or markup.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from alerts.incident_notice import IncidentNotice
from palisade_output import printable

ALERT_NAME = "AttackIncident"
RUNBOOK = "alerts/runbooks/AttackInProgress.md"
PAGE_SCORE = 100.0

Payload = dict[str, object]

_NOT_IN_A_NAME = re.compile(r"[^0-9A-Za-z._:/%-]")
_LONGEST_NAME = 100
_LONGEST_SAMPLE = 300
_MOST_DETECTORS = 20
# Mail, chat and pagers each have their own markup; these characters start all of it. The evidence
# keeps the true bytes.
_INERT = str.maketrans(
    "<>`@*[]|",
    "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
    "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}'\N{FULLWIDTH COMMERCIAL AT}"
    "\N{ASTERISK OPERATOR}()\N{BROKEN BAR}",
)


def incident_alert(
    notice: IncidentNotice, severity: str, now: datetime, ends_at: datetime
) -> Payload:
    """The alert of one incident: firing while `ends_at` lies ahead, resolved when it does not."""
    # Alertmanager refuses an alert that ends before it starts, and a log's clock may be ahead.
    starts_at = min(notice.first_seen, now, ends_at)
    return {
        "labels": incident_labels(notice, severity),
        "annotations": _annotations(notice),
        "startsAt": _timestamp(starts_at),
        "endsAt": _timestamp(ends_at),
    }


def incident_labels(notice: IncidentNotice, severity: str) -> dict[str, str]:
    """The identity of the alert in Alertmanager."""
    return {
        "alertname": ALERT_NAME,
        "service": safe_name(notice.service),
        "client": safe_name(notice.client),
        "severity": severity,
    }


def incident_severity(score: float, page_score: float = PAGE_SCORE) -> str:
    """`page` for an attacker far above the score that makes an incident, else `ticket`."""
    return "page" if score >= page_score else "ticket"


def safe_name(text: str) -> str:
    """A name or address; any other character becomes `_`, and no web address stays one to click on.

    Names of services and hosts, addresses and networks (`192.0.2.0/24`) pass unchanged.
    """
    return _NOT_IN_A_NAME.sub("_", text[:_LONGEST_NAME]).replace("//", "/_") or "unknown"


def inert_text(text: str, limit: int = _LONGEST_SAMPLE) -> str:
    """Free text that no terminal, mail or chat client interprets: bounded, no markup."""
    return printable(text, limit).translate(_INERT)


def _annotations(notice: IncidentNotice) -> dict[str, str]:
    client, service = safe_name(notice.client), safe_name(notice.service)
    detectors = ", ".join(safe_name(name) for name in notice.detectors[:_MOST_DETECTORS]) or "none"
    seen = f"between {_timestamp(notice.first_seen)} and {_timestamp(notice.last_seen)}"
    state = "" if notice.open else " It has ended."
    return {
        "summary": f"{client} attacks {service} (score {notice.score:.0f})",
        "description": (
            f"{client} sent {notice.requests} attack requests to {service} {seen}. "
            f"Score {notice.score:.1f}, detectors: {detectors}.{state}"
        ),
        "detectors": detectors,
        "evidence": (
            f"topic {safe_name(notice.topic)}, partition {notice.partition}, "
            f"offsets {notice.first_offset} to {notice.last_offset}"
        ),
        "sample": inert_text(notice.sample),
        "incident": safe_name(notice.id),
        "runbook_url": RUNBOOK,
        "dashboard": f"/d/palisade-overview?var-service={service}&from=now-1h&to=now",
    }


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
