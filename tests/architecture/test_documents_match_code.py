"""README says what the code does: commands, settings, metrics, folders."""

from pathlib import Path

import pytest
import typer.main

import streaming
from alerts.metric_names import METRICS
from palisade import app
from palisade_config import OTHER_VARIABLES, environment_name, settings_sections

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDERS = {"ingest", "streaming", "offsets", "alerts", "dashboards", "deploy", "tests"}


def commands():
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        subcommands = getattr(command, "commands", None)
        yield from [name] if subcommands is None else [f"{name} {sub}" for sub in subcommands]


def settings():
    for section, model in settings_sections():
        for key, field in model.model_fields.items():
            yield section, key, field


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_is_in_the_readme(command):
    assert f"`palisade {command}" in README


@pytest.mark.parametrize(
    ("section", "key", "field"), [pytest.param(*s, id=f"{s[0]}.{s[1]}") for s in settings()]
)
def test_every_setting_is_in_the_configuration_table(section, key, field):
    row = next(
        (line for line in README.splitlines() if line.startswith(f"| `{section}.{key}` |")), ""
    )

    assert row, f"{section}.{key} ({environment_name(section, key)}) has no row"
    assert field.description in row


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_in_the_metrics_table(metric):
    labels = ", ".join(metric.labels) or "none"

    assert f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |" in README


@pytest.mark.parametrize("variable", sorted(OTHER_VARIABLES))
def test_every_other_variable_is_in_the_readme(variable):
    assert f"`{variable}`" in README


def test_top_level_folders_are_the_fixed_ones():
    tracked = {
        path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")
    }

    assert tracked - {"var", "dist", "__pycache__"} == FOLDERS


def test_our_packages_are_imported_from_this_project():
    assert Path(streaming.__file__).parent.parent == ROOT
