"""`palisade offsets show` for people and programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from offsets.commands import OffsetRow, PlannedReset, StoredPipeline
from palisade_output import printable
from streaming.status import iso


def offsets_document(
    job: str, stored: StoredPipeline, rows: Sequence[OffsetRow]
) -> dict[str, object]:
    """The document of `palisade offsets show --json`."""
    commit = stored.commit
    return {
        "job": job,
        "leader": stored.leader,
        "epoch": commit.epoch,
        "batch": commit.batch,
        "committed_at": iso(commit.committed_at) if commit.committed_at else None,
        "pending_batch": stored.pending.batch if stored.pending else None,
        "lag_records": sum(row.lag for row in rows),
        "lag_seconds": _longest(rows),
        "partitions": [row.to_json() for row in rows],
    }


def show_offsets(
    job: str,
    stored: StoredPipeline,
    rows: Sequence[OffsetRow],
    as_json: bool,
    console: Console | None = None,
) -> None:
    """Print where the job stands."""
    console = console or Console(highlight=False)
    document = offsets_document(job, stored, rows)
    if as_json:
        console.print_json(json.dumps(document))
        return
    console.print(
        f"Job {printable(job)}: batch {document['batch']}, epoch {document['epoch']}, "
        f"committed {document['committed_at'] or 'never'}, led by {printable(stored.leader or 'nobody')}"
        + (f", batch {document['pending_batch']} pending" if stored.pending else "")
    )
    table = Table()
    table.add_column("partition")
    for name in ("committed", "earliest", "latest", "lag", "waiting"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            f"{printable(row.topic)}\\[{row.partition}]",
            "never" if row.committed is None else f"{row.committed:,}",
            f"{row.earliest:,}",
            f"{row.latest:,}",
            f"{row.lag:,}",
            "unknown" if row.lag_seconds is None else f"{row.lag_seconds:,.1f} s",
        )
    console.print(table)


def reset_lines(planned: PlannedReset) -> list[str]:
    """What a reset would do, line by line."""
    lines = [
        f"{row.partition}: {'never read' if row.committed is None else row.committed} -> {row.target}, {row.effect}"
        for row in planned.rows
    ]
    moves = [row.target - row.committed for row in planned.rows if row.committed is not None]
    if any(move < 0 for move in moves):
        lines.append(
            "Repeated records are recognised: lines that were counted are dropped as re-sends, so nothing counts "
            "twice. Only lines without identity (sent by other shippers) count again."
        )
    if any(move > 0 for move in moves):
        lines.append(
            "Skipped records are not counted; where they belong to a known file, the audit shows a gap."
        )
    if planned.shown.pending is not None:
        lines.append(
            f"Batch {planned.shown.pending.batch} was started and not finished: it is dropped, its records are read "
            "again where the new offsets say so."
        )
    return lines


def _longest(rows: Sequence[OffsetRow]) -> float | None:
    """The longest wait; None when it is not known for a partition that lags."""
    waits = [row.lag_seconds for row in rows]
    return None if None in waits else max((wait for wait in waits if wait is not None), default=0.0)
