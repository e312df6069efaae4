"""Spark's JVM as a child process whose complaints become log events instead of raw text on the terminal."""

from __future__ import annotations

import logging
import os
import threading

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

_log = logging.getLogger("spark")
_ANNOUNCEMENTS = (
    "WARNING: Using incubator modules",
    "Setting default log level",
    "To adjust logging level",
)
"""What every start says and nobody can act on."""


_started: list[JavaGateway] = []
"""The gateway of this process, once it is there: Spark allows one JVM for each process."""


def spark_gateway(conf: SparkConf) -> JavaGateway:
    """The gateway to this process's JVM; launched at the first call, or given by spark-submit."""
    if not _started:
        _started.append(_launch(conf))
    return _started[0]


def _launch(conf: SparkConf) -> JavaGateway:
    read_end, write_end = os.pipe()
    reporter = threading.Thread(target=_report, args=(read_end,), name="spark-stderr", daemon=True)
    reporter.start()
    try:
        return launch_gateway(conf, popen_kwargs={"stderr": write_end})  # type: ignore[no-untyped-call]
    finally:
        os.close(write_end)


def _report(read_end: int) -> None:
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip() and not line.startswith(_ANNOUNCEMENTS):
                _log.warning("spark says", extra={"line": line.rstrip()})
