"""Every alert is a triple (rule, runbook, rule test), and every document names what exists."""

from __future__ import annotations

import re
from pathlib import Path

from alerts.check_rules import check
from alerts.rule_files import read_rule_set
from dashboards.build import built_dashboards

ROOT = Path(__file__).resolve().parents[2]


def test_every_alert_has_severity_texts_runbook_and_rule_test():
    assert check(ROOT) == []


def test_the_rule_tests_are_there_to_be_checked():
    assert read_rule_set(ROOT).tests


def test_runbooks_point_only_at_runbooks_that_exist():
    runbooks = read_rule_set(ROOT).runbooks
    wrong = [
        (name, target)
        for name, text in runbooks.items()
        for target in re.findall(r"\]\((\w+)\.md\)", text)
        if target not in runbooks
    ]

    assert wrong == []


def test_runbooks_name_only_panels_that_exist():
    titles = {
        panel["title"] for document in built_dashboards().values() for panel in document["panels"]
    }
    wrong = [
        (name, title)
        for name, text in read_rule_set(ROOT).runbooks.items()
        for title in re.findall(r"[Dd]ashboard,\s+\*([^*]+)\*", text)
        if title not in titles
    ]

    assert wrong == []


def test_alerts_link_only_to_dashboards_that_exist():
    uids = {document["uid"] for document in built_dashboards().values()}
    linked = {
        re.match(r"/d/([\w-]+)", alert.annotations["dashboard"]).group(1)
        for alert in read_rule_set(ROOT).alerts
    }

    assert linked <= uids
