"""ZooKeeper that restarts, falls silent, loses one reply or holds nonsense: no line is lost, none counted twice."""

import logging
import re

import pytest
from kazoo.client import KazooClient
from support.drivers import DriverThread
from support.fault_scene import SESSION_SECONDS, make_scene
from support.fault_servers import OwnZookeeper
from support.fault_table import fault, repeats
from support.tcp_proxy import TO_CLIENT, TcpProxy
from support.waiting import wait_until

from offsets.errors import StoredStateInvalid

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def zookeeper_proxy(zookeeper_hosts):
    with TcpProxy(int(zookeeper_hosts.rsplit(":", 1)[1])) as proxy:
        yield proxy


@pytest.fixture
def scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name, zookeeper_proxy):
    return make_scene(
        tmp_path,
        kafka_bootstrap,
        zookeeper_hosts,
        znode_root,
        topic_name,
        driver_zookeeper=zookeeper_proxy.address,
    )


def test_row_11_zookeeper_restarts_while_batches_are_committed(
    tmp_path, server_keeper, kafka_bootstrap, topic_name, spark_context
):
    with fault(11, "ZooKeeper restarted, clean and by kill -9") as run:
        own = OwnZookeeper(server_keeper, tmp_path / "zookeeper")
        scene = make_scene(tmp_path, kafka_bootstrap, own.address, "/faults", topic_name)
        with DriverThread(scene.pipeline, spark_context, scene.totals) as driver:
            for number in range(repeats(2, 5)):
                scene.ship(400)
                wait_until(lambda: scene.node("pending"), within=60, every=0.005)
                own.restart(clean=number % 2 == 0)
                run.injected += 1
                scene.wait_until_caught_up(check=lambda: require_running(driver))
        run.judge(scene.verdict()).require_exact()
        own.stop()


def test_row_12_expired_session_ends_the_leadership_and_the_driver_leads_again(
    scene, spark_context, zookeeper_proxy
):
    with fault(12, "ZooKeeper session expired, driver alive") as run:
        with DriverThread(scene.pipeline, spark_context, scene.totals) as driver:
            for _ in range(repeats(1, 5)):
                scene.ship(400)
                scene.wait_until_caught_up(check=lambda: require_running(driver))
                epoch = scene.commit()["epoch"]
                silence(scene, driver, zookeeper_proxy)
                run.injected += 1
                zookeeper_proxy.pass_all()
                scene.wait_until_caught_up(check=lambda: require_running(driver))
                assert scene.commit()["epoch"] > epoch
        run.judge(scene.verdict()).require_exact()


def test_row_17_half_open_connection_ends_the_leadership_by_our_own_clock(
    scene, spark_context, zookeeper_proxy
):
    """Requests arrive, answers do not: the server may even keep the session, the driver cannot know."""
    with fault(17, "ZooKeeper answers are lost, requests arrive") as run:
        with DriverThread(scene.pipeline, spark_context, scene.totals) as driver:
            scene.ship(400)
            scene.wait_until_caught_up(check=lambda: require_running(driver))
            silence(scene, driver, zookeeper_proxy, frozenset({TO_CLIENT}))
            run.injected = 1
            assert driver.status["leader"] is False
            zookeeper_proxy.pass_all()
            scene.wait_until_caught_up(check=lambda: require_running(driver))
        run.judge(scene.verdict()).require_exact()


@pytest.mark.parametrize("node", ["commit", "pending"])
def test_row_14_lost_reply_to_a_write_is_resolved_by_reading(
    scene, spark_context, zookeeper_proxy, node, caplog
):
    with fault(14, f"connection reset on the reply to writing {node}") as run:
        with (
            caplog.at_level(logging.INFO),
            DriverThread(scene.pipeline, spark_context, scene.totals) as driver,
        ):
            scene.ship(200)
            scene.wait_until_caught_up(check=lambda: require_running(driver))
            for number in range(1, repeats(2, 20) + 1):
                zookeeper_proxy.lose_reply_to(f"/palisade/{node}".encode())
                scene.ship(200)
                scene.wait_until_caught_up(check=lambda: require_running(driver))
                wait_until(lambda n=number: zookeeper_proxy.replies_lost >= n)
                run.injected += 1
        verdict = run.judge(scene.verdict()).require_exact()
        assert verdict.batches == scene.pipeline.audit().batch_count
        assert scene.commit()["epochs"] == scene.commit()["epochs"][:1], "no election was needed"
        if node == "commit":
            told = [one for one in caplog.records if one.getMessage() == "commit reply was lost"]
            assert [one.committed for one in told] == [True] * run.injected


DAMAGED = {
    "corrupt": lambda data: data[: len(data) // 2],
    "bytes changed": lambda data: re.sub(rb'"batch":\d+', b'"batch":99', data),
    "version of the future": lambda data: re.sub(rb'"v":\d+', b'"v":999', data),
    "version of the past": lambda data: re.sub(rb'"v":\d+', b'"v":0', data),
    "over-large": lambda data: data + b" " * 700_000,
    "no object": lambda _: b"[]",
}


def test_row_16_node_that_cannot_be_read_stops_the_job_by_name(
    scene, spark_context, zookeeper_hosts
):
    with fault(16, "commit node corrupt, older, newer, over-large") as run:
        scene.ship(400)
        scene.catch_up(spark_context)
        run.judge(scene.verdict()).require_exact()
        path = f"{scene.root}/pipelines/palisade/commit"
        good = scene.node("commit")
        scene.ship(400)
        accepted = []
        for name, damage in DAMAGED.items():
            set_node(zookeeper_hosts, path, damage(good))
            run.injected += 1
            try:
                scene.pipeline.catch_up(spark_context)
                accepted.append(name)
            except StoredStateInvalid as error:
                assert path in str(error), name
            if scene.node("commit") != damage(good):
                accepted.append(f"{name} was overwritten")
            set_node(zookeeper_hosts, path, good)
            assert not scene.node("pending"), name
        assert accepted == []
        scene.catch_up(spark_context)
        run.judge(scene.verdict()).require_exact()


def silence(scene, driver, proxy, directions=None):
    """Cut the driver off, offer it work, and see that nothing is committed and it says so."""
    proxy.hold(directions) if directions else proxy.hold()
    scene.ship(200)
    wait_until(lambda: driver.status.get("leader") is False, within=4 * SESSION_SECONDS + 5)
    before = scene.node("commit")
    wait_until(lambda: lock_is_free(scene), within=4 * SESSION_SECONDS)
    scene.ship(200)
    assert scene.node("commit") == before


def lock_is_free(scene):
    client = KazooClient(hosts=scene.zookeeper)
    client.start(timeout=15)
    try:
        return not client.get_children(f"{scene.root}/pipelines/palisade/lock")
    finally:
        client.stop()
        client.close()


def require_running(driver):
    assert driver.is_running, repr(driver.error)


def set_node(hosts, path, data):
    client = KazooClient(hosts=hosts)
    client.start(timeout=15)
    try:
        client.set(path, data)
    finally:
        client.stop()
        client.close()
