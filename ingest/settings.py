"""The shipper's part of palisade.toml: `[kafka]` and `[ship]`."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"))]
"""A name that travels in record keys, labels and paths: letters, digits, dot, underscore, hyphen."""

TopicName = Annotated[str, StringConstraints(pattern=re.compile(r"^[A-Za-z0-9._-]{1,249}$"))]
"""What Kafka accepts as a topic's name."""


class Section(BaseModel):
    """A frozen part of the configuration that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class KafkaSettings(Section):
    """`[kafka]`: how to reach the brokers, and the topic that carries the log lines."""

    bootstrap_servers: str = Field(
        "127.0.0.1:9092", min_length=1, description="Brokers, `host:port` separated by commas."
    )
    topic: TopicName = Field("access-log", description="Topic of the log lines.")
    create_topic: bool = Field(
        False, description="Whether the shipper creates the topic when it is missing."
    )
    topic_partitions: int = Field(
        4, ge=1, le=10_000, description="Partitions of a topic the shipper creates."
    )
    replication_factor: int = Field(
        1, ge=1, le=10, description="Replicas of a topic the shipper creates."
    )
    security_protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field(
        "plaintext", description="How brokers are spoken to."
    )
    ssl_ca_file: str = Field(
        "", description="Certificate authorities that sign the brokers' certificates."
    )
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "", description="SASL mechanism, with the `sasl_*` protocols."
    )
    sasl_username: str = Field("", description="SASL user.")
    sasl_password_file: str = Field(
        "", description="File that holds the SASL password; never the password itself."
    )


class ShipSource(Section):
    """One `[[ship.sources]]` table: files that share a service, a virtual host and a format."""

    paths: list[str] = Field(min_length=1, description="Files or globs.")
    service: Name = Field("web", description="Service the lines belong to.")
    vhost: Name | Literal[""] = Field(
        "", description="Virtual host of lines whose format does not carry one."
    )
    format: Name = Field("combined", description="Known format or a name from `[formats]`.")


class ShipSettings(Section):
    """`[ship]`: what the shipper reads and how it sends it."""

    sources: list[ShipSource] = Field(
        default_factory=list,
        description="Which files to ship, one table for each service or format.",
    )
    host: Name | Literal[""] = Field(
        "", description="Name of this web host; empty means its host name."
    )
    state_dir: str = Field(
        "var/ship", min_length=1, description="Folder of the confirmed positions."
    )
    start_at: Literal["beginning", "end"] = Field(
        "beginning", description="Where to begin in files that exist when the shipper first starts."
    )
    lines_per_record: int = Field(
        500, ge=1, le=100_000, description="Lines packed into one Kafka record, at most."
    )
    max_record_bytes: int = Field(
        65_536, ge=1_024, le=900_000, description="Bytes of one Kafka record, at most."
    )
    max_line_bytes: int = Field(
        65_536, ge=256, le=900_000, description="Longer lines are cut here, flagged and counted."
    )
    linger_seconds: float = Field(
        0.05, ge=0, le=10, description="How long a record may wait for more lines."
    )
    poll_seconds: float = Field(
        0.5, gt=0, le=60, description="How often files are looked at when no event arrives."
    )
    max_unconfirmed_bytes: int = Field(
        16_777_216,
        ge=65_536,
        description="Bytes sent but not yet confirmed; reading pauses above it.",
    )
    listen: str = Field(
        "127.0.0.1:9464", description="Address of the shipper's /metrics; empty means none."
    )
