"""The files in deploy/: what they mount, copy and call exists, and nothing is open to the world."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local import alertmanager
from palisade_config import Configuration

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]


def test_compose_runs_every_part_of_the_flow() -> None:
    assert set(SERVICES) == {
        "zookeeper",
        "kafka",
        "spark-master",
        "spark-worker",
        "ship",
        "stream",
        "prometheus",
        "alertmanager",
        "grafana",
    }


@pytest.mark.parametrize("name", SERVICES)
def test_compose_mounts_only_what_exists(name: str) -> None:
    for mount in SERVICES[name].get("volumes", ()):
        source = re.sub(r"\$\{[^}]*:-([^}]*)\}", r"\1", mount).split(":")[0]
        if source.startswith("."):
            assert (DEPLOY / source).exists(), f"{name} mounts {source}"
        elif not source.startswith("/"):
            assert source in COMPOSE["volumes"], f"{name} uses the undeclared volume {source}"


@pytest.mark.parametrize("name", SERVICES)
def test_compose_publishes_ports_on_loopback_only(name: str) -> None:
    for port in SERVICES[name].get("ports", ()):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", SERVICES)
def test_compose_waits_for_known_services_and_comes_back(name: str) -> None:
    assert SERVICES[name]["restart"] == "unless-stopped"
    assert set(SERVICES[name].get("depends_on", ())) <= set(SERVICES)


@pytest.mark.parametrize("name", ["ship", "stream", "spark-master", "spark-worker"])
def test_our_own_containers_have_no_privileges(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_compose_configuration_is_accepted_and_names_the_services() -> None:
    document = tomllib.loads((DEPLOY / "compose" / "palisade.toml").read_text())

    configuration = Configuration.model_validate(document)

    assert configuration.kafka.bootstrap_servers.split(":")[0] in SERVICES
    assert configuration.zookeeper.hosts.split(":")[0] in SERVICES
    assert configuration.stream.listen.endswith(":9465")
    assert configuration.ship.listen.endswith(":9464")
    states = [configuration.ship.state_dir, configuration.stream.ledger]
    mounted = [
        mount.split(":")[1] for name in ("ship", "stream") for mount in SERVICES[name]["volumes"]
    ]
    assert set(states) <= set(mounted)


def test_prometheus_scrapes_and_notifies_services_of_compose() -> None:
    document = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())

    groups = [s for job in document["scrape_configs"] for s in job["static_configs"]]
    groups += document["alerting"]["alertmanagers"][0]["static_configs"]
    hosts = {target.split(":")[0] for group in groups for target in group["targets"]}
    assert hosts - {"127.0.0.1"} == {"stream", "ship", "alertmanager"}


def test_dockerfile_copies_only_what_exists() -> None:
    text = (DEPLOY / "Dockerfile").read_text()

    copied = [
        source for line in re.findall(r"^COPY (.*) \S+$", text, re.M) for source in line.split()
    ]
    assert "streaming/" in copied
    for source in copied:
        for group in ("ship", "stream"):
            assert (DEPLOY.parent / source.replace("${GROUP}", group)).exists(), source


def test_grafana_gets_the_variables_its_provisioning_uses() -> None:
    files = (DEPLOY / "grafana" / "provisioning").rglob("*.yaml")

    used = {name for file in files for name in re.findall(r"\$([A-Z_]+)", file.read_text())}

    assert used == {"PROMETHEUS_URL", "DASHBOARDS_FOLDER"}
    assert used <= set(SERVICES["grafana"]["environment"])


def test_alertmanager_template_is_pointed_at_the_given_webhook() -> None:
    template = (DEPLOY / "alertmanager" / "alertmanager.yml").read_text()

    document = yaml.safe_load(alertmanager.configuration(template, "http://127.0.0.1:5/n"))

    assert document["receivers"][0]["webhook_configs"][0]["url"] == "http://127.0.0.1:5/n"
    with pytest.raises(ValueError, match="no longer names the webhook"):
        alertmanager.configuration("receivers: []", "http://127.0.0.1:5/n")


@pytest.mark.parametrize("unit", ["palisade-ship", "palisade-stream"])
@pytest.mark.parametrize(
    "line",
    [
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
        "User=palisade",
        "Restart=always",
        "StartLimitIntervalSec=0",
    ],
)
def test_units_are_hardened_and_restart_for_ever(unit: str, line: str) -> None:
    assert line in (DEPLOY / "systemd" / f"{unit}.service").read_text().splitlines()


def test_shipper_unit_may_read_apache_logs() -> None:
    unit = (DEPLOY / "systemd" / "palisade-ship.service").read_text()

    assert "SupplementaryGroups=adm" in unit.splitlines()


@pytest.mark.parametrize("name", ["standalone", "yarn", "kubernetes", "pack"])
def test_submit_scripts_are_executable_and_stop_at_the_first_error(name: str) -> None:
    script = DEPLOY / "spark-submit" / f"{name}.sh"

    assert script.stat().st_mode & 0o111
    assert "\nset -eu\n" in script.read_text()


def test_every_published_port_is_in_the_readme() -> None:
    readme = (DEPLOY / "README.md").read_text()

    for service in SERVICES.values():
        for port in service.get("ports", ()):
            assert port.rsplit(":", 1)[1] in readme


def test_admin_password_of_the_throw_away_grafana_is_not_used_by_compose() -> None:
    assert "GF_SECURITY_ADMIN_PASSWORD" not in SERVICES["grafana"]["environment"]
