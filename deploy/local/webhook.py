"""A tiny receiver on 127.0.0.1: appends what Alertmanager notifies to a file of JSON lines. I/O."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deploy.local import loopback

_LARGEST_BODY = 1_048_576


class WebhookReceiver:
    """Listens from `__init__` to `close`; `url` is what Alertmanager is told."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._writing = threading.Lock()
        self._server = ThreadingHTTPServer((loopback.ADDRESS, 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where notifications go."""
        return f"http://{loopback.ADDRESS}:{self._server.server_address[1]}/notifications"

    def receive(self, body: bytes) -> bool:
        """Keep a notification; False when it is none."""
        try:
            notification = json.loads(body)
        except ValueError:
            return False
        if not isinstance(notification, dict):
            return False
        line = json.dumps({"received": datetime.now(UTC).isoformat(), **notification})
        with self._writing, self._file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        return True

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler_of(receiver: WebhookReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            usable = length.isdecimal() and int(length) <= _LARGEST_BODY
            accepted = usable and receiver.receive(self.rfile.read(int(length)))
            self.send_response(200 if accepted else 400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """The file is the record; nothing goes to the terminal."""

    return Handler


def count_notifications(file: Path) -> int:
    """How many notifications were delivered."""
    try:
        with file.open("rb") as lines:
            return sum(1 for _ in lines)
    except OSError:
        return 0
