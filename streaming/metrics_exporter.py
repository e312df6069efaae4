"""Committed totals → Prometheus families. Names, labels and help come from `alerts.metric_names`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from alerts import metric_names as names
from streaming.job_state import CounterKey, Labels
from streaming.published import Picture, Published

JOB_METRICS = tuple(
    metric for metric in names.METRICS if not metric.name.startswith("palisade_ship_")
)


class PublishedCollector(Collector):
    """Serves whatever picture is published when a scrape comes."""

    def __init__(self, published: Published) -> None:
        self._published = published

    def collect(self) -> Iterator[Metric]:
        """Every job metric, from one picture."""
        picture = self._published.picture
        counters, gauges = _by_name(picture.counters), _by_name(picture.gauges)
        for metric in JOB_METRICS:
            if metric.kind == "histogram":
                yield _histogram(metric, picture, counters[metric.name])
            elif metric.kind == "counter":
                yield _counter(metric, picture, counters[metric.name])
            else:
                yield _gauge(metric, gauges[metric.name])


def _by_name(values: Mapping[CounterKey, float]) -> defaultdict[str, dict[Labels, float]]:
    """Each metric's own series: hostile traffic may bring many."""
    series: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for (name, labels), value in values.items():
        series[name][labels] = value
    return series


def _counter(metric: names.Metric, picture: Picture, series: Mapping[Labels, float]) -> Metric:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in series.items():
        family.add_metric(labels, value)
    if picture.has_totals and not metric.labels and not series:
        family.add_metric((), 0)
    return family


def _gauge(metric: names.Metric, series: Mapping[Labels, float]) -> Metric:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in series.items():
        family.add_metric(labels, value)
    return family


def _histogram(metric: names.Metric, picture: Picture, sums: Mapping[Labels, float]) -> Metric:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [str(bound) for bound in names.BUCKETS[metric.name]] + ["+Inf"]
    for labels, counts in picture.histograms.get(metric.name, {}).items():
        running = 0
        buckets = []
        for bound, count in zip(bounds, counts, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric(labels, buckets, sum_value=sums.get(labels, 0.0))
    return family
