"""Palisade overview: is it loaded, is it attacked, is the data complete, at one glance.

Pure. Read it like the screen: rows from top to bottom, panels from left to right.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as model

from alerts import metric_names as metrics
from dashboards.panels import (
    DATA_SOURCE,
    Figure,
    PanelBuilder,
    Query,
    alert_list,
    lines,
    number,
    numbers,
    panel_id,
    rows_by,
    stacked,
)

UID = "palisade-overview"
TITLE = "Palisade overview"

SITE = '{service=~"$service", vhost=~"$vhost"}'
SITE_ERRORS = '{service=~"$service", vhost=~"$vhost", status_class="5xx"}'
SERVICE = '{service=~"$service"}'
WINDOW = "[$__rate_interval]"
STATUS_COLOURS = {"1xx": "purple", "2xx": "green", "3xx": "blue", "4xx": "yellow", "5xx": "red"}

OUTCOME_COLOURS = {"clean": "green", "malformed": "yellow", "quarantined": "red"}

REQUEST_RATE = f"rate({metrics.REQUESTS.name}{SITE}{WINDOW})"
ERROR_RATE = f"rate({metrics.REQUESTS.name}{SITE_ERRORS}{WINDOW})"
ATTACK_RATE = f"rate({metrics.ATTACK_REQUESTS.name}{SERVICE}{WINDOW})"
DETECTED_RATE = f"sum by (service, detector) ({ATTACK_RATE})"
BYTE_RATE = f"rate({metrics.RESPONSE_BYTES.name}{SITE}{WINDOW})"
SHIPPED_RATE = f"rate({metrics.SHIP_LINES.name}{WINDOW})"
FIRING = 'ALERTS{alertstate="firing", severity=~"page|ticket|info"}'


def overview() -> builders.Dashboard:
    """The whole dashboard, ready to build."""
    dashboard = builders.Dashboard(TITLE).uid(UID).tags(["palisade"]).timezone("browser")
    dashboard = dashboard.description(
        "Apache access logs, live: is it loaded, is it attacked, is the data complete?"
    )
    dashboard = dashboard.time("now-30m", "now").refresh("10s").readonly()
    dashboard = dashboard.tooltip(model.DashboardCursorSync.CROSSHAIR)
    for variable in variables():
        dashboard = dashboard.with_variable(variable)
    for title, panels in rows():
        dashboard = dashboard.with_row(builders.Row(title).id(panel_id(title)))
        for panel in panels:
            dashboard = dashboard.with_panel(panel)
    return dashboard


def variables() -> list[builders.DatasourceVariable | builders.QueryVariable]:
    """Which Prometheus, which services, which virtual hosts."""
    source = builders.DatasourceVariable("datasource").id("datasource").label("Data source")
    ours = model.VariableOption(
        selected=True, text="Palisade Prometheus", value="palisade-prometheus"
    )
    return [
        source.type("prometheus").current(ours),
        _label_variable("service", "Service", f"label_values({metrics.REQUESTS.name}, service)"),
        _label_variable(
            "vhost", "Virtual host", f"label_values({metrics.REQUESTS.name}{SERVICE}, vhost)"
        ),
    ]


def rows() -> list[tuple[str, list[PanelBuilder]]]:
    """The screen."""
    return [
        ("At a glance", glance()),
        ("Is it loaded?", load()),
        ("Is it attacked?", attacks()),
        ("Is the data complete and fresh?", pipeline()),
    ]


def glance() -> list[PanelBuilder]:
    """Eight figures: green is well, red needs somebody."""
    return [
        number(Figure(
            "Requests", "Requests in committed lines.",
            (Query(f"sum({REQUEST_RATE})", "requests/s"),), "reqps", 3, 4, ((None, "blue"),),
        )),
        number(Figure(
            "5xx ratio", "Share of requests answered with 5xx. HighErrorRatio pages above 7.2 %.",
            (Query(f"(sum({ERROR_RATE}) or vector(0)) / sum({REQUEST_RATE})", "5xx"),),
            "percentunit", 3, 4, ((None, "green"), (0.01, "orange"), (0.05, "red")), 2,
        )),
        number(Figure(
            "p99", "One request in a hundred took longer. HighLatency fires above 2.5 s.",
            (Query(_quantile(0.99), "p99"),), "s", 3, 4,
            ((None, "green"), (1, "orange"), (2.5, "red")),
        )),
        number(Figure(
            "Attacks",
            "Requests recognised as attacks; of several detectors the busiest counts.",
            (Query(f"sum(max by (service) ({DETECTED_RATE})) or vector(0)", "attacks/s"),),
            "reqps", 3, 4, ((None, "green"), (0.01, "orange"), (5, "red")),
        )),
        number(Figure(
            "Incidents", "Attackers that have scored enough and are not quiet yet.",
            (Query(f"sum({metrics.INCIDENTS_OPEN.name}{SERVICE}) or vector(0)", "incidents"),),
            "none", 3, 4, ((None, "green"), (1, "red")),
        )),
        number(Figure(
            "Complete", "Bytes counted of the bytes the log files are known to hold.",
            (Query(f"min({metrics.COMPLETENESS.name})", "complete"),),
            "percentunit", 3, 4, ((None, "red"), (1, "green")), 2,
        )),
        number(Figure(
            "Lag", "Age of the oldest line not counted yet. PipelineLate pages above 60 s.",
            (Query(f"max({metrics.LAG_SECONDS.name})", "lag"),),
            "s", 3, 4, ((None, "green"), (30, "orange"), (60, "red")), 1,
        )),
        number(Figure(
            "Firing", "Alerts of severity page, ticket or info that fire in Prometheus now.",
            (Query(f"count({FIRING}) or vector(0)", "alerts"),),
            "none", 3, 4, ((None, "green"), (1, "red")),
        )),
    ]  # fmt: skip


def load() -> list[PanelBuilder]:
    """Requests, what they were answered with, how fast and how much."""
    return [
        lines(Figure(
            "Requests per second by service", "Requests in committed lines.",
            (Query(f"sum by (service) ({REQUEST_RATE})", "{{service}}"),), "reqps", 8,
        )),
        stacked(Figure(
            "Status mix", "Requests per second by status class.",
            (Query(f"sum by (status_class) ({REQUEST_RATE})", "{{status_class}}"),), "reqps", 8,
        ), STATUS_COLOURS),
        lines(Figure(
            "Latency", "Where the log format carries the duration. Dashed: HighLatency.",
            tuple(Query(_quantile(share), f"p{share * 100:.0f}") for share in (0.5, 0.9, 0.99)),
            "s", 8, 8, ((None, "transparent"), (2.5, "red")),
        ), {"p50": "green", "p90": "yellow", "p99": "orange"}),
        lines(Figure(
            "Error ratio by service", "Requests answered with 5xx. Dashed: HighErrorRatio pages.",
            (Query(
                f"(sum by (service) ({ERROR_RATE}) or 0 * sum by (service) ({REQUEST_RATE}))"
                f" / sum by (service) ({REQUEST_RATE})", "{{service}}"),),
            "percentunit", 8, 7, ((None, "transparent"), (0.072, "red")),
        )),
        lines(Figure(
            "Response bytes per second", "Response bytes in committed lines, by virtual host.",
            (Query(f"sum by (vhost) ({BYTE_RATE})", "{{vhost}}"),),
            "Bps", 8, 7,
        )),
        lines(Figure(
            "Requests per second by virtual host", "The ten busiest.",
            (Query(f"topk(10, sum by (vhost) ({REQUEST_RATE}))", "{{vhost}}"),), "reqps", 8, 7,
        )),
    ]  # fmt: skip


def attacks() -> list[PanelBuilder]:
    """What is recognised, how many attackers, and which alerts that raised."""
    return [
        stacked(Figure(
            "Attack requests by detector",
            "Requests a detector recognised; one that several recognise counts for each.",
            (Query(f"sum by (detector) ({ATTACK_RATE})", "{{detector}}"),), "reqps", 9,
        )),
        lines(Figure(
            "Open incidents by service", "Attackers that are an incident now.",
            (Query(f"sum by (service) ({metrics.INCIDENTS_OPEN.name}{SERVICE})", "{{service}}"),),
            "none", 6,
        )),
        alert_list("Alerts", "Firing and pending, from Prometheus. Each names its runbook.", 9),
    ]  # fmt: skip


def pipeline() -> list[PanelBuilder]:
    """Ourselves: late, slow, incomplete, and every shipper."""
    return [
        lines(Figure(
            "Lag over time", "Age of the oldest line not counted yet. Dashed: PipelineLate.",
            (Query(f"max({metrics.LAG_SECONDS.name})", "lag"),),
            "s", 8, 7, ((None, "transparent"), (60, "red")),
        )),
        lines(Figure(
            "Batch time against interval", "A batch above the interval makes the next one late.",
            (
                Query(f"max({metrics.BATCH_TOTAL_SECONDS.name})", "batch"),
                Query(f"max({metrics.BATCH_INTERVAL.name})", "interval"),
                Query(f"max({metrics.SCHEDULING_DELAY.name})", "started late by"),
            ), "s", 8, 7,
        ), {"batch": "blue", "interval": "red", "started late by": "orange"}),
        stacked(Figure(
            "Lines by outcome", "Lines per second in committed batches, by what became of them.",
            (Query(f"sum by (outcome) (rate({metrics.LINES.name}{WINDOW}))", "{{outcome}}"),),
            "short", 8, 7,
        ), OUTCOME_COLOURS),
        numbers(Figure(
            "Missing, doubled, unproven",
            "Since the ledger began. Gap: bytes that never arrived. Re-sent: counted once."
            " Unproven: lines without identity. Lost: records Kafka deleted before we read them.",
            (
                Query(f"max({metrics.GAP_BYTES.name})", "gap", "bytes"),
                Query(f"max({metrics.RESENT_LINES.name})", "re-sent lines"),
                Query(f"max({metrics.UNPROVEN_LINES.name})", "unproven lines"),
                Query(f"max({metrics.LOST_RECORDS.name})", "lost records"),
            ), "short", 8, 7, ((None, "text"),), 0,
        )),
        stacked(Figure(
            "Batch time by phase", "Seconds of the last batch.",
            (Query(f"max by (phase) ({metrics.BATCH_SECONDS.name})", "{{phase}}"),),
            "s", 8, 7,
        )),
        rows_by("instance", Figure(
            "Shippers", "One row for each web host.",
            (
                Query(f"sum by (instance) ({SHIPPED_RATE})", "Lines/s", "short"),
                Query(f"max by (instance) ({metrics.SHIP_BEHIND_SECONDS.name})", "Behind", "s"),
                Query(f"max by (instance) ({metrics.SHIP_BEHIND_BYTES.name})", "Unsent", "bytes"),
            ), "none", 8, 7, ((None, "text"),),
        )),
    ]  # fmt: skip


def _quantile(share: float) -> str:
    buckets = f"rate({metrics.REQUEST_DURATION.name}_bucket{SITE}{WINDOW})"
    return f"histogram_quantile({share}, sum by (le) ({buckets}))"


def _label_variable(name: str, label: str, query: str) -> builders.QueryVariable:
    everything = model.VariableOption(selected=True, text=["All"], value=["$__all"])
    # Grafana keeps variables by their id, and the builder gives all of them the same one.
    variable = builders.QueryVariable(name).id(name).label(label).datasource(DATA_SOURCE)
    variable = variable.query(
        {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"}
    )
    variable = variable.multi(True).include_all(True).all_value(".*").current(everything)
    variable = variable.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    return variable.sort(model.VariableSort.ALPHABETICAL_ASC)
