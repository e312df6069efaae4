"""The offset store's part of palisade.toml: `[zookeeper]`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ZookeeperSettings(BaseModel):
    """`[zookeeper]`: where offsets, the pending batch and the leader's lock are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    hosts: str = Field(
        "127.0.0.1:2181",
        min_length=1,
        description="ZooKeeper servers, `host:port` separated by commas.",
    )
    root: str = Field(
        "/palisade",
        pattern=r"^(/[A-Za-z0-9._-]+)+$",
        description="Node below which everything is kept.",
    )
    consumers_root: str = Field(
        "/consumers",
        pattern=r"^((/[A-Za-z0-9._-]+)+)?$",
        description="Node below which offsets are also written as plain numbers, where tools such as Burrow look; "
        "empty means not at all.",
    )
    session_timeout_seconds: float = Field(
        10.0, ge=1, le=120, description="After this long without contact another driver may lead."
    )
    connect_timeout_seconds: float = Field(
        15.0, gt=0, le=300, description="How long to try to connect at start."
    )
