"""Where the files that the servers are configured with lie, seen from here. Paths only."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "alerts" / "rules"
DASHBOARDS = ROOT / "dashboards" / "generated"
ALERTMANAGER_TEMPLATE = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
GRAFANA_PROVISIONING = ROOT / "deploy" / "grafana" / "provisioning"
