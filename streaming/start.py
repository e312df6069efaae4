"""`palisade stream`: bring up everything the loop needs, run it, and take it down again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from pyspark import SparkContext

from offsets.errors import StoreUnavailable
from offsets.zookeeper_session import ZookeeperSession
from streaming.broker_offsets import BrokerOffsets
from streaming.errors import KafkaUnavailable, StreamError, TopicMissing
from streaming.group_mirror import mirror_of
from streaming.http_server import serving
from streaming.ledger import Ledger
from streaming.ledger_files import open_ledger_files
from streaming.publish import Publisher, incident_outbox
from streaming.published import Published
from streaming.run import World, lead_and_stream
from streaming.settings import JobSettings
from streaming.spark_batch import SparkBatch
from streaming.spark_session import spark_context
from streaming.subscription import look_for_all

_log = logging.getLogger("stream")
_LOOK_AGAIN_SECONDS = 0.5

Result = TypeVar("Result")


def run_job(settings: JobSettings, stop: threading.Event, until_caught_up: bool = False) -> None:
    """Run the streaming job until `stop` is set, or until it caught up."""
    published = Published()
    with ExitStack() as parts:
        starting = parts.enter_context(_spark_starting(settings))
        address = parts.enter_context(serving(published, settings.stream.listen))
        broker = BrokerOffsets(settings.kafka)
        patience = settings.stream.wait_for_servers_seconds
        _patiently(lambda: look_for_all(broker, settings.subscription), patience, stop)
        _patiently(lambda: _zookeeper_answers(settings), patience, stop)
        outbox = parts.enter_context(incident_outbox(settings.alerts.alertmanager_url))
        mirror = mirror_of(settings.kafka, settings.stream.mirror_group)
        if mirror is not None:
            parts.callback(mirror.finish)
        world = World(
            broker=broker,
            spark=SparkBatch(starting()),
            ledger=Ledger(open_ledger_files(settings.stream.ledger)),
            publisher=Publisher(settings, published, outbox),
            stop=stop,
            mirror=mirror,
        )
        _log.info("started", extra={"metrics": f"http://{address}/metrics"})
        lead_and_stream(settings, world, until_caught_up)
    _log.info("stopped")


@contextmanager
def _spark_starting(settings: JobSettings) -> Iterator[Callable[[], SparkContext]]:
    """Start Spark in the background while the servers are looked for; gives a call that waits for it."""
    started: list[SparkContext] = []
    failed: list[Exception] = []

    def start() -> None:
        try:
            started.append(spark_context(settings.stream, f"palisade {settings.stream.job_name}"))
            _warm_up(started[0])
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=start, name="spark-start", daemon=True)
    thread.start()

    def wait() -> SparkContext:
        thread.join()
        if failed and isinstance(failed[0], StreamError):
            raise failed[0]
        if failed:
            message = (
                f"Spark did not start ({failed[0]}): check `palisade doctor` and stream.master."
            )
            raise StreamError(message) from failed[0]
        return started[0]

    try:
        yield wait
    finally:
        for context in started:
            context.stop()


def _warm_up(context: SparkContext) -> None:
    """Start the Python workers and load the libraries before the first batch needs them."""
    slots = max(context.defaultParallelism, 1)
    context.parallelize(range(slots), slots).foreachPartition(_import_task_code)


def _import_task_code(_: Iterable[int]) -> None:
    import streaming.range_task  # noqa: F401, PLC0415 - loading it is the purpose


def _zookeeper_answers(settings: JobSettings) -> None:
    with ZookeeperSession(settings.zookeeper).connected():
        return


def _patiently(
    look: Callable[[], Result], patience_seconds: float, stop: threading.Event
) -> Result:
    """Try until it works, the patience ends, or a stop is asked for."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return look()
        except (KafkaUnavailable, TopicMissing, StoreUnavailable) as error:
            if time.monotonic() >= deadline or stop.wait(_LOOK_AGAIN_SECONDS):
                raise
            _log.debug("waiting", extra={"cause": str(error)})
