r"""The tokens of a LogFormat → patterns with one named group for each field.

Pure. Values end at a known character (negated classes), so that the engine needs one pass over a well-formed line; only
the forgiving patterns search for an end. The engine is linear in time: no line can stall it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from streaming.lines.directives import Directive, Shape

# The optional group is the request's query: a target without one has no `?`.
_CLEAN_REQUEST = (
    r'(?P<method>[A-Z]+) (?P<path>/[^ "\\?]*)(?:\?(?P<query>[^ "\\]*))? (?P<protocol>HTTP/[0-9.]+)'
)
_LINE_END = r"\r?$"
_NO_DIGIT_FOLLOWS = "(?:[^0-9].*)?$"


class _Rigour(Enum):
    """How much a pattern forgives."""

    CLEAN = auto()  # no escapes, request in three ordinary parts
    EXACT = auto()  # whatever Apache writes
    SPACED = auto()  # unquoted values may hold spaces
    UNESCAPED = auto()  # quoted values may hold quotes, too


@dataclass(frozen=True, slots=True)
class Token:
    """A literal, or a directive with the group name it is captured under ("" when nobody asks for its value)."""

    literal: str = ""
    directive: Directive | None = None
    group: str = ""

    @property
    def is_time(self) -> bool:
        """Whether it tells the time, or a part of it."""
        return self.directive is not None and self.directive.field == "time"


@dataclass(frozen=True, slots=True)
class Reading:
    """One pattern with named groups, and the reason to note on lines that no stricter one could read."""

    pattern: str
    reason: str | None
    is_access_line: bool = True


def clean_pattern(tokens: Sequence[Token]) -> str:
    """The pattern of ordinary lines, which also splits the request."""
    return f"^{_sequence(tokens, _Rigour.CLEAN)}{_LINE_END}"


def readings(tokens: Sequence[Token]) -> tuple[Reading, ...]:
    """From exact to forgiving; each is meant for lines that the ones before could not read."""
    identified = [p for p, token in enumerate(tokens) if token.is_time or token.group == "client"]
    needed = [p for p, token in enumerate(tokens) if p in identified or token.group == "status"]
    head, rest = tokens[: needed[-1] + 1], _optional_rest(tokens, needed[-1] + 1)
    return (
        Reading(f"^{_sequence(tokens, _Rigour.EXACT)}(?: .*)?{_LINE_END}", None),
        Reading(f"^{_sequence(tokens, _Rigour.SPACED)}{_LINE_END}", None),
        Reading(f"^{_sequence(tokens, _Rigour.UNESCAPED)}{_LINE_END}", "unescaped_quote"),
        Reading(f"^{_sequence(head, _Rigour.SPACED)}{rest}{_NO_DIGIT_FOLLOWS}", "missing_fields"),
        Reading(
            f"^{_sequence(head, _Rigour.UNESCAPED)}{rest}{_NO_DIGIT_FOLLOWS}", "missing_fields"
        ),
        Reading(
            f"^{_sequence(tokens[: identified[-1] + 1], _Rigour.EXACT)}",
            "cut_line",
            is_access_line=False,
        ),
    )


def _optional_rest(tokens: Sequence[Token], start: int) -> str:
    """What follows the last needed field, each piece only if the pieces before it are there."""
    pattern = ""
    for position in reversed(range(start, len(tokens))):
        pattern = f"(?:{_piece(tokens, position, _Rigour.EXACT)}{pattern})?"
    return pattern


def _sequence(tokens: Sequence[Token], rigour: _Rigour) -> str:
    return "".join(_piece(tokens, position, rigour) for position in range(len(tokens)))


def _piece(tokens: Sequence[Token], position: int, rigour: _Rigour) -> str:
    token = tokens[position]
    if token.directive is None:
        return _escaped(token.literal)
    before = tokens[position - 1].literal if position else ""
    following = tokens[position + 1] if position + 1 < len(tokens) else Token(literal=" ")
    quoted = before.endswith('"') and following.literal.startswith('"')
    if rigour is _Rigour.CLEAN and token.group == "request":
        return _CLEAN_REQUEST
    value = (
        _quoted_value(rigour) if quoted else _bare_value(token.directive, _stop(following), rigour)
    )
    captured = f"(?P<{token.group}>{value})" if token.group else f"(?:{value})"
    return rf"\[{captured}\]" if token.directive.shape is Shape.CLF_TIME else captured


def _quoted_value(rigour: _Rigour) -> str:
    if rigour is _Rigour.CLEAN:
        return r'[^"\\]*'
    return ".*?" if rigour is _Rigour.UNESCAPED else r'(?:[^"\\]|\\.)*'


def _bare_value(directive: Directive, stop: str, rigour: _Rigour) -> str:
    """The pattern of a value that ends where the next literal begins."""
    match directive.shape:
        case Shape.CLF_TIME:
            return r"[^\]]*"
        case Shape.TIME:
            word = f"{_none_of(' ' + stop)}+"
            return word + f" {word}" * directive.parameter.count(" ")
        case Shape.QUERY:
            return rf"(?:\?{_none_of(' ' + stop)}*)?"
        case Shape.REQUEST:
            return ".*?"
        case Shape.TEXT if rigour in (_Rigour.SPACED, _Rigour.UNESCAPED):
            return ".*?"
        case Shape.WORD | Shape.TEXT:
            escape = "\\" if rigour is _Rigour.CLEAN else ""
            return f"{_none_of(' ' + stop + escape)}*"
        case _:
            return str(directive.shape.value)


def _stop(following: Token) -> str:
    """The character that ends a value: the next literal's first, or the `?` of a query that follows at once."""
    if following.literal:
        return following.literal[0]
    return "?" if following.directive and following.directive.shape is Shape.QUERY else " "


def _none_of(characters: str) -> str:
    return f"[^{_escaped(''.join(dict.fromkeys(characters)))}]"


def _escaped(literal: str) -> str:
    return re.escape(literal).replace("\\ ", " ")
