"""Start Spark for this process: local by default, or whatever `stream.master` or spark-submit says.

We use Spark's RDDs as its own direct stream did: one partition for each task's input, Python objects in and
out. That needs no DataFrame machinery in the driver, and a batch starts in a third of the time.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext

from streaming.java import find_java
from streaming.settings import StreamSettings
from streaming.spark_gateway import spark_gateway

LOCAL_MASTER = "local[*,4]"
"""All cores, and four attempts for each task: plain `local[*]` never retries."""

_QUIET_LOGGING = Path(__file__).with_name("log4j2.properties")
_JVM_STARTS_FAST = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
# Spark owns the parallelism: a task that starts threads of its own takes a core from its neighbour.
_WORKER_ENVIRONMENT = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}


def spark_context(settings: StreamSettings, app_name: str) -> SparkContext:
    """A running SparkContext for this process."""
    conf = SparkConf().setAppName(app_name)
    for key, value in _defaults().items():
        conf.setIfMissing(key, value)
    if settings.master:
        conf.setMaster(settings.master)
    conf.setIfMissing("spark.master", LOCAL_MASTER)
    for key, value in settings.spark_conf.items():
        conf.set(key, value)
    if (conf.get("spark.master") or "").startswith("local"):
        _prepare_local(conf)
    find_java(os.environ)  # says what is wrong in one sentence, before Spark does in fifty
    context = SparkContext(
        conf=conf, environment=dict(_WORKER_ENVIRONMENT), gateway=spark_gateway(conf)
    )
    context.setLogLevel("ERROR")
    return context


def _defaults() -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        # Four small tasks take 90 ms instead of 200 ms: no delayed acknowledgements between JVM and Python.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.redaction.regex": "(?i)secret|password|token|sasl",
        # Batches are small and frequent: waiting for a data-local executor only delays them.
        "spark.locality.wait": "0s",
    }


def _prepare_local(conf: SparkConf) -> None:
    """Keep a local Spark on loopback, quiet, and on this very interpreter."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # The JVM reads these before our configuration reaches it.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = f"-Dlog4j2.configurationFile={_QUIET_LOGGING.as_uri()} {_JVM_STARTS_FAST}"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)
    conf.setIfMissing("spark.driver.host", "127.0.0.1")
    conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
