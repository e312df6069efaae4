"""How many lines a second the next batch may read, learned from the batches before (PID, as Spark's backpressure).

Pure: time comes in as an argument, and should come from a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PidGains:
    """The controller's weights. Spark's defaults."""

    proportional: float = 1.0
    integral: float = 0.2
    derived: float = 0.0
    min_rate: float = 100.0

    def __post_init__(self) -> None:
        if self.proportional < 0 or self.integral < 0 or self.derived < 0:
            message = f"PID weights cannot be negative: {self}."
            raise ValueError(message)
        if self.min_rate <= 0:
            message = f"The minimum rate must be above 0, got {self.min_rate}."
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """What the estimator learns from."""

    finished_at_seconds: float
    line_count: int
    processing_seconds: float
    scheduling_delay_seconds: float


@dataclass(frozen=True, slots=True)
class RateEstimator:
    """The controller's memory; `after` gives the next one."""

    batch_interval_seconds: float
    gains: PidGains = PidGains()
    latest_rate: float | None = None
    """Lines per second in force; None before the first estimate."""
    _seed_rate: float = -1.0
    _latest_error: float = -1.0
    _latest_time: float = -1.0
    _is_first: bool = True

    def __post_init__(self) -> None:
        if self.batch_interval_seconds <= 0:
            message = f"The batch interval must be above 0, got {self.batch_interval_seconds}."
            raise ValueError(message)

    def after(self, batch: FinishedBatch) -> RateEstimator:
        """The estimator after one more batch; unchanged where the batch teaches nothing.

        The first batch only seeds the rate. Empty batches and batches without duration change nothing.
        """
        teaches = (
            batch.finished_at_seconds > self._latest_time
            and batch.line_count > 0
            and batch.processing_seconds > 0
        )
        if not teaches:
            return self
        processing_rate = batch.line_count / batch.processing_seconds  # lines per second
        if self._is_first:
            return replace(
                self,
                _seed_rate=processing_rate,
                _latest_error=0.0,
                _latest_time=batch.finished_at_seconds,
                _is_first=False,
            )
        since_update = batch.finished_at_seconds - self._latest_time  # seconds
        error = self._seed_rate - processing_rate
        # Lines that would have been processed during the delay, spread over one interval.
        historical_error = (
            batch.scheduling_delay_seconds * processing_rate / self.batch_interval_seconds
        )
        error_change = (error - self._latest_error) / since_update
        rate = max(
            self._seed_rate
            - self.gains.proportional * error
            - self.gains.integral * historical_error
            - self.gains.derived * error_change,
            self.gains.min_rate,
        )
        return replace(
            self,
            latest_rate=rate,
            _seed_rate=rate,
            _latest_error=error,
            _latest_time=batch.finished_at_seconds,
        )
