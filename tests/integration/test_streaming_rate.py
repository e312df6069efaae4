"""Rate limits in a running job: how much each batch really read, and which limit it says was in force."""

import pytest
from support.broker_topics import create_topic, produce
from support.pipeline import log_lines, make_pipeline

import streaming.run
from alerts import metric_names as names

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def job(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    def make(*records, lines_per_record=1, **stream):
        create_topic(kafka_bootstrap, topic_name, partitions=len(records))
        made = make_pipeline(
            tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name, **stream
        )
        ship = f"[ship]\nlines_per_record = {lines_per_record}\n"
        made.config.write_text(made.config.read_text() + ship)
        for partition, count in enumerate(records):
            produce(kafka_bootstrap, topic_name, log_lines(count), partition)
        return made

    return make


@pytest.fixture
def plans(monkeypatch):
    """Every plan that a job made."""
    made, original = [], streaming.run.plan_batch

    def remember(*arguments):
        made.append(original(*arguments))
        return made[-1]

    monkeypatch.setattr(streaming.run, "plan_batch", remember)
    return made


def records_by_batch(job):
    account = job.ledger.read_all("account", job.commit())
    rows = account.sort("batch", "partition").select("batch", "partition", "records").rows()
    batches = {}
    for batch, partition, records in rows:
        batches.setdefault(batch, {})[partition] = records
    return list(batches.values())


def test_d8_maximum_without_backpressure_gives_ten_of_each_partition(job, spark_context, plans):
    made = job(25, 12, max_rate_per_partition=100, batch_seconds=0.1, backpressure=False)
    made.catch_up(spark_context)

    assert records_by_batch(made) == [{0: 10, 1: 10}, {0: 10, 1: 2}, {0: 5}]
    assert {plan.because for plan in plans} == {"max_rate_per_partition"}


def test_d12_d13_cold_start_takes_the_stricter_of_initial_rate_and_maximum(
    job, spark_context, plans
):
    made = job(600, max_rate_per_partition=300, initial_rate=1000, batch_seconds=0.5)
    made.catch_up(spark_context)

    assert records_by_batch(made)[0] == {0: 150}
    assert plans[0].because == "max_rate_per_partition"


def test_rc1_first_batches_run_at_the_initial_rate_and_later_ones_at_the_learned_one(
    job, spark_context, plans
):
    made = job(400, initial_rate=200, batch_seconds=0.5)
    published = made.catch_up(spark_context)

    assert [plan.because for plan in plans[:3]] == ["initial_rate", "initial_rate", "backpressure"]
    assert [batch[0] for batch in records_by_batch(made)[:2]] == [100, 100]
    assert plans[2].lines_per_second > 0
    limit = published.picture.gauges[names.RATE_LIMIT.name, ()]
    assert limit == pytest.approx(plans[-1].lines_per_second)


def test_m2_catch_up_under_a_limit_takes_exactly_as_many_batches_as_it_must(job, spark_context):
    made = job(15, max_rate_per_partition=5, batch_seconds=1.0, backpressure=False)
    made.catch_up(spark_context)

    assert records_by_batch(made) == [{0: 5}, {0: 5}, {0: 5}]


def test_m7_fair_limit_over_all_partitions_survives_a_restart(job, spark_context, plans):
    limits = {"max_rate": 10, "fair_minimum": True, "min_rate_per_partition": 0}
    made = job(101, 11, 1, batch_seconds=1.0, backpressure=False, **limits)
    made.catch_up(spark_context)

    assert records_by_batch(made)[0] == {0: 8, 1: 1, 2: 1}
    assert {plan.because for plan in plans} == {"max_rate"}
    assert made.audit().totals["lines"] == 113
    # Shares under one record are rounded up: two partitions may add one record each.
    assert all(sum(batch.values()) <= 12 for batch in records_by_batch(made))


def test_limit_in_lines_holds_for_packed_records_from_the_first_batch_on(job, spark_context):
    """Before a record was seen it is taken to hold what the shipper packs at most."""
    made = job(
        40, lines_per_record=10, max_rate_per_partition=100, batch_seconds=0.1, backpressure=False
    )
    made.catch_up(spark_context)

    assert [batch[0] for batch in records_by_batch(made)] == [1, 10, 10, 10, 9]
