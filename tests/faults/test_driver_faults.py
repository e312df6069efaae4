"""Drivers killed at every point, at random, and starved of memory; as often as the promise says."""

import json
import os
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from support.drivers import DriverProcess, children_of
from support.fault_scene import make_scene
from support.fault_table import fault, repeats
from support.oracle import read_committed
from support.waiting import wait_until

from streaming.crash_point import CRASH_POINTS

pytestmark = [pytest.mark.faults, pytest.mark.integration, pytest.mark.timeout(7200)]


@pytest.fixture
def scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    return make_scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name)


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_row_04_driver_killed_at_a_point_of_the_protocol(scene, spark_context, point):
    with fault(4, f"driver kill -9 at {point}") as run:
        fixed = {}
        for _ in range(repeats(1, 20)):
            scene.ship(5000)
            ended = scene.pipeline.palisade("stream", "--until-caught-up", crash_point=point)
            assert ended.returncode == -9, ended.stderr
            run.injected += 1
            fixed |= pending_ranges(scene)
        scene.catch_up(spark_context)
        run.judge(scene.verdict()).require_exact()
        for batch, ranges in fixed.items():
            assert committed_ranges(scene, batch) == ranges, f"batch {batch} has other ranges"


def test_row_05_driver_killed_at_random(scene, spark_context):
    with fault(5, "driver kill -9 at random") as run:
        stop = threading.Event()
        shipper = threading.Thread(target=ship_until, args=(scene, stop))
        shipper.start()
        try:
            for _ in range(repeats(3, 50)):
                with DriverProcess(scene.pipeline) as driver:
                    wait_until(driver.leads, within=90)
                    deadline = time.monotonic() + scene.oracle.random.uniform(0.1, 8)
                    wait_until(
                        lambda d=driver, at=deadline: d.see(scene.totals) or time.monotonic() > at,
                        within=60,
                        every=0.02,
                    )
                    driver.kill()
                    run.injected += 1
        finally:
            stop.set()
            shipper.join(timeout=120)
        scene.catch_up(spark_context)
        run.judge(scene.verdict()).require_exact()


def test_row_06_spark_jvm_killed_ends_the_driver_and_nothing_is_lost(scene, spark_context):
    with fault(6, "Spark's JVM kill -9") as run:
        for _ in range(repeats(1, 5)):
            with DriverProcess(scene.pipeline) as driver:
                wait_until(driver.leads, within=90)
                scene.ship(5000)
                for child, command in children_of(driver.pid).items():
                    if "java" in command.split(" ", 1)[0]:
                        os.kill(child, signal.SIGKILL)
                        run.injected += 1
                scene.ship(5000)
                assert exit_code_of(driver, within=60) not in {0, None}, driver.log[-2000:]
        scene.catch_up(spark_context)
        run.judge(scene.verdict()).require_exact()


def test_row_07_driver_without_memory_commits_nothing_wrong(scene, spark_context):
    """It ends, or stands still until its supervisor ends it; what is committed stays exact."""
    with fault(7, "driver out of memory") as run:
        scene.ship(2000)
        for _ in range(repeats(1, 5)):
            with DriverProcess(scene.pipeline) as driver:
                wait_until(driver.leads, within=90)
                scene.wait_until_caught_up()
                allow_no_more_memory(driver.pid)
                run.injected += 1
                for _ in range(20):
                    scene.ship(2000)
                code = exit_code_of(driver, within=30)
                standing = "caught up" if scene.is_caught_up() else "stood still"
                run.notes.append(standing if code is None else f"exit code {code}")
                assert code != 0
            scene.catch_up(spark_context)
            run.judge(scene.verdict()).require_exact()


def ship_until(scene, stop):
    while not stop.wait(0.2):
        scene.ship(1000)


def allow_no_more_memory(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))


def exit_code_of(driver, within):
    """How it ended; None when it still runs after that time."""
    try:
        return driver.wait(within)
    except subprocess.TimeoutExpired:
        return None


def pending_ranges(scene):
    """Batch and ranges of the pending node; nothing when no batch is pending."""
    data = scene.node("pending")
    if not data:
        return {}
    body = json.loads(data)["body"]
    return {body["batch"]: sorted(tuple(one) for one in body["ranges"])}


def committed_ranges(scene, batch):
    """What a committed batch read, ranges of one partition joined where they were split into tasks."""
    joined = {}
    rows = read_committed(scene.ledger, "account", scene.commit())
    for row in sorted(rows, key=lambda row: row["from_offset"]):
        if row["batch"] == batch:
            place = row["topic"], row["partition"]
            first = joined.get(place, (row["from_offset"],))[0]
            joined[place] = (first, row["until_offset"])
    return sorted((*place, *ends) for place, ends in joined.items())
