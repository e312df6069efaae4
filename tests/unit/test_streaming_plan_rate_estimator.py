"""Spark's own PIDRateEstimatorSuite and RateControllerSuite, their vectors in seconds instead of milliseconds.

Not applicable: RC2 (rates reach receivers): a direct stream has none, the planner asks the estimator itself.
"""

import random

import pytest
from pydantic import ValidationError

from streaming.phases import BatchClock
from streaming.plan.rate_estimator import FinishedBatch, PidGains, RateEstimator
from streaming.settings import StreamSettings


def after(estimator: RateEstimator, at: float, lines: int, seconds: float, delay: float = 0.0):
    return estimator.after(FinishedBatch(at, lines, seconds, delay))


def estimator(proportional=1.0, integral=0.0, derived=0.0, min_rate=10.0, interval=0.02):
    return RateEstimator(interval, PidGains(proportional, integral, derived, min_rate))


def test_p1_the_estimator_of_the_settings_is_the_pid_with_sparks_defaults():
    """There is one estimator; a name for another is refused as any unknown setting."""
    assert StreamSettings().new_estimator() == RateEstimator(2.0, PidGains(1.0, 0.2, 0.0, 100.0))
    with pytest.raises(ValidationError, match="rate_estimator"):
        StreamSettings.model_validate({"rate_estimator": "pid"})


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"interval": 0}, id="interval of zero"),
        pytest.param({"proportional": -1}, id="negative proportional"),
        pytest.param({"integral": -1}, id="negative integral"),
        pytest.param({"derived": -1}, id="negative derived"),
        pytest.param({"min_rate": 0}, id="minimum of zero"),
        pytest.param({"min_rate": -10}, id="negative minimum"),
    ],
)
def test_p2_estimator_checks_its_ranges(wrong):
    with pytest.raises(ValueError):
        estimator(**wrong)


def test_p3_first_batch_gives_no_estimate():
    assert after(estimator(), 0, 10, 0.01).latest_rate is None


def test_p4_second_batch_gives_one():
    first = after(estimator(), 0, 10, 0.01)

    assert after(first, 0.01, 10, 0.01).latest_rate == pytest.approx(1000)


def test_p5_no_estimate_when_no_time_passed():
    first = after(estimator(), 0, 10, 0.01)
    second = after(first, 0.01, 10, 0.01)

    assert after(second, 0.01, 99, 0.01) is second


@pytest.mark.parametrize("lines", [0, -10])
def test_p6_no_estimate_when_no_lines_were_read(lines):
    first = after(estimator(), 0, 10, 0.01)

    assert after(first, 0.01, lines, 0.01) is first


@pytest.mark.parametrize("seconds", [0, -0.01])
def test_p7_no_estimate_without_processing_time(seconds):
    first = after(estimator(), 0, 10, 0.01)

    assert after(first, 0.01, 10, seconds) is first


def test_p8_estimate_is_never_below_the_minimum():
    current = estimator(integral=1.0, min_rate=5.0)
    rates = []
    for step in range(50):
        current = after(current, step * 0.02, 1, 0.02, delay=0.1)
        rates.append(current.latest_rate)

    assert rates == [None] + [5.0] * 49


def test_p9_rate_follows_a_rising_processing_speed():
    current = estimator(integral=1.0)
    for step in range(50):
        current = after(current, step * 0.02, (step + 1) * 20, 0.02)
        if step:
            assert current.latest_rate == pytest.approx((step + 1) * 1000)


def test_p10_rate_follows_a_falling_processing_speed():
    current = estimator(integral=1.0)
    for step in range(50):
        current = after(current, step * 0.02, (50 - step) * 20, 0.02)
        if step:
            assert current.latest_rate == pytest.approx((50 - step) * 1000)


def test_p11_rate_stays_below_the_processing_speed_while_batches_are_late():
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    current = estimator(integral=0.01)
    for step in range(50):
        lines, delay = chance.randrange(1000, 2000), chance.randrange(1, 20) / 1000
        current = after(current, step * 0.02, lines, 0.02, delay=delay)
        if step:
            assert 10 <= current.latest_rate < lines / 0.02, f"seed {seed}"


def test_rate_halves_nothing_but_follows_delay_exactly_as_documented():
    """4000 lines in 1 s, half an interval late, default weights: 3600 lines per second."""
    current = RateEstimator(1.0, PidGains(min_rate=100))
    current = after(current, 1, 5000, 1.0)

    assert after(current, 2, 4000, 1.0, delay=0.5).latest_rate == pytest.approx(3600)


def test_rc1_a_rate_is_published_after_each_finished_batch_but_the_first():
    current, published = estimator(), []
    for step in range(5):
        current = after(current, step * 0.02, 100, 0.02)
        published.append(current.latest_rate)

    assert published[0] is None
    assert all(rate > 0 for rate in published[1:])


def test_wall_clock_that_steps_back_cannot_freeze_the_rate(monkeypatch):
    """Spark's estimator takes wall-clock times and would ignore every batch until the clock caught up."""
    monkeypatch.setattr("time.time", iter(range(10**9, 0, -1000)).__next__)
    ticks = iter(range(100))
    current = estimator(interval=1.0)
    for _ in range(3):
        clock = BatchClock(lambda: float(next(ticks)), 0.0)
        with clock.phase("read"):
            pass
        current = current.after(clock.finished(500))

    assert current.latest_rate == pytest.approx(500)


def test_frozen_clock_is_what_a_step_back_would_do_to_the_rate():
    learned = after(after(estimator(), 100, 10, 0.01), 101, 10, 0.01)

    assert after(learned, 50, 9999, 0.01) is learned
