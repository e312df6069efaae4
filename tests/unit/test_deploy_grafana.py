from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.local.grafana import configuration, dashboard_path, find_grafana
from deploy.local.stack_errors import ProgramMissing


def test_given_home_comes_first(tmp_path: Path) -> None:
    given = a_home(tmp_path / "given")
    other = a_home(tmp_path / "other")

    environ = {"PALISADE_GRAFANA_HOME": str(given), "PATH": str(other / "bin")}
    found = find_grafana(environ, tmp_path)

    assert found.home == given
    assert found.command == [given / "bin" / "grafana", "server"]


def test_program_on_path_has_its_home_around_it(tmp_path: Path) -> None:
    home = a_home(tmp_path / "opt")

    assert find_grafana({"PATH": str(home / "bin")}, tmp_path).home == home


def test_older_program_is_called_without_a_subcommand(tmp_path: Path) -> None:
    home = a_home(tmp_path / "opt", "grafana-server")

    found = find_grafana({"PATH": str(home / "bin")}, tmp_path)

    assert found.command == [home / "bin" / "grafana-server"]


def test_package_folder_is_the_last_place(tmp_path: Path) -> None:
    package = a_home(tmp_path / "package")

    assert find_grafana({"PATH": ""}, package).home == package


def test_missing_grafana_says_how_to_get_it_and_what_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ProgramMissing, match=r"install it .*PALISADE_GRAFANA_HOME.*no dashboards"):
        find_grafana({"PATH": ""}, tmp_path)


def test_wrong_given_home_is_not_silently_replaced_by_another(tmp_path: Path) -> None:
    package = a_home(tmp_path / "package")

    with pytest.raises(ProgramMissing, match="has no bin/grafana"):
        find_grafana({"PALISADE_GRAFANA_HOME": str(tmp_path), "PATH": ""}, package)


def test_configuration_listens_on_loopback_only(tmp_path: Path) -> None:
    text = configuration(tmp_path, 3999, None)

    assert "http_addr = 127.0.0.1\nhttp_port = 3999" in text
    assert "reporting_enabled = false" in text


def test_dashboard_page_is_named_by_its_uid(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"uid": "palisade-overview"}))

    assert dashboard_path(tmp_path / "a.json") == "/d/palisade-overview"
    assert dashboard_path(None) == "/dashboards"


def a_home(home: Path, program: str = "grafana") -> Path:
    for folder in ("bin", "conf"):
        (home / folder).mkdir(parents=True)
    (home / "conf" / "defaults.ini").touch()
    (home / "bin" / program).touch()
    (home / "bin" / program).chmod(0o755)
    return home.resolve()
