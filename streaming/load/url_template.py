"""A path with its identifiers folded, so that a million product pages are one entry of a top list.

Pure. Whole segments only: numbers, UUIDs, long hexadecimal words and long tokens become `{id}`; a file ending stays.
"""

from __future__ import annotations

import polars as pl

_NUMBER = r"[0-9]+"
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_HEXADECIMAL = r"[0-9a-fA-F]{12,}"
# Letters and digits mixed, no separators: session tokens, object ids. Titles have hyphens.
_TOKENS = r"[0-9A-Za-z_]{5,}[0-9][0-9A-Za-z_]{3,}[0-9][0-9A-Za-z_]{10,}=*"
_SEGMENT = rf"/(?:{_NUMBER}|{_UUID}|{_HEXADECIMAL}|{_TOKENS})(\.[a-zA-Z0-9]{{1,5}})?/"
_FOLDABLE = r"[0-9]|[0-9a-fA-F]{12}"


def url_template(path: pl.Expr) -> pl.Expr:
    """The template of each path: `/orders/4711/lines/3` becomes `/orders/{id}/lines/{id}`."""
    # Doubled slashes give each segment two of its own, so neighbouring segments both match.
    doubled = path.str.replace_all("/", "//", literal=True) + "/"
    folded = doubled.str.replace_all(_SEGMENT, "/{id}${1}/")
    restored = folded.str.replace_all("//", "/", literal=True).str.strip_suffix("/")
    plain = ~path.str.contains(_FOLDABLE)
    return pl.when(plain | path.is_null()).then(path).otherwise(restored)
