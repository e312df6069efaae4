r"""A LogFormat string → patterns that read its lines.

Pure. Each format compiles into patterns of falling strictness, all for a linear-time engine: `clean` reads ordinary
lines and splits the request in the same pass; `readings` take what it leaves: escapes and odd requests, values with
spaces, unescaped quotes, lines that end early.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from streaming.lines.directives import KNOWN, Directive, find_directive
from streaming.lines.line_patterns import Reading, Token, clean_pattern, readings

NAMED_FORMATS: dict[str, str] = {
    "common": '%h %l %u %t "%r" %>s %b',
    "combined": '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"',
    "vhost_combined": '%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"',
    "combinedio": '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %I %O',
}
JSON = "json"
_PARTS_OF_A_REQUEST = ("method", "path", "query", "protocol")
_ESCAPES = {"t": "\t", "n": "\n", '"': '"', "\\": "\\"}
_PART = re.compile(
    r"%(?P<before>[!0-9,<>]*)(?:\{(?P<parameter>[^}]*)\})?(?P<after>[!0-9,<>]*)(?P<letter>\^[a-zA-Z]{2}|[a-zA-Z%])"
    r"|\\(?P<escape>.)|(?P<stray>%.?)|(?P<literal>[^%\\]+)",
    re.DOTALL,
)


class LogFormatError(ValueError):
    """The format cannot be used; the text names the directive and what would do."""


@dataclass(frozen=True, slots=True)
class TimePart:
    """One time directive: the group that holds its text, and its format as written in braces ("" for `%t`)."""

    group: str
    form: str


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A compiled format. `fields` are the groups the patterns name; JSON lines need no pattern."""

    name: str
    text: str
    clean: str = ""
    readings: tuple[Reading, ...] = ()
    fields: frozenset[str] = frozenset()
    times: tuple[TimePart, ...] = ()

    @property
    def is_json(self) -> bool:
        """Whether lines are JSON objects."""
        return self.name == JSON


def compile_log_format(text: str, formats: Mapping[str, str] | None = None) -> LogFormat:
    """The format called `text` (well known, or one of `formats`), or written in it.

    `LogFormatError` names the directive or the name that is wrong.
    """
    known = {**NAMED_FORMATS, **(formats or {})}
    if text == JSON or known.get(text) == JSON:
        return LogFormat(name=JSON, text=JSON)
    if text not in known and "%" not in text:
        message = (
            f"Log format {text!r} is not known: use one of {', '.join([*known, JSON])}, "
            "or an Apache LogFormat string such as '%h %l %u %t \"%r\" %>s %b'."
        )
        raise LogFormatError(message)
    tokens = _name_groups(_tokens(known.get(text, text)))
    _require_time(tokens, text)
    return LogFormat(
        name=text if text in known else "custom",
        text=known.get(text, text),
        clean=clean_pattern(tokens),
        readings=readings(tokens),
        fields=frozenset(token.group for token in tokens if token.group),
        times=_time_parts(tokens),
    )


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    for match in _PART.finditer(text):
        if match["literal"] is not None:
            _add_literal(tokens, match["literal"])
        elif match["escape"] is not None:
            _add_literal(tokens, _ESCAPES.get(match["escape"], "\\" + match["escape"]))
        elif match["letter"] == "%":
            _add_literal(tokens, "%")
        else:
            tokens.append(Token(directive=_directive(match, text)))
    return tokens


def _add_literal(tokens: list[Token], literal: str) -> None:
    if tokens and tokens[-1].literal:
        literal = tokens.pop().literal + literal
    tokens.append(Token(literal=literal))


def _directive(match: re.Match[str], text: str) -> Directive:
    modifiers = (match["before"] or "") + (match["after"] or "")
    redirect = ">" if ">" in modifiers else ("<" if "<" in modifiers else "")
    found = (
        None
        if match["stray"]
        else find_directive(match["letter"], match["parameter"] or "", redirect)
    )
    if found is None:
        message = f"LogFormat directive {match[0]!r} in {text!r} is not known: known are {KNOWN}."
        raise LogFormatError(message)
    return found


def _require_time(tokens: list[Token], text: str) -> None:
    if not any(token.group.startswith("time") for token in tokens):
        message = f"Log format {text!r} carries no time: add %t to the LogFormat."
        raise LogFormatError(message)


def _name_groups(tokens: list[Token]) -> list[Token]:
    """Give each field to the directive that tells it best; time may be told by several parts together."""
    best: dict[str, tuple[int, int]] = {}
    for position, token in enumerate(tokens):
        if token.directive and token.directive.field and token.directive.field != "time":
            field = token.directive.field.partition("_")[0]
            best[field] = min(best.get(field, (99, 99)), (token.directive.rank, position))
    if "request" in best:  # the request line tells these four, and tells them as they were sent
        best = {field: place for field, place in best.items() if field not in _PARTS_OF_A_REQUEST}
    chosen = {position for _, position in best.values()}
    return [
        _named(token, position, is_best=position in chosen) for position, token in enumerate(tokens)
    ]


def _named(token: Token, position: int, *, is_best: bool) -> Token:
    if token.directive is None or not token.directive.field:
        return token
    if token.directive.field == "time":
        return Token(directive=token.directive, group=f"time_{position}")
    return Token(directive=token.directive, group=token.directive.field) if is_best else token


def _time_parts(tokens: list[Token]) -> tuple[TimePart, ...]:
    """The parts that make up the time: `%t` alone if it is there, else all others in order."""
    parts = tuple(
        TimePart(token.group, token.directive.parameter)
        for token in tokens
        if token.directive and token.group.startswith("time_")
    )
    return tuple(part for part in parts if not part.form)[:1] or parts
