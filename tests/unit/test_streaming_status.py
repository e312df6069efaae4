"""The status document: which windows are complete, and what came too late."""

import polars as pl

from streaming.attacks.detector import load_detectors
from streaming.attacks.incident import IncidentBook
from streaming.job_state import JobState
from streaming.load.merge import TABLES
from streaming.plan.window_clock import NEVER, WindowRules
from streaming.status import load_status

NOON = 1_795_003_200
RULES = WindowRules(allowed_lateness_seconds=20, idle_close_seconds=5)


def a_state(*windows):
    rows = [
        dict.fromkeys(TABLES["load"].schema, 0)
        | {"window": w, "service": "s", "vhost": "v", "method": "GET", "status": 200, "requests": 1}
        for w in windows
    ]
    load = pl.DataFrame(rows, schema=TABLES["load"].schema)
    return JobState(
        IncidentBook(load_detectors()), window_rules=RULES, recent={"load": load, **empty()}
    )


def empty():
    return {name: TABLES[name].empty() for name in ("latency", "tops")}


def complete(state, watermark):
    windows = load_status(state, NOON + 1000, watermark)["windows"]
    return [window["complete"] for window in windows]


def test_window_is_complete_once_the_watermark_passed_its_end_and_the_lateness():
    state = a_state(NOON, NOON + 10, NOON + 20)

    assert complete(state, NOON + 30) == [True, False, False]
    assert complete(state, NOON + 49) == [True, True, False]


def test_no_window_is_complete_without_a_watermark():
    assert complete(a_state(NOON, NOON + 10), NEVER) == [False, False]


def test_window_of_the_future_is_not_shown():
    windows = load_status(a_state(NOON, 3_786_912_000), NOON + 60, NOON)["windows"]

    assert len(windows) == 1
