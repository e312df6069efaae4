"""`palisade alerts check` on small projects with one thing wrong each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from alerts.check_rules import check
from alerts.rule_files import RuleFileError

RULE = """groups:
  - name: pipeline
    rules:
      - record: instance:palisade_lag:max
        expr: max by (instance) (palisade_lag_seconds)
      - alert: TooLate
        expr: instance:palisade_lag:max > 60
        labels:
          severity: page
        annotations:
          summary: "{{ $labels.instance }} is late"
          description: "{{ $value }} s late"
          runbook_url: alerts/runbooks/TooLate.md
          dashboard: /d/palisade-overview
"""
RUNBOOK = "# TooLate\n\n## Meaning\nm\n\n## Impact\ni\n\n## Check\nc\n\n## Fix\nf\n"
RULE_TEST = """rule_files: [../../alerts/rules/*.yml]
tests:
  - alert_rule_test:
      - {eval_time: 1m, alertname: TooLate, exp_alerts: []}
      - {eval_time: 5m, alertname: TooLate, exp_alerts: [{exp_labels: {severity: page}}]}
"""

Project = Callable[..., Path]


@pytest.fixture
def a_project(tmp_path: Path) -> Project:
    def build(
        rule: str = RULE, runbook: str | None = RUNBOOK, rule_test: str | None = RULE_TEST
    ) -> Path:
        files = {
            "alerts/rules/pipeline.yml": rule,
            "alerts/runbooks/TooLate.md": runbook,
            "tests/rules/TooLate.test.yml": rule_test,
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            if text is not None:
                (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    return build


def test_complete_alert_has_no_problem(a_project: Project):
    assert check(a_project()) == []


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        pytest.param(
            "severity: page", "severity: loud", "severity is 'loud'", id="unknown severity"
        ),
        pytest.param(
            "          summary:",
            "          sumary:",
            "annotation summary is missing",
            id="no summary",
        ),
        pytest.param(
            "TooLate.md", "Other.md", "not 'alerts/runbooks/TooLate.md'", id="foreign runbook"
        ),
        pytest.param(
            "$labels.instance", "$labels.host", "uses $labels.host", id="label not returned"
        ),
        pytest.param(
            "palisade_lag_seconds", "palisade_lag_second", "not a known metric", id="unknown metric"
        ),
        pytest.param("alert: TooLate", "alert: too_late", "CamelCase", id="name in another case"),
    ],
)
def test_wrong_rule_is_named_with_its_reason(
    a_project: Project, right: str, wrong: str, problem: str
):
    found = check(a_project(rule=RULE.replace(right, wrong)))

    assert any(problem in sentence for sentence in found), found


def test_alert_without_runbook_is_a_problem(a_project: Project):
    assert check(a_project(runbook=None)) == [
        "alerts/runbooks/TooLate.md is missing: alert TooLate has no runbook."
    ]


def test_runbook_without_one_of_the_four_headings_is_a_problem(a_project: Project):
    found = check(a_project(runbook=RUNBOOK.replace("## Fix", "## Other")))

    assert len(found) == 1
    assert "'## Fix'" in found[0]


def test_runbook_and_rule_test_without_an_alert_are_problems(a_project: Project):
    root = a_project()
    (root / "alerts/runbooks/Gone.md").write_text(RUNBOOK, encoding="utf-8")
    (root / "tests/rules/Gone.test.yml").write_text(
        RULE_TEST.replace("TooLate", "Gone"), encoding="utf-8"
    )

    assert check(root) == [
        "alerts/runbooks/Gone.md belongs to no alert: remove it, or write the rule.",
        "tests/rules/Gone.test.yml belongs to no alert: remove it, or write the rule.",
    ]


def test_rule_test_must_show_the_alert_firing_and_not_firing(a_project: Project):
    never_fires = RULE_TEST.replace("[{exp_labels: {severity: page}}]", "[]")

    assert check(a_project(rule_test=never_fires)) == [
        "tests/rules/TooLate.test.yml has no case in which TooLate fires."
    ]


def test_installed_package_without_tests_is_complete(a_project: Project):
    root = a_project(rule_test=None)
    (root / "tests/rules").rmdir()

    assert check(root) == []


def test_folder_without_rules_is_said_to_be_the_wrong_one(tmp_path: Path):
    assert "is this the project's root?" in check(tmp_path)[0]


def test_file_that_is_no_yaml_is_an_error_with_its_path(a_project: Project):
    with pytest.raises(RuleFileError, match=r"pipeline\.yml cannot be read as YAML"):
        check(a_project(rule="groups: [\n"))


def test_file_of_another_shape_is_an_error_with_the_command_that_explains_it(a_project: Project):
    with pytest.raises(RuleFileError, match="promtool check rules"):
        check(a_project(rule="groups: 3\n"))
