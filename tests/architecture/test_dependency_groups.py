"""A web host installs the shipper without Spark: nothing on its way may import what its group does not bring."""

import subprocess
import sys

import pytest

NOT_ON_A_WEB_HOST = {"pyspark", "polars", "pyarrow", "kazoo", "httpx", "numpy", "yaml"}


@pytest.mark.parametrize(
    "modules",
    [
        pytest.param("palisade", id="the command"),
        pytest.param("palisade, ingest.run, ingest.ship_exporter", id="the shipper"),
    ],
)
def test_shipper_needs_nothing_of_the_job(modules):
    code = f"import sys, {modules}; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert NOT_ON_A_WEB_HOST & set(loaded) == set()
