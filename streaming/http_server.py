"""The job's small read-only HTTP server: /metrics, /api/status, /healthz. I/O, in threads of its own."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from streaming.errors import StreamError
from streaming.metrics_exporter import PublishedCollector
from streaming.published import Published

_log = logging.getLogger("stream")
_JSON_HEADERS = [
    ("Content-Type", "application/json; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = 10  # a scraper that sends its request byte by byte holds one thread, not for ever

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        _log.debug("request", extra={"request": format % args})


def application(published: Published) -> Any:
    """The WSGI application over what is published."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublishedCollector(published))
    metrics = make_wsgi_app(registry)

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            return metrics(environ, start_response)  # type: ignore[no-any-return]
        if path == "/api/status":
            start_response("200 OK", list(_JSON_HEADERS))
            return [json.dumps(published.picture.status, ensure_ascii=True).encode()]
        if path == "/healthz":
            start_response("200 OK", list(_JSON_HEADERS))
            return [b'{"ok":true}']
        start_response("404 Not Found", list(_JSON_HEADERS))
        return [b'{"error":"known paths: /metrics /api/status /healthz"}']

    return serve


@contextmanager
def serving(published: Published, listen: str) -> Iterator[str]:
    """Serve while the context lasts; gives the address that is listened on."""
    host, _, port = listen.rpartition(":")
    try:
        server = make_server(host, int(port), application(published), _Server, _Handler)
    except (OSError, ValueError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        message = f"stream.listen = {listen!r} cannot be used ({cause}): choose a free host:port."
        raise StreamError(message) from error
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
