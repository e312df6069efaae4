"""The record of injected faults: what was done, what it cost, how it ended; printed by `make test-faults`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from support.oracle import Verdict


@dataclass(slots=True)
class FaultRun:
    """One row of the table."""

    row: int
    fault: str
    injected: int = 0
    lines: int = 0
    lost: int = 0
    doubled: int = 0
    result: str = "running"
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def judge(self, verdict: Verdict, expected_lost: int = 0) -> Verdict:
        """Take the oracle's verdict into the table."""
        self.lines, self.lost, self.doubled = verdict.lines, verdict.lost, verdict.doubled
        if expected_lost:
            self.notes.append(f"{expected_lost} lost on purpose")
        return verdict


RUNS: list[FaultRun] = []


@contextmanager
def fault(row: int, name: str) -> Iterator[FaultRun]:
    """A test's row; whatever leaves the block decides its result."""
    run = FaultRun(row, name)
    RUNS.append(run)
    started = time.monotonic()
    try:
        yield run
        run.result = "passed"
    except BaseException as error:
        run.result = f"FAILED: {type(error).__name__}"
        raise
    finally:
        run.seconds = time.monotonic() - started


def repeats(fast: int, full: int) -> int:
    """How often to inject: little in `make test`, as often as promised in `make test-faults`."""
    asked = os.environ.get("PALISADE_FAULT_REPEATS", "")
    if asked == "full":
        return full
    return min(int(asked), full) if asked else fast


def table() -> list[str]:
    """The table as text lines."""
    head = ("row", "fault", "injected", "lines", "lost", "doubled", "seconds", "result")
    rows = [
        (
            str(run.row),
            run.fault + (f" ({'; '.join(run.notes)})" if run.notes else ""),
            str(run.injected),
            str(run.lines),
            str(run.lost),
            str(run.doubled),
            f"{run.seconds:.1f}",
            run.result,
        )
        for run in sorted(RUNS, key=lambda run: run.row)
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *rows]
    ]
