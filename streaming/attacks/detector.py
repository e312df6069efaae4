"""Detectors: one TOML file each → frozen facts, or a refusal that names file, line and what is allowed.

A detector looks at single requests (`[[patterns]]` behind `literals`) or at what a client does over
a minute (`[behaviour]`). A new detector is a new file in `detectors/`, nothing else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

DETECTOR_FOLDER = Path(__file__).with_name("detectors")
SEVERITIES = ("low", "medium", "high", "critical")
FIELDS = ("target", "path", "query", "referer", "agent")
COUNTS = ("requests", "dynamic_requests", "not_found", "login_failures", "not_found_paths")
GOLDEN_KEYS = ("method", "target", "status", "referer", "agent")

_COMMON_KEYS = ("name", "title", "why", "severity", "points", "mitre", "references")
_PATTERN_KEYS = (*_COMMON_KEYS, "literals", "header_literals", "statuses", "patterns", "golden")
_BEHAVIOUR_KEYS = (*_COMMON_KEYS, "behaviour")


class DetectorError(ValueError):
    """A detector file cannot be used; the text names the file, the place and what is allowed."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern over the normalised text of one or more fields."""

    name: str
    fields: tuple[str, ...]
    regex: str


@dataclass(frozen=True, slots=True)
class BehaviourRule:
    """Fires when `count` of one client reaches `at_least` in `window_seconds`, and its share is high enough."""

    count: str
    at_least: int
    window_seconds: int
    share_of: str
    share_count: str
    share_at_least: float


@dataclass(frozen=True, slots=True)
class Golden:
    """A request that must fire, or must not."""

    method: str = "GET"
    target: str = "/"
    status: int = 200
    referer: str = "-"
    agent: str = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"


@dataclass(frozen=True, slots=True)
class Detector:
    """What to look for, how bad it is, and why it matters. Exactly one of `patterns` and `rule` is there."""

    name: str
    title: str
    why: str
    severity: str
    points: int
    mitre: str
    references: tuple[str, ...]
    literals: tuple[str, ...] = ()
    header_literals: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    rule: BehaviourRule | None = None
    fires: tuple[Golden, ...] = ()
    quiet: tuple[Golden, ...] = ()


@cache
def load_detectors(folder: Path = DETECTOR_FOLDER) -> tuple[Detector, ...]:
    """Every detector of `folder`, by name."""
    return tuple(
        read_detector(path.read_text("utf-8"), path) for path in sorted(folder.glob("*.toml"))
    )


