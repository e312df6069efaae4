"""The range reader against a real broker: exactly the range, or a clear refusal.

Of Spark's suites not applicable: R4 (sorting of executors): any free worker reads any range; C3 as 100 threads of one
process: a worker process runs one task at a time, so the test runs many tasks over several workers instead.
"""

import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.broker_topics import create_topic, delete_records_before, produce

from ingest.kafka_connection import client_properties
from ingest.log_record import RecordIdentity, encode_key
from ingest.settings import KafkaSettings
from offsets.offset_range import OffsetRange, TopicPartition
from streaming import kafka_range
from streaming.broker_offsets import BrokerOffsets
from streaming.errors import KafkaUnavailable, RangeNotReadable, TaskFailed, TopicMissing
from streaming.kafka_range import read_range
from streaming.range_task import RangeTask, run_range_task
from streaming.spark_batch import SparkBatch

pytestmark = pytest.mark.integration

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "0",
}


@pytest.fixture
def kafka(kafka_bootstrap, topic_name):
    return KafkaSettings(bootstrap_servers=kafka_bootstrap, topic=topic_name)


@pytest.fixture
def numbers(kafka):
    """A topic whose value at offset n is n."""

    def fill(count):
        create_topic(kafka.bootstrap_servers, kafka.topic)
        produce(kafka.bootstrap_servers, kafka.topic, [str(n).encode() for n in range(count)])

    return fill


def span(kafka, from_offset, until_offset, partition=0):
    return OffsetRange(TopicPartition(kafka.topic, partition), from_offset, until_offset)


def read(kafka, from_offset, until_offset, partition=0, timeout=10, properties=None):
    wanted = span(kafka, from_offset, until_offset, partition)
    found = read_range(properties or client_properties(kafka), wanted, timeout)
    return [m.value() for m in found.messages]


def task(kafka, from_offset, until_offset, **options):
    return RangeTask(
        wanted=span(kafka, from_offset, until_offset),
        properties=client_properties(kafka),
        formats={},
        unidentified_format="combined",
        counted_until={},
        top_entries=10,
        read_timeout_seconds=10,
        **options,
    )


def transactional(kafka, name="writer"):
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": f"{kafka.topic}-{name}",
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    return producer


def transaction(producer, topic, values, commit):
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(10)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def latest(kafka):
    place = TopicPartition(kafka.topic, 0)
    return BrokerOffsets(kafka).latest([place])[place]


def test_r1_range_returns_exactly_its_records(numbers, kafka):
    numbers(4)

    assert read(kafka, 0, 4) == [b"0", b"1", b"2", b"3"]
    assert read(kafka, 1, 3) == [b"1", b"2"]
    assert read(kafka, 2, 2) == []


def test_r1_range_past_the_end_is_refused(numbers, kafka):
    numbers(1)

    with pytest.raises(RangeNotReadable, match=r"the partition ends at 1.*truncated or recreated"):
        read(kafka, 0, 2)


def test_range_whose_start_is_past_the_end_is_refused(numbers, kafka):
    numbers(1)

    with pytest.raises(
        RangeNotReadable, match=r"offset 5 is not in Kafka, the partition ends at 1"
    ):
        read(kafka, 5, 7)


def test_r2_compacted_topic_gives_what_survived(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic, config=COMPACTED)
    for key, value in [(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"a", b"3"), (b"c", b"1")]:
        produce(kafka.bootstrap_servers, kafka.topic, [(key, value)])
        time.sleep(0.15)  # each record in a segment of its own: only closed segments are compacted
    survivors = [b"1", b"3", b"1"]
    deadline = time.monotonic() + 90
    while read(kafka, 0, 5) != survivors:
        assert time.monotonic() < deadline, "the broker did not compact"
        time.sleep(0.5)
        produce(kafka.bootstrap_servers, kafka.topic, [(b"later", b"")])

    refused = run_range_task(task(kafka, 0, 5))
    accepted = run_range_task(task(kafka, 0, 5, sparse_offsets=True))

    assert "2 of 5 records are missing, the first at offset 0" in refused.failure
    assert "stream.sparse_offsets = true" in refused.failure
    assert accepted.account.records == 3
    assert read(kafka, 0, 2) == []


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_r3_records_written_later_never_appear(numbers, kafka, count):
    numbers(count)
    expected = [str(n).encode() for n in range(count)]
    assert read(kafka, 0, count) == expected
    produce(kafka.bootstrap_servers, kafka.topic, [b"later"])

    assert read(kafka, 0, count) == expected


def test_deleted_offset_is_an_error_and_never_a_jump(numbers, kafka):
    numbers(3)
    delete_records_before(kafka.bootstrap_servers, kafka.topic, 0, 2)

    with pytest.raises(
        RangeNotReadable, match=r"offset 0 was deleted, Kafka holds this partition from 2 on"
    ):
        read(kafka, 0, 3)


