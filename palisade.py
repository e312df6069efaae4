"""The `palisade` command: one subcommand for each stage. Stages are imported only when chosen."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, NoReturn, TypeVar

import typer

from palisade_config import Configuration, ConfigurationError, load_configuration
from palisade_output import printable, start_logging

Result = TypeVar("Result")
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file (default: palisade.toml).")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print a JSON document instead of a table.")
]

app = typer.Typer(
    name="palisade",
    help="Watches Apache access logs live: load, attacks, and whether a single line went missing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
offsets_app = typer.Typer(help="Where the job stands in Kafka.", no_args_is_help=True)
alerts_app = typer.Typer(help="Rules, runbooks and their tests.", no_args_is_help=True)
dashboards_app = typer.Typer(help="Grafana dashboards as code.", no_args_is_help=True)
app.add_typer(offsets_app, name="offsets")
app.add_typer(alerts_app, name="alerts")
app.add_typer(dashboards_app, name="dashboards")


def main() -> None:
    """Run the command; every expected failure is one sentence and a non-zero exit."""
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)


@app.callback()
def _global_options(
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="Least severe event to log."),
    ] = "info",
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Form of the log events on standard error.")
    ] = "text",
) -> None:
    start_logging(log_level, log_format)


@app.command()
def ship(config: ConfigOption = None) -> None:
    """Follow access logs and send every line to Kafka."""
    configuration = _configuration(config)
    _require("confluent_kafka", "ship")
    from ingest.errors import ShipError
    from ingest.run import run_shipper
    from ingest.ship_exporter import serving_counts
    from ingest.ship_metrics import ShipCounts

    counts = ShipCounts()
    stop = _stop_on_signal()

    def work() -> None:
        with serving_counts(counts, configuration.ship.listen):
            run_shipper(configuration.kafka, configuration.ship, stop, counts)

    _or_exit(work, ShipError)


@app.command()
def stream(
    config: ConfigOption = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Process what is in Kafka now, then exit.")
    ] = False,
) -> None:
    """Run the job: Kafka to ledger, metrics and incidents."""
    configuration = _configuration(config)
    _require("pyspark", "stream")
    from streaming.start import run_job

    stop = _stop_on_signal()
    _or_exit(lambda: run_job(_job_settings(configuration), stop, until_caught_up), *_job_errors())


@app.command()
def audit(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Prove from the ledger that no line is missing and none counted twice."""
    configuration = _configuration(config)
    _require("polars", "stream")
    from offsets.commands import read_pipeline
    from streaming.audit import Audit, audit_ledger
    from streaming.audit_report import show_audit
    from streaming.ledger import Ledger
    from streaming.ledger_files import open_ledger_files

    def work() -> Audit:
        with _zookeeper(configuration) as session:
            stored = read_pipeline(session, _znode_paths(configuration))
        ledger = Ledger(open_ledger_files(configuration.stream.ledger))
        return audit_ledger(ledger, stored.commit, stored.resets)

    result = _or_exit(work, *_job_errors())
    if as_json:
        print(json.dumps(result.to_json(), indent=2))
    else:
        show_audit(result)
    raise typer.Exit(0 if result.ok else 1)


