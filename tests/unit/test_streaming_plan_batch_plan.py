"""Spark's rate limit vectors (DirectKafkaStreamSuite), and properties of any plan."""

from hypothesis import given
from hypothesis import strategies as st

from offsets.offset_range import OffsetRange, TopicPartition, offsets_after
from streaming.plan.batch_plan import RateLimits, effective_rates, plan_batch, records_allowed


def limits(maximum=0, minimum=1, rate=None, seconds=1.0, lines_per_record=1.0):
    return RateLimits(maximum, minimum, rate, seconds, lines_per_record)


def partition(number):
    return TopicPartition("access-log", number)


def allowed(lag, limits):
    rates = effective_rates(lag, limits)
    return (
        None
        if rates is None
        else {one: records_allowed(rate, limits) for one, rate in rates.items()}
    )


def test_d8_maximum_limits_each_partition_without_backpressure():
    lag = {partition(0): 50, partition(1): 50}

    assert allowed(lag, limits(maximum=100, seconds=0.1)) == {partition(0): 10, partition(1): 10}


def test_d9_no_lag_anywhere_means_no_limit():
    assert (
        effective_rates({partition(0): 0, partition(1): 0}, limits(maximum=100, rate=200.0)) is None
    )


def test_d12_initial_rate_honours_the_maximum_of_the_partition():
    assert allowed({partition(0): 10_000}, limits(maximum=1000, rate=500.0, seconds=0.5)) == {
        partition(0): 250
    }


def test_d13_maximum_cuts_the_initial_rate():
    assert allowed({partition(0): 10_000}, limits(maximum=300, rate=1000.0, seconds=0.5)) == {
        partition(0): 150
    }


def test_d14_minimum_lifts_partitions_without_lag():
    lag = {partition(number): lag for number, lag in enumerate((0, 100, 200, 300))}
    lifted = allowed(lag, limits(maximum=100, minimum=5, rate=1.0, seconds=60.0))

    assert lifted == {partition(0): 5, partition(1): 10, partition(2): 20, partition(3): 30}


def test_lag_weighted_shares_are_cut_one_by_one():
    lag = {partition(0): 900, partition(1): 100}

    assert effective_rates(lag, limits(maximum=500, rate=1000.0)) == {
        partition(0): 500,
        partition(1): 100,
    }


def test_a_limit_in_lines_becomes_fewer_packed_records():
    plan = plan_batch(
        {partition(0): 0}, {partition(0): 1000}, limits(maximum=10_000, lines_per_record=500)
    )

    assert plan.ranges == (OffsetRange(partition(0), 0, 20),)


def test_a_record_larger_than_the_limit_is_still_read():
    plan = plan_batch(
        {partition(0): 7}, {partition(0): 9}, limits(maximum=10, lines_per_record=500)
    )

    assert plan.ranges == (OffsetRange(partition(0), 7, 8),)


def test_partitions_without_new_records_have_no_range():
    plan = plan_batch(
        {partition(0): 5, partition(1): 5}, {partition(0): 5, partition(1): 6}, limits()
    )

    assert plan.ranges == (OffsetRange(partition(1), 5, 6),)


counts = st.integers(0, 10_000)


@given(
    starts=st.dictionaries(st.integers(0, 5), counts, min_size=1),
    backlog=counts,
    maximum=st.integers(0, 1000),
    rate=st.one_of(st.none(), st.floats(1, 5000)),
)
def test_consecutive_plans_tile_the_offsets_and_respect_the_maximum(starts, backlog, maximum, rate):
    current = {partition(number): offset for number, offset in starts.items()}
    latest = {one: offset + backlog for one, offset in current.items()}
    limit = limits(maximum=maximum, rate=rate)
    for _ in range(5):
        plan = plan_batch(current, latest, limit)
        for one in plan.ranges:
            assert one.from_offset == current[one.partition]
            assert one.until_offset <= latest[one.partition]
            assert maximum == 0 or one.count <= max(maximum, limit.min_rate_per_partition)
        current = offsets_after(current, plan.ranges)
