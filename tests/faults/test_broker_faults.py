"""Brokers that restart, die, pause or are cut off; topics that grow, lose records or hold transactions."""

import logging
import threading

import pytest
from support.broker_topics import add_partitions, delete_records_before, watermarks
from support.drivers import DriverThread
from support.fault_scene import make_scene
from support.fault_servers import OwnKafka
from support.fault_table import fault, repeats
from support.oracle import read_committed, transactional_producer
from support.tcp_proxy import TcpProxy
from support.waiting import wait_until

from deploy.local import loopback
from offsets.errors import DataLoss

pytestmark = [pytest.mark.faults, pytest.mark.integration, pytest.mark.timeout(7200)]


@pytest.fixture
def own_kafka(tmp_path, server_keeper):
    server = OwnKafka(server_keeper, tmp_path / "kafka")
    yield server
    server.stop()


@pytest.fixture
def scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    return make_scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name)


@pytest.mark.parametrize(("row", "clean"), [(8, True), (9, False)], ids=["clean", "kill-9"])
def test_row_08_and_09_broker_restarts(
    tmp_path, own_kafka, zookeeper_hosts, znode_root, spark_context, row, clean
):
    with fault(row, "broker restarted" if clean else "broker kill -9") as run:
        scene = make_scene(tmp_path, own_kafka.address, zookeeper_hosts, znode_root, "access")
        with DriverThread(scene.pipeline, spark_context, scene.totals) as driver:
            for _ in range(repeats(2, 5)):
                scene.ship(1000)
                shipper = threading.Thread(target=scene.ship, args=(20_000,))
                shipper.start()
                wait_until(lambda: scene.node("pending"), within=60, every=0.005)
                own_kafka.restart(clean=clean)
                run.injected += 1
                shipper.join(timeout=200)
                assert not shipper.is_alive()
                scene.wait_until_caught_up(within=180, check=lambda: require_running(driver))
        assert scene.oracle.check_kafka() == []
        run.judge(scene.verdict()).require_exact()


def test_row_10_paused_broker_is_waited_for(
    tmp_path, own_kafka, zookeeper_hosts, znode_root, spark_context, caplog
):
    seconds = repeats(25, 90)
    with fault(10, f"broker SIGSTOP for {seconds} s") as run:
        scene = make_scene(
            tmp_path,
            own_kafka.address,
            zookeeper_hosts,
            znode_root,
            "access",
            read_timeout_seconds=5,
        )
        with (
            caplog.at_level(logging.WARNING, "stream"),
            DriverThread(scene.pipeline, spark_context, scene.totals) as driver,
        ):
            scene.ship(2000)
            scene.wait_until_caught_up(check=lambda: require_running(driver))
            shipper = threading.Thread(target=scene.ship, args=(20_000,))
            shipper.start()
            own_kafka.pause()
            try:
                run.injected = 1
                with pytest.raises(AssertionError, match="not within"):
                    wait_until(driver.ended, within=seconds, every=0.5)
            finally:
                own_kafka.resume()
            shipper.join(timeout=200)
            scene.wait_until_caught_up(within=180, check=lambda: require_running(driver))
        assert any(one.getMessage() == "kafka unavailable" for one in caplog.records)
        run.judge(scene.verdict()).require_exact()


def test_row_19_driver_cut_off_from_the_broker_inside_a_batch(
    tmp_path, server_keeper, zookeeper_hosts, znode_root, spark_context, caplog
):
    with fault(19, "driver and tasks cut off from the broker inside a batch") as run:
        port = loopback.free_port()
        with TcpProxy(port) as proxy:
            own = OwnKafka(server_keeper, tmp_path / "kafka", port, advertised_port=proxy.port)
            scene = make_scene(
                tmp_path,
                own.address,
                zookeeper_hosts,
                znode_root,
                "access",
                driver_broker=proxy.address,
                read_timeout_seconds=3,
                max_rate_per_partition=0,
                unlimited_first_batch=True,
            )
            for _ in range(repeats(1, 5)):
                scene.ship(20_000)
                caplog.clear()
                with (
                    caplog.at_level(logging.WARNING, "stream"),
                    DriverThread(scene.pipeline, spark_context, scene.totals) as driver,
                ):
                    wait_until(lambda: scene.node("pending"), within=60, every=0.002)
                    proxy.hold()
                    fixed, before = scene.node("pending"), scene.node("commit")
                    run.injected += 1
                    wait_until(lambda: told(caplog, "kafka unavailable"), within=120)
                    if fixed:
                        assert scene.node("pending") == fixed
                        assert scene.node("commit") == before
                        run.notes = ["cut inside a batch"]
                    proxy.pass_all()
                    scene.wait_until_caught_up(
                        within=120, check=lambda d=driver: require_running(d)
                    )
            run.judge(scene.verdict()).require_exact()
            own.stop()


