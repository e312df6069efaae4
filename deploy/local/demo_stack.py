"""What runs in a demo, and where: watched from here, stopped from here. I/O.

Kafka and ZooKeeper are needed; Prometheus, Alertmanager and Grafana run where the machine has them, and
a missing one is a note, not an error. How it all starts is in `deploy.local.demo_start`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local import alertmanager, grafana, loopback, prometheus
from deploy.local.child_process import ChildCommand, ChildKeeper, ChildProcess
from deploy.local.demo_configuration import DemoAddresses, demo_configuration
from deploy.local.project_files import ROOT
from deploy.local.stack_errors import ProgramMissing, StackError
from deploy.local.traffic_ledger import TrafficLedger, load_ledger
from deploy.local.webhook import WebhookReceiver

_KEPT_VARIABLES = ("PALISADE_CACHE", "PALISADE_GRAFANA_HOME")
_FRESH = (
    "kafka",
    "zookeeper",
    "prometheus",
    "alertmanager",
    "logs",
    "ship",
    "ledger",
    "spark",
    "log",
)
_ALONG_THE_FLOW = (
    "traffic",
    "ship",
    "kafka",
    "stream",
    "zookeeper",
    "prometheus",
    "alertmanager",
    "grafana",
)
_AUDIT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class DemoPorts:
    """Ports that must be known before their owners start, because others are told them earlier."""

    kafka: int
    zookeeper: int
    stream: int
    ship: int


@dataclass(slots=True)
class DemoStack:
    """What runs, and where. `missing` tells how to get each program that is not there."""

    keeper: ChildKeeper
    webhook: WebhookReceiver
    folder: Path
    ports: DemoPorts
    processes: dict[str, ChildProcess] = field(default_factory=dict)
    missing: dict[str, ProgramMissing] = field(default_factory=dict)
    prometheus: prometheus.Prometheus | None = None
    alertmanager: alertmanager.Alertmanager | None = None
    grafana: grafana.Grafana | None = None
    background: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    grafana_start: Future[None] | None = None
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def configuration_file(self) -> Path:
        """The palisade.toml of this run."""
        return self.folder / "palisade.toml"

    def urls(self) -> dict[str, str]:
        """What a person may open, by name; for what is missing, how to get it."""
        found = {"metrics": f"http://{loopback.ADDRESS}:{self.ports.stream}/metrics"}
        if self.prometheus:
            found["prometheus"] = self.prometheus.url
        if self.alertmanager:
            found["alertmanager"] = self.alertmanager.url
        if self.grafana:
            found["grafana"] = self.grafana.url + grafana.dashboard_path(grafana.home_dashboard())
        return found | {name: f"missing: {what.remedy}" for name, what in self.missing.items()}

    def process_states(self) -> dict[str, str]:
        """Every part by name: starting, running, ended, or missing."""
        # A copy: Grafana's thread may add its process meanwhile.
        states = {
            name: "running" if process.exit_code() is None else "ended"
            for name, process in list(self.processes.items())
        }
        if self.grafana_start is not None and not self.grafana_start.done():
            states["grafana"] = "starting"
        states |= dict.fromkeys(self.missing, "missing")
        return {name: states[name] for name in _ALONG_THE_FLOW if name in states}

    def check(self) -> ChildProcess | None:
        """A process that ended although nobody asked it to; raises when Grafana failed to start."""
        if self.grafana_start is not None and self.grafana_start.done():
            self.grafana_start.result()
        processes = list(self.processes.values())
        return next((process for process in processes if process.exit_code() is not None), None)

    def status(self) -> dict[str, Any] | None:
        """The job's own account of itself, None while it does not answer."""
        found = loopback.get_json(self.ports.stream, "/api/status")
        return found if isinstance(found, dict) else None

    def alerts(self) -> list[dict[str, Any]]:
        """What Alertmanager holds now."""
        return self.alertmanager.alerts() if self.alertmanager else []

    def traffic_ledger(self) -> TrafficLedger:
        """What the generator says it wrote."""
        return load_ledger(self.folder / "generator.json") or TrafficLedger()

    def write_configuration(self) -> None:
        """Write palisade.toml whole."""
        addresses = DemoAddresses(
            kafka=f"{loopback.ADDRESS}:{self.ports.kafka}",
            zookeeper=f"{loopback.ADDRESS}:{self.ports.zookeeper}",
            stream_port=self.ports.stream,
            ship_port=self.ports.ship,
            prometheus=self.prometheus.url if self.prometheus else "",
            alertmanager=self.alertmanager.url if self.alertmanager else "",
            grafana=self.grafana.url if self.grafana else "",
        )
        temporary = self.configuration_file.with_suffix(".tmp")
        temporary.write_text(demo_configuration(self.folder, addresses), encoding="utf-8")
        temporary.replace(self.configuration_file)

    def start_python(self, name: str, module: str, *arguments: str | Path) -> None:
        """Start a part of our own."""
        command = ChildCommand(
            name,
            [sys.executable, "-m", module, *arguments],
            self.folder / "log" / f"{name}.log",
            environment=_python_environment(),
            folder=ROOT,
            dropped=_foreign_settings(),
        )
        self.processes[name] = self.keeper.start(command)

    def audit_json(self) -> str:
        """What `palisade audit --json` prints; `StackError` when it prints nothing."""
        argv = [sys.executable, "-m", "palisade", "audit", "--json", "--config"]
        kept = {k: v for k, v in os.environ.items() if k not in _foreign_settings()}
        done = subprocess.run(
            [*argv, str(self.configuration_file)],
            capture_output=True,
            text=True,
            timeout=_AUDIT_SECONDS,
            check=False,
            cwd=ROOT,
            env=kept | _python_environment(),
        )
        if not done.stdout.strip():
            told = done.stderr[-500:]
            message = f"palisade audit said nothing (exit code {done.returncode}): {told}"
            raise StackError(message)
        return done.stdout

    def stop(self, name: str, *, grace_seconds: float = 20.0) -> int:
        """Stop one part and forget it; returns its exit code."""
        return self.processes.pop(name).stop(grace_seconds=grace_seconds)

    def close(self) -> None:
        """Stop everything: first what reads and writes, then the servers it needs."""
        self.closing.set()
        for name in ("traffic", "ship", "stream"):
            if name in self.processes:
                self.stop(name)
        self.keeper.close()
        self.background.shutdown()
        self.webhook.close()


def open_stack(folder: Path) -> DemoStack:
    """Own the folder, end what a dead run left there, and begin with fresh data."""
    keeper = ChildKeeper(folder)
    try:
        for name in _FRESH:
            shutil.rmtree(folder / name, ignore_errors=True)
        for name in ("generator.json", "notifications.jsonl", "palisade.toml"):
            (folder / name).unlink(missing_ok=True)
        webhook = WebhookReceiver(folder / "notifications.jsonl")
        ports = DemoPorts(*(loopback.free_port() for _ in range(4)))
        return DemoStack(keeper, webhook, folder, ports)
    except BaseException:
        keeper.close()
        raise


def _python_environment() -> dict[str, str]:
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{ROOT}{os.pathsep}{inherited}" if inherited else str(ROOT)}


def _foreign_settings() -> list[str]:
    """Settings of the user's own Palisade: in the demo they would override palisade.toml."""
    return [
        name for name in os.environ if name.startswith("PALISADE_") and name not in _KEPT_VARIABLES
    ]
