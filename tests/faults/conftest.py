"""Prints the table of injected faults after the run."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    from support import fault_table

    if fault_table.RUNS:
        terminalreporter.section("faults")
        for line in fault_table.table():
            terminalreporter.write_line(line)
