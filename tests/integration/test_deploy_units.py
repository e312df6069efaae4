"""The systemd units and shell scripts, checked by the programs that will read them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import servers

from deploy.local.stack_errors import ProgramMissing

pytestmark = pytest.mark.integration

DEPLOY = servers.PROJECT_ROOT / "deploy"


@pytest.fixture(scope="session")
def systemd_analyze() -> Path:
    try:
        return servers.program("systemd-analyze")
    except ProgramMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("unit", ["palisade-ship.service", "palisade-stream.service"])
def test_systemd_accepts_the_unit(systemd_analyze: Path, unit: str, tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / unit).read_text()
    (tmp_path / unit).write_text(text.replace("/opt/palisade/.venv/bin/palisade", "/bin/true"))

    done = _run([systemd_analyze, "verify", tmp_path / unit])

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(
    "script", sorted((DEPLOY / "spark-submit").glob("*.sh")), ids=lambda p: p.name
)
def test_shell_accepts_the_submit_script(script: Path) -> None:
    done = _run(["sh", "-n", script])

    assert (done.returncode, done.stderr) == (0, "")


def test_standalone_script_submits_the_job_with_the_given_configuration(tmp_path: Path) -> None:
    configuration = tmp_path / "palisade.toml"
    configuration.touch()
    programs = _echoing(tmp_path, "spark-submit")

    script = DEPLOY / "spark-submit" / "standalone.sh"
    done = _run([script, configuration], PATH=programs, MASTER="spark://host:7077")

    assert "--master spark://host:7077" in done.stdout
    assert done.stdout.endswith(f"palisade.py stream --config {configuration}\n")


@pytest.mark.parametrize("script", ["standalone.sh", "yarn.sh"])
def test_submit_script_without_configuration_says_what_is_missing(script: str) -> None:
    done = _run([DEPLOY / "spark-submit" / script])

    assert done.returncode != 0
    assert "name the palisade.toml" in done.stderr


def test_image_runs_palisade_unless_spark_asks_for_an_executor(tmp_path: Path) -> None:
    programs = _echoing(tmp_path, "python", "java", "spark-submit")
    executor = {
        "SPARK_JAVA_OPT_10": "-Dlast=1",
        "SPARK_JAVA_OPT_2": "-Dfirst=1",
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "192.0.2.1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod",
    }

    plain = _run([DEPLOY / "entrypoint.sh", "ship", "--config", "x"], PATH=programs)
    driver = _run(
        [DEPLOY / "entrypoint.sh", "driver", "app.py"],
        PATH=programs,
        SPARK_DRIVER_BIND_ADDRESS="192.0.2.9",
    )
    asked = _run([DEPLOY / "entrypoint.sh", "executor"], PATH=programs, **executor)

    assert plain.stdout == "python -m palisade ship --config x\n"
    assert "--deploy-mode client app.py" in driver.stdout
    assert asked.stdout.startswith("java -Dfirst=1 -Dlast=1 -Xms1g -Xmx1g -cp ")
    assert "KubernetesExecutorBackend --driver-url spark://driver --executor-id 7" in asked.stdout


def _echoing(folder: Path, *names: str) -> str:
    """A PATH on which these programs only say how they were called."""
    for name in names:
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*"\n')
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def _run(argv: list[Any], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
