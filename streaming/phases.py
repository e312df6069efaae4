"""How long a batch and its phases took. The clock comes in from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streaming.plan.rate_estimator import FinishedBatch

PHASES = ("plan", "read", "output", "commit")


class BatchClock:
    """Measures one batch."""

    def __init__(self, monotonic: Callable[[], float], scheduling_delay: float) -> None:
        self._monotonic = monotonic
        self.scheduling_delay = scheduling_delay
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase."""
        started = self._monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self._monotonic() - started

    @property
    def total_seconds(self) -> float:
        """From the plan to the commit."""
        return sum(self.seconds.values())

    def finished(self, line_count: int) -> FinishedBatch:
        """What the rate estimator learns from this batch."""
        return FinishedBatch(
            self._monotonic(), line_count, self.total_seconds, self.scheduling_delay
        )
