"""The job's part of palisade.toml: `[stream]` and `[formats]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from alerts.settings import AlertsSettings
from ingest.settings import KafkaSettings, Name, Section
from offsets.settings import ZookeeperSettings
from streaming.plan.rate_estimator import PidGains, RateEstimator


class StreamSettings(Section):
    """`[stream]`: what the job reads, how fast, and where its results go."""

    job_name: Name = Field(
        "palisade", description="Name of the pipeline: its offsets, its lock, its ledger."
    )
    master: str = Field(
        "", description="Spark master; empty means `local[*,4]`, or what spark-submit says."
    )
    spark_conf: dict[str, str] = Field(
        default_factory=dict, description="Further Spark properties."
    )
    batch_seconds: float = Field(2.0, gt=0, le=3600, description="Batch interval.")
    start_at: Literal["earliest", "latest"] = Field(
        "earliest", description="Where a job without offsets begins."
    )
    max_rate_per_partition: int = Field(
        100_000, ge=0, description="Lines per second and partition, at most; 0 means no limit."
    )
    min_rate_per_partition: int = Field(
        1, ge=0, description="Lines per batch and partition, at least."
    )
    backpressure: bool = Field(
        True, description="Whether the rate follows the speed of finished batches."
    )
    initial_rate: int = Field(
        50_000,
        ge=0,
        description="Lines per second before the first batch was measured; 0 means no limit.",
    )
    pid_proportional: float = Field(
        1.0, ge=0, description="Weight of the last batch's error in the rate."
    )
    pid_integral: float = Field(
        0.2, ge=0, description="Weight of the accumulated delay in the rate."
    )
    pid_derived: float = Field(0.0, ge=0, description="Weight of the error's change in the rate.")
    pid_min_rate: float = Field(
        100.0, gt=0, description="Lines per second that backpressure never goes below."
    )
    unlimited_first_batch: bool = Field(
        False, description="Allow a first batch without any limit (no maximum and no initial rate)."
    )
    on_data_loss: Literal["stop", "skip"] = Field(
        "stop",
        description="When Kafka no longer has what we must read: stop, or record the loss and go on.",
    )
    unidentified_format: str = Field(
        "combined",
        min_length=1,
        description="Format of lines that other shippers sent without identity.",
    )
    wait_for_servers_seconds: float = Field(
        0.0,
        ge=0,
        le=600,
        description="How long to wait at start for Kafka, its topic and ZooKeeper to come up.",
    )
    read_timeout_seconds: float = Field(
        30.0, gt=0, le=600, description="How long a task waits for the broker."
    )
    ledger: str = Field(
        "var/ledger",
        min_length=1,
        description="Ledger folder: a path, or an hdfs://, s3:// or gs:// address.",
    )
    vhosts: list[str] = Field(
        default_factory=list,
        description="Virtual hosts shown by name; empty means those seen first.",
    )
    max_vhosts: int = Field(
        100, ge=1, le=1000, description="Virtual hosts shown by name; the rest is `other`."
    )
    top_entries: int = Field(20, ge=1, le=1000, description="Entries of each top list.")
    listen: str = Field(
        "127.0.0.1:9465",
        description="Address of /metrics and /api/status; port 0 picks a free one.",
    )

    def new_estimator(self) -> RateEstimator:
        """The rate estimator before the first batch."""
        gains = PidGains(
            self.pid_proportional, self.pid_integral, self.pid_derived, self.pid_min_rate
        )
        return RateEstimator(self.batch_seconds, gains)

    @model_validator(mode="after")
    def first_batch_is_limited(self) -> StreamSettings:
        """Refuse a cold start that would read everything at once, unless it was asked for by name."""
        limited = self.max_rate_per_partition > 0 or (self.backpressure and self.initial_rate > 0)
        if not limited and not self.unlimited_first_batch:
            message = (
                "the first batch would be unlimited: set max_rate_per_partition, or backpressure with initial_rate, "
                "or unlimited_first_batch = true"
            )
            raise ValueError(message)
        return self


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Everything the job is told: its own section and those it shares with other stages."""

    kafka: KafkaSettings
    zookeeper: ZookeeperSettings
    stream: StreamSettings
    alerts: AlertsSettings
    formats: dict[str, str]
    kafka_properties: dict[str, str | int | float | bool]
    """Connection properties with their secrets read; travel to the tasks, never to a log."""
    assumed_lines_per_record: int
    """Lines that a record may hold before the job has seen one: the shipper's maximum."""
