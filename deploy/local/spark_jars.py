"""Jars inside PySpark that serve us beyond Spark: ZooKeeper's server, Ivy, a logger. I/O."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from deploy.local.stack_errors import ProgramMissing

_LOGGER = ("log4j-slf4j2-impl-*.jar", "slf4j-api-*.jar", "log4j-api-*.jar", "log4j-core-*.jar")
_ZOOKEEPER = (
    *_LOGGER,
    "zookeeper-*.jar",
    "netty-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "audience-annotations-*.jar",
    "commons-io-*.jar",
    "commons-lang3-*.jar",
)

LOG4J_PROPERTIES = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
# Small servers that must be up soon: the quick compiler only, and the simplest collector.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def spark_jars_folder() -> Path:
    """PySpark's `jars` folder, without importing PySpark."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise ProgramMissing(
            program="PySpark",
            remedy="run `make setup`",
            loss="neither the job nor ZooKeeper can start",
        )
    return Path(next(iter(found.submodule_search_locations))) / "jars"


def zookeeper_class_path() -> str:
    """What ZooKeeper's server needs; it starts a third sooner than with PySpark's whole folder."""
    return _class_path(_ZOOKEEPER)


def logger_class_path() -> str:
    """A logger for servers that bring none, to stand before their own jars."""
    return _class_path(_LOGGER)


def _class_path(patterns: tuple[str, ...]) -> str:
    folder = spark_jars_folder()
    return ":".join(str(jar) for pattern in patterns for jar in sorted(folder.glob(pattern)))
