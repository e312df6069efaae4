"""The time directives of a format → UTC.

Pure. `%t` carries its offset. A format without an offset is read as UTC: the log says nothing better.
Impossible dates, and years before 1971 or after 2999, are null.
"""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from streaming.lines.log_format import TimePart

UTC_MICROSECONDS = pl.Datetime("us", "UTC")
_CLF = "%d/%b/%Y:%H:%M:%S %z"
_EARLIEST, _LATEST = datetime(1971, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
_MICROSECONDS_OF = {"sec": 1_000_000, "msec": 1_000, "usec": 1, "msec_frac": 1_000, "usec_frac": 1}
_FRACTIONS = {"msec_frac": "%3f", "usec_frac": "%6f"}


def read_times(parts: tuple[TimePart, ...]) -> pl.Expr:
    """The expression that turns the captured groups of `parts` into a UTC time."""
    forms = [part.form.removeprefix("begin:").removeprefix("end:") for part in parts]
    if forms[0] in _MICROSECONDS_OF:
        return _plausible(_counted(parts, forms))
    texts = (
        pl.concat_str([pl.col(part.group) for part in parts], separator=" ")
        if len(parts) > 1
        else pl.col(parts[0].group)
    )
    return _plausible(
        _as_utc(texts, " ".join(_FRACTIONS.get(form, form or _CLF) for form in forms))
    )


def read_iso_times(texts: pl.Expr) -> pl.Expr:
    """ISO 8601 with or without fraction and offset, CLF, or seconds (or milliseconds) since 1970."""
    number = texts.cast(pl.Float64, strict=False)
    seconds = pl.when(number > 1e11).then(number / 1000).otherwise(number)
    zoned = texts.str.replace(r"[zZ]$", "+00:00").str.replace(" ", "T", literal=True)
    return _plausible(
        pl.coalesce(
            _as_utc(texts, _CLF),
            _as_utc(zoned, "%Y-%m-%dT%H:%M:%S%.f%z"),
            _as_utc(zoned, "%Y-%m-%dT%H:%M:%S%.f"),
            _from_microseconds((seconds * 1e6).round()),
        )
    )


def _counted(parts: tuple[TimePart, ...], forms: list[str]) -> pl.Expr:
    """Seconds, milliseconds or microseconds since 1970, with a fraction in a part of its own perhaps."""
    numbers = (
        pl.col(part.group).cast(pl.Int64, strict=False) * _MICROSECONDS_OF.get(form, 0)
        for part, form in zip(parts, forms, strict=True)
    )
    return _from_microseconds(pl.sum_horizontal(*numbers, ignore_nulls=False))


def _from_microseconds(number: pl.Expr) -> pl.Expr:
    sane = pl.when(number.abs() < 4e16).then(number)
    return sane.cast(pl.Int64, strict=False).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _as_utc(texts: pl.Expr, form: str) -> pl.Expr:
    parsed = texts.str.to_datetime(form, time_unit="us", strict=False)
    return parsed if "%z" in form else parsed.dt.replace_time_zone("UTC")


def _plausible(time: pl.Expr) -> pl.Expr:
    return (
        pl.when(time.is_between(_EARLIEST, _LATEST, closed="left"))
        .then(time)
        .cast(UTC_MICROSECONDS)
    )
