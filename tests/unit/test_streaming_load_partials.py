from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from streaming.lines.access_line import LINE_SCHEMA
from streaming.load.merge import TABLES, merge_partials
from streaming.load.partials import cut_tops, summarise, summarise_whole
from streaming.load.url_template import url_template
from streaming.load.windows import duration_bucket, quantile_of_counts, status_class

START = datetime(2026, 11, 18, 9, 0, tzinfo=UTC)
WINDOW = int(START.timestamp())
FRAME_SCHEMA = {
    **LINE_SCHEMA,
    "service": pl.String(),
    "partition": pl.Int32(),
    "record_offset": pl.Int64(),
    "line": pl.String(),
    "detectors": pl.List(pl.String()),
    "detector_points": pl.List(pl.Int32()),
    "score": pl.Int32(),
}


def row(**fields: Any) -> dict[str, Any]:
    fired = fields.pop("fired", [])
    return {
        **dict.fromkeys(FRAME_SCHEMA),
        "ok": True,
        "client": "192.0.2.1",
        "time": START,
        "method": "GET",
        "path": "/",
        "status": 200,
        "bytes": 10,
        "agent": "curl",
        "vhost": "www",
        "service": "web",
        "partition": 0,
        "record_offset": 0,
        "line": "a line",
        "detectors": fired,
        "detector_points": [5] * len(fired),
        "score": 5 * len(fired),
        **fields,
    }


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=FRAME_SCHEMA)


def tops(tables: dict[str, pl.DataFrame], kind: str) -> dict[str, int]:
    chosen = tables["tops"].filter(pl.col("kind") == kind)
    return dict(chosen.select("key", "requests").iter_rows())


def test_requests_are_counted_by_window_host_method_and_status() -> None:
    tables = summarise(
        frame(
            row(bytes=5, duration_us=100),
            row(bytes=None, duration_us=300),
            row(time=START + timedelta(seconds=9.9)),
            row(time=START + timedelta(seconds=10)),
            row(method="BREW", status=None),
            row(method=None),
            row(ok=False, status=None, time=None),
        ),
        top_entries=10,
    )
    load = tables["load"].rows_by_key(["window", "method", "status"], named=True, unique=True)
    first = load[WINDOW, "GET", 200]
    assert (first["requests"], first["bytes"]) == (3, 15)
    assert (first["duration_count"], first["duration_us_sum"], first["duration_us_max"]) == (
        2,
        400,
        300,
    )
    assert load[WINDOW + 10, "GET", 200]["requests"] == 1
    assert load[WINDOW, "other", 0]["requests"] == 1
    assert load[WINDOW, "other", 200]["requests"] == 1
    assert tables["load"]["requests"].sum() == 6


def test_every_table_has_its_columns_even_without_rows() -> None:
    for tables in (summarise(frame(), 5), merge_partials([])):
        assert {name: dict(table.schema) for name, table in tables.items()} == {
            name: table.schema for name, table in TABLES.items()
        }


def test_top_lists_keep_the_most_requested_and_count_the_rest() -> None:
    rows = [row(client=f"192.0.2.{n}", path=f"/p{n}x") for n in range(6) for _ in range(n + 1)]
    tables = summarise(frame(*rows, row(agent=None)), top_entries=2)
    assert tops(tables, "client") == {"192.0.2.5": 6, "192.0.2.4": 5, "": 11}
    assert tops(tables, "agent") == {"curl": 21, "-": 1}
    assert sum(tops(tables, "url").values()) == 22


def test_urls_are_listed_as_templates() -> None:
    tables = summarise(frame(*(row(path=f"/orders/{n}") for n in range(50))), top_entries=2)
    assert tops(tables, "url") == {"/orders/{id}": 50}


