"""An incident as the on-call side needs it: what the streaming job hands over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class IncidentNotice:
    """One attacker of one service, as of now. Times are aware; `id` never changes.

    The offsets name the records that prove it: `[first_offset, last_offset]` of `topic`,
    `partition`, both included. Every text in it comes from log lines and is hostile.
    """

    id: str
    service: str
    client: str
    score: float
    detectors: tuple[str, ...]
    requests: int
    first_seen: datetime
    last_seen: datetime
    open: bool
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    sample: str
