"""What a request means, whatever its spelling: one text for patterns to look at.

Pure, expression → expression. Percent-encoding (twice), `+`, `%uXXXX`, overlong UTF-8 and HTML entities are decoded,
SQL comments become spaces, letters lower case, whitespace single. Meant for the few rows that passed the prefilter.
"""

from __future__ import annotations

import polars as pl

TEXT_LENGTH = 8192
"""Characters of a field that are looked at; Apache itself refuses longer request lines by default."""

_ENTITIES = {
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": '"',
    "&apos;": "'",
    "&amp;": "&",
    "&colon;": ":",
    "&tab;": "\t",
}


def _spellings() -> dict[str, str]:
    """Every encoded spelling and its character; longer ones first, because the first match wins."""
    overlong = {
        f"%{lead}%{0x80 | code & 0x3F:02x}": chr(code)
        for code in range(0x80)
        for lead in (f"{0xC0 | code >> 6:02x}", f"e0%{0x80 | code >> 6:02x}")
    }
    wide = {f"%u{code:04x}": chr(code) for code in range(0x80)}
    full_width = {f"%u{0xFEE0 + code:04x}": chr(code) for code in range(0x21, 0x7F)}
    numeric = {
        form: chr(code)
        for code in range(0x09, 0x7F)
        for form in (f"&#{code};", f"&#{code:03d};", f"&#x{code:x};", f"&#x{code:02x};")
    }
    single = {f"%{code:02x}": chr(code) for code in range(1, 0x80)}
    return {
        **overlong,
        **wide,
        **full_width,
        **numeric,
        **_ENTITIES,
        "%00": "",
        "\x00": "",
        **single,
    }


_SPELLINGS = _spellings()
_ENCODED, _PLAIN = list(_SPELLINGS), list(_SPELLINGS.values())


def meaning(text: pl.Expr) -> pl.Expr:
    """The text as patterns see it."""
    once = _decoded(text.str.head(TEXT_LENGTH).str.replace_all("+", " ", literal=True))
    lower = _decoded(once).str.to_lowercase()
    # MySQL runs what stands in /*! … */; any other comment only separates.
    unhidden = lower.str.replace_all(r"/\*!(?:[0-9]{5})?", " ").str.replace_all(
        r"/\*.*?\*/|\*/", " "
    )
    return unhidden.str.replace_all(r"[\s\x00-\x20]+", " ")


def straightened(text: pl.Expr) -> pl.Expr:
    """A path's meaning with backslashes as slashes, repeated slashes as one, `/./` as nothing."""
    slashes = text.str.replace_all("\\", "/", literal=True)
    return slashes.str.replace_all(r"(?:/\.?)+/", "/").str.replace_all(r"/+", "/")


def _decoded(text: pl.Expr) -> pl.Expr:
    return text.str.replace_many(_ENCODED, _PLAIN, ascii_case_insensitive=True, leftmost=True)
