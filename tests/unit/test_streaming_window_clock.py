"""Windows close when every active source passed them, and by wall clock where nothing comes."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.load.clocks import CLOCKS, append_times, read_clocks
from streaming.plan.window_clock import (
    MAX_SOURCES,
    NEVER,
    Reading,
    WindowClock,
    WindowRules,
)

NOON = 1_795_003_200
RULES = WindowRules(allowed_lateness_seconds=60, idle_close_seconds=30)
SHOP, BLOG = ("log", 0, "shop"), ("log", 1, "blog")


def reading(source=SHOP, time=NOON, append=None, oldest=None):
    append = (NOON if time is None else time) if append is None else append
    plausible = None if time is None else append
    return Reading(source, time, plausible, append if oldest is None else oldest, append)


def clock_after(*batches):
    clock = WindowClock()
    for batch in batches:
        clock = clock.after(batch, RULES)
    return clock


def test_window_closes_when_its_end_and_the_allowed_lateness_have_passed():
    assert not RULES.is_closed(NOON, NOON + 69)
    assert RULES.is_closed(NOON, NOON + 70)


def test_out_of_order_batch_does_not_move_event_time_back():
    clock = clock_after([reading(time=NOON + 20)], [reading(time=NOON + 5, append=NOON + 21)])

    assert clock.watermark == NOON + 20


def test_the_slower_of_two_active_hosts_decides():
    clock = clock_after([reading(SHOP, NOON + 25), reading(BLOG, NOON + 8, append=NOON + 25)])

    assert clock.watermark == NOON + 8


def test_host_that_went_silent_holds_the_others_only_for_so_long():
    both = [reading(SHOP, NOON), reading(BLOG, NOON)]

    still_waiting = clock_after(both, [reading(SHOP, NOON + 29)])
    given_up = clock_after(both, [reading(SHOP, NOON + 31)])

    assert still_waiting.watermark == NOON
    assert given_up.watermark == NOON + 31


def test_quiet_site_closes_its_last_window_by_wall_clock():
    clock = clock_after([reading(time=NOON)])
    closes = NOON + 10 + RULES.allowed_lateness_seconds + RULES.idle_close_seconds

    assert not RULES.is_closed(NOON, clock.at(closes - 1, (), RULES))
    assert RULES.is_closed(NOON, clock.at(closes, (), RULES))


def test_wall_clock_closes_nothing_while_records_wait_to_be_read():
    clock = clock_after([reading(time=NOON)])

    assert clock.at(NOON + 7200, {("log", 0)}, RULES) == NOON


def test_silent_partition_does_not_hold_back_one_that_is_being_read():
    clock = clock_after([reading(SHOP, NOON + 5), reading(BLOG, NOON)])

    assert clock.at(NOON + 40, {("log", 0)}, RULES) == NOON + 5


def test_first_line_after_a_quiet_spell_finds_the_windows_before_it_closed():
    clock = clock_after([reading(time=NOON)])

    assert clock.before([reading(time=NOON + 3600)], RULES).watermark == NOON + 3600 - 30


def test_backlog_of_a_job_that_was_down_is_not_late():
    """Read hours later, but by Kafka's time the lines came one after the other."""
    clock = clock_after([reading(time=NOON)])

    assert clock.before([reading(time=NOON + 9, oldest=NOON + 1)], RULES).watermark == NOON


def test_partition_that_is_read_more_slowly_holds_the_watermark():
    both = [reading(SHOP, NOON), reading(BLOG, NOON)]

    clock = clock_after(both, [reading(SHOP, NOON + 600), reading(BLOG, NOON + 3)])

    assert clock.watermark == NOON + 3


def test_source_without_a_plausible_time_neither_closes_nor_blocks():
    clock = clock_after([reading(SHOP, NOON), reading(BLOG, None, append=NOON)])

    assert clock.watermark == NOON
    assert clock_after([reading(BLOG, None, append=NOON)]).watermark == NEVER


def test_host_with_a_wrong_clock_that_keeps_sending_does_not_keep_the_others_open():
    clock = clock_after(
        [reading(SHOP, NOON), reading(BLOG, NOON)],
        [reading(BLOG, None, append=NOON + 3600)],
    )

    assert clock.at(NOON + 3600, (), RULES) == NOON + 3570


