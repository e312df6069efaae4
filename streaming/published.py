"""What the outside may see: one consistent picture, replaced as a whole after each commit.

A scrape during a commit sees the picture before or after it, never half of both.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.job_state import CounterKey, Labels


@dataclass(frozen=True, slots=True)
class Picture:
    """Committed totals, gauges of the pipeline, and the status document for people.

    Without `has_totals` no counter is shown at all: a zero before the totals are restored would look like a reset.
    """

    counters: Mapping[CounterKey, float] = field(default_factory=dict)
    histograms: Mapping[str, Mapping[Labels, list[int]]] = field(default_factory=dict)
    gauges: Mapping[CounterKey, float] = field(default_factory=dict)
    status: Mapping[str, object] = field(default_factory=dict)
    has_totals: bool = False


class Published:
    """Holds the current picture; written by the driver loop, read by server threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._picture = Picture()

    @property
    def picture(self) -> Picture:
        """The newest picture."""
        with self._lock:
            return self._picture

    def replace(self, picture: Picture) -> None:
        """Show a new picture from now on."""
        with self._lock:
            self._picture = picture
