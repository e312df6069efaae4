"""The part of palisade.toml about Grafana: `[grafana]`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class GrafanaSettings(BaseModel):
    """`[grafana]`: the Grafana that `palisade dashboards push` writes to."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    url: str = Field("", pattern=r"^(https?://[^\s]+)?$", description="Grafana; empty means none.")
    token_file: str = Field("", description="File that holds a service-account token.")
    user: str = Field("", description="User, where no token is used.")
    password_file: str = Field("", description="File that holds the user's password.")
    folder: str = Field("Palisade", min_length=1, description="Folder of the dashboards.")
    prometheus_url: str = Field(
        "http://127.0.0.1:9090",
        pattern=r"^https?://[^\s]+$",
        description="Prometheus as Grafana reaches it.",
    )