@pytest.mark.parametrize(
    ("first_kept", "lost", "records"), [(2, (0, 2), 3), (5, (0, 5), 0), (9, (0, 5), 0)]
)
def test_accepted_loss_is_given_back_with_what_is_left(numbers, kafka, first_kept, lost, records):
    numbers(10)
    delete_records_before(kafka.bootstrap_servers, kafka.topic, 0, first_kept)

    result = run_range_task(task(kafka, 0, 5, skip_lost=True))

    assert result.failure is None
    assert result.lost == [span(kafka, *lost)]
    assert (result.account.from_offset, result.account.until_offset) == (0, 5)
    assert result.account.records == records


def test_loss_that_is_accepted_returns_no_record_twice(kafka):
    """Section 1.8: small segments and a retention that overtook the reader."""
    small = {"segment.bytes": "1048576", "segment.ms": "50", "retention.bytes": "40"}
    create_topic(kafka.bootstrap_servers, kafka.topic, config=small)
    produce(kafka.bootstrap_servers, kafka.topic, [str(n).encode() for n in range(50)])
    delete_records_before(kafka.bootstrap_servers, kafka.topic, 0, 20)

    found = read_range(client_properties(kafka), span(kafka, 0, 50), 10, skip_lost=True)

    values = [m.value() for m in found.messages]
    assert values == [str(n).encode() for n in range(20, 50)]
    assert len(values) == len(set(values))
    assert found.lost == [span(kafka, 0, 20)]


def test_b17_m23_aborted_records_never_appear_and_are_not_waited_for(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic)
    producer = transactional(kafka)
    transaction(producer, kafka.topic, [b"kept"], commit=True)
    transaction(producer, kafka.topic, [b"aborted"], commit=False)

    assert latest(kafka) == 4  # two records and their two markers
    started = time.monotonic()
    assert read(kafka, 0, 4) == [b"kept"]
    assert time.monotonic() - started < 5


def test_m23_batches_of_three_offsets_with_every_kind_of_invisible_record(kafka):
    """Whole batch invisible, first, last, and one in the middle; an invisible range is empty, not late."""
    create_topic(kafka.bootstrap_servers, kafka.topic)
    producer = transactional(kafka)
    transaction(producer, kafka.topic, [b"x", b"x"], commit=False)  # 0 1, marker 2
    transaction(producer, kafka.topic, [b"x"], commit=False)  # 3, marker 4
    transaction(producer, kafka.topic, [b"a", b"b"], commit=True)  # 5 6, marker 7
    transaction(producer, kafka.topic, [b"c"], commit=True)  # 8, marker 9
    assert latest(kafka) == 10

    assert [read(kafka, start, start + 3) for start in (0, 3, 6)] == [[], [b"a"], [b"b", b"c"]]
    assert read(kafka, 9, 10) == []

    result = run_range_task(task(kafka, 0, 3, sparse_offsets=True))
    assert (result.failure, result.account.records, result.account.until_offset) == (None, 0, 3)
    refused = run_range_task(task(kafka, 6, 9))
    assert "1 of 3 records are missing, the first at offset 7" in refused.failure


def test_b17_open_transaction_hides_its_records_and_times_nothing_out(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic)
    transaction(transactional(kafka), kafka.topic, [b"done"], commit=True)
    other = transactional(kafka, "open")
    other.begin_transaction()
    other.produce(kafka.topic, b"open", partition=0)
    other.flush(10)

    end = latest(kafka)
    started = time.monotonic()

    assert end == 2
    assert read(kafka, 0, end) == [b"done"]
    assert time.monotonic() - started < 5
    other.commit_transaction(30)
    assert latest(kafka) == 4
    assert read(kafka, 2, 4) == [b"open"]


def test_b18_m24_read_uncommitted_is_never_used_even_when_asked_for(kafka):
    create_topic(kafka.bootstrap_servers, kafka.topic)
    transaction(transactional(kafka), kafka.topic, [b"aborted"], commit=False)
    asked = {**client_properties(kafka), "isolation.level": "read_uncommitted"}

    assert read(kafka, 0, 2, properties=asked) == []


def test_c1_consumer_is_used_again_for_the_same_connection(numbers, kafka):
    numbers(5)
    connection = tuple(sorted(client_properties(kafka).items()))

    read(kafka, 0, 5)
    first = kafka_range._consumers[connection]
    read(kafka, 0, 5)

    assert kafka_range._consumers[connection] is first


def test_c2_attempt_after_a_failure_starts_with_a_new_consumer(numbers, kafka):
    numbers(5)
    connection = tuple(sorted(client_properties(kafka).items()))
    read(kafka, 0, 5)
    failed = kafka_range._consumers[connection]

    with pytest.raises(RangeNotReadable):
        read(kafka, 0, 6)

    assert connection not in kafka_range._consumers
    assert read(kafka, 0, 5) == [b"0", b"1", b"2", b"3", b"4"]
    assert kafka_range._consumers[connection] is not failed


