"""Apache's LogFormat directives: what each writes, and which field of a line it tells.

Pure. Covers mod_log_config, mod_logio and mod_ssl's `%{name}x`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Shape(Enum):
    """What the text of a directive can look like."""

    NUMBER = r"[0-9]+|-"
    SIGNED = r"-?[0-9]+|-"
    DECIMAL = r"[0-9]+(?:\.[0-9]+)?|-"
    STATUS = r"[0-9]{3}"
    WORD = "word"  # never contains a space
    TEXT = "text"  # written by a client or a module: spaces are possible
    REQUEST = "request"
    QUERY = "query"
    CLF_TIME = "clf_time"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Directive:
    """One `%…` of a LogFormat: its shape, the field it tells (or ""), and how much it is preferred for that field."""

    letter: str
    parameter: str
    shape: Shape
    field: str = ""
    rank: int = 0


_PLAIN: dict[str, tuple[Shape, str, int]] = {
    "a": (Shape.WORD, "client", 0),
    "A": (Shape.WORD, "", 0),
    "B": (Shape.NUMBER, "bytes", 0),
    "b": (Shape.NUMBER, "bytes", 1),
    "D": (Shape.SIGNED, "duration_us", 0),
    "f": (Shape.TEXT, "", 0),
    "h": (Shape.WORD, "client", 1),
    "H": (Shape.WORD, "protocol", 0),
    "I": (Shape.NUMBER, "", 0),
    "k": (Shape.NUMBER, "", 0),
    "l": (Shape.WORD, "", 0),
    "L": (Shape.WORD, "", 0),
    "m": (Shape.WORD, "method", 0),
    "O": (Shape.NUMBER, "bytes", 2),
    "p": (Shape.NUMBER, "", 0),
    "P": (Shape.NUMBER, "", 0),
    "q": (Shape.QUERY, "query", 0),
    "r": (Shape.REQUEST, "request", 0),
    "R": (Shape.TEXT, "", 0),
    "s": (Shape.STATUS, "status", 1),
    "S": (Shape.NUMBER, "", 0),
    "t": (Shape.CLF_TIME, "time", 0),
    "T": (Shape.DECIMAL, "duration_s", 3),
    "u": (Shape.TEXT, "user", 0),
    "U": (Shape.TEXT, "path", 0),
    "v": (Shape.WORD, "vhost", 0),
    "V": (Shape.WORD, "vhost", 1),
    "X": (Shape.WORD, "", 0),
    "^FB": (Shape.SIGNED, "", 0),
}
_NAMED = {"i", "o", "C", "e", "n", "x", "^ti", "^to"}
_HEADERS: dict[str, tuple[str, int]] = {
    "referer": ("referer", 0),
    "user-agent": ("agent", 0),
    "host": ("vhost", 2),
}
_CHOICES: dict[str, dict[str, tuple[Shape, str, int]]] = {
    "a": {"c": (Shape.WORD, "client", 2)},
    "h": {"c": (Shape.WORD, "client", 3)},
    "p": dict.fromkeys(("canonical", "local", "remote"), (Shape.NUMBER, "", 0)),
    "P": dict.fromkeys(("pid", "tid", "hextid"), (Shape.WORD, "", 0)),
    "T": {
        "us": (Shape.SIGNED, "duration_us", 1),
        "ms": (Shape.SIGNED, "duration_ms", 2),
        "s": (Shape.DECIMAL, "duration_s", 3),
    },
}
KNOWN = " ".join(
    f"%{letter}" for letter in sorted({*_PLAIN, *(f"{{name}}{letter}" for letter in _NAMED)})
)


def find_directive(letter: str, parameter: str, redirect: str) -> Directive | None:
    """The directive written `%{parameter}letter` (`redirect` is `<`, `>` or ""), or None where Apache has no such."""
    if not parameter:
        plain = _PLAIN.get(letter)
        if plain is None:
            return None
        shape, field, rank = plain
        last_status = letter == "s" and redirect == ">"
        return Directive(letter, "", shape, field, 0 if last_status else rank)
    if letter == "t":
        return Directive("t", parameter, Shape.TIME, "time")
    if letter in _NAMED:
        field, rank = _HEADERS.get(parameter.lower(), ("", 0)) if letter == "i" else ("", 0)
        return Directive(letter, parameter, Shape.TEXT, field, rank)
    choice = _CHOICES.get(letter, {}).get(parameter)
    return Directive(letter, parameter, *choice) if choice else None