@app.command()
def analyze(
    files: Annotated[list[Path], typer.Argument(help="Access logs, plain or .gz.")],
    log_format: Annotated[
        str,
        typer.Option(
            "--format",
            help="auto, common, combined, vhost_combined, combinedio, json, "
            "a name from the formats section, or a LogFormat string.",
        ),
    ] = "auto",
    summary: Annotated[
        Path | None, typer.Option("--json", help="Write the summary as JSON here.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option("--records", help="Write one JSON object for each line here.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Parse log files and look for attacks in them, without Kafka."""
    configuration = _configuration(config)
    _require("pyspark", "stream")
    from rich.console import Console

    from streaming.analyze import AnalyzeError, AnalyzeRequest
    from streaming.analyze import analyze as analyze_files

    request = AnalyzeRequest(
        files=tuple(files),
        log_format=log_format,
        formats=dict(configuration.formats),
        summary_path=summary,
        records_path=records,
        stream=configuration.stream,
        alerts=configuration.alerts,
    )
    raise typer.Exit(
        _or_exit(lambda: analyze_files(request, Console()), AnalyzeError, *_job_errors())
    )


@app.command()
def doctor(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check everything Palisade needs, and say what to do about what is missing."""
    configuration = _configuration(config)
    _require("kazoo", "stream")
    from streaming.doctor import Examined, examine, show_findings

    examined = Examined(
        configuration.kafka,
        configuration.zookeeper,
        configuration.stream,
        configuration.alerts,
        configuration.grafana.url,
    )
    findings = examine(examined, os.environ)
    if as_json:
        print(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        show_findings(findings)
    raise typer.Exit(1 if any(finding.is_problem for finding in findings) else 0)


@app.command()
def demo(
    seconds: Annotated[
        int | None, typer.Option(min=10, help="Stop by itself after this long and print a summary.")
    ] = None,
    var: Annotated[Path, typer.Option(help="Folder for everything the demo writes.")] = Path("var"),
) -> None:
    """Run the whole product on this machine with made-up traffic."""
    _require("pyspark", "all")
    from rich.console import Console

    from deploy.local.demo import run_demo
    from deploy.local.stack_errors import StackError

    raise typer.Exit(_or_exit(lambda: run_demo(seconds, var, Console()), StackError))


@offsets_app.command("show")
def offsets_show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show what is committed against what Kafka has."""
    configuration = _configuration(config)
    _require("kazoo", "stream")
    from streaming.offsets_commands import overview
    from streaming.offsets_report import show_offsets

    def work() -> None:
        settings = _job_settings(configuration)
        with _zookeeper(configuration) as session:
            stored, rows = overview(settings, session, _znode_paths(configuration))
        show_offsets(configuration.stream.job_name, stored, rows, as_json)

    _or_exit(work, *_job_errors())


@offsets_app.command("reset")
def offsets_reset(
    to: Annotated[
        Literal["earliest", "latest", "time", "offsets"],
        typer.Option("--to", help="Where to continue."),
    ],
    at_time: Annotated[
        str,
        typer.Option("--time", help="With --to time: as in 2026-11-18T10:00:00+00:00."),
    ] = "",
    offsets: Annotated[
        str,
        typer.Option(
            "--offsets", help="With --to offsets: access-log:0=5,...; others stay where they are."
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigOption = None,
) -> None:
    """Set where the job continues; refused while it runs, the old offsets are kept."""
    configuration = _configuration(config)
    _require("kazoo", "stream")
    from offsets.commands import reset
    from streaming.offsets_commands import ResetRequest, prepare_reset
    from streaming.offsets_report import reset_lines

    def work() -> None:
        settings, paths = _job_settings(configuration), _znode_paths(configuration)
        with _zookeeper(configuration) as session:
            request = ResetRequest(to, at_time, offsets)
            planned = prepare_reset(settings, session, paths, request)
            for line in reset_lines(planned):
                print(printable(line))
            if not yes and not typer.confirm("Set these offsets?"):
                raise typer.Exit(1)
            kept = reset(session, paths, planned, time.time())
        print(f"Done. The old offsets are kept in {kept}.")

    _or_exit(work, *_job_errors())


@alerts_app.command("check")
def alerts_check() -> None:
    """Prove that every alert has a severity, numbers, a runbook and a test, and uses known metrics."""
    _require("yaml", "dashboards")
    from alerts.check_rules import check

    problems = check(Path(__file__).parent)
    for problem in problems:
        print(printable(problem), file=sys.stderr)
    if problems:
        raise typer.Exit(1)
    print("Every alert has its severity, runbook and test, and uses known metrics.")


@dashboards_app.command("build")
def dashboards_build(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the committed files differ.")
    ] = False,
) -> None:
    """Write the dashboards' JSON from the code."""
    _require("grafana_foundation_sdk", "dashboards")
    from dashboards.build import GENERATED, build_all, differing

    if check:
        changed = differing(GENERATED)
        if changed:
            _fail(f"{', '.join(changed)} differ from the code: run `make dashboards`.")
        print("The committed dashboards are what the code builds.")
        return
    for path in build_all(GENERATED):
        print(path)


@dashboards_app.command("push")
def dashboards_push(
    config: ConfigOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> None:
    """Bring data source, folder and dashboards into a running Grafana."""
    configuration = _configuration(config)
    _require("grafana_client", "dashboards")
    from dashboards.grafana_push import GrafanaPushError, push

    for line in _or_exit(lambda: push(configuration.grafana, dry_run), GrafanaPushError):
        print(printable(line))


def _configuration(path: Path | None) -> Configuration:
    return _or_exit(lambda: load_configuration(path, os.environ), ConfigurationError)


def _job_settings(configuration: Configuration):  # type: ignore[no-untyped-def] # imported lazily
    from ingest.kafka_connection import KafkaSettingsError, client_properties
    from streaming.settings import JobSettings

    return JobSettings(
        kafka=configuration.kafka,
        zookeeper=configuration.zookeeper,
        stream=configuration.stream,
        alerts=configuration.alerts,
        formats=dict(configuration.formats),
        kafka_properties=_or_exit(
            lambda: client_properties(configuration.kafka), KafkaSettingsError
        ),
        assumed_lines_per_record=configuration.ship.lines_per_record,
    )


def _zookeeper(configuration: Configuration):  # type: ignore[no-untyped-def] # imported lazily
    from offsets.zookeeper_session import ZookeeperSession

    return ZookeeperSession(configuration.zookeeper).connected()


def _znode_paths(configuration: Configuration):  # type: ignore[no-untyped-def] # imported lazily
    from offsets.znode_paths import ZnodePaths

    zookeeper = configuration.zookeeper
    return ZnodePaths(zookeeper.root, configuration.stream.job_name, zookeeper.consumers_root)


def _job_errors() -> tuple[type[Exception], ...]:
    from offsets.errors import OffsetsError
    from streaming.errors import StreamError

    return OffsetsError, StreamError


def _require(module: str, group: str) -> None:
    """Say which dependency group is missing instead of showing an import error."""
    if find_spec(module) is None:
        _fail(f"This command needs the '{group}' dependencies: install palisade[{group}].")


def _stop_on_signal() -> threading.Event:
    """First SIGTERM or SIGINT: finish and leave. Second: leave at once; what is committed stays right."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


def _or_exit(work: Callable[[], Result], *expected: type[Exception]) -> Result:
    try:
        return work()
    except expected as error:
        _fail(str(error))


def _fail(sentence: str) -> NoReturn:
    print(f"palisade: {printable(sentence, limit=4000)}", file=sys.stderr)
    raise typer.Exit(1)


if __name__ == "__main__":
    main()
