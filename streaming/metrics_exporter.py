"""Committed totals → Prometheus families. Names, labels and help come from `alerts.metric_names`."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from alerts import metric_names as names
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
        for metric in JOB_METRICS:
            if metric.kind == "histogram":
                yield _histogram(metric, picture)
            elif metric.kind == "counter":
                yield _counter(metric, picture)
            else:
                yield _gauge(metric, picture)


def _counter(metric: names.Metric, picture: Picture) -> Metric:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for (name, labels), value in picture.counters.items():
        if name == metric.name:
            family.add_metric(labels, value)
    if picture.has_totals and not metric.labels and (metric.name, ()) not in picture.counters:
        family.add_metric((), 0)
    return family


def _gauge(metric: names.Metric, picture: Picture) -> Metric:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for (name, labels), value in picture.gauges.items():
        if name == metric.name:
            family.add_metric(labels, value)
    return family


def _histogram(metric: names.Metric, picture: Picture) -> Metric:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [str(bound) for bound in names.DURATION_BUCKETS_SECONDS] + ["+Inf"]
    for labels, counts in picture.duration_buckets.items():
        running = 0
        buckets = []
        for bound, count in zip(bounds, counts, strict=True):
            running += count
            buckets.append((bound, running))
        total_seconds = picture.counters.get((metric.name, labels), 0.0)
        family.add_metric(labels, buckets, sum_value=total_seconds)
    return family
