"""`make bench`: what a batch costs, whether it stays that cheap, and how fast a restart is.

Real Kafka, ZooKeeper and Spark on this machine, everything measured in one run. Results go to the terminal as
a table and to var/bench/results.json for machines. `--quick` keeps it under three minutes on a free machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from bench.measurements import Measurement
from bench.small_batches import measure_small_batches
from rich.console import Console
from rich.table import Table
from support import servers

from deploy.local.child_process import ChildKeeper
from streaming.settings import StreamSettings
from streaming.spark_session import spark_context


def main() -> int:
    """Run every measurement, show the table, and fail if a goal was missed."""
    options = _options()
    console = Console()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="palisade-bench-") as name:
        folder = Path(name)
        with ChildKeeper(folder / "servers") as keeper:
            bootstrap = servers.kafka_for_tests(keeper, folder / "kafka")
            zookeeper = servers.zookeeper_for_tests(keeper, folder / "zookeeper")
            context = spark_context(StreamSettings(), "palisade bench")
            try:
                found = measure_small_batches(
                    folder / "run", bootstrap, zookeeper, context, options.quick
                )
            finally:
                context.stop()
    _show(found, console)
    _save(found, options.results)
    console.print(f"{time.monotonic() - started:.0f} s in all; results in {options.results}")
    return 0 if all(one.is_met for one in found) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer batches, under three minutes")
    parser.add_argument("--results", type=Path, default=Path("var/bench/results.json"))
    return parser.parse_args()


def _show(found: list[Measurement], console: Console) -> None:
    table = Table(title="Palisade bench", title_justify="left")
    for column in ("what", "measured", "goal", ""):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for one in found:
        verdict = "" if one.goal is None else "[green]met[/]" if one.is_met else "[red]missed[/]"
        table.add_row(one.name, one.shown, one.shown_goal, verdict)
    console.print(table)


def _save(found: list[Measurement], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"measurements": [one.to_json() for one in found]}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
