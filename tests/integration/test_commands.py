"""What a user can get wrong: one clear sentence with the remedy, a non-zero exit, no traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

LINE = '192.0.2.1 - - [18/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "test"\n'


def palisade(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "palisade", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def sentence(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode != 0
    assert "Traceback" not in answer.stderr + answer.stdout
    return answer.stderr.strip().splitlines()[-1]


def test_help_names_every_stage(tmp_path):
    shown = palisade(tmp_path, "--help").stdout

    for command in (
        "ship",
        "stream",
        "audit",
        "analyze",
        "offsets",
        "alerts",
        "dashboards",
        "demo",
    ):
        assert command in shown


def test_typo_in_the_configuration_is_named(tmp_path):
    (tmp_path / "palisade.toml").write_text("[stream]\nbatch_secnds = 2\n")

    said = sentence(palisade(tmp_path, "stream"))

    assert "stream.batch_secnds is not a known key (keys of [stream]: job_name" in said


def test_missing_configuration_file_is_named(tmp_path):
    assert "none.toml cannot be read" in sentence(palisade(tmp_path, "ship", "-c", "none.toml"))


def test_shipper_without_sources_says_what_to_add(tmp_path):
    assert "[[ship.sources]]" in sentence(palisade(tmp_path, "ship", PALISADE_SHIP_LISTEN=""))


def test_shipper_without_kafka_says_so(tmp_path):
    (tmp_path / "access.log").write_text(LINE)
    (tmp_path / "palisade.toml").write_text(
        '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[[ship.sources]]\npaths = ["access.log"]\n'
        '[ship]\nlisten = ""\n'
    )

    said = sentence(palisade(tmp_path, "ship"))

    assert "127.0.0.1:1" in said
    assert "kafka.bootstrap_servers" in said


def test_taken_port_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"

        said = sentence(palisade(tmp_path, "stream", PALISADE_STREAM_LISTEN=listen))

    assert f"stream.listen = '{listen}' cannot be used" in said


def test_old_java_is_named_with_the_remedy(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    (tmp_path / "access.log").write_text(LINE)

    said = sentence(palisade(tmp_path, "analyze", "access.log", JAVA_HOME=str(tmp_path)))

    assert "Java 17 or newer is needed, found 11" in said


@pytest.mark.parametrize(
    ("file", "arguments", "said"),
    [
        pytest.param(None, [], "access.log", id="missing file"),
        pytest.param(LINE, ["--format", "nonsense"], "nonsense", id="unknown format"),
        pytest.param(LINE, ["--format", "%h %t %y"], "%y", id="unknown directive"),
        pytest.param("no access line\n", [], "--format", id="format that cannot be recognised"),
    ],
)
def test_analyze_says_what_is_wrong_with_the_input(tmp_path, file, arguments, said):
    if file is not None:
        (tmp_path / "access.log").write_text(file)

    assert said in sentence(palisade(tmp_path, "analyze", "access.log", *arguments))


def test_analyze_of_an_empty_file_reports_no_lines(tmp_path):
    (tmp_path / "access.log").write_text("")

    answer = palisade(tmp_path, "analyze", "access.log", "--records", "records.jsonl")

    assert answer.returncode == 0
    assert (tmp_path / "records.jsonl").read_text() == ""


def test_doctor_finds_what_is_missing_and_says_what_to_do(tmp_path):
    answer = palisade(
        tmp_path,
        "doctor",
        PALISADE_KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1",
        PALISADE_ZOOKEEPER_HOSTS="127.0.0.1:1",
        COLUMNS="200",
    )

    assert answer.returncode == 1
    assert "set kafka.bootstrap_servers" in answer.stdout
    assert "set zookeeper.hosts" in answer.stdout
    assert "Traceback" not in answer.stderr


def test_doctor_is_content_when_everything_is_there(tmp_path, kafka_bootstrap, zookeeper_hosts):
    answer = palisade(
        tmp_path,
        "doctor",
        PALISADE_KAFKA_BOOTSTRAP_SERVERS=kafka_bootstrap,
        PALISADE_KAFKA_CREATE_TOPIC="true",
        PALISADE_ZOOKEEPER_HOSTS=zookeeper_hosts,
        PALISADE_STREAM_LISTEN="127.0.0.1:0",
    )

    assert answer.returncode == 0, answer.stdout
