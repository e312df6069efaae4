"""A file generation: the content of one file from its first byte until truncation or deletion.

Pure. It keeps its id, its partition and its position through renames and restarts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingest.cut_records import CutRecord
from ingest.file_identity import FileFacts, Mark
from ingest.file_position import FilePosition
from ingest.log_record import RecordIdentity


@dataclass(frozen=True, slots=True)
class Origin:
    """What the configuration says about the lines of a file."""

    service: str
    host: str
    vhost: str
    format_id: str


@dataclass(slots=True)
class Generation:
    """One generation and how far it is shipped; `is_gone` once its file no longer holds it."""

    id: str
    path: str
    device: int
    inode: int
    head: Mark
    position: FilePosition
    partition: int | None = None
    is_gone: bool = False

    def is_same_file(self, facts: FileFacts) -> bool:
        """Whether this was read from the physical file of `facts`, as far as the system can tell.

        Only the inode counts: a reboot may renumber devices. Content decides between look-alikes.
        """
        return not self.is_gone and self.inode == facts.inode


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record on its way to Kafka."""

    origin: Origin
    generation: Generation
    cut: CutRecord

    def identity(self) -> RecordIdentity:
        """What the record's key says."""
        return RecordIdentity(
            service=self.origin.service,
            host=self.origin.host,
            vhost=self.origin.vhost,
            format_id=self.origin.format_id,
            generation=self.generation.id,
            byte_offset=self.cut.start,
            truncated_end=self.cut.truncated_end,
        )
