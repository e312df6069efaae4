"""Which offset ranges the next batch reads: what is there, under every limit that applies.

Pure. Rates are configured in lines; Kafka counts records, so limits are divided by the lines that a record held so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsets.offset_range import OffsetRange, Offsets, TopicPartition


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits in lines. A maximum of 0 and a rate of None mean no limit."""

    max_rate_per_partition: int
    min_rate_per_partition: int
    backpressure_rate: float | None
    batch_seconds: float
    lines_per_record: float

    @property
    def because(self) -> str:
        """Which limit is the configured cause: for people reading the rate."""
        if self.backpressure_rate is not None and self.backpressure_rate > 0:
            return "backpressure"
        return "max_rate_per_partition" if self.max_rate_per_partition > 0 else "no limit"


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The ranges of one batch and the rate limit that shaped them."""

    ranges: tuple[OffsetRange, ...]
    lines_per_second: float | None
    because: str

    @property
    def record_count(self) -> int:
        """Offsets over all ranges."""
        return sum(one.count for one in self.ranges)


def plan_batch(
    current: Offsets, latest: Mapping[TopicPartition, int], limits: RateLimits
) -> BatchPlan:
    """Read from `current` up to `latest`, as far as the limits allow; empty ranges are left out."""
    rates = effective_rates(lags(current, latest), limits)
    ranges = []
    for partition, start in sorted(current.items()):
        end = latest.get(partition, start)
        allowed = None if rates is None else records_allowed(rates[partition], limits)
        until = end if allowed is None else min(start + allowed, end)
        if until > start:
            ranges.append(OffsetRange(partition, start, until))
    total = None if rates is None else sum(rates.values())
    return BatchPlan(tuple(ranges), total, limits.because)


def lags(current: Offsets, latest: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Records waiting in each partition."""
    return {
        partition: max(latest.get(partition, start) - start, 0)
        for partition, start in current.items()
    }


def effective_rates(
    lag: Mapping[TopicPartition, int], limits: RateLimits
) -> dict[TopicPartition, float] | None:
    """Lines per second for each partition; None where nothing limits.

    Backpressure's rate is shared by lag, so a hot partition gets most of it; the maximum cuts each share.
    """
    maximum = limits.max_rate_per_partition
    rate = limits.backpressure_rate
    if rate is not None and rate > 0:
        total_lag = sum(lag.values())
        if total_lag == 0:
            return None
        shares = {partition: waiting / total_lag * rate for partition, waiting in lag.items()}
        rates = {
            partition: min(share, maximum) if maximum > 0 else share
            for partition, share in shares.items()
        }
    else:
        rates = dict.fromkeys(lag, float(maximum))
    return rates if sum(rates.values()) > 0 else None


def records_allowed(lines_per_second: float, limits: RateLimits) -> int:
    """Records of one partition in one batch: at least the minimum, and at least one."""
    lines = max(int(limits.batch_seconds * lines_per_second), limits.min_rate_per_partition)
    return max(int(lines / limits.lines_per_record), 1 if lines > 0 else 0)
