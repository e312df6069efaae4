"""The palisade.toml of a demo: all addresses on loopback, all state below one folder. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local import loopback
from deploy.local.traffic_request import LOG_FORMAT

BATCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class DemoAddresses:
    """Where everything listens; an empty address means that the program is not there."""

    kafka: str
    zookeeper: str
    stream_port: int
    ship_port: int
    prometheus: str = ""
    alertmanager: str = ""
    grafana: str = ""


def demo_configuration(folder: Path, addresses: DemoAddresses) -> str:
    """The file's text."""
    source = {"paths": [str(folder / "logs" / "access.log")], "service": "demo", "format": "demo"}
    sections: dict[str, Mapping[str, object]] = {
        "kafka": {
            "bootstrap_servers": addresses.kafka,
            "create_topic": True,
            "topic_partitions": 4,
        },
        "ship": {
            "host": "demo-host",
            "state_dir": str(folder / "ship"),
            "listen": f"{loopback.ADDRESS}:{addresses.ship_port}",
            "sources": [source],
        },
        "zookeeper": {"hosts": addresses.zookeeper},
        "stream": {
            "batch_seconds": BATCH_SECONDS,
            # The job starts before its servers: Spark needs longer than they do.
            "wait_for_servers_seconds": 60,
            "ledger": str(folder / "ledger"),
            "listen": f"{loopback.ADDRESS}:{addresses.stream_port}",
            "spark_conf": {"spark.local.dir": str(folder / "spark")},
        },
        "formats": {"demo": LOG_FORMAT},
        "alerts": {
            "alertmanager_url": addresses.alertmanager,
            "prometheus_url": addresses.prometheus,
        },
        "grafana": {"url": addresses.grafana},
    }
    return "\n".join(_section(name, keys) for name, keys in sections.items())


def _section(name: str, keys: Mapping[str, object]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())


def _toml(value: object) -> str:
    """A value in TOML's notation; JSON's strings, numbers and booleans are TOML's too."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False)
