"""`palisade offsets show` and `reset` against real servers: what they say and change, and what the job makes of it."""

import json
import time
from datetime import UTC, datetime

import pytest
from support.broker_topics import create_topic, delete_records_before, produce
from support.pipeline import log_lines, make_pipeline, produce_file

from ingest.settings import KafkaSettings
from offsets.leader_lock import LeaderLock
from offsets.offset_range import TopicPartition
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession
from streaming.record_times import waiting_seconds
from streaming.spark_batch import SparkBatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def pipeline(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    create_topic(kafka_bootstrap, topic_name, partitions=2)
    return make_pipeline(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name)


def shown(pipeline):
    answer = pipeline.palisade("offsets", "show", "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def reset(pipeline, *arguments):
    answer = pipeline.palisade("offsets", "reset", *arguments, "--yes")
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def refused(pipeline, *arguments):
    answer = pipeline.palisade("offsets", "reset", *arguments)
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    return answer.stderr


def test_show_says_where_the_job_stands_and_how_long_records_wait(pipeline, spark_context):
    produce_file(pipeline, log_lines(20), "file", 0)
    pipeline.catch_up(spark_context)
    before = shown(pipeline)
    produce(pipeline.bootstrap, pipeline.topic, log_lines(3), partition=1)
    after = shown(pipeline)

    assert (before["batch"], before["leader"], before["pending_batch"]) == (1, None, None)
    assert before["epoch"] > 0
    assert (before["lag_records"], before["lag_seconds"]) == (0, 0.0)
    rows = [
        (row["committed"], row["earliest"], row["latest"], row["lag"])
        for row in after["partitions"]
    ]
    assert rows == [(2, 0, 2, 0), (0, 0, 3, 3)]
    assert after["partitions"][0]["lag_seconds"] == 0.0
    assert 0 < after["partitions"][1]["lag_seconds"] < 60
    assert after["lag_seconds"] == after["partitions"][1]["lag_seconds"]


def test_show_prints_a_table_for_people(pipeline):
    text = pipeline.palisade("offsets", "show").stdout

    assert "committed never, led by nobody" in text
    assert "waiting" in text


def test_wait_of_a_record_that_does_not_arrive_is_unknown(pipeline):
    kafka = KafkaSettings(bootstrap_servers=pipeline.bootstrap, topic=pipeline.topic)
    nothing_yet = {TopicPartition(pipeline.topic, 0): 0}

    assert waiting_seconds(kafka, nothing_yet, time.time(), within_seconds=0.5) == {
        TopicPartition(pipeline.topic, 0): None
    }


def test_reset_to_the_start_repeats_records_and_counts_nothing_twice(pipeline, spark_context):
    produce_file(pipeline, log_lines(20), "file-0", 0)
    produce_file(pipeline, log_lines(30), "file-1", 1)
    pipeline.catch_up(spark_context)

    said = reset(pipeline, "--to", "earliest")
    pipeline.catch_up(spark_context)

    assert "[0]: 2 -> 0, repeats 2 records" in said
    assert "dropped as re-sends" in said
    assert "The old offsets are kept in" in said
    audit = pipeline.audit()
    assert audit.ok, audit.problems
    assert (audit.totals["lines"], audit.totals["resent_lines"]) == (50, 50)
    document = json.loads(pipeline.palisade("audit", "--json").stdout)
    assert [
        (one["partition"], one["from_offset"], one["to_offset"]) for one in document["resets"]
    ] == [
        (0, 2, 0),
        (1, 3, 0),
    ]
    assert "reset" in pipeline.palisade("audit").stdout


def test_reset_to_the_end_skips_records_and_the_audit_shows_an_operators_act(
    pipeline, spark_context
):
    produce_file(pipeline, log_lines(20), "file", 0)
    pipeline.catch_up(spark_context)
    produce_file(pipeline, log_lines(40), "skipped", 0)

    said = reset(pipeline, "--to", "latest")
    produce_file(pipeline, log_lines(10), "later", 0)
    pipeline.catch_up(spark_context)

    assert "[0]: 2 -> 6, skips 4 records" in said
    audit = pipeline.audit()
    assert (audit.totals["lines"], audit.problems) == (30, ())
    assert [(one.after_batch, one.from_offset, one.to_offset) for one in audit.resets] == [
        (1, 2, 6)
    ]


def test_reset_to_a_time(pipeline, spark_context):
    produce(pipeline.bootstrap, pipeline.topic, log_lines(4))
    pipeline.catch_up(spark_context)
    time.sleep(0.05)
    moment = datetime.now(tz=UTC)
    time.sleep(0.05)
    produce(pipeline.bootstrap, pipeline.topic, log_lines(3))
    pipeline.catch_up(spark_context)

    said = reset(pipeline, "--to", "time", "--time", moment.isoformat())

    assert "[0]: 7 -> 4, repeats 3 records" in said
    assert "[1]: 0 -> 0, unchanged" in said


def test_reset_to_offsets_moves_only_what_is_named_and_stays_within_kafka(pipeline, spark_context):
    produce(pipeline.bootstrap, pipeline.topic, log_lines(8))
    produce(pipeline.bootstrap, pipeline.topic, log_lines(5), partition=1)
    pipeline.catch_up(spark_context)
    delete_records_before(pipeline.bootstrap, pipeline.topic, 0, 3)

    said = reset(pipeline, "--to", "offsets", "--offsets", f"{pipeline.topic}:0=1")

    assert "[0]: 8 -> 3, repeats 5 records (asked for 1, which Kafka does not have)" in said
    assert "[1]: 5 -> 5, unchanged" in said


def test_reset_drops_a_batch_that_was_started_and_says_so(pipeline, spark_context, monkeypatch):
    produce_file(pipeline, log_lines(20), "file", 0)

    def die(*_, **__):
        raise RuntimeError

    with monkeypatch.context() as dying, pytest.raises(RuntimeError):
        dying.setattr(SparkBatch, "run", die)
        pipeline.catch_up(spark_context)
    assert shown(pipeline)["pending_batch"] == 1

    said = reset(pipeline, "--to", "earliest")
    pipeline.catch_up(spark_context)

    assert "Batch 1 was started and not finished: it is dropped" in said
    audit = pipeline.audit()
    assert audit.ok, audit.problems
    assert audit.totals["lines"] == 20


def test_reset_before_the_first_run_is_where_the_job_starts(pipeline, spark_context):
    produce(pipeline.bootstrap, pipeline.topic, log_lines(8))

    said = reset(pipeline, "--to", "offsets", "--offsets", f"{pipeline.topic}:0=5")
    pipeline.catch_up(spark_context)

    assert "[0]: never read -> 5, starts here" in said
    assert pipeline.audit().totals["lines"] == 3


def test_reset_is_refused_while_a_job_runs(pipeline):
    settings = pipeline.configuration
    paths = ZnodePaths(settings.zookeeper.root, settings.stream.job_name)
    with ZookeeperSession(settings.zookeeper).connected() as session:
        LeaderLock(session, paths).acquire(lambda: False)

        assert "The job is running" in refused(pipeline, "--to", "earliest", "--yes")
        assert "pid" in shown(pipeline)["leader"]


def test_reset_that_makes_no_sense_is_one_sentence(pipeline):
    assert "belong together" in refused(pipeline, "--to", "time")
    assert "no time with an offset" in refused(pipeline, "--to", "time", "--time", "noon")
    offsets = f"{pipeline.topic}:7=1"
    assert "but the partitions to read are" in refused(
        pipeline, "--to", "offsets", "--offsets", offsets
    )


def test_reset_asks_and_changes_nothing_without_a_yes(pipeline, spark_context):
    produce(pipeline.bootstrap, pipeline.topic, log_lines(2))
    pipeline.catch_up(spark_context)

    answer = pipeline.palisade("offsets", "reset", "--to", "earliest")  # standard input is empty

    assert answer.returncode != 0
    assert "Set these offsets?" in answer.stdout
    assert pipeline.commit().offsets[TopicPartition(pipeline.topic, 0)] == 2
    assert pipeline.stored().resets == ()


def test_reset_goes_on_after_a_topic_was_recreated(pipeline, spark_context, kafka_bootstrap):
    from support.broker_topics import delete_topic_if_present

    produce(pipeline.bootstrap, pipeline.topic, log_lines(5))
    pipeline.catch_up(spark_context)
    delete_topic_if_present(kafka_bootstrap, pipeline.topic)
    create_topic(kafka_bootstrap, pipeline.topic, partitions=2)
    produce(pipeline.bootstrap, pipeline.topic, log_lines(9))

    reset(pipeline, "--to", "earliest")
    pipeline.catch_up(spark_context)

    audit = pipeline.audit()
    assert (audit.totals["lines"], audit.problems) == (14, ())
