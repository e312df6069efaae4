"""`palisade dashboards build`: every dashboard as JSON, the same bytes each time.

In: the dashboards' code. Out: `<name>.json` files, keys sorted, no ids of a server in them.
Promise: no file is written when any query uses a metric or label that does not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard as DashboardBuilder
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from alerts.promql import known_series, read_expression
from dashboards.overview import overview

Dashboard = dict[str, Any]

GENERATED = Path(__file__).resolve().parent / "generated"
DASHBOARDS: dict[str, Callable[[], DashboardBuilder]] = {"overview": overview}
_RANGE_VARIABLE = re.compile(r"\$__(rate_interval|interval|range)")


class DashboardError(Exception):
    """A dashboard asks for what is not exported; the text names panel, query and reason."""


def build_all(out_dir: Path = GENERATED) -> list[Path]:
    """Write every dashboard into `out_dir`; return the paths."""
    documents = {name: to_json(dashboard) for name, dashboard in built_dashboards().items()}
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in documents.items():
        path = out_dir / f"{name}.json"
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def differing(out_dir: Path = GENERATED) -> list[str]:
    """Files in `out_dir` that are not what the code builds, missing and stale ones included."""
    wanted = {f"{name}.json": to_json(dashboard) for name, dashboard in built_dashboards().items()}
    present = {path.name: path.read_text(encoding="utf-8") for path in out_dir.glob("*.json")}
    return sorted(
        name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name)
    )


def built_dashboards() -> dict[str, Dashboard]:
    """Every dashboard as a plain document, checked."""
    documents = {name: _document(build) for name, build in DASHBOARDS.items()}
    problems = [problem for document in documents.values() for problem in query_problems(document)]
    if problems:
        raise DashboardError("; ".join(problems))
    return documents


def to_json(dashboard: Dashboard) -> str:
    """The one way a dashboard is written: two runs, the same bytes."""
    return json.dumps(dashboard, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def query_problems(dashboard: Dashboard) -> list[str]:
    """Every query that can only answer with nothing, and why."""
    series = known_series()
    problems = []
    for title, expression in panel_queries(dashboard):
        # The parser knows PromQL, not Grafana's variables for the width of a window.
        reading = read_expression(_RANGE_VARIABLE.sub("5m", expression), series)
        problems += [f"panel {title!r}: {problem}" for problem in reading.problems]
    return problems


def panel_queries(dashboard: Dashboard) -> Iterator[tuple[str, str]]:
    """Panel title and expression of every query."""
    for panel in dashboard.get("panels", []):
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def _document(build: Callable[[], DashboardBuilder]) -> Dashboard:
    document: Dashboard = json.loads(json.dumps(build().build(), cls=JSONEncoder))
    return document
