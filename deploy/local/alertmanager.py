"""A real Alertmanager on a free port of 127.0.0.1 that notifies our webhook. I/O."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local import loopback, project_files
from deploy.local.child_process import ChildCommand, ChildKeeper, ChildProcess
from deploy.local.prometheus import INSTALL
from deploy.local.stack_errors import ProgramMissing

TEMPLATE_WEBHOOK = "http://127.0.0.1:9099/notifications"
_READY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """A running Alertmanager."""

    process: ChildProcess
    port: int

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://{loopback.ADDRESS}:{self.port}"

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts it holds now; empty when it does not answer."""
        found = loopback.get_json(self.port, "/api/v2/alerts")
        return found if isinstance(found, list) else []


def find_alertmanager(environ: Mapping[str, str]) -> Path:
    """The program (Debian calls it `prometheus-alertmanager`), or `ProgramMissing`."""
    for name in ("prometheus-alertmanager", "alertmanager"):
        found = shutil.which(name, path=environ.get("PATH"))
        if found:
            return Path(found)
    raise ProgramMissing(
        program="Alertmanager", remedy=INSTALL, loss="alerts and incidents notify nobody"
    )


def configuration(template: str, webhook_url: str) -> str:
    """The project's alertmanager.yml, with its webhook pointed at `webhook_url`."""
    if TEMPLATE_WEBHOOK not in template:
        message = (
            f"alertmanager.yml no longer names the webhook {TEMPLATE_WEBHOOK}: correct one of them."
        )
        raise ValueError(message)
    return template.replace(TEMPLATE_WEBHOOK, webhook_url)


def start_alertmanager(
    keeper: ChildKeeper, program: Path, folder: Path, webhook_url: str
) -> Alertmanager:
    """Start it with its data and configuration in `folder`, and return when it serves."""
    folder.mkdir(parents=True, exist_ok=True)
    template = project_files.ALERTMANAGER_TEMPLATE.read_text(encoding="utf-8")
    text = configuration(template, webhook_url)
    (folder / "alertmanager.yml").write_text(text, encoding="utf-8")
    return loopback.on_free_port(lambda port: _start(keeper, program, folder, port))


def _start(keeper: ChildKeeper, program: Path, folder: Path, port: int) -> Alertmanager:
    argv: list[str | Path] = [
        program,
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={loopback.ADDRESS}:{port}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    process = keeper.start(ChildCommand("alertmanager", argv, folder / "alertmanager.log"))
    process.wait_until_ready(
        lambda: loopback.answers_ok(port, "/-/ready"), within_seconds=_READY_SECONDS
    )
    return Alertmanager(process, port)
