"""PromQL against the exported series: what Prometheus would silently answer with nothing."""

from __future__ import annotations

import pytest

from alerts.metric_names import Metric
from alerts.promql import known_series, read_expression

REQUESTS = Metric("requests_total", "counter", "Requests.", ("service", "status_class"))
DURATION = Metric("duration_seconds", "histogram", "Duration.", ("service",))
LAG = Metric("lag_seconds", "gauge", "Lag.")
KNOWN = known_series([REQUESTS, DURATION, LAG])


def test_histogram_is_known_by_its_three_series_only():
    assert {"duration_seconds_bucket", "duration_seconds_sum", "duration_seconds_count"} <= set(
        KNOWN
    )
    assert "duration_seconds" not in KNOWN


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        pytest.param("lag_seconds", {"job", "instance"}, id="a plain series keeps all its labels"),
        pytest.param("sum(requests_total)", set(), id="an aggregation without by drops them"),
        pytest.param(
            "sum by (service) (rate(requests_total[5m]))", {"service"}, id="by keeps its own"
        ),
        pytest.param(
            "sum without (status_class, job) (requests_total)",
            {"service", "instance"},
            id="without keeps the rest",
        ),
        pytest.param(
            "topk(3, sum by (service) (requests_total))", {"service"}, id="topk keeps them"
        ),
        pytest.param(
            "histogram_quantile(0.9, sum by (service, le) (rate(duration_seconds_bucket[5m])))",
            {"service"},
            id="a quantile uses up the bucket label",
        ),
        pytest.param(
            "sum by (service) (requests_total) and on () (max(lag_seconds) > 60)",
            {"service"},
            id="and keeps the left side",
        ),
        pytest.param("(max(lag_seconds) or vector(0)) < 1", set(), id="a vector without labels"),
        pytest.param(
            "requests_total / on (job, instance) group_left lag_seconds",
            {"service", "status_class", "job", "instance"},
            id="many to one keeps the many",
        ),
    ],
)
def test_labels_of_the_result_follow_the_expression(expression: str, labels: set[str]):
    reading = read_expression(expression, KNOWN)

    assert reading.problems == ()
    assert reading.labels == labels


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param(
            "sum(requets_total)", "requets_total is not a known metric", id="misspelt name"
        ),
        pytest.param(
            "duration_seconds", "duration_seconds is not a known", id="histogram without suffix"
        ),
        pytest.param(
            'requests_total{vhost="a"}', "label vhost does not exist", id="label in a selector"
        ),
        pytest.param(
            "sum by (vhost) (requests_total)", "label vhost does not exist", id="label in by"
        ),
        pytest.param(
            "max by (service) (sum(requests_total))", "label service", id="label lost inside"
        ),
        pytest.param(
            "histogram_quantile(0.9, sum by (service) (rate(duration_seconds_bucket[5m])))",
            "label le does not exist",
            id="quantile without buckets",
        ),
        pytest.param(
            "sum by (service) (requests_total) / sum(requests_total)",
            "never match",
            id="sides differ",
        ),
        pytest.param(
            "sum by (service) (requests_total) and max(lag_seconds)",
            "never match",
            id="and without on",
        ),
        pytest.param(
            "requests_total * on (service) lag_seconds",
            "label service",
            id="on with a label of one side",
        ),
        pytest.param("sum(requests_total", "cannot be parsed", id="broken syntax"),
        pytest.param('{service="shop"}', "is not a known metric", id="selector without a name"),
    ],
)
def test_expression_that_can_never_answer_is_a_problem(expression: str, problem: str):
    reading = read_expression(expression, KNOWN)

    assert any(problem in found for found in reading.problems), reading.problems
