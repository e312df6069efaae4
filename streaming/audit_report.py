"""`palisade audit` for people: the verdict first, then what it rests on."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from palisade_output import printable
from streaming.audit import Audit

_GENERATIONS_SHOWN = 50


def show_audit(audit: Audit, console: Console | None = None) -> None:
    """Print an audit."""
    console = console or Console(highlight=False)
    verdict = "[green]Complete[/]" if audit.ok else "[red]Not complete[/]"
    totals = audit.totals
    console.print(
        f"{verdict}: {totals['lines']:,} lines in {audit.batch_count:,} batches counted once each; "
        f"{totals['gap_bytes']:,} bytes missing, {totals['resent_lines']:,} re-sent lines dropped, "
        f"{totals['unproven_lines']:,} lines without identity."
    )
    for problem in audit.problems:
        console.print(f"[red]![/] {printable(problem)}", markup=True)
    for lost in audit.lost_ranges:
        where = f"{lost.topic}[{lost.partition}] {lost.from_offset}..{lost.until_offset}"
        console.print(
            f"[yellow]lost[/] {printable(where)}, accepted in batch {lost.batch}: {printable(lost.reason)}"
        )
    for reset in audit.resets:
        where = f"{reset.topic}[{reset.partition}] {_or_nothing(reset.from_offset)} -> {_or_nothing(reset.to_offset)}"
        console.print(
            f"[yellow]reset[/] {_plain(where)}, by an operator after batch {reset.after_batch}"
        )
    console.print(_generation_table(audit))
    hidden = len(audit.generations) - _GENERATIONS_SHOWN
    if hidden > 0:
        console.print(f"… and {hidden:,} more files (see --json)")
    console.print(_partition_table(audit))


def _generation_table(audit: Audit) -> Table:
    table = Table(title="Log files", title_justify="left")
    for name in ("service", "host", "file", "generation"):
        table.add_column(name, overflow="fold")
    for name in ("lines", "bytes", "from", "to", "missing", "re-sent"):
        table.add_column(name, justify="right")
    for one in audit.generations[:_GENERATIONS_SHOWN]:
        table.add_row(
            *(_plain(text) for text in (one.service, one.host, one.path, one.generation)),
            f"{one.lines:,}",
            f"{one.bytes:,}",
            f"{one.first_offset:,}",
            f"{one.end_offset:,}",
            f"{one.gap_bytes:,}",
            f"{one.resent_lines:,}",
        )
    return table


def _partition_table(audit: Audit) -> Table:
    table = Table(title="Kafka", title_justify="left")
    table.add_column("partition")
    for name in ("from", "until", "records"):
        table.add_column(name, justify="right")
    for one in audit.partitions:
        table.add_row(
            _plain(f"{one.topic}[{one.partition}]"),
            f"{one.from_offset:,}",
            f"{one.until_offset:,}",
            f"{one.records:,}",
        )
    return table


def _or_nothing(offset: int | None) -> str:
    return "nothing" if offset is None else f"{offset:,}"


def _plain(text: str) -> str:
    """Printable, and without a meaning to rich's markup."""
    return printable(text).replace("[", "\\[")
