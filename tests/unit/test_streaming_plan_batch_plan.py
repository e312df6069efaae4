"""Spark's rate limit vectors (DirectKafkaStreamSuite, KafkaMicroBatchSourceSuite), what each option wins, properties.

Not applicable: M8 and M9 (wait for a minimum of offsets): a batch starts when it is due and there is anything to read.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.offset_range import OffsetRange, TopicPartition, offsets_after
from streaming.plan.batch_plan import RateLimits, effective_rates, plan_batch, records_allowed


def limits(maximum=0, minimum=1, rate=None, seconds=1.0, lines_per_record=1.0, **options):
    return RateLimits(maximum, minimum, rate, seconds, lines_per_record, **options)


def partition(number):
    return TopicPartition("access-log", number)


def lag_of(*waiting):
    return {partition(number): count for number, count in enumerate(waiting)}


def counts(waiting, limit):
    """Records of each partition in the batch."""
    current = dict.fromkeys(lag_of(*waiting), 0)
    plan = plan_batch(current, lag_of(*waiting), limit)
    read = {one.partition: one.count for one in plan.ranges}
    return [read.get(one, 0) for one in current]


def because(waiting, limit):
    return plan_batch(dict.fromkeys(lag_of(*waiting), 0), lag_of(*waiting), limit).because


def allowed(lag, limits):
    rates = effective_rates(lag, limits)
    return (
        None
        if rates is None
        else {one: records_allowed(one, rate, limits) for one, rate in rates.items()}
    )


def test_d8_maximum_limits_each_partition_without_backpressure():
    lag = {partition(0): 50, partition(1): 50}

    assert allowed(lag, limits(maximum=100, seconds=0.1)) == {partition(0): 10, partition(1): 10}


def test_d9_no_lag_anywhere_means_no_limit():
    assert (
        effective_rates({partition(0): 0, partition(1): 0}, limits(maximum=100, rate=200.0)) is None
    )


def test_d10_maximum_of_each_partition_is_respected():
    """Spark's vector has two maxima, 50 and 100; ours is one for all, so each is tried on both partitions."""
    for maximum, expected in ((50, 5), (100, 10)):
        limit = limits(maximum=maximum, rate=1000.0, seconds=0.1)
        assert list(allowed(lag_of(50, 50), limit).values()) == [expected, expected]


@pytest.mark.parametrize(("rate", "expected"), [(100.0, 50), (50.0, 25), (20.0, 10)])
def test_d11_batches_follow_the_rate_controller(rate, expected):
    assert counts([5000], limits(rate=rate, seconds=0.5)) == [expected]


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


def test_each_partition_is_converted_by_its_own_packing():
    packed = limits(maximum=1000, lines_per_record=500, packing={partition(0): 1.0})

    assert counts([5000, 5000], packed) == [1000, 2]


def test_m6_limits_too_large_for_a_long_do_not_overflow():
    assert counts([10], limits(maximum=2**63 - 1)) == [10]
    assert counts([2**62, 2**62], limits(rate=float(2**63), seconds=1000.0)) == [2**62, 2**62]


def test_m7_fair_shares_of_a_small_limit_are_those_of_structured_streaming():
    fair = limits(minimum=0, max_rate=10, fair_minimum=True)

    assert counts([101, 11, 1], fair) == [8, 1, 1]


def test_fair_minimum_never_starves_a_small_partition_where_the_faithful_rule_does():
    waiting = [100_000, 1]

    assert counts(waiting, limits(minimum=0, rate=1000.0)) == [999, 0]
    assert counts(waiting, limits(minimum=0, rate=1000.0, fair_minimum=True)) == [999, 1]


def test_fair_minimum_reads_one_record_and_not_the_minimum_of_every_partition():
    waiting = [1000] * 10
    faithful = limits(minimum=100, rate=100.0)

    assert sum(counts(waiting, faithful)) == 1000
    assert sum(counts(waiting, limits(minimum=100, rate=100.0, fair_minimum=True))) == 100


def test_cut_share_is_lost_by_default_and_given_to_the_others_on_request():
    waiting = [8000, 1000, 1000]
    faithful = limits(maximum=400, rate=1000.0)
    generous = limits(maximum=400, rate=1000.0, redistribute_cut_shares=True)

    assert counts(waiting, faithful) == [400, 100, 100]
    assert counts(waiting, generous) == [400, 300, 300]


def test_redistributed_shares_never_pass_the_maximum_or_what_waits():
    generous = limits(maximum=400, rate=1000.0, redistribute_cut_shares=True)

    assert counts([8000, 50, 1000], generous) == [400, 50, 400]


