"""`palisade dashboards push`: data source, folder and dashboards into a running Grafana.

In: `[grafana]` of the configuration. Out: one line for each thing that changed, none when Grafana
has it all. Only what differs is written, so a second push changes nothing; a dry run writes nothing
and shows the differences.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import niquests
from grafana_client.api import GrafanaApi
from grafana_client.client import GrafanaClientError, GrafanaException

from dashboards.build import Dashboard, built_dashboards, to_json
from dashboards.data_source import DATA_SOURCE_NAME, DATA_SOURCE_UID, data_source
from dashboards.settings import GrafanaSettings
from palisade_output import printable

FOLDER_UID = "palisade"
TIMEOUT_SECONDS = 10.0
# Given by the server when a dashboard is saved; no part of what we say about it.
_SERVER_FIELDS = ("id", "version")

Document = dict[str, Any]
Grafana = Any  # a GrafanaApi: grafana-client claims to be typed, but its calls are not


class GrafanaPushError(Exception):
    """Grafana cannot be reached, refuses us, or a setting is missing; the text says the remedy."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs: what it is, how it differs, and the call that mends it."""

    title: str
    before: str
    after: str
    apply: Callable[[], object]


def push(settings: GrafanaSettings, dry_run: bool) -> list[str]:
    """1. Data source. 2. Folder. 3. Dashboards. Return what changed (`dry_run`: would change)."""
    if not settings.url:
        message = "No Grafana is configured: set url in [grafana], or PALISADE_GRAFANA_URL."
        raise GrafanaPushError(message)
    report: list[str] = []
    with _explained(settings), _connected(settings) as grafana:
        for change in _changes(grafana, settings):
            if not dry_run:
                change.apply()
            report += _described(change, dry_run=dry_run)
    return report


def credential(settings: GrafanaSettings) -> str | tuple[str, str] | None:
    """Token, or user and password, from the files the settings name; None where they name none."""
    if settings.token_file:
        return _secret(settings.token_file, "token_file")
    if settings.user:
        return settings.user, _secret(settings.password_file, "password_file")
    return None


def _secret(path: str, key: str) -> str:
    if not path:
        message = f"[grafana] names a user, but no {key}: name the file that holds the secret."
        raise GrafanaPushError(message)
    try:
        secret = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        message = f"[grafana] {key} {path} cannot be read ({error.strerror}): name a readable file."
        raise GrafanaPushError(message) from error
    if not secret:
        message = f"[grafana] {key} {path} is empty: put the secret into it."
        raise GrafanaPushError(message)
    return secret


def _changes(grafana: Grafana, settings: GrafanaSettings) -> Iterator[Change]:
    """In the order in which they must be made: a dashboard needs its folder and its data source."""
    yield from _data_source_change(grafana, data_source(settings.prometheus_url))
    folder = _present_folder(grafana, settings.folder)
    yield from _folder_change(grafana, folder, settings.folder)
    folder_uid = folder["uid"] if folder else FOLDER_UID
    for document in built_dashboards().values():
        yield from _dashboard_change(grafana, document, folder_uid)


def _data_source_change(grafana: Grafana, wanted: Document) -> Iterator[Change]:
    title = f"data source {DATA_SOURCE_NAME}"
    found = _or_none(lambda: grafana.datasource.get_datasource_by_uid(DATA_SOURCE_UID))
    if found is None:
        create = partial(grafana.datasource.create_datasource, wanted)
        yield Change(title, "", to_json(wanted), create)
        return
    # Others may have added settings of their own; only ours are compared and written.
    json_data = {**(found.get("jsonData") or {}), **wanted["jsonData"]}
    merged = {**found, **wanted, "jsonData": json_data}
    if merged == found:
        return
    if found.get("readOnly"):
        raise GrafanaPushError(_provisioned(title))
    before, after = ({key: side.get(key) for key in wanted} for side in (found, merged))
    update = partial(grafana.datasource.update_datasource_by_uid, DATA_SOURCE_UID, merged)
    yield Change(title, to_json(before), to_json(after), update)


