"""The embedded servers, for real: they start, serve, stop, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.broker_topics import create_topic, produce, read_all, watermarks
from support.servers import PROJECT_ROOT
from support.waiting import wait_until

from deploy.local import process_table
from deploy.local.child_process import ChildCommand, ChildKeeper
from deploy.local.run_file import read_record
from deploy.local.stack_errors import AlreadyRunning, ServerDidNotStart

pytestmark = pytest.mark.integration

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('up', flush=True); time.sleep(600)",
]


def test_broker_keeps_what_is_sent_to_it(kafka_bootstrap: str, topic_name: str) -> None:
    create_topic(kafka_bootstrap, topic_name, partitions=2)

    produce(kafka_bootstrap, topic_name, [b"one", (b"key", b"two")], partition=1)

    assert [(r.partition, r.key, r.value) for r in read_all(kafka_bootstrap, topic_name)] == [
        (1, None, b"one"),
        (1, b"key", b"two"),
    ]
    assert watermarks(kafka_bootstrap, topic_name) == {0: (0, 0), 1: (0, 2)}


def test_zookeeper_keeps_a_node(zookeeper_hosts: str, znode_root: str) -> None:
    from kazoo.client import KazooClient

    client = KazooClient(hosts=zookeeper_hosts)
    client.start(timeout=15)

    client.create(f"{znode_root}/a", b"x", makepath=True)

    assert client.get(f"{znode_root}/a")[0] == b"x"
    client.stop()
    client.close()


def test_child_that_ends_early_is_reported_with_its_last_words(tmp_path: Path) -> None:
    dying = [sys.executable, "-c", "import sys; sys.exit('no room left')"]

    with ChildKeeper(tmp_path) as keeper:
        child = keeper.start(ChildCommand("fragile", dying, tmp_path / "fragile.log"))
        with pytest.raises(ServerDidNotStart, match=r"(?s)exit code 1 .*no room left"):
            child.wait_until_ready(lambda: False, within_seconds=20)


def test_child_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    with ChildKeeper(tmp_path) as keeper:
        child = keeper.start(ChildCommand("stubborn", STUBBORN, tmp_path / "stubborn.log"))
        child.wait_until_ready(lambda: child.last_log_lines() == ["up"], within_seconds=20)

        code = child.stop(grace_seconds=0.2)

    assert code == -signal.SIGKILL


def test_closing_the_keeper_leaves_no_process_and_no_run_file(tmp_path: Path) -> None:
    with ChildKeeper(tmp_path) as keeper:
        keeper.start(ChildCommand("a", SLEEPER, tmp_path / "a.log"))
        token = keeper.token
        assert process_table.carrying(token)

    assert process_table.carrying(token) == []
    assert not (tmp_path / "run.json").exists()


PARENT = """
import os, sys, time
from pathlib import Path
from deploy.local.child_process import ChildCommand, ChildKeeper
folder = Path(sys.argv[1])
keeper = ChildKeeper(folder)
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
keeper.start(ChildCommand("a", sleeper, folder / "a.log"))
if sys.argv[2] == "without guard":
    os.kill(keeper._guard._process.pid, 9)
(folder / "ready").touch()
time.sleep(600)
"""


@pytest.fixture
def killed_parent(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A run that was killed the hard way; returns its token."""
    argv = [sys.executable, "-c", PARENT, str(tmp_path), request.param]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    parent = subprocess.Popen(argv, env=environment, cwd=PROJECT_ROOT)
    wait_until((tmp_path / "ready").exists, within=30)
    record = read_record((tmp_path / "run.json").read_text())
    assert record is not None
    parent.kill()
    parent.wait()
    return record.token


@pytest.mark.parametrize("killed_parent", ["with guard"], indirect=True)
def test_children_end_with_a_parent_that_was_killed(killed_parent: str) -> None:
    wait_until(lambda: process_table.carrying(killed_parent) == [], within=20)


@pytest.mark.parametrize("killed_parent", ["without guard"], indirect=True)
def test_next_start_ends_what_a_dead_run_left_behind(killed_parent: str, tmp_path: Path) -> None:
    assert len(process_table.carrying(killed_parent)) == 1

    with ChildKeeper(tmp_path) as keeper:
        assert keeper.leftovers == 1

    assert process_table.carrying(killed_parent) == []


def test_second_run_in_the_same_folder_is_refused_with_the_first_ones_process(
    tmp_path: Path,
) -> None:
    with (
        ChildKeeper(tmp_path),
        pytest.raises(AlreadyRunning, match=rf"Another run \(process {os.getpid()}\) uses"),
    ):
        ChildKeeper(tmp_path)
