from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.lines.lines_from_bytes import lines_from_bytes


@pytest.mark.parametrize(
    ("buffer", "lines"),
    [
        (b"", [""]),
        (b"a", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n", ["a", ""]),
        (b"\n\n", ["", "", ""]),
        (b"a\r\nb\r", ["a\r", "b\r"]),
        (b"a\rb\x0bc\x0cd\xe2\x80\xa8e", ["a\rb\x0bc\x0cd\u2028e"]),
        (b"caf\xc3\xa9\nx\xff\xfe", ["café", "x\\xff\\xfe"]),
        (b"\x00,\"',\t", ["\x00,\"',\t"]),
    ],
)
def test_bytes_are_split_at_newlines_only(buffer: bytes, lines: list[str]) -> None:
    assert lines_from_bytes(buffer).to_list() == lines


@given(st.binary(max_size=300))
def test_any_bytes_give_the_lines_that_bytes_split_gives(buffer: bytes) -> None:
    expected = [part.decode("utf-8", "backslashreplace") for part in buffer.split(b"\n")]
    lines = lines_from_bytes(buffer)
    assert lines.dtype == pl.String
    assert lines.to_list() == expected
