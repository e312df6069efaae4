"""A TCP proxy on loopback that holds, resets, delays, or loses exactly one reply.

Held bytes are not thrown away: as after a real partition, they arrive late once the way is open again.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

TO_SERVER, TO_CLIENT = "to server", "to client"
BOTH = frozenset({TO_SERVER, TO_CLIENT})
_CHUNK = 256 * 1024
_TRANSACTION = struct.pack(">i", 14)
"""ZooKeeper's operation code of a multi."""


@dataclass(eq=False)
class _Link:
    client: socket.socket
    server: socket.socket
    awaited_reply: bytes | None = None
    threads: list[threading.Thread] = field(default_factory=list)

    def close(self, *, reset: bool) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    end.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)
            end.close()


class TcpProxy:
    """Forwards to `target_port`; a context manager that leaves no thread behind."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self._changed = threading.Condition()
        self._held: frozenset[str] = frozenset()
        self._refusing = False
        self._delay = 0.0
        self._marker: bytes | None = None
        self._closed = False
        self._links: set[_Link] = set()
        self.replies_lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._acceptor = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._acceptor.start()

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    def pass_all(self) -> None:
        """Forward everything, what was held first."""
        with self._changed:
            self._held, self._refusing, self._delay = frozenset(), False, 0.0
            self._changed.notify_all()

    def hold(self, directions: frozenset[str] = BOTH) -> None:
        """Forward nothing in these directions; connections stay open, new ones are accepted."""
        with self._changed:
            self._held = directions

    def delay(self, seconds: float) -> None:
        """Forward every piece of data that much later."""
        with self._changed:
            self._delay = seconds

    def refuse(self) -> None:
        """Reset every connection, and every new one."""
        with self._changed:
            self._refusing = True
        self.reset()

    def reset(self) -> None:
        """Reset the connections that are open now."""
        with self._changed:
            links = list(self._links)
        for link in links:
            self._drop(link, reset=True)

    def lose_reply_to(self, marker: bytes) -> None:
        """Forward the next ZooKeeper transaction that holds `marker`; reset when its reply comes, unseen."""
        with self._changed:
            self._marker = marker

    def close(self) -> None:
        """Stop listening, end every connection, wait for the threads."""
        with self._changed:
            self._closed = True
            links = list(self._links)
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in links:
            self._drop(link, reset=False)
        self._acceptor.join(timeout=5)
        for link in links:
            for thread in link.threads:
                thread.join(timeout=5)

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
            server.settimeout(None)
        except OSError:
            client.close()
            return
        link = _Link(client, server)
        if self._refusing or self._closed:
            link.close(reset=True)
            return
        with self._changed:
            self._links.add(link)
        for arguments in ((client, server, TO_SERVER), (server, client, TO_CLIENT)):
            thread = threading.Thread(target=self._pump, args=(link, *arguments), daemon=True)
            link.threads.append(thread)
            thread.start()

    def _pump(
        self, link: _Link, source: socket.socket, sink: socket.socket, direction: str
    ) -> None:
        try:
            while data := source.recv(_CHUNK):
                self._wait(direction)
                if self._closed or self._loses(link, data, direction):
                    break
                sink.sendall(data)
        except OSError:
            pass
        self._drop(link, reset=link.awaited_reply is not None)

    def _wait(self, direction: str) -> None:
        with self._changed:
            if self._delay:
                self._changed.wait_for(lambda: self._closed, timeout=self._delay)
            self._changed.wait_for(lambda: self._closed or direction not in self._held)

    def _loses(self, link: _Link, data: bytes, direction: str) -> bool:
        """Whether this piece is the reply to lose; notes the request whose reply will be."""
        with self._changed:
            if direction == TO_SERVER and self._marker is not None:
                link.awaited_reply = _transaction_id(data, self._marker)
                if link.awaited_reply is not None:
                    self._marker = None
            elif (
                direction == TO_CLIENT
                and link.awaited_reply is not None
                and any(frame[:4] == link.awaited_reply for frame in _frames(data))
            ):
                self.replies_lost += 1
                return True
        return False

    def _drop(self, link: _Link, *, reset: bool) -> None:
        with self._changed:
            self._links.discard(link)
        link.close(reset=reset)


def _transaction_id(data: bytes, marker: bytes) -> bytes | None:
    """The `xid` of the ZooKeeper transaction that holds the marker."""
    return next((f[:4] for f in _frames(data) if f[4:8] == _TRANSACTION and marker in f), None)


def _frames(data: bytes) -> Iterator[bytes]:
    position = 0
    while position + 4 <= len(data):
        (length,) = struct.unpack_from(">i", data, position)
        yield data[position + 4 : position + 4 + length]
        position += 4 + length
