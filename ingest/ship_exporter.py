"""The shipper's counts → /metrics. Names and help come from `alerts.metric_names`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from alerts import metric_names as names
from ingest.errors import ShipError
from ingest.ship_metrics import ShipCounts


class ShipCollector(Collector):
    """Serves the counts as they are when a scrape comes."""

    def __init__(self, counts: ShipCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Every shipper metric."""
        counts = self._counts
        plain: list[tuple[names.Metric, float]] = [
            (names.SHIP_LINES, counts.lines),
            (names.SHIP_BYTES, counts.bytes),
            (names.SHIP_RECORDS, counts.records),
            (names.SHIP_RETRIES, counts.retries),
            (names.SHIP_TRUNCATED, counts.truncated),
            (names.SHIP_FILES, counts.files),
            (names.SHIP_BEHIND_BYTES, counts.behind_bytes),
            (names.SHIP_BEHIND_SECONDS, counts.behind_seconds),
            (names.SHIP_UNCONFIRMED_BYTES, counts.unconfirmed_bytes),
        ]
        for metric, value in plain:
            family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            yield family(metric.name, metric.help, value=value)
        dropped = CounterMetricFamily(
            names.SHIP_DROPPED.name, names.SHIP_DROPPED.help, labels=names.SHIP_DROPPED.labels
        )
        for reason, count in counts.dropped.items():
            dropped.add_metric((reason,), count)
        yield dropped


@contextmanager
def serving_counts(counts: ShipCounts, listen: str) -> Iterator[None]:
    """Serve /metrics while the context lasts; an empty address means not at all."""
    if not listen:
        yield
        return
    host, _, port = listen.rpartition(":")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ShipCollector(counts))
    try:
        server, thread = start_http_server(int(port), addr=host, registry=registry)
    except (OSError, ValueError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        message = f'ship.listen = {listen!r} cannot be used ({cause}): choose a free host:port, or "" for none.'
        raise ShipError(message) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
