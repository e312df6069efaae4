"""Topics that vanish, come back as others, or seem to shrink: the job stops rather than count wrong lines."""

import pytest
from kazoo.client import KazooClient
from support.broker_topics import create_topic, delete_topic_if_present
from support.drivers import DriverThread
from support.fault_scene import make_scene
from support.fault_table import fault
from support.waiting import wait_until

from offsets.errors import DataLoss
from offsets.reconcile import Available
from streaming.broker_offsets import BrokerOffsets
from streaming.errors import StreamError

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    return make_scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name)


def test_row_21_deleted_topic_stops_the_running_job_and_keeps_its_offsets(scene, spark_context):
    with fault(21, "topic deleted while running") as run:
        scene.ship(400)
        with DriverThread(scene.pipeline, spark_context, scene.totals) as driver:
            scene.wait_until_caught_up()
            before = scene.commit()
            delete_topic_if_present(scene.broker, scene.pipeline.topic)
            run.injected = 1
            error = wait_until(driver.ended, within=30)

        assert isinstance(error, StreamError | DataLoss), repr(error)
        assert scene.pipeline.topic in str(error)
        assert scene.commit() == before
        assert before["offsets"][scene.pipeline.topic].keys() == {"0", "1"}
        run.judge(scene.verdict()).require_exact()


@pytest.mark.parametrize("lines", [200, 400, 800], ids=["fewer", "equal", "more"])
def test_row_22_recreated_topic_stops_the_job(scene, spark_context, lines):
    with fault(22, f"topic recreated, {lines} of 400 lines") as run:
        scene.ship(400, resend=0)
        scene.catch_up(spark_context)
        before = scene.commit()
        verdict = run.judge(scene.verdict())
        _recreate(scene)
        run.injected = 1
        scene.oracle.ship_many(lines, scene.partitions)

        with pytest.raises(DataLoss, match="deleted and created again"):
            scene.pipeline.catch_up(spark_context)

        assert scene.commit() == before
        verdict.require_exact()


def test_row_22_topic_recreated_between_crash_and_restart_is_not_read_as_the_old_one(
    scene, spark_context
):
    """The ranges of the unfinished batch look valid in the new topic."""
    with fault(22, "topic recreated while a batch is pending") as run:
        scene.ship(400, resend=0)
        scene.catch_up(spark_context)
        scene.ship(400, resend=0)
        crashed = scene.pipeline.palisade(
            "stream", "--until-caught-up", crash_point="after_pending"
        )
        assert crashed.returncode == -9
        assert scene.node("pending")
        before = scene.commit()
        _recreate(scene)
        run.injected = 1
        scene.oracle.ship_many(1600, scene.partitions, resend=0)

        with pytest.raises((DataLoss, StreamError)):
            scene.pipeline.catch_up(spark_context)

        assert scene.commit() == before


def test_row_24_latest_that_goes_back_for_one_read_is_read_again(scene, spark_context):
    with fault(24, "latest offset goes back for one read") as run:
        scene.ship(400)
        scene.catch_up(spark_context)
        broker = StaleOnce(scene.pipeline.configuration.kafka)
        with DriverThread(scene.pipeline, spark_context, scene.totals, broker=broker) as driver:
            wait_until(lambda: driver.status.get("leader"), within=30)
            for _ in range(3):
                broker.lower_next = 1
                wait_until(lambda: broker.lower_next == 0 or driver.ended(), within=30)
                assert driver.is_running, repr(driver.error)
                run.injected += 1
                scene.ship(100)
                scene.wait_until_caught_up(check=lambda: _require_running(driver))
        run.judge(scene.verdict()).require_exact()


def test_row_25_latest_below_the_stored_offset_stops_the_job_before_planning(
    scene, spark_context, zookeeper_hosts
):
    with fault(25, "stored offset beyond the end of the topic") as run:
        scene.ship(400)
        scene.catch_up(spark_context)
        run.judge(scene.verdict()).require_exact()
        path = f"{scene.root}/pipelines/palisade/commit"
        forged = _with_offsets_raised_by(scene.node("commit"), 1000)
        _set_node(zookeeper_hosts, path, forged)
        run.injected = 1

        with pytest.raises(DataLoss, match="Kafka ends below what was read already"):
            scene.pipeline.catch_up(spark_context)

        assert scene.node("commit") == forged
        assert not scene.node("pending")


class StaleOnce(BrokerOffsets):
    """A broker client whose next answers show an end below what was there before."""

    lower_next = 0

    def available(self, partitions):
        found = super().available(partitions)
        if self.lower_next == 0:
            return found
        self.lower_next -= 1
        return {one: Available(has.earliest, has.earliest) for one, has in found.items()}


def _require_running(driver):
    assert driver.is_running, repr(driver.error)


def _recreate(scene):
    delete_topic_if_present(scene.broker, scene.pipeline.topic)
    create_topic(scene.broker, scene.pipeline.topic, scene.partitions)


def _with_offsets_raised_by(data, amount):
    import json
    import zlib

    envelope = json.loads(data)
    for partitions in envelope["body"]["offsets"].values():
        for partition in partitions:
            partitions[partition] += amount
    body = json.dumps(envelope["body"], sort_keys=True, separators=(",", ":"))
    envelope["crc"] = zlib.crc32(body.encode())
    return json.dumps(envelope).encode()


def _set_node(hosts, path, data):
    client = KazooClient(hosts=hosts)
    client.start(timeout=15)
    try:
        client.set(path, data)
    finally:
        client.stop()
        client.close()
