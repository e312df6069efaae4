"""Lines of one format → one row each, with every field that could be read.

Pure, frame → frame. Ordinary lines are read by one pattern; what it leaves is tried with ever more forgiving ones, each
over the whole remainder at once. A line that none can read stays as a row that says why.
"""

from __future__ import annotations

import polars as pl

from streaming.lines.escapes import decode_escapes
from streaming.lines.json_line import read_json_lines
from streaming.lines.line_patterns import Reading
from streaming.lines.line_time import UTC_MICROSECONDS, read_times
from streaming.lines.log_format import LogFormat
from streaming.lines.request_line import split_requests

LINE_SCHEMA: dict[str, pl.DataType] = {
    "ok": pl.Boolean(),
    "reason": pl.String(),
    "client": pl.String(),
    "user": pl.String(),
    "time": UTC_MICROSECONDS,
    "method": pl.String(),
    "path": pl.String(),
    "query": pl.String(),
    "protocol": pl.String(),
    "status": pl.Int32(),
    "bytes": pl.Int64(),
    "referer": pl.String(),
    "agent": pl.String(),
    "vhost": pl.String(),
    "duration_us": pl.Int64(),
}
"""The columns of `parse_lines`. `bytes` is null for `-`; sums count it as 0."""
_TEXTS = ("client", "user", "method", "path", "query", "protocol", "referer", "agent", "vhost")
_REQUEST_PARTS = ("method", "path", "query", "protocol")
_ESCAPED = ("user", "request", "path", "query", "referer", "agent", "vhost")
_UNREAD = {"reason": pl.lit("not_an_access_line"), "is_access_line": pl.lit(value=False)}


def parse_lines(lines: pl.Series, log_format: LogFormat) -> pl.DataFrame:
    """One row for each line, in order, with the columns of `LINE_SCHEMA`; never raises on content."""
    if log_format.is_json:
        raw = read_json_lines(lines).with_columns(
            is_access_line="is_object",
            reason=pl.when(~pl.col("is_object"))
            .then(pl.lit("not_an_access_line"))
            .otherwise("reason"),
        )
        return _typed(_with_all_columns(raw), lines, required=("client", "status"))
    raw = _with_all_columns(_read(lines.alias("line"), log_format))
    timed = raw.with_columns(time=read_times(log_format.times))
    return _typed(timed, lines, required=tuple(sorted({"client", "status"} & log_format.fields)))


def _read(lines: pl.Series, log_format: LogFormat) -> pl.DataFrame:
    """The captured texts of every line, by the first pattern that fits it."""
    frame = lines.to_frame()
    clean = frame.select(pl.col("line").str.extract_groups(log_format.clean)).unnest("line")
    fits = clean.to_series(0).is_not_null()
    if fits.all() and len(fits):
        return clean.with_columns(reason=pl.lit(None, pl.String), is_access_line=pl.lit(value=True))
    positions = frame.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("position")).to_series()
    ordinary = clean.with_columns(
        positions, reason=pl.lit(None, pl.String), is_access_line=pl.lit(value=True)
    ).filter(fits)
    rest = frame.with_columns(positions).filter(~fits)
    parts = [
        ordinary,
        *(_with_request(part) for part in _read_forgiving(rest, log_format.readings)),
    ]
    return pl.concat(parts, how="diagonal").sort("position")


def _read_forgiving(rest: pl.DataFrame, readings: tuple[Reading, ...]) -> list[pl.DataFrame]:
    parts: list[pl.DataFrame] = []
    for reading in readings:
        if rest.is_empty():
            return parts
        groups = rest.select(pl.col("line").str.extract_groups(reading.pattern)).unnest("line")
        fits = groups.to_series(0).is_not_null()
        noted = groups.with_columns(
            rest["position"],
            reason=pl.lit(reading.reason, pl.String),
            is_access_line=pl.lit(reading.is_access_line),
        )
        parts.append(noted.filter(fits))
        rest = rest.filter(~fits)
    parts.append(rest.select("position", **_UNREAD))
    return parts


def _with_request(part: pl.DataFrame) -> pl.DataFrame:
    """Escapes decoded, then the request line split; its reason stands behind the line's own."""
    decoded = part.with_columns(
        decode_escapes(part[name]) for name in _ESCAPED if name in part.columns
    )
    if "request" not in decoded.columns:
        return decoded
    split = split_requests(decoded["request"])
    reasons = decoded.select(pl.coalesce("reason", split["reason"])).to_series()
    return decoded.drop("request", "reason").hstack(split.select(_REQUEST_PARTS)).hstack([reasons])


def _with_all_columns(raw: pl.DataFrame) -> pl.DataFrame:
    absent = [name for name in (*_TEXTS, "status", "bytes") if name not in raw.columns]
    return raw.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)


def _typed(raw: pl.DataFrame, lines: pl.Series, required: tuple[str, ...]) -> pl.DataFrame:
    """Texts → types; `-` and empty → null; then whether all of `required` and the time could be read."""
    fields = raw.select(
        "reason",
        "is_access_line",
        "time",
        *(_known(name) for name in _TEXTS if name != "query"),
        _known("query", prefix="?"),
        pl.col("status").cast(pl.Int32, strict=False),
        pl.col("bytes").cast(pl.Int64, strict=False),
        _duration(raw.columns).alias("duration_us"),
    )
    complete = pl.all_horizontal(pl.col(name).is_not_null() for name in ("time", *required))
    judged = fields.with_columns(
        lines.alias("line"), ok=pl.col("is_access_line") & complete
    ).with_columns(reason=_reason(required))
    return judged.select(LINE_SCHEMA.keys()).cast(LINE_SCHEMA)  # type: ignore[arg-type]


def _known(name: str, prefix: str = "") -> pl.Expr:
    text = pl.col(name).str.strip_prefix(prefix) if prefix else pl.col(name)
    return pl.when((text != "-") & (text != "")).then(text).alias(name)


def _reason(required: tuple[str, ...]) -> pl.Expr:
    reason = (
        pl.when(pl.col("ok"))
        .then("reason")
        .when(pl.col("line").str.strip_chars() == "")
        .then(pl.lit("empty_line"))
    )
    reason = (
        reason.when(~pl.col("is_access_line"))
        .then("reason")
        .when(pl.col("time").is_null())
        .then(pl.lit("bad_time"))
    )
    for name in required:
        reason = reason.when(pl.col(name).is_null()).then(pl.lit(f"no_{name}"))
    return reason


def _duration(columns: list[str]) -> pl.Expr:
    """Microseconds, from whichever unit the format carries; negative ones (a clock was set back) are unknown."""
    number = pl.coalesce(
        *(
            (pl.col(name).cast(pl.Float64, strict=False) * factor)
            .round()
            .cast(pl.Int64, strict=False)
            for name, factor in (
                ("duration_us", 1),
                ("duration_ms", 1_000),
                ("duration_s", 1_000_000),
            )
            if name in columns
        ),
        pl.lit(None, pl.Int64),
    )
    return pl.when(number >= 0).then(number)
