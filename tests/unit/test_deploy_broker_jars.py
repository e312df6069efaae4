from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.broker_jars import broker_jars
from deploy.local.child_process import ChildKeeper
from deploy.local.stack_errors import BrokerUnavailable

WORKING = """#!/bin/sh
while [ "$1" != "-retrieve" ]; do shift; done
folder=$(dirname "$2")
mkdir -p "$folder" && touch "$folder/kafka_2.13-4.1.0.jar"
echo run >> "$(dirname "$0")/runs"
"""
OFFLINE = """#!/bin/sh
echo 'Server access error: java.net.UnknownHostException: repo1.maven.org'
exit 1
"""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[ChildKeeper]:
    with ChildKeeper(tmp_path / "run") as keeper:
        yield keeper


def test_broker_is_downloaded_once(keeper: ChildKeeper, tmp_path: Path) -> None:
    java = a_program(tmp_path, WORKING)
    reports: list[str] = []

    folders = {broker_jars(keeper, tmp_path / "cache", java, reports.append) for _ in range(2)}

    assert folders == {tmp_path / "cache" / "kafka-4.1.0"}
    assert (tmp_path / "runs").read_text().splitlines() == ["run"]
    assert len(reports) == 1


def test_nothing_but_the_broker_stays_in_the_cache(keeper: ChildKeeper, tmp_path: Path) -> None:
    broker_jars(keeper, tmp_path / "cache", a_program(tmp_path, WORKING), lambda _: None)

    kept = sorted(path.name for path in (tmp_path / "cache").iterdir())
    assert kept == ["kafka-4.1.0", "kafka.lock"]


def test_missing_network_is_said_with_the_remedy_and_leaves_no_folder(
    keeper: ChildKeeper, tmp_path: Path
) -> None:
    java = a_program(tmp_path, OFFLINE)

    with pytest.raises(BrokerUnavailable, match=r"UnknownHostException.*Maven Central.*copy its"):
        broker_jars(keeper, tmp_path / "cache", java, lambda _: None)

    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kafka.lock"]


def a_program(folder: Path, script: str) -> Path:
    program = folder / "java"
    program.write_text(script)
    program.chmod(0o755)
    return program
