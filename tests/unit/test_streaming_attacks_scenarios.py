from __future__ import annotations

import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from streaming.attacks.detector import load_detectors
from streaming.attacks.incident import IncidentBook
from streaming.attacks.match import match_lines
from streaming.lines.access_line import parse_lines
from streaming.lines.log_format import compile_log_format
from streaming.load.merge import merge_partials
from streaming.load.partials import summarise

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.toml"))
START = datetime(2026, 11, 18, 10, 0, 3, tzinfo=UTC)
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"
DETECTORS = load_detectors()
COMBINED = compile_log_format("combined")


def episode_lines(episode: dict[str, Any]) -> list[tuple[datetime, str]]:
    lines = []
    for n in range(episode["count"]):
        time = START + timedelta(seconds=n * episode["every_seconds"])
        client = episode["client"].format(n=n % episode.get("clients", 1))
        line = (
            f"{client} - - [{time:%d/%b/%Y:%H:%M:%S %z}] "
            f'"{episode["request"].replace("{n}", str(n))}" {episode.get("status", 200)} 500 '
            f'"{episode.get("referer", "-")}" "{episode.get("agent", BROWSER)}"'
        )
        lines.append((time, line))
    return lines


def partials(lines: list[str], offset: int) -> dict[str, pl.DataFrame]:
    series = pl.Series("line", lines)
    frame = parse_lines(series, COMBINED).with_columns(
        pl.lit("web").alias("service"),
        pl.col("vhost").fill_null("-"),
        pl.lit(0, pl.Int32).alias("partition"),
        (pl.int_range(pl.len()) + offset).alias("record_offset"),
        series,
    )
    assert frame["ok"].all()
    return summarise(match_lines(frame, DETECTORS), 100)


@pytest.mark.parametrize("lines_in_batch", [250, 100_000])
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_has_exactly_its_attackers(path: Path, lines_in_batch: int) -> None:
    scenario = tomllib.loads(path.read_text("utf-8"))
    timed = sorted(line for episode in scenario["episodes"] for line in episode_lines(episode))
    lines = [line for _, line in timed]
    book = IncidentBook(DETECTORS)
    for start in range(0, len(lines), lines_in_batch):
        batch = merge_partials([partials(lines[start : start + lines_in_batch], start)])
        book.update(batch["attacks"], batch["behaviour"])
    found = {
        one.client: {"detectors": sorted(one.detectors), "incident": one.is_open}
        for one in book.attackers(START.timestamp())
    }
    assert found == scenario.get("expected", {})