def test_over_all_time_there_is_one_window_but_attacks_keep_theirs() -> None:
    rows = [row(time=START + timedelta(seconds=n * 10), fired=["sqli"]) for n in range(3)]
    tables = summarise_whole(frame(*rows), top_entries=5)
    assert tables["load"].select("window", "requests").rows() == [(0, 3)]
    assert tops(tables, "client") == {"192.0.2.1": 3}
    assert tables["attacks"]["window"].to_list() == [WINDOW, WINDOW + 10, WINDOW + 20]
    assert cut_tops(tables["tops"], 5).equals(tables["tops"])


ROWS = st.builds(
    row,
    client=st.sampled_from(["192.0.2.1", "192.0.2.2", None]),
    time=st.integers(0, 60).map(lambda seconds: START + timedelta(seconds=seconds)),
    path=st.sampled_from(["/", "/a/1", "/a/2", "/login", "/x.css", None]),
    method=st.sampled_from(["GET", "POST", "ODD"]),
    status=st.sampled_from([200, 301, 401, 404, 500]),
    bytes=st.one_of(st.none(), st.integers(0, 10**9)),
    duration_us=st.one_of(st.none(), st.integers(0, 10**8)),
    partition=st.integers(0, 2),
    record_offset=st.integers(0, 1000),
    line=st.sampled_from(["b", "a", "c" * 400]),
    fired=st.sampled_from([[], ["sqli"], ["sqli", "xss"]]),
)


@settings(max_examples=12, deadline=None)
@given(st.lists(ROWS, max_size=25), st.lists(st.integers(0, 25), max_size=3))
def test_merging_any_split_in_any_order_equals_one_pass(
    rows: list[dict[str, Any]], cuts: list[int]
) -> None:
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [summarise(frame(*rows[start:end]), 1000) for start, end in pairwise(edges)]
    whole = merge_partials([summarise(frame(*rows), 1000)])
    grouped = merge_partials([merge_partials(parts[:1]), merge_partials(reversed(parts[1:]))])
    for name in ("load", "latency", "tops", "attacks"):
        assert_frame_equal(grouped[name], whole[name])


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/", "/"),
        ("/about", "/about"),
        ("/a/1/2/b", "/a/{id}/{id}/b"),
        ("//1//2", "//{id}//{id}"),
        ("/f/123.html", "/f/{id}.html"),
        ("/x/550e8400-e29b-41d4-a716-446655440000/", "/x/{id}/"),
        ("/c/9f86d081884c7d659a2feaa0c55ad015", "/c/{id}"),
        ("/t/eyJ0eXAi1OiJKV1Qi2LCJhbGciOiJI", "/t/{id}"),
        ("/v1/users", "/v1/users"),
        ("/html5/rgb2hex", "/html5/rgb2hex"),
        ("/blog/2026/11/a-title-of-1984", "/blog/{id}/{id}/a-title-of-1984"),
        ("*", "*"),
        (None, None),
    ],
)
def test_identifiers_in_paths_are_folded(path: str | None, template: str | None) -> None:
    folded = pl.DataFrame({"path": [path]}, schema={"path": pl.String}).select(
        url_template(pl.col("path"))
    )
    assert folded.item() == template


def test_durations_fall_into_the_first_bucket_that_holds_them() -> None:
    durations = pl.Series([0, 1000, 1001, 60_000_000, 60_000_001, None])
    assert duration_bucket(durations).to_list() == [0, 0, 1, 14, 15, None]


@pytest.mark.parametrize(
    ("counts", "quantile", "seconds"),
    [
        ([0] * 16, 0.5, None),
        ([10] + [0] * 15, 0.5, 0.0005),
        ([0, 10] + [0] * 14, 1.0, 0.0025),
        ([0] * 15 + [3], 0.99, 60.0),
    ],
)
def test_quantiles_are_read_from_buckets(
    counts: list[int], quantile: float, seconds: float | None
) -> None:
    assert quantile_of_counts(counts, quantile) == seconds


def test_statuses_have_classes() -> None:
    named = pl.DataFrame({"status": [101, 204, 599, 0, 999]}).select(status_class(pl.col("status")))
    assert named.to_series().to_list() == ["1xx", "2xx", "5xx", "other", "other"]
