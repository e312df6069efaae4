from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.lines.access_line import LINE_SCHEMA, parse_lines
from streaming.lines.log_format import compile_log_format

COMBINED = compile_log_format("combined")
HEAD = "203.0.113.9 - - [18/Nov/2026:10:00:00 +0100] "
NOTHING = {"method": None, "path": None, "query": None, "protocol": None}


def read(line: str, log_format: str = "combined") -> dict[str, Any]:
    return parse_lines(pl.Series([line]), compile_log_format(log_format)).row(0, named=True)


def request(text: str, status: int = 200, size: str = "12") -> str:
    return f'{HEAD}"{text}" {status} {size} "-" "-"'


def test_a_clean_line_tells_everything() -> None:
    row = read(
        '203.0.113.9 - alice [29/Feb/2024:23:59:59 -0730] "GET /a/b?c=d&e HTTP/1.1" 200 4711 '
        '"https://example.com/" "Mozilla/5.0 (X11)"'
    )
    assert row == {
        "ok": True,
        "reason": None,
        "client": "203.0.113.9",
        "user": "alice",
        "time": datetime(2024, 3, 1, 7, 29, 59, tzinfo=UTC),
        "method": "GET",
        "path": "/a/b",
        "query": "c=d&e",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 4711,
        "referer": "https://example.com/",
        "agent": "Mozilla/5.0 (X11)",
        "vhost": None,
        "duration_us": None,
    }


@pytest.mark.parametrize(
    ("text", "reason", "expected"),
    [
        ("-", "empty_request", NOTHING),
        ("", "empty_request", NOTHING),
        (r"\x03", "binary_request", NOTHING),
        (r"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "binary_request", NOTHING),
        ("moteSubmit=Save", "bad_request_line", NOTHING),
        ("SSH-2.0-Go", "bad_request_line", NOTHING),
        ("<SCRIPT>x</SCRIPT> / HTTP/1.1", "bad_method", {"method": None, "path": "/"}),
        ("GET", "no_target", {"method": "GET", "path": None}),
        ("GET  HTTP/1.1", "no_target", {"method": "GET", "path": None, "protocol": "HTTP/1.1"}),
        ("GET /", "no_protocol", {"method": "GET", "path": "/", "protocol": None}),
        ("GET /a b c?d e HTTP/1.1", None, {"path": "/a b c", "query": "d e"}),
        ("GET /a?b?c=1 HTTP/1.1", None, {"path": "/a", "query": "b?c=1"}),
        ("GET /a? HTTP/1.1", None, {"path": "/a", "query": None}),
        ("GET / HTTP/2.0", None, {"protocol": "HTTP/2.0"}),
        ("GET / HTTP/3", None, {"protocol": "HTTP/3"}),
        ("GET http://h.example/p?q=1 HTTP/1.1", None, {"path": "/p", "query": "q=1"}),
        ("GET http://h.example HTTP/1.1", None, {"path": "/"}),
        ("CONNECT h.example:443 HTTP/1.1", None, {"method": "CONNECT", "path": "h.example:443"}),
        ("OPTIONS * HTTP/1.0", None, {"method": "OPTIONS", "path": "*"}),
        ("M-SEARCH * HTTP/1.1", None, {"method": "M-SEARCH"}),
        ("get /x HTTP/1.1", None, {"method": "get", "path": "/x"}),
        (r"GET /a\"b\\c\td HTTP/1.1", None, {"path": '/a"b\\c\td'}),
        (r"GET /caf\xc3\xa9 HTTP/1.1", None, {"path": "/café"}),
        (r"GET /x\xff\xC3\xA9 HTTP/1.1", None, {"path": "/x\\xffé"}),
        (r"GET /\\x41 HTTP/1.1", None, {"path": "/\\x41"}),
    ],
)
def test_whatever_the_request_is_the_line_counts(
    text: str, reason: str | None, expected: dict[str, object]
) -> None:
    row = read(request(text, status=400, size="226"))
    assert (row["ok"], row["reason"]) == (True, reason)
    assert {name: row[name] for name in expected} == expected
    assert (row["client"], row["status"], row["bytes"]) == ("203.0.113.9", 400, 226)
    assert row["time"] == datetime(2026, 11, 18, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "reason", "expected"),
    [
        (HEAD + '"GET / HTTP/1.1" 200', "missing_fields", {"status": 200, "bytes": None}),
        (HEAD + '"GET / HTTP/1.1" 200 5', "missing_fields", {"bytes": 5, "agent": None}),
        (HEAD + '"GET / HTTP/1.1" 200 5 "-" "Mozil', "missing_fields", {"agent": "Mozil"}),
        (request("GET / HTTP/1.1") + ' 123 "more"', None, {"path": "/"}),
        (request("GET / HTTP/1.1") + "\r", None, {"path": "/"}),
        (request('GET /"x" HTTP/1.1'), "unescaped_quote", {"path": '/"x"'}),
        (HEAD + '"GET / HTTP/1.1" 200 5 "-" "a "b" c"', "unescaped_quote", {"agent": 'a "b" c'}),
        (request("GET / HTTP/1.1").replace("- - [", "- bob smith ["), None, {"user": "bob smith"}),
        (request("GET / HTTP/1.1", size="-"), None, {"bytes": None}),
        (request("GET /" + "a" * 70_000 + " HTTP/1.1"), None, {"path": "/" + "a" * 70_000}),
        (
            request("GET / HTTP/1.1").replace("203.0.113.9", "2001:db8::7"),
            None,
            {"client": "2001:db8::7"},
        ),
        (
            request("GET / HTTP/1.1").replace("203.0.113.9", "a.example"),
            None,
            {"client": "a.example"},
        ),
    ],
)
def test_ugly_lines_are_still_access_lines(
    line: str, reason: str | None, expected: dict[str, object]
) -> None:
    row = read(line)
    assert (row["ok"], row["reason"]) == (True, reason)
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "empty_line"),
        (" \t ", "empty_line"),
        ("hello world", "not_an_access_line"),
        ("[Wed Nov 18 10:00:00 2026] [error] client denied", "not_an_access_line"),
        (HEAD + '"GET /', "cut_line"),
        (request("GET / HTTP/1.1").replace(" 200 ", " 2000 "), "cut_line"),
        (request("GET / HTTP/1.1").replace("18/Nov", "31/Feb"), "bad_time"),
        (request("GET / HTTP/1.1").replace("2026", "0000"), "bad_time"),
        (request("GET / HTTP/1.1").replace("18/Nov/2026:10", "18/Nov/2026:25"), "bad_time"),
        (request("GET / HTTP/1.1").replace("+0100", "+9900"), "bad_time"),
        (request("GET / HTTP/1.1").replace("203.0.113.9", "-"), "no_client"),
    ],
)
def test_what_is_no_access_line_is_quarantined_with_a_reason(line: str, reason: str) -> None:
    row = read(line)
    assert (row["ok"], row["reason"]) == (False, reason)