def test_where_every_clock_is_wrong_windows_close_by_wall_clock():
    clock = clock_after([reading(BLOG, None, append=NOON)])

    assert clock.at(NOON + 100, (), RULES) == NOON + 70


def test_nothing_is_closed_before_anything_was_read():
    assert not RULES.is_closed(0, WindowClock().at(NOON, (), RULES))
    assert WindowClock().after([], RULES) == WindowClock()


def test_sources_are_bounded():
    readings = [reading(("log", 0, f"service-{n}"), NOON + n / 1e6) for n in range(MAX_SOURCES + 9)]

    assert len(clock_after(readings).sources) == MAX_SOURCES


def test_source_that_is_gone_for_a_day_is_forgotten():
    clock = clock_after([reading(BLOG, NOON)], [reading(SHOP, NOON + 86_401)])

    assert set(clock.sources) == {SHOP}


times = st.integers(NOON, NOON + 500)
batches = st.lists(
    st.lists(st.builds(reading, st.sampled_from([SHOP, BLOG]), times, times), max_size=3),
    max_size=6,
)


@given(batches)
def test_watermark_never_steps_back_and_replay_gives_the_same_clock(given_batches):
    clock, marks = WindowClock(), []
    for batch in given_batches:
        clock = clock.after(batch, RULES)
        marks.append(clock.watermark)

    assert marks == sorted(marks)
    assert clock == clock_after(*given_batches)
    assert clock.at(NOON + 900, (), RULES) >= clock.watermark


def lines(*seconds, ok=True, offsets=None):
    start = datetime.fromtimestamp(NOON, tz=UTC)
    return pl.DataFrame(
        {
            "ok": [ok] * len(seconds),
            "service": ["shop"] * len(seconds),
            "partition": pl.Series([0] * len(seconds), dtype=pl.Int32),
            "time": pl.Series(
                [start + timedelta(seconds=s) for s in seconds], dtype=pl.Datetime("us", "UTC")
            ),
            "record_offset": offsets or list(range(len(seconds))),
        }
    )


def clocks_of(frame, append_seconds):
    offsets = np.arange(len(append_seconds), dtype=np.int64)
    received = np.array([round((NOON + s) * 1000) for s in append_seconds], dtype=np.int64)
    return read_clocks(frame, "log", offsets, received, 300.0)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(3600, id="an hour ahead"),
        pytest.param(-3600, id="an hour behind"),
        pytest.param(64 * 365 * 86_400, id="year 2090"),
    ],
)
def test_line_of_a_wrong_clock_is_counted_and_says_nothing_about_time(wrong):
    [row] = clocks_of(lines(1, wrong, 2), [3, 3, 3]).to_dicts()

    assert row["newest_time"] == NOON + 2
    assert (row["lines"], row["skewed_lines"]) == (3, 1)


def test_clocks_take_the_time_of_each_lines_own_record():
    [row] = clocks_of(lines(0, 400, offsets=[0, 2]), [0, 0, 400]).to_dicts()

    assert row["skewed_lines"] == 0
    assert (row["oldest_append_ms"], row["newest_append_ms"]) == (NOON * 1000, (NOON + 400) * 1000)


def test_source_with_wrong_times_only_has_no_event_time():
    [row] = clocks_of(lines(9000), [0]).to_dicts()

    assert row["newest_time"] is None


def test_lines_that_could_not_be_read_have_no_clock():
    assert clocks_of(lines(1, ok=False), [0]).is_empty()


def test_clocks_of_two_tasks_merge():
    parts = [clocks_of(lines(1), [1]), clocks_of(lines(9000), [2]), clocks_of(lines(5), [6])]

    assert CLOCKS.merge(parts).equals(CLOCKS.merge(parts[::-1]))
    assert CLOCKS.merge(parts)["newest_time"].to_list() == [NOON + 5]


def test_record_from_the_future_reached_kafka_no_later_than_now():
    assert append_times([5000, 900_000, -1], now_ms=6000).tolist() == [5000, 6000, 6000]
