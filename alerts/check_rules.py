"""`palisade alerts check`: whether every alert is complete, and can fire at all.

In: a project's root. Out: every problem as one sentence, none when all is well. Alert, runbook and
rule test are a triple keyed by the alert's name; rules may use only series that are exported, and
labels that those series carry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from alerts.promql import Series, known_series, read_expression
from alerts.rule_files import (
    RULE_TEST_SUFFIX,
    RULE_TESTS,
    RULES,
    RUNBOOKS,
    AlertRule,
    RuleSet,
    read_rule_set,
)

PROJECT_ROOT = Path(__file__).resolve().parent.parent
SEVERITIES = ("page", "ticket", "info")
RUNBOOK_HEADINGS = ("Meaning", "Impact", "Check", "Fix")
REQUIRED_ANNOTATIONS = ("summary", "description", "runbook_url", "dashboard")
_ALERT_NAME = re.compile(r"([A-Z][a-z0-9]+)+")
_TEMPLATE_LABEL = re.compile(r"\$labels\.(\w+)")


def check(root: Path = PROJECT_ROOT) -> list[str]:
    """Every problem below `root`; rule tests are asked for only where there is a folder of them."""
    rules = read_rule_set(root)
    if not rules.alerts:
        return [f"No alerting rules in {root / RULES}: is this the project's root?"]
    return [*rule_problems(rules), *runbook_problems(rules), *rule_test_problems(rules)]


def rule_problems(rules: RuleSet) -> list[str]:
    """Unknown series and labels, missing severities and annotations."""
    series = known_series()
    problems = []
    # A recording rule may build on earlier ones, so they are learnt in the order of the files.
    for recording in rules.recordings:
        reading = read_expression(recording.expression, series)
        problems += [
            f"{recording.file}: {recording.name}: {problem}." for problem in reading.problems
        ]
        series[recording.name] = reading.labels or frozenset()
    for alert in rules.alerts:
        problems += [
            f"{alert.file}: {alert.name}: {problem}." for problem in _alert_problems(alert, series)
        ]
    return problems


def _alert_problems(alert: AlertRule, series: Series) -> Iterator[str]:
    if not _ALERT_NAME.fullmatch(alert.name):
        yield "the name of an alert is CamelCase, a symptom"
    severity = alert.labels.get("severity")
    if severity not in SEVERITIES:
        yield f"label severity is {severity!r}; allowed are {', '.join(SEVERITIES)}"
    for annotation in REQUIRED_ANNOTATIONS:
        if not str(alert.annotations.get(annotation) or "").strip():
            yield f"annotation {annotation} is missing"
    expected = f"{RUNBOOKS}/{alert.name}.md"
    if alert.annotations.get("runbook_url", expected) != expected:
        yield f"runbook_url is {alert.annotations['runbook_url']!r}, not {expected!r}"
    reading = read_expression(alert.expression, series)
    yield from reading.problems
    for name in sorted(_labels_in_annotations(alert) - (reading.labels or frozenset())):
        yield f"an annotation uses $labels.{name}, which the expression does not return"


def _labels_in_annotations(alert: AlertRule) -> set[str]:
    return {
        name for text in alert.annotations.values() for name in _TEMPLATE_LABEL.findall(str(text))
    }


def runbook_problems(rules: RuleSet) -> list[str]:
    """Alerts without a usable runbook, runbooks without an alert."""
    names = {alert.name for alert in rules.alerts}
    problems = [
        f"{RUNBOOKS}/{name}.md is missing: alert {name} has no runbook."
        for name in sorted(names - set(rules.runbooks))
    ]
    for name, text in rules.runbooks.items():
        if name not in names:
            problems.append(
                f"{RUNBOOKS}/{name}.md belongs to no alert: remove it, or write the rule."
            )
        found = re.findall(r"^## (.+?)\s*$", text, flags=re.MULTILINE)
        if tuple(found) != RUNBOOK_HEADINGS:
            wanted = ", ".join(f"'## {heading}'" for heading in RUNBOOK_HEADINGS)
            problems.append(
                f"{RUNBOOKS}/{name}.md must have exactly the headings {wanted}; it has {found}."
            )
    return problems


def rule_test_problems(rules: RuleSet) -> list[str]:
    """Alerts without a rule test that fires and one that does not, tests without an alert."""
    if rules.tests is None:
        return []
    names = {alert.name for alert in rules.alerts}
    tested = {test.alert for test in rules.tests}
    problems = [
        f"{RULE_TESTS}/{name}{RULE_TEST_SUFFIX} is missing: alert {name} has no rule test."
        for name in sorted(names - tested)
    ]
    for test in rules.tests:
        path = f"{RULE_TESTS}/{test.alert}{RULE_TEST_SUFFIX}"
        if test.alert not in names:
            problems.append(f"{path} belongs to no alert: remove it, or write the rule.")
        for fires, what in ((True, "fires"), (False, "does not fire")):
            if (test.alert, fires) not in test.asked:
                problems.append(f"{path} has no case in which {test.alert} {what}.")
    return problems
