"""`palisade offsets show` for people and programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from offsets.commands import OffsetRow, StoredPipeline
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
    for name in ("committed", "earliest", "latest", "lag"):
        table.add_column(name, justify="right")
    for row in rows:
        committed = "never" if row.committed is None else f"{row.committed:,}"
        partition = f"{printable(row.topic)}\\[{row.partition}]"
        table.add_row(partition, committed, f"{row.earliest:,}", f"{row.latest:,}", f"{row.lag:,}")
    console.print(table)
