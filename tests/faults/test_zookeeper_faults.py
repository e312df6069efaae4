"""ZooKeeper that comes back with nothing."""

import shutil

import pytest
from support.drivers import DriverThread
from support.fault_scene import make_scene
from support.fault_servers import OwnZookeeper
from support.fault_table import fault
from support.waiting import wait_until

from offsets.errors import OffsetsError

pytestmark = [pytest.mark.faults, pytest.mark.integration, pytest.mark.timeout(900)]


def test_row_15_wiped_zookeeper_is_not_a_fresh_start(
    tmp_path, server_keeper, kafka_bootstrap, topic_name, spark_context
):
    with fault(15, "ZooKeeper's data wiped under a running driver") as run:
        own = OwnZookeeper(server_keeper, tmp_path / "zookeeper")
        scene = make_scene(tmp_path, kafka_bootstrap, own.address, "/faults", topic_name)
        scene.ship(2000)
        with DriverThread(scene.pipeline, spark_context, scene.totals) as driver:
            scene.wait_until_caught_up()
            run.judge(scene.verdict()).require_exact()
            files = sorted(path.name for path in (scene.ledger / "account").iterdir())
            own.stop()
            shutil.rmtree(tmp_path / "zookeeper" / "data")
            own.start()
            run.injected = 1
            scene.ship(2000)
            error = wait_until(driver.ended, within=60)
        assert isinstance(error, OffsetsError), repr(error)
        for _ in range(2):
            with pytest.raises(OffsetsError):
                scene.pipeline.catch_up(spark_context)
            run.injected += 1
        assert sorted(path.name for path in (scene.ledger / "account").iterdir()) == files
        assert scene.commit()["batch"] == 0
        own.stop()
