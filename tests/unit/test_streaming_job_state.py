"""The state is the sum of committed batches: exact, bounded, and as cheap after a year as on the first day."""

import time

import polars as pl
import pytest

from alerts import metric_names as names
from offsets.offset_range import TopicPartition
from streaming.attacks.detector import load_detectors
from streaming.attacks.incident import IncidentBook
from streaming.generation_book import RECENT_GENERATIONS, GenerationBook
from streaming.job_state import JobState
from streaming.load.clocks import CLOCKS
from streaming.load.merge import TABLES
from streaming.plan.window_clock import WindowRules
from streaming.spark_batch import ACCOUNT_SCHEMA, GENERATION_SCHEMA
from streaming.state_snapshot import fill_from_tables, to_tables

NOON = 1_795_003_200
PARTITION = TopicPartition("access-log", 0)
RULES = WindowRules(allowed_lateness_seconds=60, idle_close_seconds=30)


def a_state(**fields):
    return JobState(IncidentBook(load_detectors()), window_rules=RULES, **fields)


def a_generation(name="g", end=100, **fields):
    row = dict.fromkeys(GENERATION_SCHEMA, 0) | {"topic": "access-log", "service": "shop"}
    return row | {"generation": name, "host": "h", "path": "/a", "end_offset": end, **fields}


def a_batch(*, time_of_lines=NOON, append=None, service="shop", vhost="v", requests=1, skewed=0):
    append_ms = (time_of_lines if append is None else append) * 1000
    account = dict.fromkeys(ACCOUNT_SCHEMA, 0) | {"topic": "access-log"}
    load = dict.fromkeys(TABLES["load"].schema, 0) | {
        "window": time_of_lines // 10 * 10,
        "service": service,
        "vhost": vhost,
        "method": "GET",
        "status": 200,
        "requests": requests,
    }
    clock = dict.fromkeys(CLOCKS.schema, append_ms) | {
        "topic": "access-log",
        "partition": 0,
        "service": service,
        "lines": requests,
        "skewed_lines": skewed,
        "newest_time": None if skewed else time_of_lines,
        "plausible_append_ms": None if skewed else append_ms,
    }
    return {
        "account": pl.DataFrame([account], schema=ACCOUNT_SCHEMA),
        "load": pl.DataFrame([load], schema=TABLES["load"].schema),
        "clocks": pl.DataFrame([clock], schema=CLOCKS.schema),
    }


def with_generations(*rows):
    tables = a_batch()
    return {**tables, "generations": pl.DataFrame(rows, schema=GENERATION_SCHEMA)}


def restored(state):
    again = a_state()
    fill_from_tables(again, to_tables(state))
    return again


def late(state):
    return state.count(names.LATE_LINES, ("shop",))


def test_line_within_the_allowed_lateness_is_not_late():
    state = a_state()
    state.apply(a_batch(time_of_lines=NOON + 60))
    state.apply(a_batch(time_of_lines=NOON, append=NOON + 61))

    assert late(state) == 0


def test_line_for_a_closed_window_is_counted_as_late_and_added_to_its_window():
    state = a_state()
    state.apply(a_batch(time_of_lines=NOON))
    state.apply(a_batch(time_of_lines=NOON + 70))
    state.apply(a_batch(time_of_lines=NOON, append=NOON + 71, requests=3))

    assert late(state) == state.late_lines == 3
    windows = dict(state.recent["load"].select("window", "requests").iter_rows())
    assert windows[NOON] == 4
    assert state.count(names.REQUESTS, ("shop", "v", "GET", "2xx")) == 5


def test_line_after_a_quiet_night_is_late_for_what_the_wall_clock_closed():
    state = a_state()
    state.apply(a_batch(time_of_lines=NOON))
    state.apply(a_batch(time_of_lines=NOON + 1, append=NOON + 3600))

    assert late(state) == 1


@pytest.mark.parametrize("wrong", [NOON + 3600, NOON - 3600, 3_786_912_000])
def test_wrong_clock_makes_no_line_of_others_late(wrong):
    state = a_state()
    state.apply(a_batch(time_of_lines=NOON, service="shop"))
    state.apply(a_batch(time_of_lines=wrong, append=NOON + 1, service="broken", skewed=1))
    state.apply(a_batch(time_of_lines=NOON + 2, service="shop"))

    assert late(state) == 0
    assert state.count(names.SKEWED_LINES, ("broken",)) == 1
    assert state.window_clock.watermark == NOON + 2


