"""Rules, runbooks and rule tests as they lie on disk: read once, returned as plain facts.

I/O. A file that cannot be read as what it should be raises `RuleFileError` with its path and the
reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

RUNBOOKS = "alerts/runbooks"
RULES = "alerts/rules"
RULE_TESTS = "tests/rules"
RULE_TEST_SUFFIX = ".test.yml"


class RuleFileError(Exception):
    """A rule or rule test file is not YAML of the expected shape."""


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alerting rule, and the file it is written in."""

    name: str
    expression: str
    file: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """One recording rule, and the file it is written in."""

    name: str
    expression: str
    file: str


@dataclass(frozen=True, slots=True)
class RuleTest:
    """What one rule test file asks: pairs of alert name, and whether it is expected to fire."""

    alert: str
    asked: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Everything below a root; `tests` is None where the project is installed without them."""

    alerts: tuple[AlertRule, ...]
    recordings: tuple[RecordingRule, ...]
    runbooks: dict[str, str]
    tests: tuple[RuleTest, ...] | None


def read_rule_set(root: Path) -> RuleSet:
    """Read the rules, runbooks and rule tests below `root`."""
    rules = [rule for path in sorted((root / RULES).glob("*.yml")) for rule in _read_rules(path)]
    runbooks = {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted((root / RUNBOOKS).glob("*.md"))
    }
    return RuleSet(
        alerts=tuple(rule for rule in rules if isinstance(rule, AlertRule)),
        recordings=tuple(rule for rule in rules if isinstance(rule, RecordingRule)),
        runbooks=runbooks,
        tests=_read_tests(root / RULE_TESTS),
    )


def _read_rules(path: Path) -> list[AlertRule | RecordingRule]:
    document = _load(path)
    try:
        return [_rule(entry, path.name) for group in document["groups"] for entry in group["rules"]]
    except (KeyError, TypeError) as error:
        message = (
            f"{path} is not a Prometheus rule file ({error!r}): run `promtool check rules {path}`."
        )
        raise RuleFileError(message) from error


def _rule(entry: dict[str, Any], file: str) -> AlertRule | RecordingRule:
    if "record" in entry:
        return RecordingRule(name=entry["record"], expression=str(entry["expr"]), file=file)
    return AlertRule(
        name=entry["alert"],
        expression=str(entry["expr"]),
        file=file,
        labels=entry.get("labels") or {},
        annotations=entry.get("annotations") or {},
    )


def _read_tests(folder: Path) -> tuple[RuleTest, ...] | None:
    if not folder.is_dir():
        return None
    return tuple(_read_test(path) for path in sorted(folder.glob(f"*{RULE_TEST_SUFFIX}")))


def _read_test(path: Path) -> RuleTest:
    document = _load(path)
    try:
        asked = [
            (question["alertname"], bool(question.get("exp_alerts")))
            for test in document["tests"]
            for question in test.get("alert_rule_test") or ()
        ]
    except (KeyError, TypeError) as error:
        message = (
            f"{path} is not a promtool test file ({error!r}): run `promtool test rules {path}`."
        )
        raise RuleFileError(message) from error
    return RuleTest(alert=path.name.removesuffix(RULE_TEST_SUFFIX), asked=tuple(asked))


def _load(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        message = f"{path} cannot be read as YAML: {error}"
        raise RuleFileError(message) from error
