"""Fixtures only: servers for the session, topics and znodes for each test, no network in unit."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# As in a Spark task: one thread. Small frames are then twice as fast; must be set before Polars is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

UNIT_FOLDER = Path(__file__).parent / "unit"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    return _refuse_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    report = yield
    return _refuse_skip(report)


def _refuse_skip(report: Any) -> Any:
    """In CI everything can be had, so a skip there is a failure with the skip's reason."""
    required = os.environ.get("PALISADE_REQUIRE_INTEGRATION") == "1"
    if required and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"PALISADE_REQUIRE_INTEGRATION=1 allows no skip. {reason}"
    return report


@pytest.fixture(autouse=True)
def no_network_in_unit_tests(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not request.path.is_relative_to(UNIT_FOLDER):
        return
    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, _refuse_unless_local(getattr(socket.socket, name)))


def _refuse_unless_local(original: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, *arguments: Any) -> Any:
        if self.family == socket.AF_UNIX:
            return original(self, *arguments)
        message = f"a unit test wanted the network {arguments}: mark it integration"
        raise RuntimeError(message)

    return guarded


def _or_skip(get: Callable[[], Any]) -> Any:
    from deploy.local.stack_errors import StackError

    try:
        return get()
    except StackError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def server_keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Keeps the servers of this test session; whatever happens to us, they end with us."""
    from deploy.local.child_process import ChildKeeper

    with ChildKeeper(tmp_path_factory.mktemp("servers")) as keeper:
        yield keeper


@pytest.fixture(scope="session")
def kafka_bootstrap(server_keeper: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """`host:port` of a real broker."""
    from support import servers

    folder = tmp_path_factory.mktemp("kafka")
    return str(_or_skip(lambda: servers.kafka_for_tests(server_keeper, folder)))


@pytest.fixture(scope="session")
def zookeeper_hosts(server_keeper: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """`host:port` of a real ZooKeeper."""
    from support import servers

    folder = tmp_path_factory.mktemp("zookeeper")
    return str(_or_skip(lambda: servers.zookeeper_for_tests(server_keeper, folder)))


@pytest.fixture(scope="session")
def prometheus_program() -> Path:
    return _program("prometheus")


@pytest.fixture(scope="session")
def promtool_program() -> Path:
    return _program("promtool")


@pytest.fixture(scope="session")
def alertmanager_program() -> Path:
    return _program("prometheus-alertmanager")


@pytest.fixture(scope="session")
def amtool_program() -> Path:
    return _program("amtool")


@pytest.fixture(scope="session")
def apache_program() -> Path:
    return _program("apache2")


@pytest.fixture(scope="session")
def grafana_program() -> Any:
    """The `GrafanaProgram` to start."""
    from support import servers

    return _or_skip(servers.grafana_program)


@pytest.fixture(scope="session")
def prometheus_server(
    server_keeper: Any, prometheus_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """A running Prometheus with our rules that scrapes only itself: `.url`, `.port`."""
    from deploy.local import loopback, prometheus

    folder = tmp_path_factory.mktemp("prometheus")
    text = prometheus.configuration({"nobody": f"{loopback.ADDRESS}:9"}, None)
    return prometheus.start_prometheus(server_keeper, prometheus_program, folder, text)


@pytest.fixture(scope="session")
def alertmanager_server(
    server_keeper: Any, alertmanager_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """A running Alertmanager whose webhook nobody answers: `.url`, `.port`, `.alerts()`."""
    from deploy.local import alertmanager

    folder = tmp_path_factory.mktemp("alertmanager")
    nobody = "http://127.0.0.1:9/notifications"
    return alertmanager.start_alertmanager(server_keeper, alertmanager_program, folder, nobody)


@pytest.fixture(scope="session")
def grafana_server(
    server_keeper: Any,
    grafana_program: Any,
    prometheus_server: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """A running Grafana with the provisioned data source: `.url`, `.port`, `.admin_password`."""
    from deploy.local import grafana

    folder = tmp_path_factory.mktemp("grafana")
    return grafana.start_grafana(server_keeper, grafana_program, folder, prometheus_server.url)


def _program(name: str) -> Path:
    from support import servers

    found: Path = _or_skip(lambda: servers.program(name))
    return found


@pytest.fixture(scope="session")
def spark_context() -> Iterator[Any]:
    """One Spark for all tests: two threads, four attempts a task."""
    from deploy.local.java import find_java
    from streaming.settings import StreamSettings

    _or_skip(lambda: find_java(os.environ))
    from streaming.spark_session import spark_context as start_spark

    context = start_spark(StreamSettings(master="local[2,4]"), "palisade-tests")
    yield context
    context.stop()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest, kafka_bootstrap: str) -> Iterator[str]:
    """A topic name of this test alone; the topic is removed afterwards if the test made it."""
    from support.broker_topics import delete_topic_if_present

    name = _unique_name(request)
    yield name
    delete_topic_if_present(kafka_bootstrap, name)


@pytest.fixture
def znode_root(request: pytest.FixtureRequest, zookeeper_hosts: str) -> Iterator[str]:
    """A znode path of this test alone; removed with everything below it afterwards."""
    from kazoo.client import KazooClient

    root = f"/{_unique_name(request)}"
    yield root
    client = KazooClient(hosts=zookeeper_hosts)
    client.start(timeout=15)
    try:
        if client.exists(root):
            client.delete(root, recursive=True)
    finally:
        client.stop()
        client.close()


def _unique_name(request: pytest.FixtureRequest) -> str:
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:80]
    return f"{readable}-{secrets.token_hex(4)}"
