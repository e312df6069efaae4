"""Which requests are attacks? Adds `detectors` and `score` to the rows of a task.

Pure, frame → frame. One Aho-Corasick pass over all literals picks the few rows that could be one;
only these are decoded and shown to the patterns. A row without a readable request is looked at whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from streaming.attacks.detector import Detector
from streaming.attacks.normalise import meaning, straightened

# Spellings that ordinary clients do not use: whatever they hide is looked at.
_ENCODED_WORDS = tuple(
    f"%{code:02x}" for code in range(0x30, 0x7B) if chr(code).isalnum() or chr(code) in "<>\\"
)
_DISGUISES = (
    *_ENCODED_WORDS,
    *("%25", "%2e", "%u0", "%uff", "%c0", "%c1", "%e0%8", "%00", "/*", "&#", "&lt;"),
)
_COLUMNS = {"target": ("path", "query"), "path": ("path",), "query": ("query",)}
_RAW = ("path", "query", "referer", "agent", "status", "line")
_HEADERS = ("referer", "agent")
_HIDING = ("path", "query", *_HEADERS)
NOTHING = {
    "detectors": pl.lit([], pl.List(pl.String())),
    "detector_points": pl.lit([], pl.List(pl.Int32())),
    "score": pl.lit(0, pl.Int32()),
}
"""The verdict on a row that no detector fired on."""


def match_lines(frame: pl.DataFrame, detectors: Sequence[Detector]) -> pl.DataFrame:
    """`frame` with `detectors` that fired on each row, their `detector_points`, and the sum as `score`."""
    looking = [detector for detector in detectors if detector.patterns]
    position = pl.int_range(pl.len(), dtype=pl.UInt32).alias("position")
    candidates = frame.select(position, *_RAW).filter(_could_match(frame, looking))
    hits = _hits(candidates, looking) if candidates.height else candidates
    if hits.is_empty():
        return frame.with_columns(**NOTHING)
    return (
        frame.with_columns(position)
        .join(hits, on="position", how="left", maintain_order="left")
        .drop("position")
        .with_columns(pl.col(name).fill_null(nothing) for name, nothing in NOTHING.items())
    )


def _could_match(frame: pl.DataFrame, detectors: Sequence[Detector]) -> pl.Series:
    """Rows with a literal of some detector in a field it looks at, a disguise, or no readable path."""
    wanted: dict[str, set[str]] = {}
    for detector in detectors:
        for column, literals in _literals(detector).items():
            wanted.setdefault(column, set(_DISGUISES)).update(literals)
    unreadable = frame["path"].is_null() & frame["ok"]
    return _holds_some(frame, wanted) | unreadable


def _literals(detector: Detector) -> dict[str, set[str]]:
    """The literals of a detector for each column that its patterns look at."""
    fields = {field for pattern in detector.patterns for field in pattern.fields}
    return {
        column: set(detector.header_literals if field in _HEADERS else detector.literals)
        for field in fields
        for column in _COLUMNS.get(field, (field,))
    }


def _holds_some(frame: pl.DataFrame, wanted: Mapping[str, Iterable[str]]) -> pl.Series:
    """Rows that hold, in some column, one of the literals wanted there."""
    tests = [_holds(frame[column], literals) for column, literals in wanted.items()]
    nowhere = pl.repeat(value=False, n=frame.height, eager=True)
    return frame.select(pl.any_horizontal(nowhere, *tests)).to_series()


def _holds(values: pl.Series, literals: Iterable[str]) -> pl.Series:
    # Few agents and referers send most requests: it pays to look at each distinct value once.
    looked_at = values.unique() if values.name in _HEADERS else values
    found = looked_at.str.contains_any(sorted(literals), ascii_case_insensitive=True)
    if values.name in _HEADERS:
        found = values.is_in(looked_at.filter(found).implode())
    return found.fill_null(value=False)


def _hits(candidates: pl.DataFrame, detectors: Sequence[Detector]) -> pl.DataFrame:
    """Position, detectors, points and score of the candidates that fired.

    A detector's patterns see only rows that hold its literals, or that hide something: building a
    pattern costs more than running it on a few rows.
    """
    candidates = candidates.with_columns(pl.coalesce("path", "line"))
    texts = _meanings(candidates)
    hidden = _holds_some(candidates, dict.fromkeys(_HIDING, _DISGUISES))
    found = [
        texts.clear().select("position", detectors=pl.lit(""), detector_points=pl.lit(0, pl.Int32))
    ]
    for detector in detectors:
        chosen = texts.filter(hidden | _holds_some(candidates, _literals(detector)))
        if chosen.height:
            verdict = {
                "detectors": pl.lit(detector.name),
                "detector_points": pl.lit(detector.points, pl.Int32),
            }
            found.append(chosen.filter(_fires(detector)).select("position", **verdict))
    listed = pl.concat(found).group_by("position", maintain_order=True)
    return listed.agg("detectors", "detector_points", score=pl.col("detector_points").sum())


def _meanings(candidates: pl.DataFrame) -> pl.DataFrame:
    """Position and status, and the text that each field of a pattern stands for."""
    target = pl.concat_str("path", pl.lit("?") + pl.col("query"), ignore_nulls=True)
    raw = candidates.select(target.alias("target"), *_HIDING)
    # One column, so that the decoder is built once and not once for each field.
    stacked = pl.concat([raw[name].alias("text") for name in raw.columns]).to_frame()
    read = stacked.select(meaning(pl.col("text"))).to_series()
    columns = [
        read.slice(n * raw.height, raw.height).alias(name) for n, name in enumerate(raw.columns)
    ]
    return (
        candidates.select("position", "status")
        .hstack(columns)
        .with_columns(straightened(pl.col("path")))
    )


def _fires(detector: Detector) -> pl.Expr:
    matched = pl.any_horizontal(
        pl.col(field).str.contains(pattern.regex).fill_null(value=False)
        for pattern in detector.patterns
        for field in pattern.fields
    )
    if not detector.statuses:
        return matched
    return matched & pl.col("status").is_in(detector.statuses).fill_null(value=False)
