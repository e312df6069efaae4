"""Real servers for integration tests: those named in the environment, else local ones.

`PALISADE_TEST_KAFKA` and `PALISADE_TEST_ZOOKEEPER` name running servers. Where a server cannot be
had, the functions raise `StackError`, whose text is the command that would help;
`tests/conftest.py` turns it into a skip.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from deploy.local import grafana, java, kafka, zookeeper
from deploy.local.child_process import ChildKeeper
from deploy.local.stack_errors import ProgramMissing

PROJECT_ROOT = Path(__file__).resolve().parents[2]
_DEBIAN_PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
    "apache2": "apache2",
    "systemd-analyze": "systemd",
}


def cache_folder() -> Path:
    """Where downloads are kept between runs."""
    return Path(os.environ.get("PALISADE_CACHE") or PROJECT_ROOT / "var" / "cache").resolve()


def kafka_for_tests(keeper: ChildKeeper, folder: Path) -> str:
    """`host:port` of a broker."""
    given = os.environ.get("PALISADE_TEST_KAFKA")
    if given:
        return given
    program = kafka.find_broker(keeper, java.find_java(os.environ), cache_folder(), _ignore)
    return kafka.start_kafka(keeper, program, folder).bootstrap_servers


def zookeeper_for_tests(keeper: ChildKeeper, folder: Path) -> str:
    """`host:port` of a ZooKeeper."""
    given = os.environ.get("PALISADE_TEST_ZOOKEEPER")
    if given:
        return given
    return zookeeper.start_zookeeper(keeper, java.find_java(os.environ), folder).hosts


def program(name: str) -> Path:
    """A program on PATH (or in sbin, which PATH of a plain user lacks)."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    found = shutil.which(name, path=path)
    if found is None:
        package = _DEBIAN_PACKAGES.get(name, name)
        raise ProgramMissing(name, f"`apt-get install {package}`", "this test is not run")
    return Path(found)


def grafana_program() -> grafana.GrafanaProgram:
    """The machine's Grafana, else the one from an archive beside the project."""
    archives = sorted((PROJECT_ROOT.parent / "shared" / "grafana").glob("*.tar.xz"))
    try:
        return grafana.find_grafana(os.environ)
    except ProgramMissing:
        if not archives or os.environ.get("PALISADE_GRAFANA_HOME"):
            raise
    return grafana.unpack_grafana(archives[-1], cache_folder())


def _ignore(_: str) -> None:
    """Progress of a download is of no interest in a test run."""