def test_state_restored_half_way_ends_as_the_one_that_never_stopped():
    batches = [
        a_batch(time_of_lines=NOON),
        a_batch(time_of_lines=NOON + 200, append=NOON + 201),
        a_batch(time_of_lines=NOON + 20, append=NOON + 202),
        a_batch(time_of_lines=NOON + 9000, append=NOON + 203, skewed=1),
        with_generations(a_generation("g", 10), a_generation("h", 10, gap_bytes=4)),
        with_generations(a_generation("g", 30)),
        {**a_batch(), "timings": pl.DataFrame({"phase": ["read"], "seconds": [0.3]})},
    ]
    for stop in range(len(batches) + 1):
        whole, first_half = a_state(), a_state()
        for batch in batches[:stop]:
            first_half.apply(batch)
        second_half = restored(first_half)
        for batch in batches[stop:]:
            second_half.apply(batch)
        for batch in batches:
            whole.apply(batch)

        assert second_half.counters == whole.counters
        assert second_half.window_clock == whole.window_clock
        assert second_half.histograms == whole.histograms
        assert second_half.generations == whole.generations
        assert second_half.recent["load"].equals(whole.recent["load"])


def test_batch_seconds_are_a_histogram_by_phase():
    state = a_state()
    timings = pl.DataFrame({"phase": ["plan", "read"], "seconds": [0.005, 400.0]})
    state.apply({**a_batch(), "timings": timings})

    buckets = state.histograms[names.BATCH_DURATION.name]
    assert (buckets["plan",][0], buckets["read",][-1]) == (1, 1)
    assert state.count(names.BATCH_DURATION, ("read",)) == 400.0


def test_lost_ranges_are_counted_in_ranges_and_records():
    lost = pl.DataFrame({"from_offset": [3, 20], "until_offset": [10, 21]})
    state = a_state()
    state.apply({**a_batch(), "lost": lost})

    assert state.count(names.LOST_RANGES) == 2
    assert state.count(names.LOST_RECORDS) == 8


def test_labels_are_bounded_whatever_the_lines_say():
    state = a_state()
    for number in range(300):
        state.apply(a_batch(service=f"service-{number}", vhost=f"host-{number}"))

    services = {labels[0] for name, labels in state.all_counters() if name == names.REQUESTS.name}
    vhosts = {labels[1] for name, labels in state.all_counters() if name == names.REQUESTS.name}
    assert len(services) == len(vhosts) == 101
    assert len(state.all_counters()) < 5_000


def test_completeness_is_counted_bytes_of_known_bytes():
    book = GenerationBook()
    assert book.completeness == 1.0
    book.add([a_generation("g", 100, gap_bytes=25), a_generation("h", 300)])
    book.add([a_generation("g", 200, gap_bytes=25)])

    counted = sum(one.byte_count for one in book.totals.values())
    assert book.completeness == counted / (counted + 50) == 450 / 500


def test_tasks_are_told_about_the_files_that_were_written_to_last():
    book = GenerationBook()
    book.add([a_generation(f"g{n}", n + 1) for n in range(RECENT_GENERATIONS + 5)])
    book.add([a_generation("g0", 77)])

    told = book.counted_until(PARTITION)

    assert len(told) == RECENT_GENERATIONS
    assert told["g0"] == 77
    assert "g1" not in told
    assert book.counted_until(TopicPartition("access-log", 9)) == {}


def test_file_that_a_task_was_not_told_about_is_found_out():
    book = GenerationBook()
    book.add([a_generation("old", 50), a_generation("known", 60)])
    met = pl.DataFrame(
        [a_generation("old"), a_generation("known"), a_generation("new")], schema=GENERATION_SCHEMA
    )

    assert book.untold(met, {PARTITION: {"known": 60}}) == {PARTITION: {"old": 50}}


def test_file_that_moved_to_another_partition_is_still_known():
    book = GenerationBook()
    book.add([a_generation("g", 50)])
    met = pl.DataFrame([a_generation("g", partition=1)], schema=GENERATION_SCHEMA)
    other = TopicPartition("access-log", 1)

    assert book.untold(met, {other: {}}) == {other: {"g": 50}}
    book.add(met.iter_rows(named=True))
    assert book.counted_until(PARTITION) == {}
    assert book.counted_until(other) == {"g": 100}


def test_adding_a_batch_costs_the_same_with_many_files():
    def cost(files):
        state = a_state()
        state.generations.add([a_generation(f"g{n}") for n in range(files)])
        batch = with_generations(a_generation("g0", 200))
        started = time.perf_counter()
        for _ in range(20):
            state.apply(batch)
            state.counted_until(PARTITION)
            assert state.completeness == 1.0
        return time.perf_counter() - started

    cost(10)
    few, many = cost(RECENT_GENERATIONS), cost(20_000)
    assert many < 5 * few
