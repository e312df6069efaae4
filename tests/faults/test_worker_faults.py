"""Workers that die and leaders that are paused: whoever finishes the batch, every line counts once."""

import os
import signal

import pytest
from support.drivers import DriverThread, spark_workers_of
from support.fault_scene import make_scene
from support.fault_table import fault, repeats
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_row_06_python_worker_killed_in_the_middle_of_a_task(
    tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name, spark_context
):
    """Spark repeats the task in a new worker; what the dead one read counts nowhere."""
    with fault(6, "Python worker kill -9 mid task") as run:
        scene = make_scene(
            tmp_path,
            kafka_bootstrap,
            zookeeper_hosts,
            znode_root,
            topic_name,
            max_rate_per_partition=0,
            unlimited_first_batch=True,
        )
        tracker = spark_context.statusTracker()
        repeated = 0
        for _ in range(repeats(2, 10)):
            scene.ship(40_000, resend=0.05)
            with DriverThread(scene.pipeline, spark_context, scene.totals) as driver:
                stages = wait_until(lambda: active_stages(tracker), within=30, every=0.002)
                workers = spark_workers_of(os.getpid())
                for worker in workers:
                    os.kill(worker, signal.SIGKILL)
                run.injected += len(workers)
                scene.wait_until_caught_up(check=lambda d=driver: require_running(d))
            infos = [tracker.getStageInfo(stage) for stage in stages]
            repeated += sum(info.numFailedTasks for info in infos if info is not None)
        assert repeated > 0, "no task was running when its worker was killed"
        run.judge(scene.verdict()).require_exact()


def active_stages(tracker):
    """Stages that have a task running right now."""
    return [
        stage
        for stage in tracker.getActiveStageIds()
        if (info := tracker.getStageInfo(stage)) is not None and info.numActiveTasks > 0
    ]


def require_running(driver):
    assert driver.is_running, repr(driver.error)
