"""Small panel builders: one sentence in the dashboard's file, one panel on the screen.

Pure. Every panel has a title, a description, a unit and queries on the dashboard's data source.
Only panels that Grafana 10.0 ships.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATA_SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

PanelBuilder = Builder[model.Panel]
Steps = tuple[tuple[float | None, str], ...]
_Framed = TypeVar("_Framed", stat.Panel, table.Panel, timeseries.Panel, dashboard_builders.Panel)


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and the name of its line; `unit` where it differs from the figure's."""

    expression: str
    legend: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """What a panel shows. `width` is of 24 columns; `steps` are pairs of value and colour."""

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str
    width: int
    height: int = 8
    steps: Steps = ((None, "green"),)
    decimals: int | None = None


def number(figure: Figure) -> PanelBuilder:
    """One figure, coloured by its thresholds, over a faint line of where it came from."""
    panel = _framed(stat.Panel(), figure).color_mode(common.BigValueColorMode.BACKGROUND_SOLID)
    panel = panel.graph_mode(common.BigValueGraphMode.AREA).text_mode(common.BigValueTextMode.VALUE)
    panel = panel.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    return _with_targets(panel, figure)


def numbers(figure: Figure) -> PanelBuilder:
    """Several totals side by side, each under its name."""
    panel = _framed(stat.Panel(), figure).color_mode(common.BigValueColorMode.VALUE)
    panel = panel.graph_mode(common.BigValueGraphMode.NONE)
    panel = panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME)
    panel = panel.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    for query in figure.queries:
        if query.unit:
            panel = panel.override_by_name(query.legend, [_value("unit", query.unit)])
    return _with_targets(panel, figure)


def lines(figure: Figure, colours: dict[str, str] | None = None) -> PanelBuilder:
    """Lines over time; `colours` fixes the colour of a line by its name."""
    return _graph(figure, colours or {}, fill=8)


def stacked(figure: Figure, colours: dict[str, str] | None = None) -> PanelBuilder:
    """Areas on top of each other: the parts and the whole."""
    panel = _graph(figure, colours or {}, fill=60).line_width(0)
    return panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))


def rows_by(label: str, figure: Figure) -> PanelBuilder:
    """A table with one row for each value of `label`, one column for each query."""
    panel = _framed(table.Panel(), figure)
    panel = panel.override_by_regexp(".*", [_value("custom.minWidth", 60)])
    heading = label.capitalize()
    panel = panel.override_by_name(heading, [_value("custom.minWidth", 130)])
    names: dict[str, object] = {label: heading}
    for index, query in enumerate(figure.queries):
        panel = panel.with_target(_target(query, index).instant().format(PromQueryFormat.TABLE))
        # A single query's column is plain "Value"; Grafana numbers them from two queries on.
        names[f"Value #{_ref_id(index)}"] = query.legend
        if query.unit:
            panel = panel.override_by_name(query.legend, [_value("unit", query.unit)])
    panel = panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    tidy: dict[str, object] = {"excludeByName": {"Time": True}, "renameByName": names}
    return panel.with_transformation(model.DataTransformerConfig(id_val="organize", options=tidy))


def alert_list(title: str, description: str, width: int, height: int = 8) -> PanelBuilder:
    """The alerts that fire or are about to, as Grafana reads them from Prometheus."""
    figure = Figure(title, description, (), "none", width, height)
    states = {"firing": True, "pending": True, "error": True, "noData": False, "normal": False}
    options = {
        "alertName": "",
        "dashboardAlerts": False,
        "groupMode": "default",
        "groupBy": [],
        "maxItems": 20,
        "sortOrder": 3,
        "stateFilter": states,
        "viewMode": "list",
    }
    return _framed(dashboard_builders.Panel().type("alertlist"), figure).options(options)


def panel_id(title: str) -> int:
    """A number that stays when panels are added before or after: links to a panel stay right."""
    return zlib.crc32(title.encode()) % 1_000_000 + 1


def _graph(figure: Figure, colours: dict[str, str], fill: int) -> timeseries.Panel:
    panel = _framed(timeseries.Panel(), figure).line_width(2).fill_opacity(fill).min(0)
    panel = panel.show_points(common.VisibilityMode.NEVER).span_nulls(60_000)
    panel = panel.legend(_legend()).tooltip(
        common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    )
    panel = panel.color_scheme(
        dashboard_builders.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC)
    )
    if len(figure.steps) > 1:
        dashed = common_builders.GraphThresholdsStyleConfig().mode(
            common.GraphTresholdsStyleMode.DASHED
        )
        panel = panel.thresholds_style(dashed)
    for name, colour in colours.items():
        fixed = _value("color", {"mode": "fixed", "fixedColor": colour})
        panel = panel.override_by_name(name, [fixed])
    return _with_targets(panel, figure)


def _legend() -> common_builders.VizLegendOptions:
    legend = common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
    return legend.placement(common.LegendPlacement.BOTTOM).show_legend(True).calcs([])


def _framed(panel: _Framed, figure: Figure) -> _Framed:
    steps = [model.Threshold(value=value, color=colour) for value, colour in figure.steps]
    thresholds = dashboard_builders.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE)
    panel = panel.id(panel_id(figure.title)).title(figure.title).description(figure.description)
    panel = panel.span(figure.width).height(figure.height).datasource(DATA_SOURCE)
    panel = panel.unit(figure.unit).thresholds(thresholds.steps(steps))
    return panel if figure.decimals is None else panel.decimals(figure.decimals)


_Targeted = TypeVar("_Targeted", stat.Panel, timeseries.Panel)


def _with_targets(panel: _Targeted, figure: Figure) -> _Targeted:
    for index, query in enumerate(figure.queries):
        panel = panel.with_target(_target(query, index).range())
    return panel


def _target(query: Query, index: int) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend)
    return target.ref_id(_ref_id(index)).datasource(DATA_SOURCE)


def _ref_id(index: int) -> str:
    return chr(ord("A") + index)


def _value(name: str, value: object) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val=name, value=value)