def test_strictest_of_all_limits_wins():
    assert counts([5000], limits(rate=1000.0, max_rate=300)) == [300]
    assert counts([5000], limits(rate=200.0, max_rate=300)) == [200]
    assert counts([5000], limits(rate=200.0, max_rate=300, maximum=100)) == [100]
    assert counts([5000, 5000], limits(max_rate=300)) == [150, 150]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(limits(), "none", id="nothing set"),
        pytest.param(limits(maximum=10), "max_rate_per_partition", id="only the maximum"),
        pytest.param(limits(initial_rate=100.0), "initial_rate", id="cold start"),
        pytest.param(limits(rate=50.0, initial_rate=100.0), "backpressure", id="learned rate"),
        pytest.param(limits(rate=50.0, max_rate=20), "max_rate", id="maximum over all is stricter"),
        pytest.param(limits(rate=50.0, max_rate=99), "backpressure", id="learned is stricter"),
        pytest.param(
            limits(initial_rate=100.0, maximum=10), "max_rate_per_partition", id="shares cut"
        ),
        pytest.param(limits(initial_rate=100.0, maximum=900), "initial_rate", id="nothing cut"),
    ],
)
@pytest.mark.parametrize("waiting", [[500, 300], [0, 0]], ids=["with lag", "without lag"])
def test_plan_names_the_limit_that_is_really_in_force(limit, expected, waiting):
    assert because(waiting, limit) == expected


def test_limit_in_force_is_known_also_when_nothing_waits():
    idle = plan_batch({partition(0): 5}, {partition(0): 5}, limits(rate=70.0))

    assert (idle.ranges, idle.lines_per_second) == ((), 70.0)


numbers = st.integers(0, 10_000)
any_limits = st.builds(
    limits,
    maximum=st.integers(0, 1000),
    minimum=st.integers(0, 20),
    rate=st.one_of(st.none(), st.floats(1, 5000)),
    seconds=st.floats(0.1, 10),
    lines_per_record=st.floats(1, 50),
    initial_rate=st.one_of(st.none(), st.floats(1, 5000)),
    max_rate=st.one_of(st.just(0), st.integers(1, 5000)),
    redistribute_cut_shares=st.booleans(),
    fair_minimum=st.booleans(),
    packing=st.dictionaries(st.integers(0, 5).map(partition), st.floats(1, 50)),
)


@given(waiting=st.lists(numbers, min_size=1, max_size=6), limit=any_limits)
def test_plan_never_exceeds_any_limit(waiting, limit):
    """More than a limit is read only where a partition's minimum, or the one record that it is always due, is more."""
    lag = lag_of(*waiting)
    plan = plan_batch(dict.fromkeys(lag, 0), lag, limit)
    minimum = 0 if limit.fair_minimum else limit.min_rate_per_partition
    lifted = 0.0
    for one in plan.ranges:
        lines_in_record = limit.lines_in_record(one.partition)
        lines, floor = one.count * lines_in_record, max(minimum, lines_in_record)
        assert one.until_offset <= lag[one.partition]
        if limit.max_rate_per_partition:
            at_most = limit.max_rate_per_partition * limit.batch_seconds
            assert lines <= max(at_most, floor) * (1 + 1e-9)
        lifted += floor
    total = sum(one.count * limit.lines_in_record(one.partition) for one in plan.ranges)
    for rate in (limit.shared[0], plan.lines_per_second):
        if rate is not None:
            assert total <= (rate * limit.batch_seconds + lifted) * (1 + 1e-9)


@given(waiting=st.lists(numbers, min_size=1, max_size=6), limit=any_limits)
def test_options_only_ever_read_more_of_what_the_shared_rate_allows(waiting, limit):
    """Redistribution reads at least what the faithful arithmetic reads, up to what waits."""
    lag = lag_of(*waiting)
    options = {name: getattr(limit, name) for name in ("initial_rate", "max_rate", "packing")}
    base = dict(
        maximum=limit.max_rate_per_partition,
        rate=limit.backpressure_rate,
        seconds=limit.batch_seconds,
        lines_per_record=limit.lines_per_record,
        **options,
    )
    faithful = effective_rates(lag, limits(**base))
    generous = effective_rates(lag, limits(**base, redistribute_cut_shares=True))
    if faithful is None or limit.shared[0] is None:
        assert generous == faithful
        return
    for one, count in lag.items():
        useful = count * limit.lines_in_record(one) / limit.batch_seconds
        assert generous[one] >= min(faithful[one], useful) * (1 - 1e-9)


@given(
    starts=st.dictionaries(st.integers(0, 5), numbers, min_size=1),
    backlog=numbers,
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
