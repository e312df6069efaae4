"""/metrics of a running job, scraped without a pause: over batches and over a restart."""

import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support.broker_topics import create_topic
from support.pipeline import log_lines, make_pipeline, produce_file
from support.waiting import wait_until

from alerts import metric_names as names
from streaming.http_server import serving
from streaming.published import Published

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LINES_IN_RECORD = 10
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
TOTALS = {metric.name for metric in names.METRICS if metric.kind == "counter"}


class Scraper:
    """Scrapes in a tight loop and keeps every answer."""

    def __init__(self):
        self.answers = []
        self.url = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def scrape(self, address):
        """From now on this address."""
        self.url = f"http://{address}/metrics"
        if not self._thread.is_alive():
            self._thread.start()

    def finish(self):
        """No scrape is under way any more."""
        self._done.set()
        self._thread.join(timeout=30)

    def _run(self):
        while not self._done.is_set():
            request = urllib.request.Request(self.url, headers={"Accept": OPENMETRICS})
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    self.answers.append(answer.read().decode())
            except (urllib.error.URLError, ConnectionError):
                continue  # between the two processes nobody listens


def samples(text):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def is_total(name):
    return name in TOTALS or name.endswith(("_bucket", "_count", "_sum"))


def total(scraped, metric):
    return sum(value for (name, _), value in scraped.items() if name == metric.name)


@pytest.fixture
def pipeline(tmp_path, kafka_bootstrap, zookeeper_hosts, znode_root, topic_name):
    create_topic(kafka_bootstrap, topic_name, partitions=2)
    return make_pipeline(
        tmp_path,
        kafka_bootstrap,
        zookeeper_hosts,
        znode_root,
        topic_name,
        batch_seconds=0.2,
        max_rate_per_partition=300,
        backpressure=False,
    )


def test_totals_never_step_back_and_never_disagree(pipeline, spark_context):
    scraper, ends, listen = Scraper(), {0: 0, 1: 0}, "127.0.0.1:0"
    for _ in range(2):
        for partition, start in ends.items():
            ends[partition] = produce_file(
                pipeline,
                log_lines(400),
                f"file-{partition}",
                partition,
                start=start,
                pack=LINES_IN_RECORD,
            )
        published = Published()
        with serving(published, listen) as listen:
            scraper.scrape(listen)
            pipeline.catch_up(spark_context, published)
            seen = len(scraper.answers)
            wait_until(lambda seen=seen: len(scraper.answers) > seen + 1, within=30)
    scraper.finish()

    scraped = [samples(text) for text in scraper.answers]
    _never_step_back(scraped)
    _agree(scraped)
    assert total(scraped[-1], names.LINES) == 1600
    assert len({total(one, names.BATCHES) for one in scraped}) > 5


def _never_step_back(scraped):
    highest = {}
    for one in scraped:
        for key, value in one.items():
            if is_total(key[0]):
                assert value >= highest.get(key, 0), key
                highest[key] = value


def _agree(scraped):
    """Counters that different tables of a batch feed: all of them from the same commit, or torn."""
    for one in scraped:
        lines = total(one, names.LINES)
        assert lines == total(one, names.REQUESTS)
        assert lines == LINES_IN_RECORD * total(one, names.RECORDS)
