"""The Kafka broker's jars: resolved once with the Ivy inside PySpark, kept in the cache folder.

I/O. The folder appears only when it is complete (written beside it and renamed), and a lock lets
two processes that start at once download once.
"""

from __future__ import annotations

import fcntl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from deploy.local.child_process import ChildCommand, ChildKeeper
from deploy.local.spark_jars import spark_jars_folder
from deploy.local.stack_errors import BrokerUnavailable, ServerDidNotStart

KAFKA_VERSION = "4.1.0"
_DOWNLOAD_SECONDS = 600
_POLL_SECONDS = 0.2
# `bundle` beside `jar`: five of the jars are published as OSGi bundles.
_JAR_TYPES = ("jar", "bundle")
_IVY_FILE = f"""<ivy-module version="2.0">
  <info organisation="palisade" module="broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default"/>
  </dependencies>
</ivy-module>
"""


def broker_jars(
    keeper: ChildKeeper, cache: Path, java: Path, report: Callable[[str], None]
) -> Path:
    """The folder of the broker's jars, downloaded into `cache` when it is not there yet."""
    folder = cache / f"kafka-{KAFKA_VERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "kafka.lock", keeper):
        # Another process may have finished while we waited for the lock.
        if not folder.is_dir():
            report(f"Downloading the Kafka broker {KAFKA_VERSION} (45 files, 43 MB, only once) …")
            _download(keeper, folder, java)
    return folder


def _download(keeper: ChildKeeper, folder: Path, java: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="kafka-", dir=folder.parent) as temporary:
        _resolve(keeper, Path(temporary), java)
        jars = Path(temporary) / "lib"
        if not (jars / f"kafka_2.13-{KAFKA_VERSION}.jar").is_file():
            message = f"Kafka {KAFKA_VERSION} was not among the files that arrived: try again."
            raise BrokerUnavailable(message)
        jars.rename(folder)


def _resolve(keeper: ChildKeeper, work: Path, java: Path) -> None:
    (work / "ivy.xml").write_text(_IVY_FILE, encoding="utf-8")
    ivy = next(spark_jars_folder().glob("ivy-*.jar"))
    pattern = str(work / "lib" / "[artifact]-[revision](-[classifier]).[ext]")
    command: list[str | Path] = [java, "-cp", ivy, "org.apache.ivy.Main", "-ivy", work / "ivy.xml"]
    command += ["-cache", work / "ivy", "-retrieve", pattern, "-types", *_JAR_TYPES]
    # A child like the servers: it ends with us, and with Ctrl-C.
    child = keeper.start(ChildCommand("download", command, work / "ivy.log"))
    try:
        child.wait_until_ready(lambda: child.exit_code() == 0, within_seconds=_DOWNLOAD_SECONDS)
    except ServerDidNotStart as error:
        child.stop()
        reason = _reason(child.last_log_lines(400))
        message = f"The Kafka broker could not be downloaded ({reason}): {_remedy(work)}"
        raise BrokerUnavailable(message) from error


def _remedy(work: Path) -> str:
    return (
        "check the way to Maven Central (behind a proxy: JAVA_TOOL_OPTIONS with -Dhttps.proxyHost "
        f"and -Dhttps.proxyPort), or copy its jars to {work.parent / f'kafka-{KAFKA_VERSION}'}."
    )


def _reason(lines: list[str]) -> str:
    """The last telling line of what Ivy wrote."""
    telling = [line for line in lines if "exception" in line.lower() or "not found" in line.lower()]
    return (telling or lines or ["no answer"])[-1].strip()[:200]


@contextmanager
def _locked(path: Path, keeper: ChildKeeper) -> Iterator[None]:
    with path.open("a", encoding="utf-8") as lock:
        while not _lock_taken(lock):
            if keeper.closed:
                message = "Stopped while another process downloads the Kafka broker."
                raise BrokerUnavailable(message)
            time.sleep(_POLL_SECONDS)
        yield


def _lock_taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
