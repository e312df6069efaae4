"""What is shown after a commit, and while nothing happens."""

import pytest

from alerts import metric_names as names
from alerts.settings import AlertsSettings
from ingest.settings import KafkaSettings
from offsets.offset_range import TopicPartition
from offsets.reconcile import Available
from offsets.settings import ZookeeperSettings
from offsets.store import Commit
from streaming.attacks.detector import load_detectors
from streaming.attacks.incident import IncidentBook
from streaming.job_state import JobState
from streaming.lag_clock import LagClock
from streaming.phases import PHASES, BatchClock
from streaming.plan.batch_plan import BatchPlan, RateLimits
from streaming.plan.window_clock import SourceClock, WindowClock
from streaming.publish import RATE_CAUSES, REPEATED_BATCH, Publisher, Standing
from streaming.published import Published
from streaming.settings import JobSettings, StreamSettings
from streaming.spark_batch import BatchResult

ZERO, ONE = TopicPartition("access-log", 0), TopicPartition("access-log", 1)
NOON = 1_795_003_200.0


class Clock:
    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


def a_standing(latest=10, committed=10, because="none", **state):
    return Standing(
        commit=Commit(3, 7, {ZERO: committed}, {}, (), NOON - 5),
        state=JobState(IncidentBook(load_detectors()), **state),
        available={ZERO: Available(0, latest)},
        plan=BatchPlan((), None, because),
        epoch=9,
    )


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def published():
    return Published()


@pytest.fixture
def publisher(clock, published):
    settings = JobSettings(
        kafka=KafkaSettings(),
        zookeeper=ZookeeperSettings(),
        stream=StreamSettings(),
        alerts=AlertsSettings(),
        formats={},
        kafka_properties={},
        assumed_lines_per_record=1,
    )
    return Publisher(settings, published, None, wall_clock=clock)


def gauge(published, metric, *labels):
    return published.picture.gauges[metric.name, labels]


def a_finished_batch():
    ticks = iter(range(100))
    batch = BatchClock(lambda: float(next(ticks)), 0.25)
    for phase in PHASES:
        with batch.phase(phase):
            pass
    return batch


def test_lag_is_shown_against_the_present_end_also_while_nothing_is_read(publisher, published):
    publisher.refresh(a_standing(latest=25))

    assert gauge(published, names.LAG_RECORDS, "access-log", "0") == 15
    assert published.picture.status["lag"]["records"] == 15


def test_first_record_after_a_quiet_night_is_not_as_old_as_the_night(publisher, published, clock):
    quiet = a_standing(last_timestamp_ms={("access-log", 0): round((NOON - 3600) * 1000)})
    publisher.refresh(quiet)
    clock.now += 2
    publisher.refresh(a_standing(latest=11, last_timestamp_ms=quiet.state.last_timestamp_ms))

    assert gauge(published, names.LAG_SECONDS) == 2


def test_backlog_found_at_the_start_is_as_old_as_what_was_committed_last(publisher, published):
    publisher.refresh(
        a_standing(latest=99, last_timestamp_ms={("access-log", 0): round((NOON - 7200) * 1000)})
    )

    assert gauge(published, names.LAG_SECONDS) == 7200


def test_lag_in_seconds_is_that_of_the_worst_partition_and_never_negative():
    lag = LagClock(started=NOON)
    committed = {("access-log", 0): round((NOON - 9) * 1000)}

    assert lag.seconds({ZERO: 1, ONE: 1}, committed, NOON + 1) == 10
    assert lag.seconds({ZERO: 0, ONE: 0}, committed, NOON + 1) == 0
    assert lag.seconds({ONE: 1}, {("access-log", 1): round((NOON + 60) * 1000)}, NOON) == 0


def test_partition_that_was_never_read_is_not_as_old_as_the_epoch():
    assert LagClock(started=NOON).seconds({ONE: 5}, {}, NOON + 3) == 3


def test_time_of_the_last_look_is_when_kafka_was_asked_not_when_the_batch_ended(
    publisher, published
):
    publisher.publish(a_standing(), a_finished_batch(), BatchResult((), {}))

    assert gauge(published, names.LAST_LOOK) == NOON - 4
    assert gauge(published, names.SCHEDULING_DELAY) == 0.25


@pytest.mark.parametrize("because", RATE_CAUSES)
def test_cause_of_the_rate_limit_is_one_of_a_closed_set(publisher, published, because):
    publisher.refresh(a_standing(because=because))

    shown = {one: gauge(published, names.RATE_LIMIT_BECAUSE, one) for one in RATE_CAUSES}
    assert [one for one, value in shown.items() if value] == [because]


def test_any_other_cause_is_a_repeated_batch(publisher, published):
    publisher.refresh(a_standing(because="repeating an unfinished batch"))

    assert gauge(published, names.RATE_LIMIT_BECAUSE, REPEATED_BATCH) == 1


def test_causes_of_the_planner_are_all_known():
    limits = {"max_rate_per_partition": 0, "min_rate_per_partition": 1, "batch_seconds": 1.0}
    planned = {
        RateLimits(
            backpressure_rate=b, initial_rate=i, max_rate=m, lines_per_record=1, **limits
        ).shared[1]
        for b in (None, 5.0)
        for i in (None, 5.0)
        for m in (0, 1)
    }

    assert planned <= set(RATE_CAUSES)


def test_epoch_is_this_drivers_own_also_before_its_first_commit(publisher, published):
    publisher.refresh(a_standing())

    assert gauge(published, names.EPOCH) == 9
    assert published.picture.status["epoch"] == 9


def test_timings_go_to_the_ledger_with_the_next_batch_and_not_under_another_leader(publisher):
    assert publisher.timings().is_empty()
    publisher.publish(a_standing(), a_finished_batch(), BatchResult((), {}))
    assert dict(publisher.timings().iter_rows()) == dict.fromkeys(PHASES, 1.0)

    publisher.not_leading()
    assert publisher.timings().is_empty()


def test_driver_that_does_not_lead_shows_no_totals(publisher, published):
    publisher.refresh(a_standing())
    publisher.not_leading()

    assert published.picture.counters == {}
    assert published.picture.gauges == {(names.LEADER.name, ()): 0.0}


def test_watermark_follows_the_wall_clock_only_while_nothing_waits(publisher, published, clock):
    event_time = WindowClock(NOON, {("access-log", 0, "shop"): SourceClock(NOON, NOON)})
    clock.now += 1000
    publisher.refresh(a_standing(latest=11, window_clock=event_time))
    assert gauge(published, names.WATERMARK) == NOON
    publisher.refresh(a_standing(window_clock=event_time))
    assert gauge(published, names.WATERMARK) == NOON + 970


def test_no_watermark_is_shown_before_anything_was_read(publisher, published):
    publisher.refresh(a_standing())

    assert (names.WATERMARK.name, ()) not in published.picture.gauges