def test_order_is_kept_when_clean_and_ugly_lines_mix() -> None:
    lines = [request(f"GET /{n} HTTP/1.1") if n % 3 else request(f"GET /{n}") for n in range(30)]
    assert parse_lines(pl.Series(lines), COMBINED)["path"].to_list() == [f"/{n}" for n in range(30)]


def test_no_lines_are_no_rows() -> None:
    for name in ("combined", "json"):
        frame = parse_lines(pl.Series([], dtype=pl.String), compile_log_format(name))
        assert frame.is_empty()
        assert dict(frame.schema) == LINE_SCHEMA


JSON_TIME = '"time":"2026-11-18T10:00:00+01:00"'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '{"remote_addr":"1.2.3.4",'
            + JSON_TIME
            + ',"request":"GET /a?b=1 HTTP/1.1","status":200,'
            '"body_bytes_sent":5,"http_referer":"-","http_user_agent":"x \\"y\\"","request_time":0.25}',
            {
                "client": "1.2.3.4",
                "path": "/a",
                "query": "b=1",
                "bytes": 5,
                "referer": None,
                "agent": 'x "y"',
                "duration_us": 250_000,
            },
        ),
        (
            '{"clientip":"::1","@timestamp":"2026-11-18T09:00:00.5Z","method":"POST","uri":"/x?y=1",'
            '"status":"404","size":"-","vhost":"w","nested":{"a":[1]},"tls":true}',
            {
                "client": "::1",
                "method": "POST",
                "path": "/x",
                "query": "y=1",
                "status": 404,
                "bytes": None,
            },
        ),
        (
            '{"client":"h","time_local":"18/Nov/2026:10:00:00 +0100","status":200,"referer":"\\u00e9\\ud800"}',
            {"client": "h", "referer": "é\\ud800", "reason": "empty_request"},
        ),
        (
            '{"ip":"1.1.1.1","ts":1794992400.25,"status":200,"method":"GET","path":"/"}',
            {"path": "/"},
        ),
    ],
)
def test_json_lines_are_read_under_common_names(line: str, expected: dict[str, object]) -> None:
    row = read(line, "json")
    assert row["ok"]
    assert row["time"].replace(microsecond=0) == datetime(2026, 11, 18, 9, 0, tzinfo=UTC)
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "empty_line"),
        ("{", "not_an_access_line"),
        ("[1,2]", "not_an_access_line"),
        ('{"a":1e999}', "bad_time"),
        ("[" * 100_000, "not_an_access_line"),
        ('{"time":"2026-11-18T10:00:00Z","status":200}', "no_client"),
        ('{"client":"h","time":"2026-11-18T10:00:00Z"}', "no_status"),
        ('{"client":"h","time":"2026-02-30T10:00:00Z","status":200}', "bad_time"),
    ],
)
def test_json_lines_without_the_needed_fields_are_quarantined(line: str, reason: str) -> None:
    assert read(line, "json")["reason"] == reason


PIECES = st.sampled_from(
    [
        HEAD,
        '"',
        "\\",
        " ",
        "[",
        "]",
        "GET / HTTP/1.1",
        "200",
        "-",
        "\\x16",
        "\r",
        "%",
        "{",
        "é",
        "\x00",
        ":",
    ]
)
HOSTILE = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n"), max_size=80),
    st.lists(PIECES, max_size=14).map("".join),
)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(HOSTILE, max_size=8),
    st.sampled_from(["combined", "json", "vhost_combined", "%h %r %t %u %s"]),
)
def test_no_text_raises_and_no_row_is_lost(lines: list[str], log_format: str) -> None:
    frame = parse_lines(pl.Series(lines, dtype=pl.String), compile_log_format(log_format))
    assert frame.height == len(lines)
    assert dict(frame.schema) == LINE_SCHEMA
    assert frame.filter(~pl.col("ok") & pl.col("reason").is_null()).is_empty()
