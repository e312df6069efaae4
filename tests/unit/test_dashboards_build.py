"""The dashboards as code: the same bytes each time, and no query that answers with nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from alerts.metric_names import METRICS
from dashboards import build
from dashboards.build import GENERATED, DashboardError, build_all, built_dashboards, panel_queries
from dashboards.data_source import DATA_SOURCE_NAME, DATA_SOURCE_UID, data_source

GRID_COLUMNS = 24
# What Grafana 10.0 brings along.
SHIPPED_PANELS = {"row", "stat", "timeseries", "table", "alertlist"}
PROVISIONED = Path(__file__).parents[2] / "deploy/grafana/provisioning/datasources/palisade.yaml"


@pytest.fixture(params=sorted(build.DASHBOARDS))
def dashboard(request: pytest.FixtureRequest) -> build.Dashboard:
    return built_dashboards()[request.param]


def test_committed_json_is_what_the_code_builds(tmp_path: Path):
    built = {path.name: path.read_bytes() for path in build_all(tmp_path)}

    committed = {path.name: path.read_bytes() for path in GENERATED.glob("*.json")}
    assert committed == built, "run `palisade dashboards build` and commit the result"


def test_two_builds_are_the_same_bytes(tmp_path: Path):
    first = [path.read_bytes() for path in build_all(tmp_path / "first")]
    second = [path.read_bytes() for path in build_all(tmp_path / "second")]

    assert first == second


def test_every_query_uses_metrics_and_labels_that_exist(dashboard: build.Dashboard):
    assert build.query_problems(dashboard) == []


def test_unknown_metric_stops_the_build_before_a_file_is_written(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(build, "known_series", lambda: {})

    with pytest.raises(DashboardError, match="is not a known metric"):
        build_all(tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_every_panel_says_what_it_shows(dashboard: build.Dashboard):
    silent = [
        panel["title"]
        for panel in dashboard["panels"]
        if panel["type"] != "row" and not panel["description"]
    ]

    assert silent == []


def test_every_panel_is_one_that_grafana_ships(dashboard: build.Dashboard):
    assert {panel["type"] for panel in dashboard["panels"]} <= SHIPPED_PANELS


def test_every_panel_with_queries_has_a_unit(dashboard: build.Dashboard):
    bare = [
        panel["title"]
        for panel in dashboard["panels"]
        if panel.get("targets") and not panel["fieldConfig"]["defaults"].get("unit")
    ]

    assert bare == []


def test_panel_ids_and_variable_ids_are_unique(dashboard: build.Dashboard):
    panels = [panel["id"] for panel in dashboard["panels"]]
    variables = [variable["id"] for variable in dashboard["templating"]["list"]]

    assert len(panels) == len(set(panels))
    assert len(variables) == len(set(variables))


def test_panels_fill_the_grid_without_overlap(dashboard: build.Dashboard):
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < GRID_COLUMNS
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_every_query_and_variable_asks_the_chosen_data_source(dashboard: build.Dashboard):
    variables = dashboard["templating"]["list"]
    asked = {
        target["datasource"]["uid"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    }
    asked |= {
        variable["datasource"]["uid"] for variable in variables if variable["type"] == "query"
    }
    chosen = next(variable for variable in variables if variable["type"] == "datasource")

    assert asked == {"${datasource}"}
    assert chosen["current"] == {
        "selected": True,
        "text": DATA_SOURCE_NAME,
        "value": DATA_SOURCE_UID,
    }


def test_overview_answers_loaded_attacked_complete():
    queries = " ".join(
        expression for _, expression in panel_queries(built_dashboards()["overview"])
    )
    glance = (
        "requests_total",
        "attack_requests_total",
        "incidents_open",
        "completeness_ratio",
        "lag_seconds",
    )

    assert [name for name in glance if f"palisade_{name}" not in queries] == []
    assert any(metric.name in queries for metric in METRICS)


def test_provisioned_data_source_is_the_one_that_is_pushed():
    provisioned = yaml.safe_load(PROVISIONED.read_text(encoding="utf-8"))["datasources"][0]

    pushed = data_source("$PROMETHEUS_URL")

    assert {key: provisioned[key] for key in pushed} == pushed
