"""A real Grafana on a free port of 127.0.0.1, with data source and dashboards provisioned. I/O.

Looked for in `PALISADE_GRAFANA_HOME`, on PATH, in the usual package folder; tests may add an
archive to unpack.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local import loopback, project_files
from deploy.local.child_process import ChildCommand, ChildKeeper, ChildProcess
from deploy.local.stack_errors import ProgramMissing

PACKAGE_HOME = Path("/usr/share/grafana")
_PROGRAM_NAMES = ("grafana", "grafana-server")
_REMEDY = (
    "install it (https://grafana.com/grafana/download) or set PALISADE_GRAFANA_HOME to its folder"
)
_READY_SECONDS = 90


@dataclass(frozen=True, slots=True)
class GrafanaProgram:
    """Grafana's program and its home: the folder with `conf` and `public`."""

    binary: Path
    home: Path

    @property
    def command(self) -> list[str | Path]:
        """How the server is called: a subcommand of the newer program."""
        return [self.binary, "server"] if self.binary.name == "grafana" else [self.binary]


@dataclass(frozen=True, slots=True)
class Grafana:
    """A running Grafana; anonymous visitors may look, `admin` with `admin_password` may change."""

    process: ChildProcess
    port: int
    admin_password: str

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://{loopback.ADDRESS}:{self.port}"


def find_grafana(environ: Mapping[str, str], package_home: Path = PACKAGE_HOME) -> GrafanaProgram:
    """The Grafana of this machine, or `ProgramMissing`."""
    given = environ.get("PALISADE_GRAFANA_HOME")
    if given:
        return _in_home(Path(given)) or _missing(
            f"PALISADE_GRAFANA_HOME={given} has no bin/grafana"
        )
    for name in _PROGRAM_NAMES:
        on_path = shutil.which(name, path=environ.get("PATH"))
        if on_path:
            return _around(Path(on_path).resolve(), package_home)
    return _in_home(package_home) or _missing("Grafana")


def unpack_grafana(archive: Path, cache: Path) -> GrafanaProgram:
    """A Grafana from a `.tar.xz` archive, unpacked into `cache` once."""
    home = cache / archive.name.removesuffix(".tar.xz")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "grafana.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            _unpack(archive, home)
    return _in_home(home) or _missing(f"the archive {archive}")


def _unpack(archive: Path, home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="grafana-", dir=home.parent) as temporary:
        with tarfile.open(archive) as packed:
            packed.extractall(temporary, filter="data")
        inside = next(Path(temporary).glob("**/conf/defaults.ini")).parents[1]
        inside.rename(home)


def _around(binary: Path, package_home: Path) -> GrafanaProgram:
    own_home = binary.parents[1]
    has_pages = (own_home / "conf" / "defaults.ini").is_file()
    return GrafanaProgram(binary, own_home if has_pages else package_home)


def _in_home(home: Path) -> GrafanaProgram | None:
    for name in _PROGRAM_NAMES:
        if (home / "bin" / name).is_file():
            return GrafanaProgram((home / "bin" / name).resolve(), home.resolve())
    return None


def _missing(what: str) -> GrafanaProgram:
    raise ProgramMissing(what, _REMEDY, "no dashboards are shown")


def configuration(folder: Path, port: int, home_dashboard: Path | None) -> str:
    """`grafana.ini`: loopback only, own folders, no calls home, looking needs no login."""
    start_page = (
        f"[dashboards]\ndefault_home_dashboard_path = {home_dashboard}\n" if home_dashboard else ""
    )
    return f"""[server]
http_addr = {loopback.ADDRESS}
http_port = {port}
[paths]
data = {folder / "data"}
logs = {folder / "logs"}
plugins = {folder / "plugins"}
provisioning = {project_files.GRAFANA_PROVISIONING}
[log]
mode = console
level = warn
[analytics]
reporting_enabled = false
check_for_updates = false
check_for_plugin_updates = false
[news]
news_feed_enabled = false
[security]
disable_gravatar = true
[auth.anonymous]
enabled = true
org_role = Viewer
[unified_alerting]
alertmanager_config_poll_interval = 5s
admin_config_poll_interval = 5s
{start_page}"""


def start_grafana(
    keeper: ChildKeeper, program: GrafanaProgram, folder: Path, prometheus_url: str
) -> Grafana:
    """Start it with its data and configuration in `folder`, and return when it is healthy."""
    folder.mkdir(parents=True, exist_ok=True)
    return loopback.on_free_port(
        lambda port: _start(keeper, program, folder, _Wish(port, prometheus_url))
    )


@dataclass(frozen=True, slots=True)
class _Wish:
    port: int
    prometheus_url: str


def _start(keeper: ChildKeeper, program: GrafanaProgram, folder: Path, wish: _Wish) -> Grafana:
    ini = folder / "grafana.ini"
    ini.write_text(configuration(folder, wish.port, home_dashboard()), encoding="utf-8")
    password = "admin"  # noqa: S105 - a throw-away server on loopback
    environment = {
        "PROMETHEUS_URL": wish.prometheus_url,
        "DASHBOARDS_FOLDER": str(project_files.DASHBOARDS),
        "GF_SECURITY_ADMIN_PASSWORD": password,
    }
    argv = [*program.command, "--homepath", program.home, "--config", ini]
    process = keeper.start(
        ChildCommand("grafana", argv, folder / "grafana.log", environment, program.home)
    )
    process.wait_until_ready(
        lambda: loopback.answers_ok(wish.port, "/api/health"), within_seconds=_READY_SECONDS
    )
    return Grafana(process, wish.port, password)


def home_dashboard() -> Path | None:
    """The overview among the generated dashboards, or the first of them, or None."""
    found = sorted(project_files.DASHBOARDS.glob("*.json"))
    overview = [path for path in found if "overview" in path.name]
    return next(iter([*overview, *found]), None)


def dashboard_path(dashboard: Path | None) -> str:
    """The path of its page in Grafana."""
    if dashboard is None:
        return "/dashboards"
    uid = json.loads(dashboard.read_text(encoding="utf-8")).get("uid", "")
    return f"/d/{uid}" if uid else "/dashboards"
