"""Every metric: name, kind, labels, help. The only place they are spelled.

Pure. The exporters, the rules, the dashboards, the runbooks and README's table all take them from here.
Labels are bounded: service and vhost come from configuration or a capped list, the others from closed sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as it appears on /metrics (`name` of a counter ends in `_total`)."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


# The site, from committed lines.
REQUESTS = Metric(
    "palisade_requests_total",
    "counter",
    "Requests in committed lines.",
    ("service", "vhost", "method", "status_class"),
)
RESPONSE_BYTES = Metric(
    "palisade_response_bytes_total",
    "counter",
    "Response bytes in committed lines.",
    ("service", "vhost"),
)
REQUEST_DURATION = Metric(
    "palisade_request_duration_seconds",
    "histogram",
    "Time to serve a request, where the log format carries it.",
    ("service", "vhost"),
)
MALFORMED_LINES = Metric(
    "palisade_malformed_lines_total",
    "counter",
    "Access-log lines whose request could not be read, by reason.",
    ("service", "reason"),
)
QUARANTINED_LINES = Metric(
    "palisade_quarantined_lines_total",
    "counter",
    "Lines that are no access-log lines at all, by reason.",
    ("service", "reason"),
)
ATTACK_REQUESTS = Metric(
    "palisade_attack_requests_total",
    "counter",
    "Requests that a detector recognised.",
    ("service", "detector"),
)
INCIDENTS_OPEN = Metric(
    "palisade_incidents_open", "gauge", "Attackers that are an incident now.", ("service",)
)
INCIDENTS_OPENED = Metric(
    "palisade_incidents_opened_total", "counter", "Incidents ever opened.", ("service",)
)
LATE_LINES = Metric(
    "palisade_late_lines_total",
    "counter",
    "Lines that came after their window was closed: counted in history, missing from what was shown as complete.",
    ("service",),
)
SKEWED_LINES = Metric(
    "palisade_skewed_lines_total",
    "counter",
    "Lines whose time is too far from their arrival in Kafka to move event time.",
    ("service",),
)

# The pipeline itself.
LINES = Metric(
    "palisade_lines_total",
    "counter",
    "Lines counted in committed batches: clean, malformed or quarantined.",
    ("outcome",),
)
RECORDS = Metric("palisade_records_total", "counter", "Kafka records read in committed batches.")
LINE_BYTES = Metric(
    "palisade_line_bytes_total", "counter", "Bytes of log files counted in committed batches."
)
RESENT_LINES = Metric(
    "palisade_resent_lines_total", "counter", "Lines that arrived again and were dropped."
)
UNPROVEN_LINES = Metric(
    "palisade_unproven_lines_total",
    "counter",
    "Lines without identity: counted, completeness not provable.",
)
GAP_BYTES = Metric("palisade_gap_bytes_total", "counter", "Bytes of log files that never arrived.")
LOST_RECORDS = Metric(
    "palisade_lost_records_total",
    "counter",
    "Kafka records lost before they were read and accepted as lost.",
)
LOST_RANGES = Metric(
    "palisade_lost_ranges_total", "counter", "Ranges of Kafka records accepted as lost."
)
COMPLETENESS = Metric(
    "palisade_completeness_ratio",
    "gauge",
    "Bytes counted of the bytes the log files are known to hold.",
)
BATCHES = Metric("palisade_batches_total", "counter", "Batches committed.")
BATCH_SECONDS = Metric(
    "palisade_batch_phase_seconds",
    "gauge",
    "Seconds of the last batch, by phase: plan, read, output, commit.",
    ("phase",),
)
BATCH_TOTAL_SECONDS = Metric(
    "palisade_batch_seconds", "gauge", "Seconds of the last batch from plan to commit."
)
BATCH_DURATION = Metric(
    "palisade_batch_duration_seconds",
    "histogram",
    "Seconds of committed batches, by phase; the last batch is added with the next one.",
    ("phase",),
)
BATCH_RECORDS = Metric("palisade_batch_records", "gauge", "Kafka records of the last batch.")
BATCH_LINES = Metric("palisade_batch_lines", "gauge", "Lines counted in the last batch.")
BATCH_BYTES = Metric(
    "palisade_batch_bytes", "gauge", "Bytes of log files counted in the last batch."
)
BATCH_INTERVAL = Metric("palisade_batch_interval_seconds", "gauge", "Configured batch interval.")
SCHEDULING_DELAY = Metric(
    "palisade_scheduling_delay_seconds", "gauge", "How late the last batch started."
)
RATE_LIMIT = Metric(
    "palisade_rate_limit_lines_per_second",
    "gauge",
    "Rate limit in force over all partitions; +Inf where there is none.",
)
RATE_LIMIT_BECAUSE = Metric(
    "palisade_rate_limit_because",
    "gauge",
    "1 for what set the rate limit in force, 0 for the other causes.",
    ("because",),
)
WATERMARK = Metric(
    "palisade_watermark_timestamp_seconds",
    "gauge",
    "Event time that every active source has passed; windows close allowed_lateness_seconds behind it.",
)
LAG_RECORDS = Metric(
    "palisade_lag_records",
    "gauge",
    "Records in Kafka that are not committed yet.",
    ("topic", "partition"),
)
LAG_SECONDS = Metric(
    "palisade_lag_seconds", "gauge", "Age of the oldest record that is not committed yet."
)
LAST_COMMIT = Metric(
    "palisade_last_commit_timestamp_seconds", "gauge", "When the last batch was committed."
)
LAST_LOOK = Metric(
    "palisade_last_look_timestamp_seconds",
    "gauge",
    "When the driver last asked Kafka for new records: stands still when the driver hangs.",
)
LEADER = Metric("palisade_leader", "gauge", "1 while this driver leads.")
EPOCH = Metric("palisade_epoch", "gauge", "Fencing epoch of this driver.")

# The shipper, on each web host.
SHIP_LINES = Metric("palisade_ship_lines_total", "counter", "Lines confirmed by Kafka.")
SHIP_BYTES = Metric(
    "palisade_ship_bytes_total", "counter", "Bytes of log files confirmed by Kafka."
)
SHIP_RECORDS = Metric("palisade_ship_records_total", "counter", "Records confirmed by Kafka.")
SHIP_RETRIES = Metric(
    "palisade_ship_retries_total", "counter", "Records that had to be sent again."
)
SHIP_TRUNCATED = Metric(
    "palisade_ship_truncated_lines_total", "counter", "Lines longer than the cap, cut there."
)
SHIP_DROPPED = Metric(
    "palisade_ship_dropped_total", "counter", "Records given up, by reason.", ("reason",)
)
SHIP_FILES = Metric("palisade_ship_files", "gauge", "Files followed now.")
SHIP_BEHIND_BYTES = Metric(
    "palisade_ship_behind_bytes", "gauge", "Bytes on disk that Kafka has not confirmed yet."
)
SHIP_BEHIND_SECONDS = Metric(
    "palisade_ship_behind_seconds", "gauge", "How long the oldest unconfirmed byte has waited."
)
SHIP_UNCONFIRMED_BYTES = Metric(
    "palisade_ship_unconfirmed_bytes", "gauge", "Bytes sent and not confirmed yet."
)

METRICS: tuple[Metric, ...] = tuple(
    value for value in globals().values() if isinstance(value, Metric)
)

DURATION_BUCKETS_SECONDS: tuple[float, ...] = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
BATCH_BUCKETS_SECONDS: tuple[float, ...] = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
BUCKETS: dict[str, tuple[float, ...]] = {
    REQUEST_DURATION.name: DURATION_BUCKETS_SECONDS,
    BATCH_DURATION.name: BATCH_BUCKETS_SECONDS,
}
"""Upper bounds of each histogram, without +Inf."""
