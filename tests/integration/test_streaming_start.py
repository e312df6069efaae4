"""Where the job starts, what it reads, and what it does when topics and partitions come and go.

Names carry the ids of the rows they show (D.. direct stream suite, M.. micro-batch source suite, B.. relation suite,
F.. offset reader suite of Spark's own tests). Rows of those suites that do not apply to a driver that reads exact
ranges in batches, and why:

| row | why it does not apply |
| --- | --- |
| R4 | tasks have no preferred executor: a range is read by whichever worker is free |
| C3 | a worker process runs one task at a time: its consumer is never used by two |
| F1-F4 | the isolation level is no setting: always read_committed |
| F6, B1-B3, B13, B15, B21, B23 | ranges never hold markers for earliest or latest, nor an end to be resolved later |
| F13, F14 | partitions are looked up in every cycle (a few milliseconds), so there is no cache to expire |
| B4 | headers are no column: only the path header is read, by the range task |
| B10 | there is one start time for all partitions |
| B14, B24, M29 | there is no DataFrame to be evaluated twice, and no V1 or V2 source |
| B18, M24 | read_uncommitted is not offered: aborted records would be counted |
| M1 | there is no asynchronous progress: a batch is committed before the next is planned |
| M8, M9 | there is no minimum size of a batch to wait for: a batch is due by time |
| M20-M22 | the reader's group is never joined, and there are no joins of streams |
| M25 | a consumer is assigned anew for each range: nothing fetched for another range is left |
| M33 (strategy error) | a time without a later record means the end; starting there loses nothing |

Rates (D8-D14, M2, M6, M7), ranges (R1-R3, C1, C2, F5, F8, F9, B17, B19, M23, M26-M28), metrics (M10, M30) and stored
formats (O1-O3, M14-M16) have their own modules.
"""

import random
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from support.broker_topics import (
    add_partitions,
    admin,
    create_topic,
    delete_records_before,
    delete_topic_if_present,
    produce,
)
from support.pipeline import log_lines, make_pipeline
from support.waiting import wait_until

from alerts import metric_names as names
from offsets.errors import DataLoss, NothingToRead, StartRefused
from offsets.offset_range import TopicPartition
from streaming.broker_offsets import BrokerOffsets
from streaming.errors import TopicMissing
from streaming.spark_batch import SparkBatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


class Scene:
    """Topics of one test, and jobs over them."""

    def __init__(self, folder, bootstrap, zookeeper, root, prefix):
        self._folder = folder
        self._zookeeper = zookeeper
        self._root = root
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.made = []

    def topic(self, name, partitions=1, records=0):
        full = f"{self.prefix}-{name}"
        create_topic(self.bootstrap, full, partitions)
        self.made.append(full)
        for partition in range(partitions if records else 0):
            self.send(full, records, partition)
        return full

    def send(self, topic, records, partition=0):
        produce(self.bootstrap, topic, log_lines(records), partition)

    def delete(self, topic):
        delete_topic_if_present(self.bootstrap, topic)
        client = admin(self.bootstrap)
        wait_until(lambda: topic not in client.list_topics(timeout=10).topics)

    def recreate(self, topic, partitions=1, records=0):
        self.delete(topic)
        create_topic(self.bootstrap, topic, partitions)
        for partition in range(partitions if records else 0):
            self.send(topic, records, partition)

    def job(self, **stream):
        return make_pipeline(
            self._folder, self.bootstrap, self._zookeeper, self._root, "unused", **stream
        )

    def pattern(self, names="[a-z]+"):
        return f"{self.prefix}-{names}"

    def clean(self):
        for topic in self.made:
            delete_topic_if_present(self.bootstrap, topic)


@pytest.fixture
def scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    made = Scene(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name)
    yield made
    made.clean()


def lines_of(job):
    return job.audit().totals["lines"]


def ranges_of(job):
    """For each batch and partition what was read, with how many records."""
    account = job.ledger.read_all("account", job.commit())
    columns = ("topic", "partition", "from_offset", "until_offset", "records")
    return [] if account is None else account.select(columns).rows()


def counts_equal_ranges(job):
    return all(until - start == records for *_, start, until, records in ranges_of(job))


# Where a new job starts


