"""Prometheus, Alertmanager, Grafana as the demo starts them, and the files compose mounts."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.servers import PROJECT_ROOT
from support.waiting import wait_until

from deploy.local import loopback, project_files
from deploy.local.alertmanager import start_alertmanager
from deploy.local.webhook import WebhookReceiver, count_notifications

pytestmark = pytest.mark.integration


def test_prometheus_loads_every_rule_of_the_project(prometheus_server: Any) -> None:
    rules = loopback.get_json(prometheus_server.port, "/api/v1/rules")

    loaded = {Path(group["file"]).name for group in rules["data"]["groups"]}
    assert loaded == {path.name for path in project_files.RULES.glob("*.yml")}


def test_alertmanager_serves_and_holds_no_alert_at_first(alertmanager_server: Any) -> None:
    status = loopback.get_json(alertmanager_server.port, "/api/v2/status")

    assert status["cluster"]["status"] == "disabled"


def test_notification_reaches_the_webhook(
    server_keeper: Any, alertmanager_program: Path, tmp_path: Path
) -> None:
    received = tmp_path / "notifications.jsonl"
    webhook = WebhookReceiver(received)
    try:
        server = start_alertmanager(
            server_keeper, alertmanager_program, tmp_path / "am", webhook.url
        )

        _post_alert(server.port, {"alertname": "AttackTest", "service": "web"})

        wait_until(lambda: count_notifications(received) == 1, within=30)
        server.process.stop()
    finally:
        webhook.close()
    [notification] = [json.loads(line) for line in received.read_text().splitlines()]
    assert notification["alerts"][0]["labels"]["alertname"] == "AttackTest"


def test_webhook_refuses_what_is_no_notification(tmp_path: Path) -> None:
    webhook = WebhookReceiver(tmp_path / "notifications.jsonl")

    try:
        assert not webhook.receive(b"\xff not json")
        assert not webhook.receive(b"[1]")
    finally:
        webhook.close()
    assert count_notifications(tmp_path / "notifications.jsonl") == 0


def test_grafana_has_the_data_source_under_the_uid_the_dashboards_use(grafana_server: Any) -> None:
    health = "/api/datasources/uid/palisade-prometheus/health"

    answer = wait_until(lambda: _as_admin(grafana_server, health))

    assert answer["status"] == "OK"


def test_grafana_shows_every_generated_dashboard(grafana_server: Any) -> None:
    expected = len(list(project_files.DASHBOARDS.glob("*.json")))

    wait_until(lambda: len(_shown_in_folder(grafana_server)) == expected)
    assert expected > 0


def test_promtool_accepts_the_prometheus_file_for_compose(
    promtool_program: Path, tmp_path: Path
) -> None:
    done = _run(promtool_program, "check", "config", _beside_rules(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr


def test_amtool_accepts_the_alertmanager_file(amtool_program: Path) -> None:
    done = _run(amtool_program, "check-config", project_files.ALERTMANAGER_TEMPLATE)

    assert done.returncode == 0, done.stdout + done.stderr


def _shown_in_folder(server: Any) -> list[Any]:
    boards = _as_admin(server, "/api/search?type=dash-db")
    return [board for board in boards if board.get("folderTitle") == "Palisade"]


def _as_admin(server: Any, path: str) -> Any:
    credentials = base64.b64encode(f"admin:{server.admin_password}".encode()).decode()
    connection = http.client.HTTPConnection(loopback.ADDRESS, server.port, timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": f"Basic {credentials}"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def _post_alert(port: int, labels: dict[str, str]) -> None:
    connection = http.client.HTTPConnection(loopback.ADDRESS, port, timeout=10)
    try:
        body = json.dumps([{"labels": labels}])
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/v2/alerts", body, headers)
        assert connection.getresponse().status == 200
    finally:
        connection.close()


def _beside_rules(folder: Path) -> Path:
    """The compose layout: prometheus.yml beside a folder `rules`."""
    configuration = folder / "prometheus.yml"
    configuration.write_text((PROJECT_ROOT / "deploy/prometheus/prometheus.yml").read_text())
    (folder / "rules").symlink_to(project_files.RULES)
    return configuration


def _run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [str(program), *(str(argument) for argument in arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
