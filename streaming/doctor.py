"""`palisade doctor`: look at everything Palisade needs, and say what to do about each thing that is missing.

Each check is one function that returns a finding; none of them changes anything but a probe file in the ledger folder.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

import httpx
from rich.console import Console
from rich.table import Table

from alerts.settings import AlertsSettings
from ingest.settings import KafkaSettings
from offsets.errors import OffsetsError
from offsets.settings import ZookeeperSettings
from offsets.zookeeper_session import ZookeeperSession
from palisade_output import printable
from streaming.broker_offsets import BrokerOffsets
from streaming.errors import JavaUnusable, StreamError, TopicMissing
from streaming.java import OLDEST_VERSION, find_java
from streaming.ledger_files import open_ledger_files
from streaming.settings import StreamSettings, subscription
from streaming.subscription import look

Verdict = Literal["ok", "problem", "not used"]
_MAX_SKEW_SECONDS = 5.0
_HTTP_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was found, and what to do about it."""

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether something must be done."""
        return self.verdict == "problem"

    def to_json(self) -> dict[str, str]:
        """As in `palisade doctor --json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Examined:
    """The settings that the checks look at."""

    kafka: KafkaSettings
    zookeeper: ZookeeperSettings
    stream: StreamSettings
    alerts: AlertsSettings
    grafana_url: str


def examine(examined: Examined, environ: Mapping[str, str]) -> list[Finding]:
    """Run every check; a check that breaks is a finding, not a crash."""
    checks: list[Callable[[], Finding]] = [
        check_python,
        lambda: check_java(environ),
        lambda: check_kafka(examined.kafka),
        lambda: check_topic(examined.kafka, examined.stream),
        lambda: check_zookeeper(examined.zookeeper),
        lambda: check_ledger(examined.stream.ledger),
        lambda: check_listen_address(examined.stream.listen),
        lambda: check_http(
            "Prometheus", examined.alerts.prometheus_url, "/-/ready", "alerts.prometheus_url"
        ),
        lambda: check_http(
            "Alertmanager", examined.alerts.alertmanager_url, "/-/ready", "alerts.alertmanager_url"
        ),
        lambda: check_http("Grafana", examined.grafana_url, "/api/health", "grafana.url"),
        lambda: check_clock(
            [examined.alerts.prometheus_url, examined.alerts.alertmanager_url, examined.grafana_url]
        ),
    ]
    return [check() for check in checks]


def check_python() -> Finding:
    """The interpreter."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("Python", "ok", f"{version} at {sys.executable}")


def check_java(environ: Mapping[str, str]) -> Finding:
    """Spark and the embedded servers need Java 17 or newer."""
    try:
        return Finding("Java", "ok", f"{OLDEST_VERSION} or newer at {find_java(environ)}")
    except JavaUnusable as error:
        return Finding("Java", "problem", str(error), "install it, or set JAVA_HOME")


def check_kafka(kafka: KafkaSettings) -> Finding:
    """Whether the brokers answer at all."""
    try:
        BrokerOffsets(kafka, timeout_seconds=_HTTP_TIMEOUT_SECONDS).topic(kafka.topic)
    except TopicMissing:
        return Finding("Kafka", "ok", f"answers at {kafka.bootstrap_servers}")
    except StreamError as error:
        return Finding(
            "Kafka", "problem", str(error), "start Kafka, or set kafka.bootstrap_servers"
        )
    return Finding("Kafka", "ok", f"answers at {kafka.bootstrap_servers}")


def check_topic(kafka: KafkaSettings, stream: StreamSettings) -> Finding:
    """Whether the topics and partitions that the job is to read exist."""
    wanted = subscription(kafka, stream)
    try:
        broker = BrokerOffsets(kafka, timeout_seconds=_HTTP_TIMEOUT_SECONDS)
        found = look(broker, wanted)
    except StreamError:
        return Finding("Topic", "problem", "unknown: Kafka does not answer", "see Kafka")
    missing = wanted.missing(found)
    if missing and kafka.create_topic and wanted.named_topics == (kafka.topic,):
        return Finding("Topic", "ok", f"'{kafka.topic}' will be created by the shipper")
    if missing:
        remedy = "create it, or set kafka.create_topic = true"
        return Finding("Topic", "problem", f"not there: {', '.join(missing)}", remedy)
    names = ", ".join(f"'{name}'" for name in sorted(found.topic_ids))
    return Finding("Topic", "ok", f"{names} with {len(found.available)} partitions")


def check_zookeeper(zookeeper: ZookeeperSettings) -> Finding:
    """Whether ZooKeeper gives us a session."""
    hasty = zookeeper.model_copy(update={"connect_timeout_seconds": _HTTP_TIMEOUT_SECONDS})
    try:
        with ZookeeperSession(hasty).connected():
            return Finding("ZooKeeper", "ok", f"answers at {zookeeper.hosts}")
    except OffsetsError as error:
        return Finding(
            "ZooKeeper", "problem", str(error), "start ZooKeeper, or set zookeeper.hosts"
        )


def check_ledger(address: str) -> Finding:
    """Whether the ledger can be written."""
    try:
        files = open_ledger_files(address)
        files.write("probe/doctor", b"palisade doctor")
        files.remove("probe/doctor")
    except StreamError as error:
        return Finding("Ledger", "problem", str(error), "make it writable, or set stream.ledger")
    return Finding("Ledger", "ok", f"{address} can be written")


def check_listen_address(listen: str) -> Finding:
    """Whether the job's own port is free, or taken by the job itself."""
    host, _, port = listen.rpartition(":")
    try:
        with socket.create_server((host, int(port))):
            return Finding("Own port", "ok", f"{listen} is free")
    except (OSError, ValueError, OverflowError) as error:
        answer = _get(f"http://{listen}/healthz")
        if answer is not None and answer.is_success:
            return Finding("Own port", "ok", f"{listen} is served by a running job")
        return Finding(
            "Own port",
            "problem",
            f"{listen} cannot be used ({error})",
            "set stream.listen to a free host:port",
        )


def check_http(name: str, url: str, path: str, key: str) -> Finding:
    """Whether an optional server is ready."""
    if not url:
        return Finding(name, "not used", f"{key} is not set")
    answer = _get(url.rstrip("/") + path)
    if answer is None:
        return Finding(name, "problem", f"no answer from {url}", f"start {name}, or mend {key}")
    if not answer.is_success:
        return Finding(
            name, "problem", f"{url} answers {answer.status_code}", f"look at {name}'s log"
        )
    return Finding(name, "ok", f"ready at {url}")


def check_clock(urls: list[str]) -> Finding:
    """Whether this machine's clock agrees with the servers' (the Date of their answers)."""
    skews = []
    for url in filter(None, urls):
        answer = _get(url)
        date = answer.headers.get("date") if answer is not None else None
        if date:
            skews.append(time.time() - parsedate_to_datetime(date).timestamp())
    if not skews:
        return Finding("Clock", "not used", "no server to compare with")
    worst = max(skews, key=abs)
    if abs(worst) > _MAX_SKEW_SECONDS:
        return Finding(
            "Clock",
            "problem",
            f"differs by {worst:.0f} s from the servers'",
            "synchronise it (NTP)",
        )
    return Finding("Clock", "ok", f"within {abs(worst):.0f} s of the servers'")


def show_findings(findings: list[Finding], console: Console | None = None) -> None:
    """Print the findings; remedies stand beside what they mend."""
    console = console or Console(highlight=False)
    colours = {"ok": "green", "problem": "red", "not used": "dim"}
    table = Table(show_edge=False)
    for name in ("what", "verdict", "found", "what to do"):
        table.add_column(name, overflow="fold")
    for one in findings:
        verdict = f"[{colours[one.verdict]}]{one.verdict}[/]"
        found = printable(one.found).replace("[", "\\[")
        table.add_row(one.name, verdict, found, printable(one.remedy).replace("[", "\\["))
    console.print(table)


def _get(url: str) -> httpx.Response | None:
    try:
        return httpx.get(
            url, timeout=_HTTP_TIMEOUT_SECONDS, follow_redirects=False, trust_env=False
        )
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
