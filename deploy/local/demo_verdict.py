"""Was every generated line counted exactly once, and did an attack alert arrive? Pure.

The generator's account and the audit come from opposite ends of the flow: one says how many lines
and bytes were written into each physical file, the other how many of each file generation the job
committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.local.traffic_ledger import TrafficLedger

ATTACK_ALERTS = "Attack"
"""Alerts about attacks are recognised by the beginning of their name."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison; `problems` is empty when every line is accounted for exactly once."""

    written: int
    counted: int
    missing: int
    doubled: int
    resent: int
    batches: int
    files: int
    problems: tuple[str, ...]


def judge(ledger: TrafficLedger, audit: Mapping[str, Any]) -> Verdict:
    """Compare what was written with what the audit proves."""
    written = Counter((file.lines, file.bytes) for file in ledger.files if file.lines)
    counted = Counter((int(g["lines"]), int(g["bytes"])) for g in audit["generations"])
    lost, extra = written - counted, counted - written
    missing, doubled = _difference(lost, extra)
    return Verdict(
        written=ledger.lines,
        counted=int(audit["totals"]["lines"]),
        missing=missing,
        doubled=doubled,
        resent=int(audit["totals"]["resent_lines"]),
        batches=int(audit["batches"]["count"]),
        files=written.total(),
        problems=tuple(_problems(ledger, audit, lost, extra)),
    )


def _difference(lost: Counter[tuple[int, int]], extra: Counter[tuple[int, int]]) -> tuple[int, int]:
    """Lines missing and doubled: of files and generations without an equal on the other side."""
    unmatched = sum(lines for lines, _ in lost.elements())
    unexpected = sum(lines for lines, _ in extra.elements())
    return max(0, unmatched - unexpected), max(0, unexpected - unmatched)


def _problems(
    ledger: TrafficLedger,
    audit: Mapping[str, Any],
    lost: Counter[tuple[int, int]],
    extra: Counter[tuple[int, int]],
) -> Iterable[str]:
    if not ledger.finished:
        yield "the generator did not finish its account"
    if not ledger.lines:
        yield "the generator wrote nothing"
    for lines, size in lost.elements():
        yield f"a file of {lines} lines and {size} bytes was written, no generation has these"
    for lines, size in extra.elements():
        yield f"a generation of {lines} lines and {size} bytes was counted, no file has these"
    if int(audit["totals"]["lines"]) != ledger.lines:
        yield f"{ledger.lines} lines were written, {audit['totals']['lines']} counted"
    for total in ("gap_bytes", "unproven_lines"):
        if int(audit["totals"][total]):
            yield f"{audit['totals'][total]} {total.replace('_', ' ')}"
    if not audit["ok"]:
        yield from audit["batches"]["problems"] or ("the audit is not content",)


def attack_alerts(alerts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Fingerprint → name of the alerts about attacks among Alertmanager's `alerts`."""
    named = (
        (str(alert.get("fingerprint", "")), str(alert.get("labels", {}).get("alertname", "")))
        for alert in alerts
    )
    return {print_: name for print_, name in named if name.startswith(ATTACK_ALERTS)}
