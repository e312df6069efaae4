"""Free ports and small HTTP requests on 127.0.0.1. I/O; never leaves the machine."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from deploy.local.stack_errors import ServerDidNotStart

ADDRESS = "127.0.0.1"
_Started = TypeVar("_Started")


def free_port() -> int:
    """A port nobody listens on now; somebody may take it before we do (see `on_free_port`)."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def on_free_port(start: Callable[[int], _Started], *, attempts: int = 3) -> _Started:
    """Call `start` with a free port; when the port was snatched meanwhile, try another one."""
    for _ in range(attempts - 1):
        try:
            return start(free_port())
        except ServerDidNotStart as error:
            if not error.address_in_use:
                raise
    return start(free_port())


def accepts_connections(port: int) -> bool:
    """Whether somebody listens on the port."""
    try:
        with socket.create_connection((ADDRESS, port), timeout=1):
            return True
    except OSError:
        return False


def answers_ok(port: int, path: str) -> bool:
    """Whether an HTTP GET of `path` is answered with 200."""
    try:
        return _get(port, path)[0] == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def get_json(port: int, path: str) -> Any | None:
    """The JSON document at `path`, or None when there is no usable answer."""
    try:
        status, body = _get(port, path)
        return json.loads(body) if status == http.client.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=2)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
