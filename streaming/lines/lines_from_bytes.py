r"""The bytes of a record or of a file block → one string for each line.

Pure. Splits at `\n` only and exactly as `bytes.split(b"\n")` does: n newlines make n + 1 lines. Bytes that are not
UTF-8 become `\xhh`, as Apache itself writes them, so that nothing of a hostile line is lost or merged.
"""

from __future__ import annotations

import polars as pl


def lines_from_bytes(buffer: bytes) -> pl.Series:
    """Every line of `buffer`, in order, without its newline; carriage returns and other controls stay."""
    if b"\r" in buffer and (b"\r\n" in buffer or buffer.endswith(b"\r")):
        return _split_in_python(buffer)
    needs_end = not buffer or buffer.endswith(
        b"\n"
    )  # the reader takes a last newline for the end, not for one more line
    try:
        return pl.read_lines(buffer + b"\n" if needs_end else buffer, name="line").to_series()
    except pl.exceptions.ComputeError:  # not UTF-8 somewhere
        return _split_in_python(buffer)


def _split_in_python(buffer: bytes) -> pl.Series:
    # Polars' reader would drop the carriage return of `\r\n`, and refuses bytes that are not UTF-8.
    return pl.Series(
        "line", buffer.decode("utf-8", "backslashreplace").split("\n"), dtype=pl.String
    )
