"""The offsets once more, in `/consumers/<job>/offsets/<topic>/<partition>`: plain numbers where lag tools look.

They ride in the same transaction as the commit, so they are never ahead of it and never behind. They are for
others to read: the job itself never looks at them, and trouble with them never fails a commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from kazoo.exceptions import NoNodeError

from offsets.offset_range import Offsets, TopicPartition
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession

MAX_BYTES_IN_COMMIT = 256 * 1024
"""What a commit may carry besides itself; ZooKeeper refuses packets of about 1 MiB."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One node to write; None removes it."""

    path: str
    value: bytes | None
    exists: bool


class ClassicNodes:
    """Knows which nodes exist, and which must change for a commit."""

    def __init__(self, session: ZookeeperSession, paths: ZnodePaths) -> None:
        self._session = session
        self._paths = paths
        self._written: dict[TopicPartition, int | None] = {}
        self._topics_seen: set[str] = set()

    def changes(self, offsets: Offsets) -> list[NodeChange]:
        """What to write so that the nodes show these offsets; creates parents of new topics on the way."""
        if not self._paths.consumers_root:
            return []
        for topic in sorted({one.topic for one in offsets} - self._topics_seen):
            self._look_at(topic)
        changed = [
            NodeChange(self._paths.classic_offset(one), str(offset).encode(), one in self._written)
            for one, offset in sorted(offsets.items())
            if self._written.get(one) != offset
        ]
        forgotten = [
            NodeChange(self._paths.classic_offset(one), None, True)
            for one in sorted(self._written)
            if one not in offsets
        ]
        return forgotten + changed

    def note(self, offsets: Offsets) -> None:
        """These offsets are written now."""
        if self._paths.consumers_root:
            self._written = dict(offsets)

    def look_again(self) -> None:
        """Somebody else touched the nodes, or a reply was lost: what exists is not known any more."""
        self._written.clear()
        self._topics_seen.clear()

    def _look_at(self, topic: str) -> None:
        client = self._session.client
        parent = self._paths.classic_topic(topic)
        try:
            present = client.get_children(parent)
        except NoNodeError:
            client.ensure_path(parent)
            present = []
        for name in present:
            if name.isdecimal():
                self._written[TopicPartition(topic, int(name))] = None
        self._topics_seen.add(topic)


def within_a_commit(changes: list[NodeChange]) -> list[list[NodeChange]]:
    """The changes in parts that are each small enough for one transaction; the first goes with the commit."""
    parts: list[list[NodeChange]] = [[]]
    room = MAX_BYTES_IN_COMMIT
    for change in changes:
        size = len(change.path) + len(change.value or b"") + 64
        if size > room:
            parts.append([])
            room = MAX_BYTES_IN_COMMIT
        parts[-1].append(change)
        room -= size
    return parts


def add_to(transaction: object, changes: list[NodeChange]) -> None:
    """Put changes into a transaction of kazoo."""
    for change in changes:
        if change.value is None:
            transaction.delete(change.path)  # type: ignore[attr-defined]
        elif change.exists:
            transaction.set_data(change.path, change.value)  # type: ignore[attr-defined]
        else:
            transaction.create(change.path, change.value)  # type: ignore[attr-defined]
