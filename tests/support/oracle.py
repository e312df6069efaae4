"""An oracle that shares no code with the product: writes lines, remembers them, and counts what came out.

Every line carries its id (run, file, sequence number) and a checksum in the request path, and the same checksum as
response size. A line's time, method and status follow from its checksum, so the committed `load` table splits into
hundreds of small cells, each with a count and a sum that only the right set of lines gives: a lost line and a
doubled one cannot cancel out.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from kazoo.client import KazooClient

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
STATUSES = (200, 201, 204, 206, 301, 302, 304, 404, 410, 500, 503)
LINES_PER_RECORD = 20
_ENTRY = re.compile(r"^b(\d{12})-e(\d{20})\.parquet$")
_BLOCK = re.compile(r"^compact-(\d{12})-(\d{12})-e(\d{20})\.json$")
_REQUEST = re.compile(rb'"[A-Z]+ /(\w+)/([\w-]+)/(\d+)/(\d+) HTTP/1\.1"')

Cell = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class OracleLine:
    """One access-log line and the cell of the `load` table that it belongs to."""

    text: bytes
    cell: Cell
    checksum: int


@dataclass(slots=True)
class OracleFile:
    """One log file as its shipper sees it: lines with their byte offsets, and where sending stands."""

    name: str
    partition: int
    lines: list[OracleLine] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    size: int = 0
    sent: int = 0


@dataclass(slots=True)
class Verdict:
    """What the output says against what was written."""

    lines: int
    lost: int
    doubled: int
    resent: int
    batches: int
    problems: list[str]

    def require_exact(self) -> Verdict:
        """Fail unless every line is in the output exactly once and every range follows the last."""
        assert not self.problems, self.problems[:10]
        assert (self.lost, self.doubled) == (0, 0)
        return self


class Oracle:
    """Generator, shipper and judge of one run."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, seed: int) -> None:
        self.seed = seed
        self.run = f"r{seed:x}"
        self.random = random.Random(seed)
        self.topic = topic
        self.bootstrap = bootstrap
        self.files: dict[str, OracleFile] = {}
        self.records_confirmed = 0
        self.lines_sent = 0
        self.lines_uncounted = 0
        self.lost_lines = 0
        self._record_lines: dict[tuple[int, int], tuple[str, int, int]] = {}
        self._gone: set[tuple[str, int]] = set()
        self._base = int(time.time()) // 60 * 60 - 120
        self._written = folder / f"oracle-{self.run}.jsonl"
        self._producer = _new_producer(bootstrap)
        print(f"oracle seed {seed}")

    @property
    def line_count(self) -> int:
        """Lines that are confirmed by Kafka, each counted once."""
        return sum(file.sent for file in self.files.values())

    @property
    def resent_count(self) -> int:
        """Lines that were sent again."""
        return self.lines_sent - self.line_count - self.lines_uncounted

    def ship(self, file: str, partition: int, count: int, resend: float = 0.2) -> int:
        """Write lines and send them as a shipper would, now and then again from an earlier place."""
        target = self._write(file, partition, count)
        return self._finish(target, self._send(self._producer, target, resend), self._producer)

    def reconnect(self) -> None:
        """Learn of new partitions at once."""
        self._producer = _new_producer(self.bootstrap)

    def ship_many(self, lines: int, partitions: int, resend: float = 0.2) -> None:
        """Spread lines over one file for each partition."""
        for partition in range(partitions):
            self.ship(f"file-{partition}", partition, lines // partitions, resend)

    def send_uncounted(
        self, producer: Producer, file: str, partition: int, count: int
    ) -> OracleFile:
        """Send lines by another producer; they count only once `count_sent` says so."""
        target = self._write(file, partition, count)
        self._send(producer, target, resend=0)
        self.lines_uncounted += count
        return target

    def count_sent(self, target: OracleFile) -> None:
        """The lines of `send_uncounted` are committed: from now on they must be in the output."""
        self.lines_uncounted -= len(target.lines) - target.sent
        self._note(target)

    def forget_records(self, partition: int, offsets: range) -> int:
        """Kafka deleted these records unread: the bytes of their lines, which are expected no more.

        Only for records that were sent once.
        """
        size = 0
        for offset in offsets:
            file, begin, until = self._record_lines[partition, offset]
            self._gone |= {(file, number) for number in range(begin, until)}
            size += sum(len(one.text) + 1 for one in self.files[file].lines[begin:until])
        self.lost_lines = len(self._gone)
        return size

    def check(self, ledger: Path, zookeeper: str, root: str, plain: bool = True) -> Verdict:
        """Read the committed Parquet files and the commit node without the product, and compare.

        On a `plain` topic every offset is a record; behind transactions or compaction some are not.
        """
        commit = read_commit(zookeeper, root)
        account = read_committed(ledger, "account", commit)
        problems = [*_untiled(account, read_committed(ledger, "lost", commit), commit["offsets"])]
        read = sum(row["records"] for row in account)
        spanned = sum(row["until_offset"] - row["from_offset"] for row in account)
        if plain and read != spanned:
            problems.append(f"{read} records read of {spanned} offsets committed")
        resent = sum(row["resent_lines"] for row in account)
        if resent != self.resent_count:
            problems.append(f"{resent} lines told to be re-sends, {self.resent_count} were")
        lost, doubled, wrong = self._compare_cells(read_committed(ledger, "load", commit))
        problems += wrong
        problems += self._compare_files(read_committed(ledger, "generations", commit))
        return Verdict(self.line_count, lost, doubled, resent, commit["batch"], problems)

    def check_kafka(self) -> list[str]:
        """Every confirmed line is in Kafka with its checksum; what else is there is named."""
        found: dict[str, set[int]] = {name: set() for name in self.files}
        problems = []
        for value in _read_values(self.bootstrap, self.topic):
            for line in value.split(b"\n"):
                match = _REQUEST.search(line)
                run, file, number, checksum = (part.decode() for part in match.groups())  # type: ignore[union-attr]
                if run != self.run or file not in found:
                    problems.append(f"foreign line {line!r}")
                elif int(checksum) != self._checksum(file, int(number)):
                    problems.append(f"corrupt line {line!r}")
                else:
                    found[file].add(int(number))
        for name, file in self.files.items():
            missing = set(range(file.sent)) - found[name]
            if missing:
                problems.append(f"{name}: {len(missing)} confirmed lines are not in Kafka")
        return problems

    def _write(self, name: str, partition: int, count: int) -> OracleFile:
        file = self.files.setdefault(name, OracleFile(name, partition))
        for _ in range(count):
            line = self._line(name, len(file.lines))
            file.lines.append(line)
            file.starts.append(file.size)
            file.size += len(line.text) + 1
        return file

    def _checksum(self, file: str, number: int) -> int:
        return zlib.crc32(f"{self.run}/{file}/{number}".encode())

    def _line(self, file: str, number: int) -> OracleLine:
        checksum = self._checksum(file, number)
        second = self._base + checksum % 50
        method = METHODS[checksum // 50 % len(METHODS)]
        status = STATUSES[checksum // 350 % len(STATUSES)]
        moment = datetime.fromtimestamp(second, tz=UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        text = (
            f"192.0.2.{checksum % 250} - - [{moment}] "
            f'"{method} /{self.run}/{file}/{number}/{checksum} HTTP/1.1" {status} {checksum} "-" "oracle"'
        )
        return OracleLine(text.encode(), (second // 10 * 10, method, status), checksum)

    def _send(self, producer: Producer, file: OracleFile, resend: float) -> list[object]:
        failures: list[object] = []
        position = file.sent
        while position < len(file.lines):
            until = min(position + self.random.randint(1, LINES_PER_RECORD), len(file.lines))
            value = b"\n".join(line.text for line in file.lines[position:until])
            identity = f"palisade1|shop|web-1|shop.example|combined|{self.run}-{file.name}"
            producer.produce(
                self.topic,
                value,
                key=f"{identity}|{file.starts[position]}|".encode(),
                partition=file.partition,
                headers=[("path", f"/var/log/{file.name}.log".encode())],
                on_delivery=partial(self._confirm, (file.name, position, until), failures),
            )
            producer.poll(0)
            self.lines_sent += until - position
            position = until
            if self.random.random() < resend:
                position = max(position - self.random.randint(1, 3 * LINES_PER_RECORD), 0)
        return failures

    def _confirm(
        self, lines: tuple[str, int, int], failures: list[object], error: object, message: Message
    ) -> None:
        if error is None:
            self.records_confirmed += 1
            self._record_lines[message.partition(), message.offset()] = lines
        else:
            failures.append(error)

    def _finish(self, file: OracleFile, failures: list[object], producer: Producer) -> int:
        left = producer.flush(180)
        assert left == 0 and not failures, f"{left} records unconfirmed, failures: {failures[:3]}"
        return self._note(file)

    def _note(self, file: OracleFile) -> int:
        """Remember on disk what Kafka confirmed."""
        with self._written.open("a") as ledger:
            row = {"file": file.name, "from": file.sent, "until": len(file.lines)}
            ledger.write(json.dumps(row) + "\n")
            ledger.flush()
            os.fsync(ledger.fileno())
        file.sent = len(file.lines)
        return file.sent

    def _expected(self) -> dict[Cell, list[int]]:
        """Count and sum of every cell, from what is written on disk."""
        cells: dict[Cell, list[int]] = {}
        for text in self._written.read_text().splitlines():
            row = json.loads(text)
            for number in range(row["from"], row["until"]):
                if (row["file"], number) in self._gone:
                    continue
                line = self.files[row["file"]].lines[number]
                counted = cells.setdefault(line.cell, [0, 0])
                counted[0] += 1
                counted[1] += line.checksum
        return cells

    def _compare_cells(self, load: Sequence[dict[str, Any]]) -> tuple[int, int, list[str]]:
        found: dict[Cell, list[int]] = {}
        for row in load:
            counted = found.setdefault((row["window"], row["method"], row["status"]), [0, 0])
            counted[0] += row["requests"]
            counted[1] += row["bytes"]
        lost = doubled = 0
        wrong = []
        expected = self._expected()
        for cell in sorted({*expected, *found}):
            wanted, got = expected.get(cell, [0, 0]), found.get(cell, [0, 0])
            lost += max(wanted[0] - got[0], 0)
            doubled += max(got[0] - wanted[0], 0)
            if wanted != got:
                wrong.append(
                    f"{cell}: {got[0]} lines of sum {got[1]}, not {wanted[0]} of {wanted[1]}"
                )
        return lost, doubled, wrong

    def _compare_files(self, generations: Sequence[dict[str, Any]]) -> Iterator[str]:
        for name, file in self.files.items():
            if file.sent == 0:
                continue
            rows = [row for row in generations if row["generation"] == f"{self.run}-{name}"]
            lines = sum(row["lines"] for row in rows)
            end = max((row["end_offset"] for row in rows), default=0)
            gaps = sum(row["gap_bytes"] for row in rows)
            size = file.starts[file.sent] if file.sent < len(file.starts) else file.size
            gone = [number for gone_file, number in self._gone if gone_file == name]
            missing = sum(len(file.lines[number].text) + 1 for number in gone)
            if (lines, end, gaps) != (file.sent - len(gone), size, missing):
                yield (
                    f"{name}: {lines} lines to byte {end} with {gaps} bytes missing, "
                    f"not {file.sent - len(gone)} lines to byte {size} with {missing}"
                )


def read_node(zookeeper: str, path: str) -> bytes:
    """The bytes in a node; empty when it is not there."""
    client = KazooClient(hosts=zookeeper)
    client.start(timeout=15)
    try:
        return bytes(client.get(path)[0]) if client.exists(path) else b""
    finally:
        client.stop()
        client.close()


def read_commit(zookeeper: str, root: str, job: str = "palisade") -> dict[str, Any]:
    """The body of the commit node, its checksum verified; batch 0 before the first commit."""
    data = read_node(zookeeper, f"{root}/pipelines/{job}/commit")
    if not data:
        return {"batch": 0, "epoch": 0, "offsets": {}, "epochs": []}
    envelope = json.loads(data)
    body: dict[str, Any] = envelope["body"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert zlib.crc32(text.encode()) == envelope["crc"], "the commit node's checksum is wrong"
    return body


def read_committed(ledger: Path, table: str, commit: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table over all committed batches, with their batch and, where not compacted, epoch."""
    rows = []
    compacted = 0
    for first, last, name, parts in _blocks(ledger):
        assert first == compacted + 1, f"the block {name} does not follow batch {compacted}"
        compacted = last
        for part in range(parts.get(table, 0)):
            rows += pq.ParquetFile(ledger / table / f"{name}.{part:04d}.parquet").read().to_pylist()
    for path in sorted((ledger / table).glob("b*.parquet")):
        match = _ENTRY.match(path.name)
        assert match, f"a file that nobody knows: {path}"
        batch, epoch = int(match[1]), int(match[2])
        committed = compacted < batch <= commit["batch"]
        if committed and epoch == _epoch_of(batch, commit["epochs"]):
            for row in pq.ParquetFile(path).read().to_pylist():
                rows.append({**row, "batch": batch, "epoch": epoch})
    return rows


def _blocks(ledger: Path) -> Iterator[tuple[int, int, str, dict[str, int]]]:
    """Blocks of compacted batches: first and last batch, name, and the parts of each table."""
    reached = 0
    markers = ((_BLOCK.match(path.name), path) for path in (ledger / "blocks").glob("*.json"))
    found = [(int(m[1]), int(m[2]), int(m[3]), path) for m, path in markers if m]
    for first, last, _, path in sorted(found, key=lambda one: (one[0], -one[1], -one[2])):
        if first > reached:
            reached = last
            yield first, last, path.stem, json.loads(path.read_text())["parts"]


def _epoch_of(batch: int, epochs: Iterable[Sequence[int]]) -> int | None:
    """The epoch of the leader that committed a batch: the last one that began at or before it."""
    led = [(first, epoch) for epoch, first in epochs if first <= batch]
    return max(led)[1] if led else None


def _untiled(
    account: Sequence[dict[str, Any]],
    lost: Sequence[dict[str, Any]],
    offsets: dict[str, dict[str, int]],
) -> Iterator[str]:
    """Where a range does not begin where the last one ended; a lost range counts as one."""
    reached: dict[tuple[str, int], int] = {}
    for row in sorted([*account, *lost], key=lambda row: (row["batch"], row["from_offset"])):
        place = row["topic"], row["partition"]
        expected = reached.get(place, 0)
        if row["from_offset"] != expected:
            yield f"batch {row['batch']}: {place} starts at {row['from_offset']}, not at {expected}"
        reached[place] = row["until_offset"]
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if reached.get((topic, int(partition)), 0) != offset:
                yield f"{topic}[{partition}] is committed until {offset}, not where reading ended"


def _new_producer(bootstrap: str, **more: object) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 0,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            **more,
        }
    )


def transactional_producer(bootstrap: str, name: str) -> Producer:
    """A producer that is ready to begin transactions."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(30)
    return producer


def _read_values(bootstrap: str, topic: str) -> Iterator[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle-never-commits",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
            low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            consumer.assign([TopicPartition(topic, partition, low)])
            while (message := consumer.poll(10)) is not None and message.error() is None:
                yield message.value()
    finally:
        consumer.close()


def seed_of(environment: Callable[[str], str | None] = os.environ.get) -> int:
    """The seed to use: the one asked for by `PALISADE_FAULT_SEED`, else a new one."""
    given = environment("PALISADE_FAULT_SEED")
    return int(given) if given else random.SystemRandom().randrange(2**32)
