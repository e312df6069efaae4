"""Windows over the ledger, by the real job: late lines, wrong clocks, quiet sites, merged batches, old files."""

import time
from datetime import UTC, datetime

import polars as pl
import pytest
from support.broker_topics import create_topic
from support.pipeline import log_lines, make_pipeline, produce_file
from support.waiting import wait_until

from alerts import metric_names as names
from streaming import ledger_compaction
from streaming.generation_book import GenerationBook
from streaming.restore import restore_state

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

HOUR = 3600
YEAR_2090 = 3_786_912_000


@pytest.fixture
def make(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    def pipeline(**stream):
        create_topic(kafka_bootstrap, topic_name, partitions=2)
        return make_pipeline(
            tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name, **stream
        )

    return pipeline


def lines_at(seconds, count=1):
    stamp = datetime.fromtimestamp(seconds, tz=UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    line = f'192.0.2.1 - - [{stamp}] "GET / HTTP/1.1" 200 512 "-" "test"'
    return [line.encode()] * count


def requests_in_windows(pipeline):
    load = pipeline.ledger.read_all("load", pipeline.commit())
    return dict(load.group_by("window").agg(pl.col("requests").sum()).iter_rows())


def counted(published, metric, *labels):
    return published.picture.counters[metric.name, labels]


def complete_windows(published):
    windows = published.picture.status["load"]["windows"]
    return {window["start"]: window["complete"] for window in windows}


def iso(window):
    return datetime.fromtimestamp(window, tz=UTC).isoformat().replace("+00:00", "Z")


def test_wrong_clocks_move_nothing_and_late_lines_are_right_in_history(make, spark_context):
    pipeline = make(allowed_lateness_seconds=60)
    now = int(time.time())
    produce_file(pipeline, lines_at(now, 5), "right", 0)
    wrong = [*lines_at(now + HOUR, 2), *lines_at(now - HOUR, 3), *lines_at(YEAR_2090, 4)]
    end = produce_file(pipeline, wrong, "wrong", 1)

    published = pipeline.catch_up(spark_context)

    assert published.picture.gauges[names.WATERMARK.name, ()] == now
    assert counted(published, names.SKEWED_LINES, "shop") == 9
    assert counted(published, names.LATE_LINES, "shop") == 0

    produce_file(pipeline, lines_at(now - HOUR, 7), "wrong", 1, start=end)
    published = pipeline.catch_up(spark_context)

    late_window = (now - HOUR) // 10 * 10
    assert counted(published, names.LATE_LINES, "shop") == 7
    assert published.picture.status["late_lines"] == 7
    assert requests_in_windows(pipeline)[late_window] == 10
    assert complete_windows(published)[iso(late_window)]
    assert not complete_windows(published)[iso(now // 10 * 10)]

    restored = restore_state(pipeline.ledger, pipeline.commit(), pipeline.job_settings())
    assert restored.all_counters() == published.picture.counters
    assert restored.histograms == published.picture.histograms
    assert restored.window_clock.watermark == now


def test_last_window_of_a_quiet_site_closes_by_wall_clock(make, spark_context):
    pipeline = make(allowed_lateness_seconds=1, idle_close_seconds=1)
    then = int(time.time())
    produce_file(pipeline, lines_at(then, 5), "file", 0)
    published = pipeline.catch_up(spark_context)
    assert not complete_windows(published)[iso(then // 10 * 10)]

    def closed():
        return complete_windows(pipeline.catch_up(spark_context))[iso(then // 10 * 10)]

    wait_until(closed, within=60)
    assert pipeline.commit().batch == 1


def test_batches_are_merged_while_the_job_runs_and_nothing_changes(
    make, spark_context, monkeypatch
):
    monkeypatch.setattr(ledger_compaction, "KEPT_BATCHES", 1)
    pipeline = make(
        compact_every=3, batch_seconds=0.2, max_rate_per_partition=100, backpressure=False
    )
    end = produce_file(pipeline, log_lines(160), "file", 0)
    pipeline.catch_up(spark_context)
    produce_file(pipeline, log_lines(160), "file", 0, start=end)
    published = pipeline.catch_up(spark_context)

    blocks = list((pipeline.folder / "ledger" / "blocks").iterdir())
    audit = pipeline.audit()
    assert len(blocks) >= 2
    assert audit.ok, audit.problems
    assert audit.totals["lines"] == 320
    assert audit.batch_count == pipeline.commit().batch
    restored = restore_state(pipeline.ledger, pipeline.commit(), pipeline.job_settings())
    assert restored.all_counters() == published.picture.counters


def test_file_that_tasks_were_not_told_about_is_still_counted_once(
    make, spark_context, monkeypatch
):
    monkeypatch.setattr(GenerationBook, "counted_until", lambda self, partition: {})
    pipeline = make()
    produce_file(pipeline, log_lines(40), "file", 0)
    pipeline.catch_up(spark_context)
    produce_file(pipeline, log_lines(60), "file", 0)
    pipeline.catch_up(spark_context)

    totals = pipeline.audit().totals
    assert (totals["lines"], totals["resent_lines"], totals["gap_bytes"]) == (60, 40, 0)
