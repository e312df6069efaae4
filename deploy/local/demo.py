"""`palisade demo`: the whole product on one machine, from traffic to alerts. READ ME FIRST.

In:      nothing but this machine.
Out:     a live view (or progress lines), and after `seconds` a verdict about every generated line.
Promise: exit code 0 only if every line was counted exactly once and an attack alert arrived;
         nothing is left running.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from deploy.local import process_table
from deploy.local.demo_stack import DemoStack, open_stack
from deploy.local.demo_start import start_demo
from deploy.local.demo_verdict import Verdict, attack_alerts, judge
from deploy.local.live_view import DemoView, live_view
from deploy.local.stack_errors import ServerDidNotStart, StackError
from deploy.local.webhook import count_notifications
from palisade_output import printable

DEFAULT_SECONDS = 90
_LOOK_EVERY_SECONDS = 0.5
_REPORT_EVERY_SECONDS = 10.0
_CATCH_UP_SECONDS = 60.0
_ALERT_SECONDS = 30.0


@dataclass(slots=True)
class Seen:
    """What was noticed while it ran."""

    begun: float
    first_window_after: float | None = None
    attack_alerts: dict[str, str] = field(default_factory=dict)
    attackers: set[str] = field(default_factory=set)


def run_demo(seconds: int | None, var_dir: Path, console: Console | None = None) -> int:
    """Run until Ctrl-C, or for `seconds` (90 without a terminal), and return the exit code."""
    screen = console or Console()
    if seconds is None and not screen.is_terminal:
        seconds = DEFAULT_SECONDS
    with _stop_on_signals() as stop:
        try:
            return _run(seconds, var_dir.resolve(), screen, stop)
        except StackError as error:
            for line in str(error).splitlines():
                _say(screen, line)
            return 1


def _run(seconds: int | None, var_dir: Path, console: Console, stop: threading.Event) -> int:
    """1. Own the folder. 2. Start. 3. Watch. 4. Let the job catch up. 5. Compare. 6. Stop all."""
    cache = Path(os.environ.get("PALISADE_CACHE") or var_dir / "cache").resolve()
    begun = time.monotonic()
    stack = open_stack(var_dir / "demo")  # 1
    if stack.keeper.leftovers:
        _say(console, f"Ended {stack.keeper.leftovers} processes that an earlier run left behind.")
    seen, verdict = Seen(begun), None
    try:
        _say(console, "Starting ZooKeeper, Kafka and what watches them …")
        start_demo(stack, cache, lambda text: _say(console, text), stop)  # 2
        _watch(stack, seen, console, _deadline(seconds), stop)  # 3
        if seconds is not None and not stop.is_set():
            verdict = _finish(stack, seen, console, stop)  # 4, 5
    finally:
        stack.close()  # 6
    left = process_table.carrying(stack.keeper.token)
    _summarise(stack, seen, verdict, console)
    return _exit_code(stack, seen, verdict, wanted=seconds is not None) if not left else 1


def _deadline(seconds: int | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _watch(
    stack: DemoStack, seen: Seen, console: Console, deadline: float | None, stop: threading.Event
) -> None:
    """Show what happens until the deadline or a signal; a part that ends by itself ends it too."""
    if console.is_terminal:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            for view in _views(stack, seen, deadline, stop):
                live.update(live_view(view, console.height), refresh=True)
        return
    reported = 0.0
    for view in _views(stack, seen, deadline, stop):
        if view.seconds - reported >= _REPORT_EVERY_SECONDS:
            reported = view.seconds
            _say(console, progress_line(view))


def _views(
    stack: DemoStack, seen: Seen, deadline: float | None, stop: threading.Event
) -> Iterator[DemoView]:
    while not stop.is_set() and (deadline is None or time.monotonic() < deadline):
        _check_alive(stack)
        yield _look(stack, seen)
        stop.wait(_LOOK_EVERY_SECONDS)


def _check_alive(stack: DemoStack) -> None:
    ended = stack.check()
    if ended:
        told = "\n  ".join(ended.last_log_lines())
        message = (
            f"{ended.name} ended by itself with exit code {ended.exit_code()}; "
            f"the end of {ended.log_file}:\n  {told}"
        )
        raise ServerDidNotStart(message)


def _look(stack: DemoStack, seen: Seen) -> DemoView:
    status, alerts = stack.status(), stack.alerts()
    elapsed = time.monotonic() - seen.begun
    if status and status.get("load", {}).get("windows") and seen.first_window_after is None:
        seen.first_window_after = elapsed
    seen.attack_alerts |= attack_alerts(alerts)
    seen.attackers |= {str(attacker["id"]) for attacker in (status or {}).get("attackers", ())}
    return DemoView(
        seconds=elapsed,
        processes=stack.process_states(),
        urls=stack.urls(),
        status=status,
        alerts=alerts,
        lines_written=stack.traffic_ledger().lines,
    )


def progress_line(view: DemoView) -> str:
    """One line about the whole, for where there is no terminal."""
    status = view.status or {}
    counted = status.get("totals", {}).get("lines", 0)
    lag = status.get("lag", {}).get("seconds", 0.0)
    return (
        f"{view.seconds:4.0f} s  {view.lines_written:,} lines written, {counted:,} counted, "
        f"lag {lag:.1f} s, {len(status.get('attackers', ()))} attackers, "
        f"{len(view.alerts)} alerts firing"
    )


def _finish(
    stack: DemoStack, seen: Seen, console: Console, stop: threading.Event
) -> Verdict | None:
    """Stop the generator, let the job catch up, stop shipper and job, compare both accounts."""
    _say(console, "Stopping the generator; the job reads the rest …")
    stack.stop("traffic")
    written = stack.traffic_ledger().lines
    _wait(stack, seen, stop, _CATCH_UP_SECONDS, lambda: _counted(stack) >= written)
    if stack.alertmanager:
        _wait(stack, seen, stop, _ALERT_SECONDS, lambda: bool(seen.attack_alerts))
    stack.stop("ship")
    stack.stop("stream")
    if stop.is_set():
        return None
    return judge(stack.traffic_ledger(), _audit(stack))


def _audit(stack: DemoStack) -> dict[str, object]:
    try:
        document: dict[str, object] = json.loads(stack.audit_json())
    except (ValueError, subprocess.TimeoutExpired) as error:
        message = f"palisade audit gave no usable answer: {error}"
        raise StackError(message) from error
    return document


def _wait(
    stack: DemoStack,
    seen: Seen,
    stop: threading.Event,
    within_seconds: float,
    done: Callable[[], bool],
) -> None:
    """Look on until `done()`, a signal, or the time is up; the comparison tells which."""
    deadline = time.monotonic() + within_seconds
    while not done() and time.monotonic() < deadline:
        _check_alive(stack)
        _look(stack, seen)
        if stop.wait(_LOOK_EVERY_SECONDS):
            return


def _counted(stack: DemoStack) -> int:
    status = stack.status() or {}
    return int(status.get("totals", {}).get("lines", 0))


def _summarise(stack: DemoStack, seen: Seen, verdict: Verdict | None, console: Console) -> None:
    for line in summary_lines(stack, seen, verdict):
        _say(console, line)


def summary_lines(stack: DemoStack, seen: Seen, verdict: Verdict | None) -> Iterator[str]:
    """What is printed at the end."""
    yield ""
    if seen.first_window_after is not None:
        yield f"First window      after {seen.first_window_after:.1f} s"
    if verdict:
        yield f"Lines written     {verdict.written:,} in {verdict.files} files"
        yield f"Lines counted     {verdict.counted:,} in {verdict.batches} batches"
        yield f"Missing, doubled  {verdict.missing:,}, {verdict.doubled:,}"
        yield f"Re-sent, dropped  {verdict.resent:,}"
    delivered = count_notifications(stack.folder / "notifications.jsonl")
    names = ", ".join(sorted(set(seen.attack_alerts.values()))) or "none"
    if stack.alertmanager:
        yield f"Attack alerts     {len(seen.attack_alerts)} in Alertmanager ({names})"
        yield f"Notifications     {delivered} delivered"
    yield f"Incidents         {len(seen.attackers)} attackers"
    yield f"State and logs    {stack.folder}"
    for problem in verdict.problems if verdict else ():
        yield f"PROBLEM           {problem}"
    if verdict and not verdict.problems:
        yield "Every line that was written is accounted for exactly once."


def _exit_code(stack: DemoStack, seen: Seen, verdict: Verdict | None, *, wanted: bool) -> int:
    """0 for a proven run or one that was only watched; 130 for a proof that was interrupted."""
    if verdict is None:
        return 130 if wanted else 0
    alerted = bool(seen.attack_alerts) or stack.alertmanager is None
    return 0 if alerted and not verdict.problems else 1


def _say(console: Console, text: str) -> None:
    console.print(Text(printable(text, limit=2000)), soft_wrap=True)


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C, a request to end, or a closed terminal sets."""
    stop = threading.Event()

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, set_stop) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
