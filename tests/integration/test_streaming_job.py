"""The job against real Kafka, ZooKeeper and Spark: every line counts once, whatever happens in between."""

import json
import signal

import pytest
from kazoo.client import KazooClient
from support.broker_topics import (
    add_partitions,
    create_topic,
    delete_records_before,
    delete_topic_if_present,
    produce,
)
from support.pipeline import log_lines, make_pipeline, produce_file

from alerts import metric_names as names
from ingest.log_record import RecordIdentity, encode_key
from offsets.errors import DataLoss, OffsetConflict
from streaming.crash_point import CRASH_POINTS
from streaming.errors import RangeNotReadable
from streaming.restore import restore_state

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def pipeline(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    create_topic(kafka_bootstrap, topic_name, partitions=2)
    return make_pipeline(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name)


def test_every_line_counts_once_through_a_kill_at_every_point_of_the_protocol(
    pipeline, spark_context
):
    """Twice at each named point; between the kills lines arrive, and all of them twice."""
    written, ends = 0, {0: 0, 1: 0}
    for crash_point in CRASH_POINTS * 2:
        for partition in (0, 1):
            lines = log_lines(200, first=written)
            file = f"file-{partition}"
            produce_file(pipeline, lines, file, partition, start=ends[partition])
            ends[partition] = produce_file(pipeline, lines, file, partition, start=ends[partition])
            written += 200

        crashed = pipeline.palisade("stream", "--until-caught-up", crash_point=crash_point)

        assert crashed.returncode == -signal.SIGKILL, crashed.stderr

    pipeline.catch_up(spark_context)

    audit = pipeline.audit()
    assert audit.ok, audit.problems
    assert audit.totals["lines"] == written
    assert audit.totals["resent_lines"] == written
    assert {one.bytes for one in audit.generations} == set(ends.values())


def test_restored_state_is_the_state_that_ran(pipeline, spark_context):
    """Totals continue exactly: what a restart reads from the ledger equals what was published."""
    produce_file(pipeline, log_lines(100), "file-0", 0)
    pipeline.catch_up(spark_context)
    produce_file(pipeline, log_lines(50), "file-1", 1)
    published = pipeline.catch_up(spark_context)

    restored = restore_state(pipeline.ledger, pipeline.commit(), pipeline.job_settings())

    assert restored.all_counters() == published.picture.counters
    requests = published.picture.counters[
        names.REQUESTS.name, ("shop", "shop.example", "GET", "2xx")
    ]
    assert requests == 150


def test_gap_in_a_file_is_counted_in_bytes_and_fails_the_audit(pipeline, spark_context):
    produce_file(pipeline, log_lines(10), "file", 0)
    end = produce_file(pipeline, log_lines(10), "file", 0, start=100_000)
    pipeline.catch_up(spark_context)

    answer = pipeline.palisade("audit", "--json")
    generation = json.loads(answer.stdout)["generations"][0]

    assert answer.returncode == 1
    assert generation["gap_bytes"] == 100_000 - (end - 100_000)
    assert generation["lines"] == 20
    assert generation["path"] == "/var/log/apache2/file.log"


def test_lines_without_identity_are_counted_and_shown_as_unproven(pipeline, spark_context):
    produce(pipeline.bootstrap, pipeline.topic, log_lines(5))
    pipeline.catch_up(spark_context)

    totals = pipeline.audit().totals
    assert (totals["lines"], totals["parsed"], totals["unproven_lines"]) == (5, 5, 5)


def test_records_that_are_no_lines_at_all_do_not_block_the_job(pipeline, spark_context):
    hostile = [b"", b"\x00\xff\xfe", b"x" * 300_000, b"${jndi:ldap://127.0.0.1:1/a}", b"\n\n\n"]
    produce(pipeline.bootstrap, pipeline.topic, hostile)
    produce(pipeline.bootstrap, pipeline.topic, log_lines(3))
    pipeline.catch_up(spark_context)

    totals = pipeline.audit().totals
    assert totals["parsed"] + totals["quarantined"] == totals["lines"] == 11
    assert totals["parsed"] == 3


def test_partition_added_later_is_read_from_its_first_record(pipeline, spark_context):
    produce_file(pipeline, log_lines(10), "file-0", 0)
    pipeline.catch_up(spark_context)
    add_partitions(pipeline.bootstrap, pipeline.topic, 3)
    produce_file(pipeline, log_lines(10), "file-2", 2)
    pipeline.catch_up(spark_context)

    audit = pipeline.audit()
    assert audit.ok
    assert audit.totals["lines"] == 20


def test_retention_that_overtook_the_job_stops_it_with_the_exact_range(pipeline, spark_context):
    produce_file(pipeline, log_lines(20), "file", 0)
    pipeline.catch_up(spark_context)
    produce_file(pipeline, log_lines(50), "later", 0)
    delete_records_before(pipeline.bootstrap, pipeline.topic, 0, 4)

    with pytest.raises(DataLoss, match=r"\[0\]@2\.\.4.*on_data_loss"):
        pipeline.catch_up(spark_context)


def test_accepted_loss_is_recorded_and_the_job_goes_on(pipeline, spark_context):
    produce_file(pipeline, log_lines(20), "file", 0)
    pipeline.catch_up(spark_context)
    produce_file(pipeline, log_lines(50), "later", 0)
    delete_records_before(pipeline.bootstrap, pipeline.topic, 0, 4)
    pipeline.config.write_text(pipeline.config.read_text() + 'on_data_loss = "skip"\n')

    published = pipeline.catch_up(spark_context)

    audit = pipeline.audit()
    assert [(one.from_offset, one.until_offset) for one in audit.lost_ranges] == [(2, 4)]
    assert audit.totals["lines"] == 50
    assert not audit.problems
    assert not audit.ok
    assert published.picture.counters[names.LOST_RECORDS.name, ()] == 2


def test_recreated_topic_stops_the_job_even_when_its_offsets_look_valid(pipeline, spark_context):
    produce_file(pipeline, log_lines(10), "file", 0)
    pipeline.catch_up(spark_context)
    delete_topic_if_present(pipeline.bootstrap, pipeline.topic)
    create_topic(pipeline.bootstrap, pipeline.topic, partitions=2)
    produce_file(pipeline, log_lines(100), "file", 0)

    with pytest.raises(DataLoss, match="deleted and created again"):
        pipeline.catch_up(spark_context)


def test_lost_zookeeper_data_is_not_a_fresh_start(
    pipeline, spark_context, zookeeper_hosts, znode_root
):
    produce_file(pipeline, log_lines(10), "file", 0)
    pipeline.catch_up(spark_context)
    client = KazooClient(hosts=zookeeper_hosts)
    client.start()
    client.delete(f"{znode_root}/pipelines", recursive=True)
    client.stop()
    client.close()

    with pytest.raises(OffsetConflict, match="its ledger holds batches"):
        pipeline.catch_up(spark_context)


def test_unknown_format_is_named_and_nothing_is_committed(pipeline, spark_context):
    key = encode_key(RecordIdentity("shop", "web-1", "", "no-such-format", "g", 0))
    produce(pipeline.bootstrap, pipeline.topic, [(key, b"line")])

    with pytest.raises(RangeNotReadable, match="no-such-format"):
        pipeline.catch_up(spark_context)

    assert pipeline.commit().batch == 0


def test_offsets_show_and_reset_say_what_they_do(pipeline, spark_context):
    produce_file(pipeline, log_lines(20), "file", 0)
    pipeline.catch_up(spark_context)

    shown = json.loads(pipeline.palisade("offsets", "show", "--json").stdout)
    answer = pipeline.palisade("offsets", "reset", "--to", "earliest", "--yes")

    assert shown["batch"] == 1
    assert [row["lag"] for row in shown["partitions"]] == [0, 0]
    assert "repeats 2 records" in answer.stdout
    assert json.loads(pipeline.palisade("offsets", "show", "--json").stdout)["lag_records"] == 2


def test_job_without_kafka_ends_with_one_sentence(pipeline):
    text = pipeline.config.read_text().replace(pipeline.bootstrap, "127.0.0.1:1")
    pipeline.config.write_text(text)

    ended = pipeline.palisade("stream", "--until-caught-up")

    assert ended.returncode == 1
    assert (
        ended.stderr.strip().splitlines()[-1].startswith("palisade: Kafka at 127.0.0.1:1 did not")
    )
    assert "Traceback" not in ended.stderr
