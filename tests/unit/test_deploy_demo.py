from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from deploy.local.demo import progress_line
from deploy.local.demo_configuration import DemoAddresses, demo_configuration
from deploy.local.demo_verdict import attack_alerts, judge
from deploy.local.live_view import DemoView
from deploy.local.traffic_ledger import TrafficLedger, WrittenFile
from deploy.local.traffic_request import LOG_FORMAT
from palisade_config import Configuration


def a_ledger(*files: tuple[int, int], finished: bool = True) -> TrafficLedger:
    return TrafficLedger([WrittenFile("x", *file) for file in files], {}, finished)


def an_audit(*generations: tuple[int, int], **totals: int) -> dict[str, Any]:
    lines = sum(generation[0] for generation in generations)
    return {
        "ok": True,
        "batches": {"count": 3, "problems": []},
        "generations": [{"lines": lines, "bytes": size} for lines, size in generations],
        "totals": {"lines": lines, "resent_lines": 0, "gap_bytes": 0, "unproven_lines": 0} | totals,
    }


def test_equal_accounts_have_no_problem_whatever_their_order() -> None:
    verdict = judge(a_ledger((10, 100), (20, 200), (0, 0)), an_audit((20, 200), (10, 100)))

    assert verdict.problems == ()
    assert (verdict.written, verdict.counted, verdict.missing, verdict.doubled) == (30, 30, 0, 0)
    assert verdict.files == 2


@pytest.mark.parametrize(
    ("ledger", "audit", "missing", "doubled", "problem"),
    [
        pytest.param(
            a_ledger((10, 100)), an_audit((9, 90)), 1, 0, "10 lines were written, 9", id="lost line"
        ),
        pytest.param(
            a_ledger((10, 100)),
            an_audit((11, 110)),
            0,
            1,
            "10 lines were written, 11",
            id="doubled line",
        ),
        pytest.param(
            a_ledger((10, 100), (5, 50)),
            an_audit((9, 90), (6, 60)),
            0,
            0,
            "no generation has these",
            id="one lost and one doubled do not cancel out",
        ),
        pytest.param(
            a_ledger((10, 100)),
            an_audit((10, 100), gap_bytes=7),
            0,
            0,
            "7 gap bytes",
            id="gap",
        ),
        pytest.param(
            a_ledger((10, 100)),
            an_audit((10, 100), unproven_lines=2),
            0,
            0,
            "2 unproven lines",
            id="lines without identity",
        ),
        pytest.param(a_ledger(), an_audit(), 0, 0, "wrote nothing", id="nothing happened"),
        pytest.param(
            a_ledger((1, 10), finished=False),
            an_audit((1, 10)),
            0,
            0,
            "did not finish",
            id="generator was killed",
        ),
        pytest.param(
            a_ledger((1, 10)),
            an_audit((1, 10)) | {"ok": False},
            0,
            0,
            "not content",
            id="the audit itself finds a fault",
        ),
    ],
)
def test_every_difference_is_a_problem(
    ledger: TrafficLedger, audit: dict[str, Any], missing: int, doubled: int, problem: str
) -> None:
    verdict = judge(ledger, audit)

    assert (verdict.missing, verdict.doubled) == (missing, doubled)
    assert any(problem in found for found in verdict.problems), verdict.problems


def test_only_alerts_about_attacks_count_as_such() -> None:
    alerts = [
        {"fingerprint": "a", "labels": {"alertname": "AttackIncident"}},
        {"fingerprint": "b", "labels": {"alertname": "ShipperBehind"}},
        {"fingerprint": "c"},
    ]

    assert attack_alerts(alerts) == {"a": "AttackIncident"}


def test_configuration_is_accepted_by_the_product(tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder" with spaces'
    addresses = DemoAddresses("127.0.0.1:1", "127.0.0.1:2", 3, 4, alertmanager="http://127.0.0.1:5")

    configuration = Configuration.model_validate(
        tomllib.loads(demo_configuration(folder, addresses))
    )

    source = configuration.ship.sources[0]
    assert source.paths == [str(folder / "logs" / "access.log")]
    assert configuration.formats[source.format] == LOG_FORMAT
    assert configuration.kafka.create_topic
    assert configuration.stream.listen == "127.0.0.1:3"
    assert configuration.alerts.alertmanager_url == "http://127.0.0.1:5"
    assert configuration.stream.spark_conf["spark.local.dir"] == str(folder / "spark")


def test_progress_line_is_short_before_the_job_answers() -> None:
    view = DemoView(seconds=3.2, processes={}, urls={}, lines_written=1200)

    assert progress_line(view) == (
        "   3 s  1,200 lines written, 0 counted, lag 0.0 s, 0 attackers, 0 alerts firing"
    )
