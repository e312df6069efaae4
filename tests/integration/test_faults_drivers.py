"""Workers that die and leaders that are paused: whoever finishes the batch, every line counts once."""

import signal
import time

import pytest
from kazoo.client import KazooClient
from support.drivers import DriverProcess
from support.fault_scene import SESSION_SECONDS, make_scene
from support.fault_table import fault, repeats
from support.oracle import read_committed
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    return make_scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name)


def test_row_13_paused_leader_cannot_commit_what_it_had_begun(scene):
    """Two drivers; the leader is stopped inside a batch, the standby finishes it, the leader wakes up."""
    with fault(13, "leader paused inside a batch") as run:
        first = DriverProcess(scene.pipeline, "first")
        with first, DriverProcess(scene.pipeline, "second") as second:
            wait_until(lambda: first.leads() or second.leads(), within=90)
            for _ in range(repeats(1, 5)):
                leader, standby = (first, second) if first.leads() else (second, first)
                pause_inside_a_batch(scene, leader)
                paused_at = time.monotonic()
                before = scene.commit()
                batch = before["batch"] + 1
                scene.ship(400)
                wait_until(lambda s=standby: s.leads(), within=2 * SESSION_SECONDS + 4, every=0.05)
                taken_over_after = time.monotonic() - paused_at
                run.notes = [f"taken over after {taken_over_after:.1f} s"]
                scene.wait_until_caught_up(within=60)
                leader.signal(signal.SIGCONT)
                run.injected += 1
                wait_until(lambda p=leader: "leadership lost" in p.log, within=30)
                wait_until(lambda p=leader: not p.leads(), within=30)
                scene.ship(200)
                scene.wait_until_caught_up(within=60)
                after = scene.commit()
                assert after["epoch"] > before["epoch"]
                epochs = {row["epoch"] for row in batch_rows(scene, batch)}
                assert epochs == {after["epoch"]}, "the batch is the standby's"
                standby.see(scene.totals)
                leader.see(scene.totals)
        run.judge(scene.verdict()).require_exact()


def pause_inside_a_batch(scene, leader):
    """Stop the leader while its batch is pending; try again when the batch was quicker."""
    path = f"{scene.root}/pipelines/palisade/pending"
    client = KazooClient(hosts=scene.zookeeper)
    client.start(timeout=15)
    try:
        for _ in range(10):
            scene.ship(1000)
            wait_until(lambda: client.exists(path) and client.get(path)[0], within=30, every=0.001)
            leader.signal(signal.SIGSTOP)
            if client.get(path)[0]:
                return
            leader.signal(signal.SIGCONT)
    finally:
        client.stop()
        client.close()
    message = "the leader was never inside a batch when it was stopped"
    raise AssertionError(message)


def batch_rows(scene, batch):
    rows = read_committed(scene.ledger, "account", scene.commit())
    return [row for row in rows if row["batch"] == batch]
