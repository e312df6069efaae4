"""Start a demo so that the first window is there soon: what takes long starts first, side by side. I/O.

1. The broker's program is there (downloaded once). 2. Alertmanager and Prometheus, which start at once.
3. The job: Spark needs longest, and waits for its servers. 4. Kafka and ZooKeeper meanwhile.
5. Shipper and generator. 6. Grafana, when the first windows are there to be shown.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from deploy.local import alertmanager, grafana, java, kafka, loopback, prometheus, zookeeper
from deploy.local.demo_stack import DemoStack
from deploy.local.stack_errors import ProgramMissing

_POLL_SECONDS = 0.1
_GRAFANA_WAITS_SECONDS = 30.0
_Found = TypeVar("_Found")


def start_demo(
    stack: DemoStack, cache: Path, report: Callable[[str], None], stop: threading.Event
) -> None:
    """Start everything; returns early, with everything ended, when `stop` is set meanwhile."""
    java_program = java.find_java(os.environ)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(kafka.find_broker, stack.keeper, java_program, cache, report)  # 1
        if not _all_done([found], stack, stop):
            return
    _start_monitoring(stack)  # 2
    for missing in stack.missing.values():
        report(str(missing))
    stack.write_configuration()
    configuration = stack.configuration_file
    stack.start_python("stream", "palisade", "stream", "--config", configuration)  # 3
    if not _start_servers(stack, java_program, found.result(), stop):  # 4
        return
    log, ledger = stack.folder / "logs" / "access.log", stack.folder / "generator.json"
    stack.start_python("ship", "palisade", "ship", "--config", configuration)  # 5
    stack.start_python("traffic", "deploy.local.traffic", "--log", log, "--ledger", ledger)


def _start_servers(
    stack: DemoStack, java_program: Path, broker: kafka.BrokerProgram, stop: threading.Event
) -> bool:
    with ThreadPoolExecutor(2) as pool:
        starts = [
            pool.submit(_start_kafka, stack, broker),
            pool.submit(_start_zookeeper, stack, java_program),
        ]
        return _all_done(starts, stack, stop)


def _all_done(starts: list[Future[_Found]], stack: DemoStack, stop: threading.Event) -> bool:
    """Whether all succeeded. At the first failure, which is raised, or a signal, the others end too."""
    while not stop.is_set():
        done, waiting = wait(starts, timeout=_POLL_SECONDS, return_when=FIRST_EXCEPTION)
        failures = [error for error in (start.exception() for start in done) if error]
        if failures:
            stack.keeper.close()
            raise failures[0]
        if not waiting:
            return True
    stack.keeper.close()
    return False


def _start_kafka(stack: DemoStack, program: kafka.BrokerProgram) -> None:
    folder, port = stack.folder / "kafka", stack.ports.kafka
    stack.processes["kafka"] = kafka.start_kafka(stack.keeper, program, folder, port).process


def _start_zookeeper(stack: DemoStack, java_program: Path) -> None:
    folder, port = stack.folder / "zookeeper", stack.ports.zookeeper
    server = zookeeper.start_zookeeper(stack.keeper, java_program, folder, port)
    stack.processes["zookeeper"] = server.process


def _start_monitoring(stack: DemoStack) -> None:
    """Alertmanager, then Prometheus that reports to it; Grafana, which asks Prometheus, is promised."""
    program = _found(stack, "alertmanager", lambda: alertmanager.find_alertmanager(os.environ))
    if program:
        stack.alertmanager = alertmanager.start_alertmanager(
            stack.keeper, program, stack.folder / "alertmanager", stack.webhook.url
        )
        stack.processes["alertmanager"] = stack.alertmanager.process
    program = _found(stack, "prometheus", lambda: prometheus.find_prometheus(os.environ))
    if program:
        text = prometheus.configuration(_targets(stack), _alertmanager_target(stack))
        stack.prometheus = prometheus.start_prometheus(
            stack.keeper, program, stack.folder / "prometheus", text
        )
        stack.processes["prometheus"] = stack.prometheus.process
    home = _found(stack, "grafana", lambda: grafana.find_grafana(os.environ))
    if home:
        stack.grafana_start = stack.background.submit(_start_grafana, stack, home)


def _start_grafana(stack: DemoStack, program: grafana.GrafanaProgram) -> None:  # 6
    deadline = time.monotonic() + _GRAFANA_WAITS_SECONDS
    while time.monotonic() < deadline and not (stack.status() or {}).get("batch"):
        if stack.closing.wait(_POLL_SECONDS):
            return
    url = stack.prometheus.url if stack.prometheus else f"http://{loopback.ADDRESS}:9090"
    stack.grafana = grafana.start_grafana(stack.keeper, program, stack.folder / "grafana", url)
    stack.processes["grafana"] = stack.grafana.process
    stack.write_configuration()


def _found(stack: DemoStack, name: str, find: Callable[[], _Found]) -> _Found | None:
    try:
        return find()
    except ProgramMissing as missing:
        stack.missing[name] = missing
        return None


def _targets(stack: DemoStack) -> dict[str, str]:
    return {
        "palisade-stream": f"{loopback.ADDRESS}:{stack.ports.stream}",
        "palisade-ship": f"{loopback.ADDRESS}:{stack.ports.ship}",
    }


def _alertmanager_target(stack: DemoStack) -> str | None:
    return f"{loopback.ADDRESS}:{stack.alertmanager.port}" if stack.alertmanager else None
