"""PromQL against the series we export: unknown names and labels, sides that never match.

Pure. In: an expression and `known_series()`. Out: the labels of its result and every problem as one
sentence. Prometheus itself accepts a misspelt metric or label and answers with nothing: an alert
that never fires.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import promql_parser as promql

from alerts.metric_names import METRICS, Metric

Labels = frozenset[str]
Series = Mapping[str, Labels]

SCRAPE_LABELS: Labels = frozenset({"job", "instance"})
# Written by Prometheus itself. ALERTS carries whatever labels an alert has.
PROMETHEUS_SERIES: dict[str, Labels] = {
    "up": SCRAPE_LABELS,
    "ALERTS": SCRAPE_LABELS | {"alertname", "alertstate", "severity", "service", "vhost", "reason"},
}
_SCALAR_FUNCTIONS = frozenset({"time", "scalar", "pi"})
_LABEL_FREE_FUNCTIONS = frozenset({"vector", "absent", "absent_over_time"})
_SELECTING_AGGREGATIONS = frozenset({"topk", "bottomk", "limitk"})
_SET_OPERATORS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What an expression answers: its labels (None: a scalar), and what is wrong with it."""

    labels: Labels | None
    problems: tuple[str, ...] = field(default=())


def known_series(metrics: Iterable[Metric] = METRICS) -> dict[str, Labels]:
    """Every series name that can be selected, with its labels; a histogram has three names."""
    known = dict(PROMETHEUS_SERIES)
    for metric in metrics:
        labels = frozenset(metric.labels) | SCRAPE_LABELS
        if metric.kind == "histogram":
            known[f"{metric.name}_bucket"] = labels | {"le"}
            known[f"{metric.name}_sum"] = labels
            known[f"{metric.name}_count"] = labels
        else:
            known[metric.name] = labels
    return known


def read_expression(expression: str, known: Series) -> Reading:
    """Parse and judge one expression; one that cannot be parsed is a problem, not an exception."""
    try:
        tree = promql.parse(expression)
    except ValueError as error:
        return Reading(frozenset(), (f"cannot be parsed: {error}",))
    return _read(tree, known)


def _read(node: promql.Expr, known: Series) -> Reading:
    match node:
        case promql.VectorSelector():
            return _read_selector(node, known)
        case promql.MatrixSelector():
            return _read_selector(node.vector_selector, known)
        case promql.AggregateExpr():
            return _read_aggregation(node, known)
        case promql.BinaryExpr():
            return _read_binary(node, known)
        case promql.Call():
            return _read_call(node, known)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return _read(node.expr, known)
        case _:
            return Reading(None)


def _read_selector(selector: promql.VectorSelector, known: Series) -> Reading:
    name = selector.name
    if name is None or name not in known:
        shown = name or str(selector)
        return Reading(frozenset(), (f"{shown} is not a known metric or recording rule",))
    used = {matcher.name for matcher in selector.matchers.matchers}
    return Reading(known[name], _missing(used, known[name], name))


def _read_aggregation(node: promql.AggregateExpr, known: Series) -> Reading:
    inner = _read(node.expr, known)
    labels = inner.labels or frozenset()
    if str(node.op) in _SELECTING_AGGREGATIONS:
        return inner
    if node.modifier is None:
        return Reading(frozenset(), inner.problems)
    named = frozenset(node.modifier.labels)
    problems = inner.problems + _missing(named, labels, f"{node.op} of {node.expr}")
    kept = named if node.modifier.type == promql.AggModifierType.By else labels - named
    return Reading(kept, problems)


def _read_call(node: promql.Call, known: Series) -> Reading:
    readings = [
        _read(argument, known) for argument in node.args if isinstance(argument, promql.Expr)
    ]
    problems = tuple(problem for reading in readings for problem in reading.problems)
    if node.func.name in _SCALAR_FUNCTIONS:
        return Reading(None, problems)
    if node.func.name in _LABEL_FREE_FUNCTIONS:
        return Reading(frozenset(), problems)
    labels = frozenset[str]().union(*(reading.labels or frozenset() for reading in readings))
    if node.func.name == "histogram_quantile":
        problems += _missing({"le"}, labels, "histogram_quantile")
        labels -= {"le"}
    return Reading(labels, problems)


def _read_binary(node: promql.BinaryExpr, known: Series) -> Reading:
    left, right = _read(node.lhs, known), _read(node.rhs, known)
    problems = left.problems + right.problems
    if left.labels is None or right.labels is None:
        return Reading(left.labels if right.labels is None else right.labels, problems)
    operator = str(node.op)
    if operator == "or":
        return Reading(left.labels | right.labels, problems)
    if problems:
        return Reading(left.labels, problems)
    matched, problems = _matching(node, left.labels, right.labels)
    if operator in _SET_OPERATORS or _many_to_one(node):
        return Reading(left.labels | _group_labels(node), problems)
    return Reading(matched, problems)


def _matching(
    node: promql.BinaryExpr, left: Labels, right: Labels
) -> tuple[Labels, tuple[str, ...]]:
    """The labels both sides are matched by, and why they could never match."""
    matching = node.modifier.matching if node.modifier else None
    if matching is None:
        return left & right, _never_match(node, left, right)
    named = frozenset(matching.labels)
    if matching.type == promql.LabelModifierType.Include:
        return named, _missing(named, left & right, f"both sides of {node.op}")
    return (left & right) - named, _never_match(node, left - named, right - named)


def _never_match(node: promql.BinaryExpr, left: Labels, right: Labels) -> tuple[str, ...]:
    if left == right:
        return ()
    return (
        f"the sides of {node.op} never match: labels ({', '.join(sorted(left))}) against "
        f"({', '.join(sorted(right))}); name the common ones with on (...)",
    )


def _many_to_one(node: promql.BinaryExpr) -> bool:
    return (
        node.modifier is not None and node.modifier.card == promql.VectorMatchCardinality.ManyToOne
    )


def _group_labels(node: promql.BinaryExpr) -> Labels:
    return frozenset((node.modifier.group_labels or ()) if node.modifier else ())


def _missing(used: Iterable[str], present: Labels, where: str) -> tuple[str, ...]:
    have = ", ".join(sorted(present)) or "no labels"
    return tuple(
        f"label {name} does not exist on {where} (it has {have})"
        for name in sorted(set(used) - present)
    )
