"""Which format do these lines have? For `auto`.

Pure. The format that reads most of a sample wins; of equals, the one that tells more. Extra fields
at the end of a line do not hinder it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from streaming.lines.access_line import parse_lines
from streaming.lines.log_format import JSON, LogFormat, LogFormatError, compile_log_format

_CANDIDATES = ("combinedio", "vhost_combined", "combined", "common")
_LINES_READ = 200
_ENOUGH = 0.5


def recognise_format(sample: Sequence[str]) -> LogFormat:
    """The format of `sample`; `LogFormatError` when none reads half of it."""
    lines = pl.Series(
        "line", [line for line in sample if line.strip()][:_LINES_READ], dtype=pl.String
    )
    if lines.is_empty():
        message = "The log format cannot be recognised without a line: name it with --format."
        raise LogFormatError(message)
    if lines.str.starts_with("{").mean() >= _ENOUGH:  # type: ignore[operator]
        return compile_log_format(JSON)
    formats = [compile_log_format(name) for name in _CANDIDATES]
    shares = [_share_read(lines, log_format) for log_format in formats]
    best = max(shares)
    if best >= _ENOUGH:
        return formats[shares.index(best)]
    if (forgiven := _forgiven(lines)) is not None:
        return forgiven
    message = (
        f"None of the known formats ({', '.join((*_CANDIDATES, JSON))}) reads these {len(lines)} lines: "
        "name the LogFormat of the server's configuration with --format."
    )
    raise LogFormatError(message)


def _share_read(lines: pl.Series, log_format: LogFormat) -> float:
    """How many of `lines` the format reads exactly, extra fields at the end allowed."""
    return float(lines.str.contains(log_format.readings[0].pattern).mean())  # type: ignore[arg-type]


def _forgiven(lines: pl.Series) -> LogFormat | None:
    """A sample of ugly lines only: the format under which most are access-log lines at all."""
    formats = [compile_log_format(name) for name in ("vhost_combined", "combined")]
    shares = [float(parse_lines(lines, log_format)["ok"].mean()) for log_format in formats]  # type: ignore[arg-type]
    return formats[shares.index(max(shares))] if max(shares) >= _ENOUGH else None