def _present_folder(grafana: Grafana, name: str) -> Document | None:
    """Ours, else one that somebody else named the same: Grafana allows no second."""
    folders: list[Document] = grafana.folder.get_all_folders()
    ours = [folder for folder in folders if folder["uid"] == FOLDER_UID]
    return next(iter(ours or [folder for folder in folders if folder["title"] == name]), None)


def _folder_change(grafana: Grafana, found: Document | None, name: str) -> Iterator[Change]:
    title = f"folder {name}"
    if found is None:
        create = partial(grafana.folder.create_folder, name, FOLDER_UID)
        yield Change(title, "", f"{name}\n", create)
    elif found["title"] != name:
        rename = partial(grafana.folder.update_folder, FOLDER_UID, title=name, overwrite=True)
        yield Change(title, f"{found['title']}\n", f"{name}\n", rename)


def _dashboard_change(grafana: Grafana, wanted: Dashboard, folder_uid: str) -> Iterator[Change]:
    found = _or_none(lambda: grafana.dashboard.get_dashboard(wanted["uid"]))
    meta = found["meta"] if found else {}
    before = _without_server_fields(found["dashboard"]) if found else {}
    in_place = meta.get("provisioned") or meta.get("folderUid") == folder_uid
    if before == wanted and in_place:
        return
    title = f"dashboard {wanted['title']}"
    if meta.get("provisioned"):
        raise GrafanaPushError(_provisioned(title))
    body = {
        "dashboard": wanted,
        "folderUid": folder_uid,
        "overwrite": True,
        "message": "palisade dashboards push",
    }
    shown = to_json(before) if before else ""
    yield Change(title, shown, to_json(wanted), partial(grafana.dashboard.update_dashboard, body))


def _without_server_fields(dashboard: Dashboard) -> Dashboard:
    return {key: value for key, value in dashboard.items() if key not in _SERVER_FIELDS}


def _provisioned(title: str) -> str:
    return (
        f"The {title} is provisioned from a file, so Grafana lets nobody else change it: change "
        "that file, or take it out of provisioning."
    )


def _described(change: Change, *, dry_run: bool) -> list[str]:
    verb = "create" if not change.before else "update"
    if not dry_run:
        return [f"{verb}d {change.title}"]
    difference = difflib.unified_diff(
        change.before.splitlines(),
        change.after.splitlines(),
        "in Grafana",
        "ours",
        lineterm="",
        n=2,
    )
    return [f"would {verb} {change.title}", *(printable(line) for line in difference)]


def _or_none(get: Callable[[], Any]) -> Document | None:
    try:
        found: Document = get()
    except GrafanaClientError as error:
        if error.status_code == 404:
            return None
        raise
    return found


@contextmanager
def _connected(settings: GrafanaSettings) -> Iterator[Grafana]:
    grafana = GrafanaApi.from_url(settings.url, credential(settings), timeout=TIMEOUT_SECONDS)
    try:
        health = grafana.health.check()
        if not isinstance(health, dict) or "version" not in health:
            message = (
                f"{_shown(settings.url)} answers, but is no Grafana: correct url in [grafana]."
            )
            raise GrafanaPushError(message)
        yield grafana
    finally:
        grafana.client.s.close()


@contextmanager
def _explained(settings: GrafanaSettings) -> Iterator[None]:
    where = _shown(settings.url)
    try:
        yield
    except niquests.exceptions.ConnectionError as error:
        message = f"Grafana at {where} cannot be reached: start it, or correct url in [grafana]."
        raise GrafanaPushError(message) from error
    except GrafanaException as error:
        raise GrafanaPushError(_refusal(where, error)) from error


def _refusal(where: str, error: GrafanaException) -> str:
    said = printable(error.message, 300)
    if error.status_code == 401:
        return (
            f"Grafana at {where} does not accept our credentials (401): name a service-account "
            "token in token_file of [grafana], or user and password_file."
        )
    if error.status_code == 403:
        return (
            f"Grafana at {where} does not let us write ({said}): give the service account the role "
            "Admin, or Editor and the right to create data sources."
        )
    if error.status_code == 404:
        return f"There is no Grafana at {where} (404): correct url in [grafana]."
    if not error.status_code:
        return f"Grafana at {where} did not answer within {TIMEOUT_SECONDS:.0f} s: {said}."
    return f"Grafana at {where} refused with {error.status_code}: {said}."


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
