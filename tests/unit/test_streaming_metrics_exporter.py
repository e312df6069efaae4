"""/metrics parses with Prometheus' own parser whatever the logs say, and stays bounded."""

import random

import polars as pl
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from alerts import metric_names as names
from streaming.attacks.detector import load_detectors
from streaming.attacks.incident import IncidentBook
from streaming.job_state import JobState
from streaming.load.merge import TABLES
from streaming.metrics_exporter import JOB_METRICS, PublishedCollector
from streaming.published import Picture, Published
from streaming.spark_batch import ACCOUNT_SCHEMA

HOSTILE = '"\\\n\r\t{}=,# é\u202e\x00\x7f\u2028😀'


def a_batch(places):
    account = dict.fromkeys(ACCOUNT_SCHEMA, 0) | {"topic": "t", "lines": len(places)}
    rows = [
        dict.fromkeys(TABLES["load"].schema, 0)
        | {"service": service, "vhost": vhost, "method": "GET", "status": 200, "requests": 1}
        for service, vhost in places
    ]
    latency = [
        {"window": 0, "service": service, "vhost": vhost, "bucket": number % 16, "count": 1}
        for number, (service, vhost) in enumerate(places)
    ]
    return {
        "account": pl.DataFrame([account], schema=ACCOUNT_SCHEMA),
        "load": pl.DataFrame(rows, schema=TABLES["load"].schema),
        "latency": pl.DataFrame(latency, schema=TABLES["latency"].schema),
        "timings": pl.DataFrame({"phase": ["plan", "read"], "seconds": [0.01, 0.2]}),
    }


def registry_of(state):
    published = Published()
    published.replace(
        Picture(
            counters=state.all_counters(),
            histograms=state.histograms,
            gauges={(names.RATE_LIMIT.name, ()): float("inf")},
            has_totals=True,
        )
    )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublishedCollector(published))
    return registry


def state_with(places, **fields):
    state = JobState(IncidentBook(load_detectors()), **fields)
    state.apply(a_batch(places))
    return state


def samples(families):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def random_label(source):
    alphabet = HOSTILE + "abc.-/" + "".join(chr(source.randrange(1, 0xD7FF)) for _ in range(20))
    return "".join(source.choice(alphabet) for _ in range(source.randrange(0, 120)))


def test_random_hostile_labels_read_back_with_both_parsers():
    """Straight into the collector, without the state's own cap in between."""
    source = random.Random(20261118)
    wanted = {(random_label(source), random_label(source), "GET", "2xx"): n for n in range(500)}
    published = Published()
    published.replace(
        Picture(counters={(names.REQUESTS.name, labels): n for labels, n in wanted.items()})
    )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublishedCollector(published))

    text = samples(parse_text(generate_latest(registry).decode()))
    modern = samples(parse_openmetrics(openmetrics.generate_latest(registry).decode()))

    for read in (text, modern):
        shown = {
            tuple(dict(labels)[name] for name in names.REQUESTS.labels): value
            for (metric, labels), value in read.items()
            if metric == names.REQUESTS.name
        }
        assert shown == wanted


def test_labels_that_cannot_be_shown_are_counted_together():
    source = random.Random(20261119)
    places = [(random_label(source), random_label(source)) for _ in range(500)]
    read = samples(parse_text(generate_latest(registry_of(state_with(places))).decode()))

    assert sum(v for (name, _), v in read.items() if name == names.REQUESTS.name) == 500
    labels = {value for _, pairs in read for name, value in pairs if name in ("service", "vhost")}
    assert all(value.isprintable() and len(value) <= 100 for value in labels)


def test_values_read_back_are_the_labels_that_were_shown():
    vhost = 'a"b\\c{d="e"}#,\u00e9'
    read = samples(
        parse_openmetrics(
            openmetrics.generate_latest(registry_of(state_with([("shop", vhost)]))).decode()
        )
    )
    labels = {"service": "shop", "vhost": vhost, "method": "GET", "status_class": "2xx"}

    assert read[names.REQUESTS.name, tuple(sorted(labels.items()))] == 1


def test_ten_thousand_virtual_hosts_make_a_bounded_number_of_series():
    state = state_with([("shop", f"host-{number}.example") for number in range(10_000)])
    read = samples(parse_text(generate_latest(registry_of(state)).decode()))

    vhosts = {dict(labels).get("vhost") for _, labels in read} - {None}
    assert len(vhosts) == 101
    assert len(read) < 101 * 25 + 200
    assert sum(v for (name, _), v in read.items() if name == names.REQUESTS.name) == 10_000


def test_histograms_have_their_own_bounds_and_add_up():
    read = samples(
        parse_openmetrics(
            openmetrics.generate_latest(registry_of(state_with([("shop", "v")]))).decode()
        )
    )
    name = names.BATCH_DURATION.name

    assert read[f"{name}_bucket", (("le", "0.2"), ("phase", "read"))] == 1
    assert read[f"{name}_bucket", (("le", "0.1"), ("phase", "read"))] == 0
    assert read[f"{name}_bucket", (("le", "+Inf"), ("phase", "read"))] == 1
    assert read[f"{name}_count", (("phase", "read"),)] == 1
    assert read[f"{name}_sum", (("phase", "read"),)] == 0.2


def test_nothing_is_shown_as_zero_before_the_totals_are_known():
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublishedCollector(Published()))

    assert samples(parse_text(generate_latest(registry).decode())) == {}


@pytest.mark.parametrize("metric", JOB_METRICS, ids=lambda metric: metric.name)
def test_every_histogram_has_bounds_and_nothing_else_has(metric):
    assert (metric.kind == "histogram") == (metric.name in names.BUCKETS)
