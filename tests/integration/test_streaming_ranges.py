"""Ranges cut into several tasks, sparse topics and losses, with real Kafka, ZooKeeper and Spark."""

import random
import re
import signal
from dataclasses import replace

import polars as pl
import pytest
from confluent_kafka import Producer
from support.broker_topics import create_topic, delete_records_before, produce, watermarks
from support.pipeline import log_lines, make_pipeline, produce_file

from alerts import metric_names as names
from ingest.log_record import RecordIdentity, encode_key
from offsets.offset_range import OffsetRange, TopicPartition
from streaming.errors import RangeNotReadable
from streaming.plan.split_ranges import SplitLimits
from streaming.range_task import RangeTask, run_range_task
from streaming.spark_batch import SparkBatch, merge_results

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def pipeline(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    def make(partitions=1, **stream):
        create_topic(kafka_bootstrap, topic_name, partitions=partitions)
        return make_pipeline(
            tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name, **stream
        )

    return make


def range_task(pipeline, from_offset, until_offset, **options):
    return RangeTask(
        wanted=OffsetRange(TopicPartition(pipeline.topic, 0), from_offset, until_offset),
        properties=pipeline.job_settings().kafka_properties,
        formats={},
        unidentified_format="combined",
        counted_until={},
        top_entries=100,
        read_timeout_seconds=10,
        **options,
    )


def whole_range(pipeline, **options):
    return range_task(pipeline, *watermarks(pipeline.bootstrap, pipeline.topic)[0], **options)


def resend_at_random(pipeline, chance, lines, generation):
    """Send a file in records of one to five lines, going back now and then, and leaving out a few."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    records, next_line = [], 0
    while next_line < len(lines):
        if chance.random() < 0.2:
            next_line = max(next_line - chance.randrange(1, 12), 0)
        if chance.random() < 0.05:
            next_line = min(next_line + 2, len(lines) - 1)
        last = min(next_line + chance.randrange(1, 6), len(lines))
        identity = RecordIdentity("shop", "web", "", "combined", generation, starts[next_line])
        records.append((encode_key(identity), b"\n".join(lines[next_line:last])))
        next_line = last
    return records


def same_tables(one, other):
    assert one.accounts == other.accounts
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        columns = [c for c, kind in table.schema.items() if kind != pl.Binary]
        assert table.sort(columns).equals(other.tables[name].sort(columns)), name


def test_b19_m27_one_partition_in_six_tasks_gives_every_line_once(pipeline, spark_context):
    job = pipeline()
    produce_file(job, log_lines(60), "file", 0, pack=5)
    task = whole_range(job)

    split = SparkBatch(spark_context).run([task], SplitLimits(max_records=2))

    assert task.wanted.count == 12
    same_tables(split, merge_results([[run_range_task(task)]]))
    assert split.line_count == 60


def test_any_split_of_resent_records_gives_the_tables_of_one_task(pipeline, spark_context):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    job = pipeline()
    records = [
        record
        for number in range(2)
        for record in resend_at_random(job, chance, log_lines(80), f"file-{number}")
    ]
    produce(job.bootstrap, job.topic, [*records, *log_lines(3)])
    task = whole_range(job)
    whole = merge_results([[run_range_task(task)]])
    assert whole.tables["account"]["resent_lines"].sum() > 0

    for parts in (1, 7, 23):
        split = SparkBatch(spark_context).run([task], SplitLimits(max_records=parts))
        same_tables(split, whole)


def test_job_that_splits_its_ranges_counts_every_line_once(pipeline, spark_context):
    """Two batches; in each the file is sent twice, so that the cut falls into a re-send."""
    job = pipeline(partitions=2, min_lines_per_task=1, max_records_per_task=3)
    end = 0
    for batch in range(2):
        lines = log_lines(100, first=batch * 100)
        produce_file(job, lines, "file", 0, start=end)
        end = produce_file(job, lines, "file", 0, start=end)
        job.catch_up(spark_context)

    audit = job.audit()
    assert audit.ok, audit.problems
    assert (audit.totals["lines"], audit.totals["resent_lines"]) == (200, 200)
    assert [one.bytes for one in audit.generations] == [end]
    assert [(one.from_offset, one.until_offset) for one in audit.partitions] == [(0, 40)]


def transaction(job, producer, values, commit):
    producer.begin_transaction()
    for value in values:
        producer.produce(job.topic, value, partition=0)
    producer.flush(10)
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


@pytest.fixture
def producer(kafka_bootstrap, topic_name):
    client = Producer(
        {"bootstrap.servers": kafka_bootstrap, "transactional.id": topic_name, "log_level": 0}
    )
    client.init_transactions(30)
    return client


def test_m23_transactional_topic_is_read_without_its_aborted_records(
    pipeline, producer, spark_context
):
    job = pipeline(sparse_offsets=True, max_records_per_task=2)
    lines = log_lines(6)
    transaction(job, producer, lines[:2], commit=True)
    transaction(job, producer, [b"aborted"] * 3, commit=False)
    transaction(job, producer, lines[2:], commit=True)
    job.catch_up(spark_context)
    transaction(job, producer, [b"aborted"], commit=False)  # a batch in which nothing is visible
    job.catch_up(spark_context)

    audit = job.audit()
    assert audit.ok, audit.problems
    assert (audit.totals["lines"], audit.totals["parsed"]) == (6, 6)
    assert audit.partitions[0].until_offset == 14  # ten records and four markers
    assert job.commit().offsets[TopicPartition(job.topic, 0)] == 14


def test_transactional_topic_stops_a_job_that_does_not_expect_one(
    pipeline, producer, spark_context
):
    job = pipeline()
    transaction(job, producer, log_lines(2), commit=True)

    with pytest.raises(RangeNotReadable, match=r"first at offset 2\..*sparse_offsets = true"):
        job.catch_up(spark_context)

    assert job.commit().batch == 0


def test_open_transaction_does_not_hold_up_the_job(pipeline, producer, spark_context):
    job = pipeline(sparse_offsets=True, read_timeout_seconds=5)
    produce(job.bootstrap, job.topic, log_lines(3))
    producer.begin_transaction()
    producer.produce(job.topic, log_lines(1)[0], partition=0)
    producer.flush(10)

    job.catch_up(spark_context)
    assert job.audit().totals["lines"] == 3
    producer.commit_transaction(30)
    job.catch_up(spark_context)

    assert job.audit().totals["lines"] == 4


def test_records_deleted_after_the_batch_was_fixed_are_recorded_as_lost_with_it(
    pipeline, spark_context, monkeypatch
):
    """The batch keeps its ranges; what of them is gone stands in the ledger."""
    job = pipeline(on_data_loss="skip", max_records_per_task=4)
    produce_file(job, log_lines(100), "file", 0)
    original = SparkBatch.run

    def delete_then_run(self, tasks, *limits):
        delete_records_before(job.bootstrap, job.topic, 0, 6)
        return original(self, tasks, *limits)

    monkeypatch.setattr(SparkBatch, "run", delete_then_run)
    published = job.catch_up(spark_context)

    audit = job.audit()
    assert [(one.from_offset, one.until_offset) for one in audit.lost_ranges] == [(0, 6)]
    assert not audit.problems
    assert not audit.ok
    assert [(one.from_offset, one.until_offset) for one in audit.partitions] == [(0, 10)]
    assert audit.totals["lines"] == 40
    assert published.picture.counters[names.LOST_RECORDS.name, ()] == 6


def test_records_deleted_after_a_crash_are_recorded_as_lost_when_the_batch_is_repeated(
    pipeline, spark_context
):
    job = pipeline(on_data_loss="skip")
    produce_file(job, log_lines(100), "file", 0)
    crashed = job.palisade("stream", "--until-caught-up", crash_point="after_pending")
    assert crashed.returncode == -signal.SIGKILL, crashed.stderr
    delete_records_before(job.bootstrap, job.topic, 0, 6)

    job.catch_up(spark_context)

    audit = job.audit()
    assert [(one.from_offset, one.until_offset) for one in audit.lost_ranges] == [(0, 6)]
    assert not audit.problems
    assert audit.totals["lines"] == 40


def test_records_deleted_after_the_batch_was_fixed_stop_a_job_that_accepts_no_loss(
    pipeline, spark_context
):
    job = pipeline()
    produce_file(job, log_lines(100), "file", 0)
    task = whole_range(job)
    delete_records_before(job.bootstrap, job.topic, 0, 6)

    with pytest.raises(RangeNotReadable, match=re.escape("[0]@0..6 as lost")):
        SparkBatch(spark_context).run([replace(task)], SplitLimits(min_records=100))