def read_detector(text: str, path: Path) -> Detector:
    """The detector written in `text`; `path` is for the message of a `DetectorError`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{path.name}: not valid TOML: {error}."
        raise DetectorError(message) from error
    return _Reader(text, path).detector(document)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one document; every refusal knows the file and the line of the key."""

    text: str
    path: Path

    def detector(self, document: Mapping[str, Any]) -> Detector:
        is_behaviour = "behaviour" in document
        self._known_keys(document, _BEHAVIOUR_KEYS if is_behaviour else _PATTERN_KEYS, "")
        common = self._common(document)
        if is_behaviour:
            return Detector(**common, rule=self._rule(document["behaviour"]))
        statuses = self._integers(document.get("statuses", []), "statuses")
        return Detector(
            **common,
            literals=self._literals(document, "literals"),
            header_literals=self._literals(document, "header_literals"),
            statuses=statuses,
            patterns=tuple(self._pattern(one) for one in self._tables(document, "patterns")),
            fires=self._golden(document.get("golden"), "fires"),
            quiet=self._golden(document.get("golden"), "quiet"),
        )

    def _common(self, document: Mapping[str, Any]) -> dict[str, Any]:
        texts = {
            key: self._text(document, key) for key in ("name", "title", "why", "severity", "mitre")
        }
        if texts["name"] != self.path.stem:
            self._refuse(
                "name",
                f"is {texts['name']!r}: a detector is named like its file, {self.path.stem!r}",
            )
        if texts["severity"] not in SEVERITIES:
            self._refuse(
                "severity", f"is {texts['severity']!r}: allowed are {', '.join(SEVERITIES)}"
            )
        points = document.get("points")
        if not isinstance(points, int) or not 1 <= points <= 20:
            self._refuse("points", f"is {points!r}: allowed are whole numbers from 1 to 20")
        references = tuple(self._texts(document.get("references"), "references"))
        return {**texts, "points": points, "references": references}

    def _literals(self, document: Mapping[str, Any], key: str) -> tuple[str, ...]:
        """Texts of which a request must hold one; those of headers are `literals` if not given."""
        literals = self._texts(document.get(key, document.get("literals")), key)
        for literal in literals:
            if not literal or literal != literal.lower():
                self._refuse(key, f"holds {literal!r}: allowed are lower-case texts, not empty")
        return tuple(literals)

    def _pattern(self, table: Mapping[str, Any]) -> Pattern:
        self._known_keys(table, ("name", "fields", "regex"), "patterns.")
        fields = self._texts(table.get("fields"), "fields")
        if unknown := [field for field in fields if field not in FIELDS]:
            self._refuse(
                "fields", f"holds {unknown[0]!r}: allowed are {', '.join(FIELDS)}", unknown[0]
            )
        regex = self._text(table, "regex")
        try:
            pl.Series([""]).str.contains(regex)
        except pl.exceptions.ComputeError as error:
            self._refuse("regex", f"{regex!r} is no linear-time pattern: {error}", regex[:20])
        return Pattern(self._text(table, "name"), tuple(fields), regex)

    def _rule(self, table: Mapping[str, Any]) -> BehaviourRule:
        allowed = (
            "count",
            "at_least",
            "window_seconds",
            "share_of",
            "share_count",
            "share_at_least",
        )
        self._known_keys(table, allowed, "behaviour.")
        for key in ("count", "share_of", "share_count"):
            if table.get(key, "requests") not in COUNTS:
                self._refuse(key, f"is {table.get(key)!r}: allowed are {', '.join(COUNTS)}")
        for key in ("at_least", "window_seconds"):
            if not isinstance(table.get(key), int) or table[key] < 1:
                self._refuse(key, f"is {table.get(key)!r}: allowed are whole numbers from 1")
        return BehaviourRule(
            count=self._text(table, "count"),
            at_least=table["at_least"],
            window_seconds=table["window_seconds"],
            share_of=table.get("share_of", "requests"),
            share_count=table.get("share_count", "requests"),
            share_at_least=float(table.get("share_at_least", 0.0)),
        )

    def _golden(self, document: Any, key: str) -> tuple[Golden, ...]:
        self._known_keys(document, ("fires", "quiet"), "golden.")
        tables = self._tables(document, key)
        for table in tables:
            self._known_keys(table, GOLDEN_KEYS, f"{key}.")
        return tuple(Golden(**table) for table in tables)

    def _tables(self, document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        tables = document.get(key)
        if (
            not isinstance(tables, list)
            or not tables
            or not all(isinstance(t, dict) for t in tables)
        ):
            self._refuse(key, "is missing or no list of tables: at least one is needed")
        return tables

    def _text(self, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value.strip():
            self._refuse(key, f"is {value!r}: a text is needed")
        return value.strip()

    def _texts(self, values: object, key: str) -> list[str]:
        if (
            not isinstance(values, list)
            or not values
            or not all(isinstance(v, str) for v in values)
        ):
            self._refuse(key, f"is {values!r}: a list of texts is needed")
        return values

    def _integers(self, values: object, key: str) -> tuple[int, ...]:
        if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
            self._refuse(key, f"is {values!r}: a list of status codes is needed")
        return tuple(values)

    def _known_keys(self, table: object, allowed: Sequence[str], prefix: str) -> None:
        if not isinstance(table, dict):
            self._refuse(prefix.rstrip("."), f"is {table!r}: a table is needed")
        for key in table:
            if key not in allowed:
                self._refuse(prefix + key, f"is not known: allowed are {', '.join(allowed)}", key)

    def _refuse(self, key: str, problem: str, near: str = "") -> NoReturn:
        needle = near or key
        line = next((n for n, row in enumerate(self.text.splitlines(), 1) if needle in row), None)
        place = f"{self.path.name}, line {line}" if line else self.path.name
        message = f"{place}: {key} {problem}."
        raise DetectorError(message)
