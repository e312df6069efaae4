"""The job's part of palisade.toml: `[stream]` and `[formats]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field, NonNegativeInt, field_validator, model_validator

from alerts.settings import AlertsSettings
from ingest.settings import KafkaSettings, Name, Section, TopicName
from offsets.offset_range import TopicPartition
from offsets.settings import ZookeeperSettings
from streaming.plan.rate_estimator import PidGains, RateEstimator
from streaming.plan.subscription import FirstStart, Subscription
from streaming.plan.window_clock import WindowRules


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
    topics: list[TopicName] = Field(
        default_factory=list, description="Topics to read; empty means `kafka.topic`."
    )
    topic_pattern: str = Field(
        "",
        description="Read every topic whose whole name matches this regular expression, also those created later.",
    )
    partitions: list[str] = Field(
        default_factory=list,
        description='Read only these partitions, as in `["access-log:0"]`.',
    )
    start_at: Literal["earliest", "latest", "time", "offsets"] = Field(
        "earliest",
        description="Where a job without offsets begins; partitions that appear later start at their first record.",
    )
    start_time: str = Field(
        "",
        description='With `start_at = "time"`: read records from then on, as in `2026-11-18T10:00:00+00:00`.',
    )
    start_offsets: dict[str, NonNegativeInt] = Field(
        default_factory=dict,
        description='With `start_at = "offsets"`: the first offset of every partition, as in `{"access-log:0" = 11}`.',
    )
    mirror_group: str = Field(
        "",
        max_length=255,
        description="Kafka consumer group that also gets the committed offsets, for lag tools; empty means none.",
    )
    max_rate_per_partition: int = Field(
        100_000, ge=0, description="Lines per second and partition, at most; 0 means no limit."
    )
    min_rate_per_partition: int = Field(
        1, ge=0, description="Lines per batch and partition, at least."
    )
    max_rate: int = Field(
        0,
        ge=0,
        description="Lines per second over all partitions, at most; 0 means no limit. The strictest limit wins.",
    )
    redistribute_cut_shares: bool = Field(
        False,
        description="Whether what `max_rate_per_partition` cuts from a partition's share goes to the others.",
    )
    fair_minimum: bool = Field(
        False,
        description="Whether a partition whose share is less than one record reads one, in place of "
        "`min_rate_per_partition`.",
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
    sparse_offsets: bool = Field(
        False,
        description="Offsets may be missing: the topic is compacted, or written in transactions.",
    )
    max_records_per_task: int = Field(
        0, ge=0, description="Records that one Spark task reads, at most; 0 means no limit."
    )
    min_lines_per_task: int = Field(
        50_000,
        ge=1,
        description="A range is split over idle cores only into parts of at least so many lines.",
    )
    ledger: str = Field(
        "var/ledger",
        min_length=1,
        description="Ledger folder: a path, or an hdfs://, s3:// or gs:// address.",
    )
    allowed_lateness_seconds: float = Field(
        300.0,
        ge=0,
        le=86_400,
        description="How long a window waits for late lines; later ones count too, and are counted as late.",
    )
    idle_close_seconds: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="How long a source that sends nothing holds back the windows of the others.",
    )
    max_clock_skew_seconds: float = Field(
        300.0,
        gt=0,
        le=86_400,
        description="How far a line's time may be from its arrival in Kafka to move event time.",
    )
    compact_every: int = Field(
        500, ge=2, le=100_000, description="Committed batches that one ledger block holds."
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

    @property
    def window_rules(self) -> WindowRules:
        """When windows close."""
        return WindowRules(self.allowed_lateness_seconds, self.idle_close_seconds)

    @field_validator("topic_pattern")
    @classmethod
    def _is_a_pattern(cls, text: str) -> str:
        try:
            re.compile(text)
        except re.error as error:
            message = f"it is no regular expression ({error})"
            raise ValueError(message) from error
        return text

    @field_validator("partitions")
    @classmethod
    def _are_partitions(cls, texts: list[str]) -> list[str]:
        parsed = [TopicPartition.parse(text) for text in texts]
        return [f"{one.topic}:{one.partition}" for one in sorted(set(parsed))]

    @field_validator("start_offsets")
    @classmethod
    def _are_offsets_of_partitions(cls, offsets: dict[str, int]) -> dict[str, int]:
        for text in offsets:
            TopicPartition.parse(text)
        return offsets

    @field_validator("start_time")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        if text:
            timestamp_ms(text)
        return text

    @model_validator(mode="after")
    def input_is_named_once(self) -> StreamSettings:
        """Refuse two ways of saying what to read."""
        named = [key for key in ("topics", "topic_pattern", "partitions") if getattr(self, key)]
        if len(named) > 1:
            message = f"{' and '.join(named)} say different things about what to read: set only one of them"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def start_is_whole(self) -> StreamSettings:
        """Refuse a start that lacks its value, and a value that nobody would look at."""
        for start_at, key in (("time", "start_time"), ("offsets", "start_offsets")):
            wanted, given = self.start_at == start_at, bool(getattr(self, key))
            if wanted and not given:
                message = f'start_at = "{start_at}" needs {key}'
                raise ValueError(message)
            if given and not wanted:
                message = (
                    f'{key} is used only with start_at = "{start_at}", which is "{self.start_at}"'
                )
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def first_batch_is_limited(self) -> StreamSettings:
        """Refuse a cold start that would read everything at once, unless it was asked for by name."""
        limited = (
            self.max_rate_per_partition > 0
            or self.max_rate > 0
            or (self.backpressure and self.initial_rate > 0)
        )
        if not limited and not self.unlimited_first_batch:
            message = (
                "the first batch would be unlimited: set max_rate_per_partition, max_rate, or backpressure with "
                "initial_rate, or unlimited_first_batch = true"
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

    @property
    def subscription(self) -> Subscription:
        """Which topics and partitions the job reads."""
        return subscription(self.kafka, self.stream)

    @property
    def first_start(self) -> FirstStart:
        """Where the job begins when it has no offsets."""
        stream = self.stream
        return FirstStart(
            stream.start_at,
            timestamp_ms(stream.start_time) if stream.start_time else 0,
            {TopicPartition.parse(text): offset for text, offset in stream.start_offsets.items()},
        )


def subscription(kafka: KafkaSettings, stream: StreamSettings) -> Subscription:
    """Which topics and partitions a job with these settings reads."""
    listed = not stream.topic_pattern and not stream.partitions
    return Subscription(
        topics=tuple(stream.topics or [kafka.topic]) if listed else (),
        pattern=stream.topic_pattern,
        partitions=tuple(TopicPartition.parse(text) for text in stream.partitions),
    )


def timestamp_ms(text: str) -> int:
    """An ISO 8601 time with its offset from UTC, in milliseconds since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        message = f"'{text}' is no time with an offset from UTC, as in 2026-11-18T10:00:00+00:00"
        raise ValueError(message)
    return int(moment.timestamp() * 1000)
