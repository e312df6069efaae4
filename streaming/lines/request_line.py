"""The request line → method, path, query, protocol, or the reason why it has none of them.

Pure, frame → frame. Apache logs what the client sent, whatever it was: nothing, TLS bytes, half a form.
"""

from __future__ import annotations

import polars as pl

_METHOD_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_COMPLETE = rf"(?s)^({_METHOD_WORD})(?: +(.*?))? +(HTTP/[0-9]+(?:\.[0-9]+)?)$"
_ODD_METHOD = r"(?s)^(.*?) (/[^ ]*|[a-zA-Z]+://[^ ]*) (HTTP/[0-9]+(?:\.[0-9]+)?)$"
_WITHOUT_PROTOCOL = r"(?s)^([A-Z]{3,20}) +((?:/|[a-zA-Z]+://|\*$).*)$"
_METHOD_ALONE = r"^(GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS|CONNECT|TRACE|PROPFIND) *$"
_BINARY = r"[\x00-\x08\x0e-\x1f\x7f]|\\x[0-9a-f]{2}|[\u{80}-\u{9f}]"
_ABSOLUTE = r"^[a-zA-Z][a-zA-Z0-9+.\-]*://[^/?]*"


def split_requests(requests: pl.Series) -> pl.DataFrame:
    """Columns method, path, query, protocol, reason for each (decoded) request line."""
    request = pl.col("request")
    parts = (
        requests.alias("request")
        .to_frame()
        .with_columns(
            complete=request.str.extract_groups(_COMPLETE),
            odd=request.str.extract_groups(_ODD_METHOD),
            bare=request.str.extract_groups(_WITHOUT_PROTOCOL),
            alone=request.str.extract(_METHOD_ALONE, 1),
        )
    )
    complete, odd, bare = pl.col("complete").struct, pl.col("odd").struct, pl.col("bare").struct
    target = pl.coalesce(complete.field("2"), odd.field("2"), bare.field("2"))
    return parts.select(
        pl.coalesce(complete.field("1"), bare.field("1"), "alone").alias("method"),
        pl.when(target != "").then(target).alias("target"),
        pl.coalesce(complete.field("3"), odd.field("3")).alias("protocol"),
        _reason(parts).alias("reason"),
    ).select("method", *split_target(pl.col("target")), "protocol", "reason")


def split_target(target: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Path and query of a request target; of an absolute URI those of the URI, `/` where it has no path."""
    absolute = target.str.contains(_ABSOLUTE)
    local = pl.when(absolute).then(target.str.replace(_ABSOLUTE, "")).otherwise(target)
    halves = local.str.splitn("?", 2).struct
    path = halves.field("field_0")
    return (
        pl.when(absolute & (path == ""))
        .then(pl.lit("/"))
        .when(path != "")
        .then(path)
        .alias("path"),
        halves.field("field_1").alias("query"),
    )


def _reason(parts: pl.DataFrame) -> pl.Expr:
    request = pl.col("request")
    matched = pl.col("complete").struct.field("1").is_not_null()
    return (
        pl.when(request.is_null() | (request == "") | (request == "-"))
        .then(pl.lit("empty_request"))
        .when(matched & (pl.col("complete").struct.field("2").fill_null("") == ""))
        .then(pl.lit("no_target"))
        .when(matched)
        .then(None)
        .when(request.str.contains(_BINARY))
        .then(pl.lit("binary_request"))
        .when(pl.col("odd").struct.field("2").is_not_null())
        .then(pl.lit("bad_method"))
        .when(pl.col("bare").struct.field("1").is_not_null())
        .then(pl.lit("no_protocol"))
        .when(pl.col("alone").is_not_null())
        .then(pl.lit("no_target"))
        .otherwise(pl.lit("bad_request_line"))
    )
