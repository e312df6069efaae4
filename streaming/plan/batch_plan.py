"""Which offset ranges the next batch reads: what is there, under every limit that applies.

Pure. Rates are configured in lines; Kafka counts records, so limits are divided by the lines that a record of the
partition held so far. Without options the arithmetic is that of Spark's direct stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from offsets.offset_range import OffsetRange, Offsets, TopicPartition

NO_LIMIT = "none"
MAX_PER_PARTITION = "max_rate_per_partition"


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits in lines. A maximum of 0 and a rate of None mean no limit."""

    max_rate_per_partition: int
    min_rate_per_partition: int
    backpressure_rate: float | None
    batch_seconds: float
    lines_per_record: float
    """Of partitions that were not read yet."""
    initial_rate: float | None = None
    """In force until backpressure has its first rate."""
    max_rate: int = 0
    redistribute_cut_shares: bool = False
    fair_minimum: bool = False
    packing: Mapping[TopicPartition, float] = field(default_factory=dict)
    """Lines in a record of each partition, as last seen."""

    @property
    def shared(self) -> tuple[float | None, str]:
        """The strictest rate that all partitions share, and its name."""
        learned = (self.backpressure_rate, "backpressure")
        if not self.backpressure_rate:
            learned = (self.initial_rate, "initial_rate")
        rates = [(rate, name) for rate, name in (learned, (self.max_rate, "max_rate")) if rate]
        return min(rates, default=(None, NO_LIMIT))

    def lines_in_record(self, partition: TopicPartition) -> float:
        """Lines that a record of the partition is taken to hold."""
        return self.packing.get(partition, self.lines_per_record)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The ranges of one batch, the rate limit that shaped them, and which setting it comes from."""

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
    lag = lags(current, latest)
    rates = effective_rates(lag, limits)
    ranges = []
    for partition, start in sorted(current.items()):
        end = latest.get(partition, start)
        allowed = None if rates is None else records_allowed(partition, rates[partition], limits)
        until = end if allowed is None else min(start + allowed, end)
        if until > start:
            ranges.append(OffsetRange(partition, start, until))
    return BatchPlan(tuple(ranges), *_limit_in_force(lag, rates, limits))


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

    A shared rate is divided by the lines that wait, so a hot partition gets most of it; the maximum of a partition
    cuts its share. What is cut is lost for this batch, unless `redistribute_cut_shares` gives it to the others.
    """
    maximum = limits.max_rate_per_partition
    rate, _ = limits.shared
    if rate is None:
        rates = dict.fromkeys(lag, float(maximum))
    else:
        waiting = {one: count * limits.lines_in_record(one) for one, count in lag.items()}
        total = sum(waiting.values())
        if total == 0:
            return None
        if limits.redistribute_cut_shares:
            rates = _filled(waiting, rate, _ceilings(waiting, limits))
        else:
            shares = {one: lines / total * rate for one, lines in waiting.items()}
            rates = {one: _at_most(share, maximum) for one, share in shares.items()}
    return rates if sum(rates.values()) > 0 else None


def records_allowed(partition: TopicPartition, lines_per_second: float, limits: RateLimits) -> int:
    """Records of one partition in one batch: at least the minimum, and at least one where any line may be read."""
    lines_in_record = limits.lines_in_record(partition)
    if limits.fair_minimum:
        records = limits.batch_seconds * lines_per_second / lines_in_record
        return math.ceil(records) if records < 1 else int(records)
    lines = max(int(limits.batch_seconds * lines_per_second), limits.min_rate_per_partition)
    return max(int(lines / lines_in_record), 1 if lines > 0 else 0)


def _limit_in_force(
    lag: Mapping[TopicPartition, int],
    rates: Mapping[TopicPartition, float] | None,
    limits: RateLimits,
) -> tuple[float | None, str]:
    """The rate over all partitions, and the setting that really made it what it is."""
    rate, name = limits.shared
    maximum = limits.max_rate_per_partition
    everywhere = float(maximum * len(lag)) or None
    if rate is None:
        return everywhere, MAX_PER_PARTITION if everywhere else NO_LIMIT
    if rates is None:  # nothing waits: the limit that the next record would meet
        cut = everywhere is not None and everywhere < rate
        return (everywhere, MAX_PER_PARTITION) if cut else (rate, name)
    total = sum(rates.values())
    cut = total < rate * (1 - 1e-9) and any(one == maximum for one in rates.values())
    return total, MAX_PER_PARTITION if cut else name


def _ceilings(
    waiting: Mapping[TopicPartition, float], limits: RateLimits
) -> dict[TopicPartition, float]:
    """More than the maximum is not allowed, more than what waits is of no use."""
    maximum = limits.max_rate_per_partition
    return {one: _at_most(lines / limits.batch_seconds, maximum) for one, lines in waiting.items()}


def _filled(
    weights: Mapping[TopicPartition, float], rate: float, ceilings: Mapping[TopicPartition, float]
) -> dict[TopicPartition, float]:
    """`rate` divided by weight; what does not fit under a partition's ceiling goes to the others, by weight again."""
    rates = dict.fromkeys(weights, 0.0)
    open_ones = {one: weight for one, weight in weights.items() if weight > 0}
    while open_ones:
        total = sum(open_ones.values())
        full = {one for one, weight in open_ones.items() if rate * weight / total >= ceilings[one]}
        if not full:
            return {**rates, **{one: rate * weight / total for one, weight in open_ones.items()}}
        for one in full:
            rates[one] = ceilings[one]
            del open_ones[one]
        rate = max(rate - sum(ceilings[one] for one in full), 0.0)
    return rates


def _at_most(rate: float, maximum: int) -> float:
    return min(rate, float(maximum)) if maximum > 0 else rate
