r"""Apache's escapes in logged values (`\"`, `\\`, `\n`, `\t`, `\xhh`) → the characters that were sent.

Pure. Bytes that form UTF-8 become their character, other high bytes keep their `\xhh` text: they have no character.
"""

from __future__ import annotations

import re
from itertools import product

import polars as pl

_CONTROLS = {"b": "\b", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f"}
_HIGH_BYTE = r"\\x[89a-fA-F][0-9a-fA-F]"
_ESCAPE = re.compile(rb'\\(?:x([0-9a-fA-F]{2})|(["\\bnrtvf]))')


def decode_escapes(values: pl.Series) -> pl.Series:
    """`values` with escapes decoded; values without a backslash are not touched."""
    escaped = values.str.contains("\\", literal=True).fill_null(value=False)
    if not escaped.any():
        return values
    high = values.str.contains(_HIGH_BYTE).fill_null(value=False)
    decoded = values.str.replace_many(list(_ASCII_ESCAPES), list(_ASCII_ESCAPES.values()))
    if not high.any():
        return decoded
    return decoded.zip_with(~high, _decode_bytes(values, high))


def decode_text(text: str) -> str:
    r"""One value with its escapes decoded as bytes; what is not UTF-8 then stays `\xhh`."""
    return _ESCAPE.sub(_escaped_byte, text.encode("utf-8", "surrogatepass")).decode(
        "utf-8", "backslashreplace"
    )


def _decode_bytes(values: pl.Series, high: pl.Series) -> pl.Series:
    """Multi-byte characters need a byte buffer: only values with an escaped high byte, each distinct one once."""
    distinct = values.filter(high).unique()
    decoded = [decode_text(text) for text in distinct.to_list()]
    return values.replace_strict(distinct, pl.Series(decoded, dtype=pl.String), default=values)


def _escaped_byte(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return bytes([int(match[1], 16)])
    letter = match[2].decode()
    return _CONTROLS.get(letter, letter).encode()


def _spellings(byte: int) -> set[str]:
    """`0a`, `0A`: every way to write a byte in hexadecimal."""
    digits = f"{byte:02x}"
    return {"".join(pair) for pair in product(*((digit, digit.upper()) for digit in digits))}


_ASCII_ESCAPES: dict[str, str] = {
    "\\\\": "\\",
    '\\"': '"',
    **{f"\\{letter}": control for letter, control in _CONTROLS.items()},
    **{f"\\x{digits}": chr(byte) for byte in range(0x80) for digits in sorted(_spellings(byte))},
}
