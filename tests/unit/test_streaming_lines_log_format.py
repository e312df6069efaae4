from __future__ import annotations

import pickle
import warnings
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from streaming.lines.access_line import parse_lines
from streaming.lines.log_format import LogFormatError, compile_log_format
from streaming.lines.recognise import recognise_format

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its patterns use escapes that newer Pythons warn about
    import apache_log_parser

TIME = "[18/Nov/2026:10:00:00 +0100]"
COMBINED = f'1.2.3.4 - - {TIME} "GET /a?b=1 HTTP/1.1" 200 12 "http://x/" "curl/8"'


def read(log_format: str, line: str) -> dict[str, Any]:
    return parse_lines(pl.Series([line]), compile_log_format(log_format)).row(0, named=True)


@pytest.mark.parametrize(
    ("log_format", "line", "expected"),
    [
        ("%a %t %>s", f"::1 {TIME} 204", {"client": "::1", "status": 204}),
        ("%{c}a %t %s", f"10.0.0.1 {TIME} 404", {"client": "10.0.0.1", "status": 404}),
        ("%{c}a %a %h %t %s", f"9.9.9.9 1.1.1.1 h {TIME} 200", {"client": "1.1.1.1"}),
        ("%h %A %t %s %B", f"h.example 10.1.1.1 {TIME} 200 0", {"client": "h.example", "bytes": 0}),
        ("%h %t %s %b", f"h {TIME} 200 -", {"bytes": None}),
        ("%h %t %s %b %O", f"h {TIME} 200 5 90", {"bytes": 5}),
        ("%h %t %s %O", f"h {TIME} 200 90", {"bytes": 90}),
        ("%h %t %s %D", f"h {TIME} 200 1500", {"duration_us": 1500}),
        ("%h %t %s %T", f"h {TIME} 200 2", {"duration_us": 2_000_000}),
        ("%h %t %s %{ms}T", f"h {TIME} 200 7", {"duration_us": 7_000}),
        ("%h %t %s %{us}T", f"h {TIME} 200 7", {"duration_us": 7}),
        ("%h %t %s %{s}T", f"h {TIME} 200 0.25", {"duration_us": 250_000}),
        ("%h %t %s %T/%D", f"h {TIME} 200 1/900000", {"duration_us": 900_000}),
        ("%h %t %s %D", f"h {TIME} 200 -5", {"duration_us": None}),
        ("%h %t %s %^FB", f"h {TIME} 200 77", {"ok": True, "duration_us": None}),
        ("%h %t %s %f", f"h {TIME} 200 /srv/www/a b.html", {"ok": True}),
        (
            "%h %t %m %U%q %H %s",
            f"h {TIME} GET /x?y=1 HTTP/2.0 200",
            {"method": "GET", "path": "/x", "query": "y=1", "protocol": "HTTP/2.0"},
        ),
        ("%h %t %m %U %q %H %s", f"h {TIME} GET /x  HTTP/1.1 200", {"path": "/x", "query": None}),
        ("%h %t %s %v %p", f"h {TIME} 200 www.example.com 443", {"vhost": "www.example.com"}),
        ("%V %h %t %s", f"www.example.com h {TIME} 200", {"vhost": "www.example.com"}),
        ('%h %t %s "%{Host}i"', f'h {TIME} 200 "shop.example"', {"vhost": "shop.example"}),
        ("%h %t %s %I %S %k %L %P %{tid}P %R %X", f"h {TIME} 200 1 2 3 - 4 5 - +", {"ok": True}),
        ("%h %t %s %{remote}p %{local}p", f"h {TIME} 200 50000 80", {"ok": True}),
        (
            '%h %t %s "%{X}o" "%{c}C" "%{E}e" "%{n}n"',
            f'h {TIME} 200 "a b" "-" "" "x"',
            {"ok": True},
        ),
        ('%h %t %>s "%{SSL_PROTOCOL}x"', f'h {TIME} 200 "TLSv1.3"', {"ok": True}),
        ("%h %t %<s %>s", f"h {TIME} 302 200", {"status": 200}),
        ('%h %t %s "%!200,304{Referer}i"', f'h {TIME} 404 "http://r/"', {"referer": "http://r/"}),
        ('%h %t %s "%400,501{User-agent}i"', f'h {TIME} 200 "-"', {"agent": None}),
        ("%h 100%% %t %s", f"h 100% {TIME} 200", {"status": 200}),
        (r"%h\t%t\t%s", f"h\t{TIME}\t200", {"client": "h", "status": 200}),
        (r"%h %t \"%r\" %s", f'h {TIME} "GET / HTTP/1.1" 200', {"method": "GET", "path": "/"}),
        ("%h %t %r %s", f"h {TIME} GET /a b HTTP/1.1 200", {"path": "/a b", "status": 200}),
        ("%h %l %u %t %s", f"h - alice {TIME} 200", {"user": "alice"}),
        ("%h:%{remote}p %t %s", f"1.2.3.4:5555 {TIME} 200", {"client": "1.2.3.4"}),
    ],
)
def test_each_directive_tells_its_field(
    log_format: str, line: str, expected: dict[str, object]
) -> None:
    row = read(log_format, line)
    assert row["ok"], row
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("form", "text", "microsecond"),
    [
        ("%{sec}t", "1794992400", 0),
        ("%{msec}t", "1794992400123", 123_000),
        ("%{usec}t", "1794992400123456", 123_456),
        ("%{begin:sec}t", "1794992400", 0),
        ("%{end:msec}t", "1794992400500", 500_000),
        ("%{sec}t.%{msec_frac}t", "1794992400.123", 123_000),
        ("[%{%d/%b/%Y:%H:%M:%S %z}t]", "[18/Nov/2026:10:00:00 +0100]", 0),
        ("[%{begin:%Y-%m-%d %H:%M:%S %z}t]", "[2026-11-18 14:30:00 +0530]", 0),
        ("%{%Y-%m-%dT%H:%M:%S%z}t", "2026-11-18T09:00:00+0000", 0),
        ("%{%F %T}t", "2026-11-18 09:00:00", 0),
        ("[%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t]", "[18/Nov/2026:10:00:00.000321 +0100]", 321),
    ],
)
def test_every_way_to_write_the_time_means_the_same_moment(
    form: str, text: str, microsecond: int
) -> None:
    row = read(f"%h {form} %s", f"h {text} 200")
    assert row["time"] == datetime(2026, 11, 18, 9, 0, 0, microsecond, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("%h %t %Z", "'%Z'"),
        ("%h %t %{minutes}T", "'%{minutes}T'"),
        ("%h %t %{x}a", "'%{x}a'"),
        ("%h %t %", "'%'"),
        ("%h %>s", "no time"),
        ("combinde", "'combinde' is not known: use one of common, combined"),
    ],
)
def test_a_format_that_cannot_be_used_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(LogFormatError) as refused:
        compile_log_format(text)
    assert named in str(refused.value)


