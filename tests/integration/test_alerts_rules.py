"""The rules as Prometheus' own tool sees them: valid, and firing exactly when the rule tests say so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
RULE_TESTS = sorted((ROOT / "tests/rules").glob("*.test.yml"))


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_rules_are_valid(promtool_program: Path):
    result = run(promtool_program, "check", "rules", *sorted((ROOT / "alerts/rules").glob("*.yml")))

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "rule_test", RULE_TESTS, ids=lambda path: path.name.removesuffix(".test.yml")
)
def test_alert_fires_when_it_should_and_only_then(promtool_program: Path, rule_test: Path):
    result = run(promtool_program, "test", "rules", rule_test)

    assert result.returncode == 0, result.stdout + result.stderr