def test_d1_several_topics_with_one_started_later_give_exactly_the_rest(scene, spark_context):
    topics = [scene.topic(name, records=16) for name in ("a", "b", "c")]
    offsets = {f"{topics[0]}:0": 2, f"{topics[1]}:0": 0, f"{topics[2]}:0": 0}
    job = scene.job(topics=topics, start_at="offsets", start_offsets=offsets)

    job.catch_up(spark_context)

    assert lines_of(job) == 46
    assert counts_equal_ranges(job)


def test_d2_pattern_reads_the_topics_that_match_from_where_it_was_told(scene, spark_context):
    a, b, c = (scene.topic(name, records=16) for name in ("a", "b", "c"))
    scene.topic("d9", records=16)
    offsets = {f"{a}:0": 3, f"{b}:0": 4, f"{c}:0": 0}
    job = scene.job(topic_pattern=scene.pattern(), start_at="offsets", start_offsets=offsets)

    job.catch_up(spark_context)

    assert lines_of(job) == 41
    assert counts_equal_ranges(job)
    assert {one.topic for one in job.commit().offsets} == {a, b, c}


def test_d3_m5_latest_never_delivers_what_was_there_and_keeps_its_start_over_a_restart(
    scene, spark_context
):
    topic = scene.topic("a", records=7)
    job = scene.job(topics=[topic], start_at="latest")
    job.catch_up(spark_context)
    scene.send(topic, 5)

    job.catch_up(spark_context)

    assert ranges_of(job) == [(topic, 0, 7, 12, 5)]


def test_d4_single_partition_at_a_given_offset_delivers_nothing_before_it(scene, spark_context):
    topic = scene.topic("a", partitions=2, records=15)
    job = scene.job(partitions=[f"{topic}:1"], start_at="offsets", start_offsets={f"{topic}:1": 11})

    job.catch_up(spark_context)

    assert ranges_of(job) == [(topic, 1, 11, 15, 4)]


def test_d5_restart_continues_where_the_commit_stopped_and_counts_each_record_once(
    scene, spark_context
):
    topic = scene.topic("a", records=10)
    job = scene.job(topics=[topic])
    job.catch_up(spark_context)
    first = lines_of(job)
    scene.send(topic, 10)

    published = job.catch_up(spark_context)

    assert (first, lines_of(job)) == (10, 20)
    assert ranges_of(job) == [(topic, 0, 0, 10, 10), (topic, 0, 10, 20, 10)]
    assert published.picture.counters[names.RECORDS.name, ()] == 20


def test_d7_reported_records_are_the_records_that_were_sent(scene, spark_context):
    topics = [scene.topic(name, partitions=2, records=6) for name in ("a", "b")]
    job = scene.job(topics=topics)

    published = job.catch_up(spark_context)

    assert published.picture.counters[names.RECORDS.name, ()] == 24
    assert sum(records for *_, records in ranges_of(job)) == 24


STARTS = ("earliest", "latest", "offsets", "time")
WAYS = ("list", "pattern", "assign")


