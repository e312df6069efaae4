"""Turn `[kafka]` into the properties every Kafka client of ours starts from. Reads the password file, nothing else."""

from __future__ import annotations

from pathlib import Path

from ingest.settings import KafkaSettings


class KafkaSettingsError(Exception):
    """The `[kafka]` section names something that cannot be used."""


def client_properties(kafka: KafkaSettings) -> dict[str, str | int | float | bool]:
    """Connection properties for a producer, a consumer or an admin client."""
    properties: dict[str, str | int | float | bool] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": kafka.security_protocol,
        # librdkafka writes connection trouble to standard error on its own; we report it as events.
        "log_level": 0,
    }
    if kafka.ssl_ca_file:
        properties["ssl.ca.location"] = kafka.ssl_ca_file
    if kafka.sasl_mechanism:
        properties["sasl.mechanism"] = kafka.sasl_mechanism
        properties["sasl.username"] = kafka.sasl_username
        properties["sasl.password"] = _secret(kafka.sasl_password_file)
    return properties


def _secret(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        message = f"kafka.sasl_password_file = {path!r} cannot be read ({error.strerror}): name a readable file."
        raise KafkaSettingsError(message) from error
