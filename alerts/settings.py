"""The part of palisade.toml about alerts: `[alerts]`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class AlertsSettings(BaseModel):
    """`[alerts]`: when an attacker becomes an incident, and where incidents go."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    alertmanager_url: str = Field(
        "",
        pattern=r"^(https?://[^\s]+)?$",
        description="Alertmanager that receives incidents; empty means none.",
    )
    prometheus_url: str = Field(
        "", pattern=r"^(https?://[^\s]+)?$", description="Prometheus, for `palisade doctor`."
    )
    incident_score: int = Field(
        15, ge=1, description="Points at which an attacker becomes an incident."
    )
    score_half_life_seconds: float = Field(
        300.0, gt=0, description="Time in which an attacker's points halve."
    )
    resolve_after_seconds: float = Field(
        300.0, gt=0, description="Quiet time after which an incident ends."
    )