def test_row_20_records_deleted_before_they_were_read_are_the_oracles_loss(scene, spark_context):
    with fault(20, "retention overtook the reader") as run:
        scene.ship(1000, resend=0)
        scene.catch_up(spark_context)
        before = scene.commit()["offsets"][scene.pipeline.topic]
        scene.ship(4000, resend=0)
        missing = 0
        for partition in range(scene.partitions):
            start, (_, end) = (
                before[str(partition)],
                watermarks(scene.broker, scene.pipeline.topic)[partition],
            )
            cut = scene.oracle.random.randrange(start + 1, end)
            delete_records_before(scene.broker, scene.pipeline.topic, partition, cut)
            missing += scene.oracle.forget_records(partition, range(start, cut))
            run.injected += 1
        with pytest.raises(DataLoss):
            scene.pipeline.catch_up(spark_context)
        assert scene.commit()["offsets"][scene.pipeline.topic] == before

        scene.pipeline.config.write_text(
            scene.pipeline.config.read_text() + 'on_data_loss = "skip"\n'
        )
        scene.catch_up(spark_context)
        verdict = scene.oracle.check(scene.ledger, scene.zookeeper, scene.root)
        run.judge(verdict, expected_lost=scene.oracle.lost_lines).require_exact()
        lost = read_committed(scene.ledger, "lost", scene.commit())
        earliest = watermarks(scene.broker, scene.pipeline.topic)
        assert {(row["partition"], row["from_offset"], row["until_offset"]) for row in lost} == {
            (p, before[str(p)], earliest[p][0]) for p in range(scene.partitions)
        }
        audit = scene.pipeline.audit()
        assert not audit.ok
        assert audit.totals["gap_bytes"] == missing


@pytest.mark.parametrize("moment", ["idle", "inside a batch", "between crash and restart"])
def test_row_23_partitions_added(scene, spark_context, moment):
    with fault(23, f"partitions added, {moment}") as run:
        scene.ship(2000)
        if moment == "between crash and restart":
            ended = scene.pipeline.palisade(
                "stream", "--until-caught-up", crash_point="after_pending"
            )
            assert ended.returncode == -9, ended.stderr
            grow(scene, run)
        with DriverThread(scene.pipeline, spark_context, scene.totals) as driver:
            for _ in range(repeats(2, 5)):
                if moment == "inside a batch":
                    scene.ship(2000)
                    wait_until(lambda: scene.node("pending"), within=60, every=0.002)
                else:
                    scene.wait_until_caught_up(check=lambda: require_running(driver))
                if moment != "between crash and restart":
                    grow(scene, run)
                scene.ship(2000)
                scene.wait_until_caught_up(check=lambda: require_running(driver))
        run.judge(scene.verdict()).require_exact()


def test_row_26_aborted_and_open_transactions(
    tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name, spark_context, caplog
):
    with fault(26, "transactions committed, aborted and left open") as run:
        scene = make_scene(
            tmp_path,
            kafka_bootstrap,
            zookeeper_hosts,
            znode_root,
            topic_name,
            sparse_offsets=True,
            read_timeout_seconds=5,
        )
        producer = transactional_producer(scene.broker, topic_name)
        with (
            caplog.at_level(logging.WARNING, "stream"),
            DriverThread(scene.pipeline, spark_context, scene.totals) as driver,
        ):
            for number in range(repeats(3, 10)):
                producer.begin_transaction()
                scene.oracle.send_uncounted(producer, f"aborted-{number}", 0, 300)
                producer.flush(30)
                producer.abort_transaction(30)
                producer.begin_transaction()
                opened = scene.oracle.send_uncounted(producer, f"opened-{number}", 0, 300)
                producer.flush(30)
                run.injected += 2
                scene.oracle.ship("plain", 1, 500)
                wait_until(lambda: scene.is_caught_up() or driver.ended(), within=60)
                assert not lines_of(scene, f"opened-{number}")
                producer.commit_transaction(30)
                scene.oracle.count_sent(opened)
                wait_until(
                    lambda n=number: lines_of(scene, f"opened-{n}") == 300 or driver.ended(),
                    within=60,
                )
                require_running(driver)
        run.judge(scene.verdict(plain=False)).require_exact()
        assert not told(caplog, "kafka unavailable"), "an open transaction must not time out"


def grow(scene, run):
    scene.partitions += 1
    add_partitions(scene.broker, scene.pipeline.topic, scene.partitions)
    wait_until(lambda: len(watermarks(scene.broker, scene.pipeline.topic)) == scene.partitions)
    scene.oracle.reconnect()
    run.injected += 1


def lines_of(scene, file):
    """Lines of one file in the committed output."""
    rows = read_committed(scene.ledger, "generations", scene.commit())
    name = f"{scene.oracle.run}-{file}"
    return sum(row["lines"] for row in rows if row["generation"] == name)


def told(caplog, event):
    return [one for one in caplog.records if one.getMessage() == event]


def require_running(driver):
    assert driver.is_running, repr(driver.error)