def test_own_formats_have_names() -> None:
    compiled = compile_log_format("mine", {"mine": "%h %t %s"})
    assert compiled.name == "mine"
    assert pickle.loads(pickle.dumps(compiled)) == compiled


ORACLE_NAMES = {
    "client": ("remote_ip", "remote_host"),
    "user": ("remote_user",),
    "status": ("status",),
    "bytes": ("response_bytes_clf", "response_bytes", "bytes_tx"),
    "referer": ("request_header_referer",),
    "agent": ("request_header_user_agent",),
    "method": ("request_method",),
    "path": ("request_url_path",),
    "query": ("request_url_query",),
    "vhost": ("server_name",),
    "duration_us": ("time_us",),
}
ORACLE_LINES = {
    '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"': [
        COMBINED,
        COMBINED.replace("- -", "- bob"),
        COMBINED.replace("/a?b=1", "/"),
        COMBINED.replace("GET", "POST").replace(" 12 ", " - "),
        COMBINED.replace("1.2.3.4", "2001:db8::1").replace("+0100", "-0700"),
    ],
    '%v %a %t "%r" %s %B %D': [f'www.example 1.2.3.4 {TIME} "HEAD /x HTTP/1.0" 304 0 1234'],
    "%a %t %m %U %O %s %B": [f"1.2.3.4 {TIME} GET /x 99 200 98"],
}


@pytest.mark.parametrize(("log_format", "lines"), ORACLE_LINES.items())
def test_fields_equal_those_of_apache_log_parser(log_format: str, lines: list[str]) -> None:
    oracle = apache_log_parser.make_parser(log_format)
    rows = parse_lines(pl.Series(lines), compile_log_format(log_format)).to_dicts()
    for line, row in zip(lines, rows, strict=True):
        told = oracle(line)
        for field, names in ORACLE_NAMES.items():
            value = next((told[name] for name in names if name in told), None)
            if value is not None:
                assert (str(row[field]) if row[field] is not None else "-") == (value or "-"), field
        assert row["time"] == told["time_received_tz_datetimeobj"].astimezone(UTC)


VHOST = f"www.example:443 {COMBINED.replace(' 12 ', ' 300 ')}"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (COMBINED, "combined"),
        (COMBINED + " 1234 extra", "combined"),
        (f'1.2.3.4 - - {TIME} "GET / HTTP/1.1" 200 12', "common"),
        (VHOST, "vhost_combined"),
        (COMBINED + " 300 4000", "combinedio"),
        ('{"remote_addr":"1.2.3.4","status":200}', "json"),
        (f'1.2.3.4 - - {TIME} "-" 408 - "-" "-"', "combined"),
        (f'1.2.3.4 - - {TIME} "GET /"x HTTP/1.1" 400 - "a"b" "-"', "combined"),
    ],
)
def test_known_formats_are_recognised_from_their_lines(line: str, name: str) -> None:
    sample = [line] * 9 + ["", "some garbage"]
    assert recognise_format(sample).name == name


@pytest.mark.parametrize("sample", [[], ["", "  "]])
def test_no_lines_no_format(sample: list[str]) -> None:
    with pytest.raises(LogFormatError, match="without a line"):
        recognise_format(sample)


def test_lines_of_another_kind_are_not_recognised() -> None:
    with pytest.raises(LogFormatError, match="name the LogFormat"):
        recognise_format(["Nov 18 10:00:00 host sshd[1]: Accepted password"] * 5)
