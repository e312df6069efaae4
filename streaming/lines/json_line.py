"""JSON access logs: one object on a line, under the key names that servers commonly use.

Pure, frame → frame. Flat objects of texts and numbers are read by Polars; other objects by Python's own reader, since a
single odd value would make Polars refuse the whole frame.
"""

from __future__ import annotations

import json

import polars as pl

from streaming.lines.line_time import read_iso_times
from streaming.lines.request_line import split_requests, split_target

_KEYS: dict[str, tuple[str, ...]] = {
    "client": (
        "remote_addr",
        "clientip",
        "client_ip",
        "remote_ip",
        "remoteIP",
        "client",
        "remote_host",
        "ip",
        "host",
        "a",
        "h",
    ),
    "user": ("remote_user", "user", "auth", "remoteUser"),
    "time": ("time", "@timestamp", "timestamp", "time_iso8601", "time_local", "ts", "date", "t"),
    "request": ("request", "request_line", "requestLine", "r"),
    "method": ("method", "request_method", "verb", "requestMethod"),
    "target": ("uri", "request_uri", "url", "requestUri"),
    "path": ("path", "uri_path", "requestPath"),
    "query": ("query", "query_string", "args", "queryString"),
    "protocol": ("protocol", "server_protocol", "http_version", "requestProtocol"),
    "status": ("status", "response", "code", "status_code", "response_code"),
    "bytes": (
        "bytes",
        "size",
        "body_bytes_sent",
        "bytes_sent",
        "response_size",
        "response_bytes",
        "responseSize",
    ),
    "referer": ("referer", "http_referer", "referrer", "http_referrer"),
    "agent": ("agent", "user_agent", "http_user_agent", "userAgent", "useragent"),
    "vhost": (
        "vhost",
        "server_name",
        "virtualhost",
        "virtual_host",
        "http_host",
        "hostname",
        "serverName",
    ),
    "duration_us": ("duration_us", "duration_usec", "time_us", "D"),
    "duration_ms": ("duration_ms", "response_time_ms", "took_ms"),
    "duration_s": (
        "request_time",
        "duration",
        "elapsed",
        "response_time",
        "upstream_response_time",
    ),
}
_NAMES = [name for names in _KEYS.values() for name in names]
_VALUE = r'(?:"(?:[^"\\]|\\["\\/bfnrt])*"|-?[0-9]+(?:\.[0-9]+)?|null)'
_FLAT = rf'^ *\{{ *"[^"\\]+" *: *{_VALUE}(?: *, *"[^"\\]+" *: *{_VALUE})* *\}} *\r?$'


def read_json_lines(lines: pl.Series) -> pl.DataFrame:
    """Text columns for each field, `time` as UTC, `is_object`, and the request's `reason`; same rows, same order."""
    flat = lines.str.contains(_FLAT).fill_null(value=False)
    objects = _decode(lines.alias("line"), flat)
    named = objects.select(
        "is_object", *(_first(names).alias(field) for field, names in _KEYS.items())
    )
    return _with_request(named.with_columns(time=read_iso_times(pl.col("time"))))


def _decode(lines: pl.Series, flat: pl.Series) -> pl.DataFrame:
    frame = lines.to_frame().with_row_index("position")
    easy, odd = frame.filter(flat), frame.filter(~flat)
    decoded = easy.select(
        "position", pl.col("line").str.json_decode(pl.Struct(dict.fromkeys(_NAMES, pl.String)))
    )
    parsed = [_python_object(text) for text in odd["line"].to_list()]
    odd_values = pl.DataFrame(
        {"line": [values or {} for values in parsed]},
        schema={"line": pl.Struct(dict.fromkeys(_NAMES, pl.String))},
    )
    odd_rows = odd_values.with_columns(
        odd["position"],
        is_object=pl.Series([values is not None for values in parsed], dtype=pl.Boolean),
    )
    columns = ["position", "is_object", "line"]
    easy_rows = decoded.with_columns(is_object=pl.lit(value=True))
    return (
        pl.concat([easy_rows.select(columns), odd_rows.select(columns)])
        .sort("position")
        .unnest("line")
    )


def _python_object(text: str) -> dict[str, str | None] | None:
    """The known keys of one object as text, or None where the line is no JSON object."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    return {name: _text(values[name]) for name in _NAMES if name in values}


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return None if value is None or isinstance(value, dict | list) else str(value)


def _first(names: tuple[str, ...]) -> pl.Expr:
    return pl.coalesce(
        *(pl.when(~pl.col(name).is_in(["", "-"])).then(pl.col(name)) for name in names)
    )


def _with_request(fields: pl.DataFrame) -> pl.DataFrame:
    """Method, path, query, protocol from the request line where there is one, else from their own keys."""
    split = split_requests(fields["request"])
    path, query = split_target(pl.coalesce("target", "path"))
    own = fields.select(path.alias("own_path"), query.alias("own_query"))
    whole = pl.col("request").is_not_null()
    described = whole | pl.coalesce("method", "target", "path").is_null()
    return (
        fields.hstack(own)
        .hstack(split.rename(lambda name: f"split_{name}"))
        .with_columns(
            method=pl.when(whole).then("split_method").otherwise("method"),
            path=pl.when(whole).then("split_path").otherwise("own_path"),
            query=pl.when(whole)
            .then("split_query")
            .otherwise(pl.coalesce("own_query", pl.col("query").str.strip_prefix("?"))),
            protocol=pl.when(whole).then("split_protocol").otherwise("protocol"),
            reason=pl.when(described).then("split_reason"),
        )
    )
