"""A real Prometheus on a free port of 127.0.0.1, with our rules, scraping job and shipper. I/O."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local import loopback, project_files
from deploy.local.child_process import ChildCommand, ChildKeeper, ChildProcess
from deploy.local.stack_errors import ProgramMissing

INSTALL = "`apt-get install prometheus prometheus-alertmanager`"
_READY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    process: ChildProcess
    port: int

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://{loopback.ADDRESS}:{self.port}"


def find_prometheus(environ: Mapping[str, str]) -> Path:
    """The program, or `ProgramMissing`."""
    found = shutil.which("prometheus", path=environ.get("PATH"))
    if found is None:
        raise ProgramMissing(
            program="Prometheus",
            remedy=INSTALL,
            loss="no rules are evaluated and no history is kept",
        )
    return Path(found)


def configuration(
    targets: Mapping[str, str], alertmanager: str | None, rules: Path = project_files.RULES
) -> str:
    """`prometheus.yml` (JSON is YAML) that scrapes `targets` (job → host:port) every 2 s."""
    document: dict[str, object] = {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "5s"},
        "rule_files": [str(rules / "*.yml")],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [target]}]}
            for job, target in targets.items()
        ],
    }
    if alertmanager:
        receivers = [{"static_configs": [{"targets": [alertmanager]}]}]
        document["alerting"] = {"alertmanagers": receivers}
    return json.dumps(document, indent=1)


def start_prometheus(
    keeper: ChildKeeper, program: Path, folder: Path, configuration_text: str
) -> Prometheus:
    """Start it with its data and configuration in `folder`, and return when it serves."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(configuration_text, encoding="utf-8")
    return loopback.on_free_port(lambda port: _start(keeper, program, folder, port))


def _start(keeper: ChildKeeper, program: Path, folder: Path, port: int) -> Prometheus:
    argv: list[str | Path] = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=1d",
        f"--web.listen-address={loopback.ADDRESS}:{port}",
        "--log.level=warn",
    ]
    process = keeper.start(ChildCommand("prometheus", argv, folder / "prometheus.log"))
    process.wait_until_ready(
        lambda: loopback.answers_ok(port, "/-/ready"), within_seconds=_READY_SECONDS
    )
    return Prometheus(process, port)
