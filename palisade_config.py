"""palisade.toml and the environment → one frozen `Configuration`, or every mistake in it at once.

A key `batch_seconds` of section `[stream]` is overridden by `PALISADE_STREAM_BATCH_SECONDS`. Unknown keys and unknown
`PALISADE_*` variables are refused: a typo must not silently become a default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from alerts.settings import AlertsSettings
from dashboards.settings import GrafanaSettings
from ingest.settings import KafkaSettings, Name, Section, ShipSettings
from offsets.settings import ZookeeperSettings
from streaming.settings import StreamSettings

ENVIRONMENT_PREFIX = "PALISADE_"
OTHER_VARIABLES = {
    "PALISADE_CONFIG": "Path of the configuration file; `palisade.toml` by default.",
    "PALISADE_GRAFANA_HOME": "Folder of the Grafana that the demo and the tests start.",
    "PALISADE_CACHE": "Folder of the downloaded Kafka broker; `var/cache` by default.",
    "PALISADE_CRASH_POINT": "Protocol step at which the job ends itself without clean-up: for crash tests only.",
    "PALISADE_REQUIRE_INTEGRATION": "Set in CI: a test that would be skipped fails instead.",
}


class ConfigurationError(Exception):
    """The configuration cannot be used; the text names every key, value and what is allowed."""


class Configuration(Section):
    """Everything an operator can set, section by section."""

    kafka: KafkaSettings = KafkaSettings()
    ship: ShipSettings = ShipSettings()
    zookeeper: ZookeeperSettings = ZookeeperSettings()
    stream: StreamSettings = StreamSettings()
    formats: dict[Name, str] = Field(
        default_factory=dict,
        description="Names for Apache LogFormat strings, usable wherever a format is named.",
    )
    alerts: AlertsSettings = AlertsSettings()
    grafana: GrafanaSettings = GrafanaSettings()


def load_configuration(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    """Read the file (named by `path`, `PALISADE_CONFIG`, or ./palisade.toml if it is there) under the environment."""
    chosen = path or (Path(environ["PALISADE_CONFIG"]) if environ.get("PALISADE_CONFIG") else None)
    document = _read(chosen) if chosen else _read_if_present(Path("palisade.toml"))
    origin = str(chosen or "palisade.toml")
    _apply_environment(document, environ)
    try:
        return Configuration.model_validate(document)
    except ValidationError as error:
        raise ConfigurationError(_explain(error, origin)) from error


def settings_sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Every section with fixed keys, in the order of the file."""
    for name, field in Configuration.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield name, field.annotation


def environment_name(section: str, key: str) -> str:
    """The variable that overrides a key."""
    return f"{ENVIRONMENT_PREFIX}{section}_{key}".upper()


def _read_if_present(path: Path) -> dict[str, Any]:
    return _read(path) if path.exists() else {}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        message = f"Configuration file {path} cannot be read ({error.strerror}): name a readable file with --config."
        raise ConfigurationError(message) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        message = f"Configuration file {path} is not valid TOML: {error}. Mend that place."
        raise ConfigurationError(message) from error


def _apply_environment(document: dict[str, Any], environ: Mapping[str, str]) -> None:
    known = {
        environment_name(section, key): (section, key)
        for section, model in settings_sections()
        for key in model.model_fields
    }
    for variable, raw in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in OTHER_VARIABLES:
            continue
        if variable.startswith("PALISADE_TEST_"):
            continue
        if variable not in known:
            message = f"Environment variable {variable} names no setting: see the configuration table in README.md."
            raise ConfigurationError(message)
        section, key = known[variable]
        model = dict(settings_sections())[section]
        document.setdefault(section, {})[key] = _environment_value(
            raw, model.model_fields[key].annotation
        )


def _environment_value(raw: str, annotation: Any) -> Any:
    """Text for text; for lists and tables TOML's own notation, or words separated by commas."""
    structured = getattr(annotation, "__origin__", None) in (list, dict)
    if not structured:
        return raw
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        return [word.strip() for word in raw.split(",") if word.strip()]


def _explain(error: ValidationError, origin: str) -> str:
    problems = []
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            problems.append(f"{key} is not a known key{_allowed_keys(problem['loc'])}")
        else:
            wrong = "" if problem["type"] == "missing" else f" = {problem['input']!r}"[:200]
            problems.append(f"{key}{wrong}: {_sentence(problem['msg'])}")
    return f"{origin}: " + "; ".join(problems) + "."


def _sentence(message: str) -> str:
    return message.removeprefix("Value error, ").rstrip(".")


def _allowed_keys(location: tuple[int | str, ...]) -> str:
    if len(location) == 1:
        return f" (sections: {', '.join(Configuration.model_fields)})"
    sections = dict(settings_sections())
    model = sections.get(str(location[0]))
    return f" (keys of [{location[0]}]: {', '.join(model.model_fields)})" if model else ""
