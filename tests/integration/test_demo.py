"""`palisade demo`, for real: every generated line is counted once, an attack alert arrives, nothing stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.servers import PROJECT_ROOT, cache_folder
from support.waiting import wait_until

from deploy.local import process_table
from deploy.local.run_file import read_record

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def demo_environment(
    kafka_bootstrap: str, alertmanager_program: Path, prometheus_program: Path, grafana_program: Any
) -> dict[str, str]:
    """The environment of a demo that finds every program; asking for Kafka fills the cache."""
    return {
        **os.environ,
        "PALISADE_CACHE": str(cache_folder()),
        "PALISADE_GRAFANA_HOME": str(grafana_program.home),
        # Somebody's own settings, which a demo must not follow.
        "PALISADE_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9",
    }


def demo_command(var: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "palisade", "demo", "--var", str(var), *arguments]


def test_demo_accounts_for_every_line_and_an_attack_alert_arrives(
    demo_environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        demo_command(tmp_path, "--seconds", "45"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=demo_environment,
        cwd=PROJECT_ROOT,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Missing, doubled  0, 0" in done.stdout
    assert "accounted for exactly once" in done.stdout
    written = json.loads((tmp_path / "demo" / "generator.json").read_text())
    assert written["finished"]
    assert written["totals"]["files"] > 1, "the log was not rotated"
    assert processes_below(tmp_path) == []


@pytest.fixture
def running_demo(
    demo_environment: dict[str, str], tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A demo whose generator writes already, and its token."""
    process = subprocess.Popen(
        demo_command(tmp_path, "--seconds", "300"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=demo_environment,
        cwd=PROJECT_ROOT,
    )
    try:
        wait_until((tmp_path / "demo" / "generator.json").exists, within=90)
        record = read_record((tmp_path / "demo" / "run.json").read_text())
        assert record is not None
        yield process, record.token
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_signal_stops_every_part(
    running_demo: tuple[subprocess.Popen[str], str], tmp_path: Path, number: signal.Signals
) -> None:
    process, token = running_demo

    process.send_signal(number)
    output, _ = process.communicate(timeout=90)

    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert process_table.carrying(token) == []
    assert not (tmp_path / "demo" / "run.json").exists()


def test_killed_demo_leaves_no_process(running_demo: tuple[subprocess.Popen[str], str]) -> None:
    process, token = running_demo
    assert len(process_table.carrying(token)) >= 5

    process.kill()

    wait_until(lambda: process_table.carrying(token) == [], within=30)


def processes_below(folder: Path) -> list[str]:
    """Commands of processes that have to do with the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command:
            found.append(command.decode("utf-8", "replace"))
    return found
