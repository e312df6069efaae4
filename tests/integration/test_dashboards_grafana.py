"""The dashboards in a real Grafana: pushed once, unchanged the second time, every query accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboards.build import built_dashboards, panel_queries
from dashboards.grafana_push import FOLDER_UID, GrafanaPushError, push
from dashboards.settings import GrafanaSettings

pytestmark = pytest.mark.integration

PASSWORD = "only-for-this-test"


@pytest.fixture(scope="module")
def empty_grafana(
    server_keeper: Any, grafana_program: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Address of a Grafana into which nothing was provisioned."""
    from deploy.local import loopback
    from deploy.local.child_process import ChildCommand

    folder = tmp_path_factory.mktemp("empty-grafana")
    (folder / "provisioning").mkdir()

    def start(port: int) -> tuple[Any, int]:
        argv = [*grafana_program.command, "--homepath", grafana_program.home]
        environment = {
            "GF_SERVER_HTTP_ADDR": loopback.ADDRESS,
            "GF_SERVER_HTTP_PORT": str(port),
            "GF_PATHS_DATA": str(folder / "data"),
            "GF_PATHS_LOGS": str(folder / "logs"),
            "GF_PATHS_PLUGINS": str(folder / "plugins"),
            "GF_PATHS_PROVISIONING": str(folder / "provisioning"),
            "GF_ANALYTICS_REPORTING_ENABLED": "false",
            "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
            "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
            "GF_SECURITY_ADMIN_PASSWORD": PASSWORD,
        }
        command = ChildCommand("grafana", argv, folder / "log", environment, grafana_program.home)
        process = server_keeper.start(command)
        process.wait_until_ready(
            lambda: loopback.answers_ok(port, "/api/health"), within_seconds=90
        )
        return process, port

    process, port = loopback.on_free_port(start)
    yield f"http://{loopback.ADDRESS}:{port}"
    process.stop()


@pytest.fixture
def settings(empty_grafana: str, prometheus_server: Any, tmp_path: Path) -> GrafanaSettings:
    (tmp_path / "password").write_text(PASSWORD, encoding="utf-8")
    return GrafanaSettings(
        url=empty_grafana,
        user="admin",
        password_file=str(tmp_path / "password"),
        prometheus_url=prometheus_server.url,
    )


@pytest.fixture
def admin(empty_grafana: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=empty_grafana, auth=("admin", PASSWORD), trust_env=False) as client:
        yield client


@pytest.fixture
def pushed(settings: GrafanaSettings) -> GrafanaSettings:
    push(settings, dry_run=False)
    return settings


def test_second_push_changes_nothing(settings: GrafanaSettings, admin: httpx.Client):
    push(settings, dry_run=False)
    before = admin.get("/api/dashboards/uid/palisade-overview").json()

    second = push(settings, dry_run=False)

    after = admin.get("/api/dashboards/uid/palisade-overview").json()
    assert second == []
    assert after["dashboard"]["version"] == before["dashboard"]["version"]
    assert after["meta"]["folderUid"] == FOLDER_UID


def test_dry_run_shows_the_difference_and_writes_nothing(
    pushed: GrafanaSettings, admin: httpx.Client
):
    moved = pushed.model_copy(
        update={"prometheus_url": "http://moved.example:9090", "folder": "Moved"}
    )

    report = push(moved, dry_run=True)

    assert "would update data source Palisade Prometheus" in report
    assert '+  "url": "http://moved.example:9090"' in report
    assert "would update folder Moved" in report
    assert admin.get("/api/folders/palisade").json()["title"] == "Palisade"


def test_what_somebody_changed_by_hand_is_put_right(pushed: GrafanaSettings, admin: httpx.Client):
    dashboard = admin.get("/api/dashboards/uid/palisade-overview").json()["dashboard"]
    dashboard["title"] = "Mine"
    body = {"dashboard": dashboard, "folderUid": FOLDER_UID, "overwrite": True}
    assert admin.post("/api/dashboards/db", json=body).status_code == 200

    report = push(pushed, dry_run=False)

    assert report == ["updated dashboard Palisade overview"]


def test_settings_that_others_added_to_the_data_source_stay(
    pushed: GrafanaSettings, admin: httpx.Client
):
    path = "/api/datasources/uid/palisade-prometheus"
    found = admin.get(path).json()
    found["jsonData"]["queryTimeout"] = "30s"
    assert admin.put(path, json=found).status_code == 200

    assert push(pushed, dry_run=False) == []
    assert admin.get(path).json()["jsonData"]["queryTimeout"] == "30s"


def test_every_query_is_accepted_through_the_pushed_data_source(
    pushed: GrafanaSettings, admin: httpx.Client
):
    for document in built_dashboards().values():
        for title, expression in panel_queries(document):
            query = {
                "refId": "A",
                "datasource": {"type": "prometheus", "uid": "palisade-prometheus"},
                "expr": expression.replace("$service", ".*").replace("$vhost", ".*"),
                "range": True,
                "intervalMs": 10000,
            }
            answer = admin.post(
                "/api/ds/query", json={"queries": [query], "from": "now-5m", "to": "now"}
            )
            assert answer.status_code == 200, (title, answer.text)


def test_wrong_password_is_one_sentence_with_the_remedy(settings: GrafanaSettings, tmp_path: Path):
    (tmp_path / "wrong").write_text("wrong", encoding="utf-8")

    with pytest.raises(GrafanaPushError, match=r"\(401\): name a service-account token"):
        push(settings.model_copy(update={"password_file": str(tmp_path / "wrong")}), dry_run=False)


def test_unreachable_grafana_is_one_sentence_with_the_remedy(settings: GrafanaSettings):
    with pytest.raises(GrafanaPushError, match="cannot be reached: start it"):
        push(settings.model_copy(update={"url": "http://127.0.0.1:9"}), dry_run=False)


def test_another_server_at_the_address_is_said_to_be_no_grafana(
    settings: GrafanaSettings, prometheus_server: Any
):
    with pytest.raises(GrafanaPushError, match="There is no Grafana at"):
        push(settings.model_copy(update={"url": prometheus_server.url}), dry_run=False)


@pytest.fixture
def provisioned(grafana_server: Any, prometheus_server: Any, tmp_path: Path) -> GrafanaSettings:
    (tmp_path / "password").write_text(grafana_server.admin_password, encoding="utf-8")
    return GrafanaSettings(
        url=grafana_server.url,
        user="admin",
        password_file=str(tmp_path / "password"),
        prometheus_url=prometheus_server.url,
    )


def test_push_into_a_grafana_provisioned_with_the_same_changes_nothing(
    provisioned: GrafanaSettings,
):
    assert push(provisioned, dry_run=False) == []


def test_provisioned_data_source_that_differs_is_said_to_be_out_of_reach(
    provisioned: GrafanaSettings,
):
    moved = provisioned.model_copy(update={"prometheus_url": "http://moved.example:9090"})

    with pytest.raises(GrafanaPushError, match="provisioned from a file"):
        push(moved, dry_run=False)