@pytest.mark.parametrize("on_data_loss", ["stop", "skip"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("start", STARTS)
def test_m32_every_start_with_every_way_of_naming_the_input(
    scene, spark_context, start, way, on_data_loss
):
    topic = scene.topic("a", partitions=2)
    base = int(time.time() * 1000) - 3_600_000
    for partition in (0, 1):
        send_at(scene, topic, partition, [base + second * 1000 for second in range(5)])
    job = scene.job(
        on_data_loss=on_data_loss, **named(scene, topic, way), **started(topic, start, base + 2500)
    )
    job.catch_up(spark_context)
    scene.send(topic, 2)
    if way != "assign":
        add_partitions(scene.bootstrap, topic, 3)
        scene.send(topic, 4, partition=2)

    job.catch_up(spark_context)

    first = {"earliest": 0, "latest": 5, "offsets": 1, "time": 3}[start]
    read = {one.partition: (one.from_offset, one.until_offset) for one in job.audit().partitions}
    assert read[0] == (first, 7)
    assert read.get(1, (5, 5)) == (first, 5)
    assert read.get(2, (0, 4)) == (0, 4)
    assert (2 in read) == (way != "assign")
    assert counts_equal_ranges(job)
    assert job.audit().ok


def send_at(scene, topic, partition, milliseconds):
    producer = Producer({"bootstrap.servers": scene.bootstrap, "log_level": 0})
    for line, moment in zip(log_lines(len(milliseconds)), milliseconds, strict=True):
        producer.produce(topic, line, partition=partition, timestamp=moment)
    assert producer.flush(30) == 0


def named(scene, topic, way):
    if way == "list":
        return {"topics": [topic]}
    if way == "pattern":
        return {"topic_pattern": scene.pattern()}
    return {"partitions": [f"{topic}:0", f"{topic}:1"]}


def started(topic, start, moment):
    if start == "offsets":
        return {"start_at": start, "start_offsets": {f"{topic}:0": 1, f"{topic}:1": 1}}
    if start == "time":
        text = datetime.fromtimestamp(moment / 1000, tz=UTC).isoformat()
        return {"start_at": start, "start_time": text}
    return {"start_at": start}


def test_m33_time_after_the_last_record_starts_at_the_end(scene, spark_context):
    topic = scene.topic("a", records=4)
    job = scene.job(topics=[topic], start_at="time", start_time="2200-01-01T00:00:00+00:00")
    job.catch_up(spark_context)
    scene.send(topic, 3)

    job.catch_up(spark_context)

    assert ranges_of(job) == [(topic, 0, 4, 7, 3)]


@pytest.mark.parametrize("given", [[0, 1], [0, 1, 2, 3]])
def test_f7_f10_b20_start_offsets_for_other_partitions_than_exist_are_refused(
    scene, spark_context, given
):
    topic = scene.topic("a", partitions=3, records=1)
    offsets = {f"{topic}:{partition}": 0 for partition in given}
    job = scene.job(topics=[topic], start_at="offsets", start_offsets=offsets)

    with pytest.raises(StartRefused, match=r"start_offsets names .*but the partitions to read are"):
        job.catch_up(spark_context)

    assert job.commit().offsets == {}


def test_b22_start_after_the_end_is_refused(scene, spark_context):
    topic = scene.topic("a", records=3)
    job = scene.job(topics=[topic], start_at="offsets", start_offsets={f"{topic}:0": 4})

    with pytest.raises(StartRefused, match=r"at 4 \(it holds 0 to 3\)"):
        job.catch_up(spark_context)


def test_b16_topic_that_does_not_exist_is_named(scene, spark_context):
    there = scene.topic("a")

    with pytest.raises(TopicMissing, match="Topic 'no-such-topic' does not exist"):
        scene.job(topics=[there, "no-such-topic"]).catch_up(spark_context)
    with pytest.raises(TopicMissing, match="A topic that matches"):
        scene.job(topic_pattern="no-such-.*").catch_up(spark_context)


# What appears while the job runs


def test_new_topic_of_a_pattern_is_read_from_its_first_record_whatever_the_start(
    scene, spark_context
):
    old = scene.topic("a", records=3)
    job = scene.job(topic_pattern=scene.pattern(), start_at="latest")
    job.catch_up(spark_context)
    new = scene.topic("b", records=4)

    job.catch_up(spark_context)

    assert ranges_of(job) == [(new, 0, 0, 4, 4)]
    assert set(job.commit().topic_ids) == {old, new}


def test_added_partition_that_lost_its_beginning_before_it_was_seen_is_loud(scene, spark_context):
    topic = scene.topic("a", records=3)
    job = scene.job(topics=[topic])
    job.catch_up(spark_context)
    add_partitions(scene.bootstrap, topic, 2)
    scene.send(topic, 6, partition=1)
    delete_records_before(scene.bootstrap, topic, 1, 2)

    with pytest.raises(DataLoss, match=r"\[1\]@0\.\.2"):
        job.catch_up(spark_context)


def test_m19_idle_topic_neither_resets_nor_repeats_under_a_limit(scene, spark_context):
    small, large = scene.topic("a", records=2), scene.topic("b", records=40)
    job = scene.job(
        topics=[small, large], max_rate_per_partition=5, backpressure=False, batch_seconds=1
    )

    job.catch_up(spark_context)

    assert job.audit().ok
    assert lines_of(job) == 42
    small_only = [row for row in ranges_of(job) if row[0] == small]
    assert small_only[-1][3] == 2
    assert sum(records for *_, records in small_only) == 2


def test_topic_taken_off_the_list_rests_and_goes_on_when_it_is_back(scene, spark_context):
    a, b = scene.topic("a", records=2), scene.topic("b", records=2)
    scene.job(topics=[a, b]).catch_up(spark_context)
    scene.send(b, 3)
    scene.job(topics=[a]).catch_up(spark_context)
    scene.send(a, 1)

    job = scene.job(topics=[a, b])
    job.catch_up(spark_context)

    assert lines_of(job) == 8
    assert job.audit().ok


@pytest.mark.parametrize("change", ["partitions added", "other topics listed"])
def test_m34_batch_that_was_started_is_repeated_over_its_own_ranges(
    scene, spark_context, monkeypatch, change
):
    topic, other = scene.topic("a", records=5), scene.topic("b", records=3)
    job = scene.job(topics=[topic])
    with monkeypatch.context() as failing:
        failing.setattr(SparkBatch, "run", fail)
        with pytest.raises(RuntimeError):
            job.catch_up(spark_context)
    scene.send(topic, 5)
    if change == "partitions added":
        add_partitions(scene.bootstrap, topic, 3)
        scene.send(topic, 4, partition=2)
        job.catch_up(spark_context)
        rest = [(topic, 0, 5, 10, 5), (topic, 2, 0, 4, 4)]
    else:
        job = scene.job(topics=[other])
        job.catch_up(spark_context)
        rest = [(other, 0, 0, 3, 3)]

    assert ranges_of(job) == [(topic, 0, 0, 5, 5), *rest]
    assert job.audit().ok


def fail(*_, **__):
    message = "the driver dies here"
    raise RuntimeError(message)


# What disappears while the job runs


def test_m11_m18_deleted_topic_stops_the_job_or_is_recorded_when_loss_is_accepted(
    scene, spark_context
):
    a, b = scene.topic("a", records=3), scene.topic("b", records=3)
    job = scene.job(topic_pattern=scene.pattern())
    job.catch_up(spark_context)
    scene.delete(a)
    new = scene.topic("c", records=4)
    with pytest.raises(DataLoss, match=f"deleted: {a}"):
        job.catch_up(spark_context)

    job = scene.job(topic_pattern=scene.pattern(), on_data_loss="skip")
    job.catch_up(spark_context)
    scene.send(b, 1)
    job.catch_up(spark_context)

    audit = job.audit()
    assert {one.topic for one in job.commit().offsets} == {b, new}
    assert [(one.topic, one.reason) for one in audit.lost_ranges] == [(a, "topic deleted")]
    assert (audit.totals["lines"], audit.problems) == (11, ())


def test_m12_vanished_topic_never_leaves_an_empty_map_of_offsets(scene, spark_context):
    topic = scene.topic("a", records=5)
    job = scene.job(topics=[topic], on_data_loss="skip")
    job.catch_up(spark_context)
    scene.delete(topic)

    with pytest.raises(NothingToRead, match="waiting until it is created again"):
        job.catch_up(spark_context)
    kept = job.commit().offsets
    scene.recreate(topic, records=3)
    job.catch_up(spark_context)

    audit = job.audit()
    assert kept == {TopicPartition(topic, 0): 5}
    assert [(one.from_offset, one.until_offset, one.reason) for one in audit.lost_ranges] == [
        (5, 5, "topic recreated")
    ]
    assert job.commit().offsets == {TopicPartition(topic, 0): 3}
    assert (audit.totals["lines"], audit.problems) == (8, ())


def test_m13_recreated_topic_of_a_pattern_stops_the_job_between_batches(scene, spark_context):
    topic = scene.topic("a", partitions=2, records=3)
    job = scene.job(topic_pattern=scene.pattern())
    job.catch_up(spark_context)
    before = job.commit()
    scene.recreate(topic, records=9)

    with pytest.raises(DataLoss, match="deleted and created again"):
        job.catch_up(spark_context)

    assert job.commit() == before


@pytest.mark.parametrize("on_data_loss", ["stop", "skip"])
@pytest.mark.parametrize("left", [pytest.param((1, 9), id="m3"), pytest.param((2, 1), id="m4")])
def test_m3_m4_topic_replaced_by_a_smaller_one_while_catching_up_fails_whatever_is_accepted(
    scene, spark_context, monkeypatch, on_data_loss, left
):
    topic = scene.topic("a", partitions=2, records=20)
    job = scene.job(
        topics=[topic],
        on_data_loss=on_data_loss,
        max_rate_per_partition=5,
        backpressure=False,
        batch_seconds=1,
    )
    original, batches = SparkBatch.run, []

    def replace_topic_before_second(self, *arguments, **named):
        batches.append(None)
        result = original(self, *arguments, **named)
        if len(batches) == 1:
            scene.recreate(topic, *left)
        return result

    monkeypatch.setattr(SparkBatch, "run", replace_topic_before_second)

    with pytest.raises(DataLoss, match=r"created again|while we caught up"):
        job.catch_up(spark_context)


def test_end_that_goes_back_once_is_no_damage_and_one_that_stays_back_is(
    scene, spark_context, monkeypatch
):
    topic = scene.topic("a", records=5)
    job = scene.job(topics=[topic])
    job.catch_up(spark_context)
    original, answers = BrokerOffsets.available, [2, 2]

    def regressed(self, partitions):
        has = original(self, partitions)
        return (
            has
            if not answers
            else {one: type(seen)(seen.earliest, answers.pop()) for one, seen in has.items()}
        )

    monkeypatch.setattr(BrokerOffsets, "available", regressed)
    job.catch_up(spark_context)
    assert job.commit().offsets == {TopicPartition(topic, 0): 5}

    answers += [2] * 10
    with pytest.raises(DataLoss, match=r"lost its end: .*@5\.\.5"):
        job.catch_up(spark_context)


def test_topic_truncated_below_the_commit_is_read_again_from_its_start_when_loss_is_accepted(
    scene, spark_context, monkeypatch
):
    topic = scene.topic("a", records=5)
    job = scene.job(topics=[topic], on_data_loss="skip")
    job.catch_up(spark_context)
    original = BrokerOffsets.available

    def truncated(self, partitions):
        return {one: type(has)(has.earliest, 3) for one, has in original(self, partitions).items()}

    monkeypatch.setattr(BrokerOffsets, "available", truncated)
    job.catch_up(spark_context)

    audit = job.audit()
    assert [(one.from_offset, one.reason) for one in audit.lost_ranges] == [(5, "topic truncated")]
    assert ranges_of(job)[-1] == (topic, 0, 0, 3, 3)
    assert audit.problems == ()


def test_m36_random_topics_partitions_and_records_are_all_read_once(scene, spark_context):
    """Topics come and go, partitions and records come: 50 steps, a catch-up after every few."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    job = scene.job(topic_pattern=scene.pattern("[a-z0-9]+"), on_data_loss="skip")
    topics = {scene.topic("t0"): 1}
    expected, deleted = 0, 0
    for step in range(1, 51):
        topic = chance.choice(sorted(topics))
        action = chance.choice(["topic", "delete", "partitions", "data", "data", "data"])
        if action == "topic" and len(topics) < 6:
            topics[scene.topic(f"t{step}")] = 1
        elif action == "delete" and len(topics) > 2:
            job.catch_up(spark_context)
            scene.delete(topic)
            del topics[topic]
            deleted += 1
        elif action == "partitions" and topics[topic] < 4:
            topics[topic] += 1
            add_partitions(scene.bootstrap, topic, topics[topic])
        elif action == "data":
            count = chance.randrange(1, 20)
            scene.send(topic, count, chance.randrange(topics[topic]))
            expected += count
        if step % 5 == 0:
            job.catch_up(spark_context)

    audit = job.audit()
    assert (audit.totals["lines"], audit.problems) == (expected, ()), f"seed {seed}"
    assert {one.topic for one in audit.lost_ranges} <= set(scene.made) - set(topics)
    assert {one.topic for one in job.commit().offsets} <= set(topics)


# For the others


def test_d6_committed_offsets_are_mirrored_to_a_consumer_group(scene, spark_context):
    topic = scene.topic("a", partitions=2, records=6)
    group = f"{scene.prefix}-mirror"
    job = scene.job(topics=[topic], mirror_group=group)

    job.catch_up(spark_context)

    client = admin(scene.bootstrap)
    asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    mirrored = {
        TopicPartition(one.topic, one.partition): one.offset
        for one in asked[group].result(timeout=10).topic_partitions
    }
    assert mirrored == job.commit().offsets


def test_mirror_that_cannot_be_written_does_not_hold_up_the_job(scene, spark_context, caplog):
    """A group with a live member refuses offsets from outside."""
    from confluent_kafka import Consumer

    topic = scene.topic("a", records=6)
    group = f"{scene.prefix}-taken"
    member = Consumer({"bootstrap.servers": scene.bootstrap, "group.id": group, "log_level": 0})
    member.subscribe([topic])
    try:
        wait_until(lambda: member.poll(0.2) is not None or member.assignment(), within=30)
        job = scene.job(topics=[topic], mirror_group=group)
        job.catch_up(spark_context)
    finally:
        member.close()

    assert lines_of(job) == 6
    assert "offsets not mirrored" in caplog.text