def test_c3_many_tasks_over_reused_workers_each_get_their_full_sequence(
    numbers, kafka, spark_context
):
    numbers(1000)
    properties, chance = client_properties(kafka), random.Random(7)
    spans = []
    for _ in range(100):
        start = chance.randrange(1000)
        spans.append(span(kafka, start, chance.randrange(start, 1001)))

    def offsets(wanted):
        return [m.offset() for m in read_range(properties, wanted, 10).messages]

    read_by_tasks = spark_context.parallelize(spans, 100).map(offsets).collect()

    assert read_by_tasks == [list(range(s.from_offset, s.until_offset)) for s in spans]


def test_m25_prefetched_records_of_one_range_never_reach_the_next(kafka):
    """The consumer has fetched far past the end of a range when it is given the next one."""
    create_topic(kafka.bootstrap_servers, kafka.topic, partitions=2)
    for partition in (0, 1):
        values = [f"{partition}:{n}".encode() for n in range(5000)]
        produce(kafka.bootstrap_servers, kafka.topic, values, partition)
    chance = random.Random(11)
    for _ in range(60):
        partition, start = chance.randrange(2), chance.randrange(5000)
        until = min(start + chance.randrange(1, 50), 5000)
        expected = [f"{partition}:{n}".encode() for n in range(start, until)]
        assert read(kafka, start, until, partition) == expected


def test_sockets_and_threads_stay_flat_over_many_reads(numbers, kafka):
    numbers(20)
    read(kafka, 0, 20)
    descriptors, threads = _descriptors(), _native_threads()

    for start in range(300):
        read(kafka, start % 20, 20)

    assert _descriptors() <= descriptors + 2
    assert _native_threads() <= threads + 2
    assert threading.active_count() < 20


def test_range_of_few_packed_records_is_not_waited_for(numbers, kafka):
    """A call of the client waits until it has all it asked for: asking for more than there is costs half a second."""
    numbers(20)
    read(kafka, 0, 20)
    started = time.monotonic()
    for _ in range(5):
        read(kafka, 0, 20)

    assert time.monotonic() - started < 1.5


def test_m26_m28_poison_records_are_counted_and_block_nothing(kafka):
    """Null, empty, huge, binary, and times that no clock can have shown."""
    far = {"message.timestamp.after.max.ms": str(2**62), "max.message.bytes": "6000000"}
    create_topic(kafka.bootstrap_servers, kafka.topic, config=far)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "message.max.bytes": 6_000_000,
            "log_level": 0,
        }
    )
    key = encode_key(RecordIdentity("shop", "web", "", "combined", "g", 0))
    now = int(time.time() * 1000)
    records = [
        (None, None, now),
        (key, None, now),
        (None, b"", now),
        (None, b"\x00\xff\n\xfe", now),
        (None, b"x" * 5_000_000, now),
        (None, b"y", 2**53),
        (None, b"y", 1),
    ]
    for record_key, value, timestamp in records:
        producer.produce(kafka.topic, value, record_key, partition=0, timestamp=timestamp)
    assert producer.flush(30) == 0

    result = run_range_task(task(kafka, 0, len(records)))

    assert result.failure is None
    account = result.account
    assert (account.records, account.empty_records) == (7, 2)
    assert (account.lines, account.quarantined, account.parsed) == (6, 6, 0)
    assert 0 < account.last_timestamp_ms <= now + 60_000


def test_unexpected_failure_names_the_range_and_no_log_text(numbers, kafka, monkeypatch):
    numbers(3)

    def explode(*_):
        text = "GET /secret-of-a-visitor"
        raise ValueError(text)

    monkeypatch.setattr("streaming.range_task.admit_records", explode)
    with pytest.raises(TaskFailed) as failure:
        run_range_task(task(kafka, 0, 3))

    assert f"{kafka.topic}[0]@0..3: the task failed with ValueError in explode" in str(
        failure.value
    )
    assert "secret" not in str(failure.value)
    assert failure.value.__suppress_context__


def test_unexpected_failure_reaches_the_driver_with_its_range(numbers, kafka, spark_context):
    numbers(3)
    broken = task(kafka, 0, 3)
    object.__setattr__(broken, "counted_until", None)
    object.__setattr__(broken, "unidentified_format", 5)

    with pytest.raises(TaskFailed, match=r"\[0\]@\d+\.\.\d: the task failed with"):
        SparkBatch(spark_context).run([broken])


def test_missing_topic_is_named_with_the_remedy(kafka):
    with pytest.raises(TopicMissing, match=r"does not exist.*create_topic = true"):
        BrokerOffsets(kafka).topic(kafka.topic)


def test_unreachable_broker_is_one_sentence_with_the_remedy():
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:1")

    with pytest.raises(KafkaUnavailable, match=r"127.0.0.1:1 did not answer.*bootstrap_servers"):
        BrokerOffsets(nowhere, timeout_seconds=1).topic("access-log")


def test_silent_broker_ends_the_task_with_partition_and_offset():
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:1", topic="access-log")

    with pytest.raises(
        KafkaUnavailable, match=r"access-log\[0\]@5..9: no record arrived at offset 5"
    ):
        read(nowhere, 5, 9, timeout=1)


def _descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def _native_threads():
    return len(list(Path("/proc/self/task").iterdir()))
