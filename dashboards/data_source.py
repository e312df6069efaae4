"""The Prometheus data source that every dashboard names: its uid, and what Grafana must know of it.

Pure. The provisioning file in deploy/ says the same; a test compares them.
"""

from __future__ import annotations

from typing import Any

DATA_SOURCE_UID = "palisade-prometheus"
DATA_SOURCE_NAME = "Palisade Prometheus"


def data_source(prometheus_url: str) -> dict[str, Any]:
    """What Grafana gets, or is brought to. `timeInterval` is the scrape interval."""
    return {
        "uid": DATA_SOURCE_UID,
        "name": DATA_SOURCE_NAME,
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus_url,
        "jsonData": {"httpMethod": "POST", "timeInterval": "10s"},
    }
