"""What the generator wrote, file by file: the truth the audit is compared with. I/O: its file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class WrittenFile:
    """One physical file: where it lies now, and what is in it."""

    path: str
    lines: int = 0
    bytes: int = 0


@dataclass(slots=True)
class TrafficLedger:
    """Everything written so far; the last file is the one being written."""

    files: list[WrittenFile] = field(default_factory=list)
    attack_requests: dict[str, int] = field(default_factory=dict)
    finished: bool = False

    @property
    def lines(self) -> int:
        """Lines in all files."""
        return sum(file.lines for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes in all files."""
        return sum(file.bytes for file in self.files)

    def to_json(self) -> str:
        """The ledger file's content."""
        totals = {"lines": self.lines, "bytes": self.bytes, "files": len(self.files)}
        document = {
            "version": 1,
            "finished": self.finished,
            "totals": totals,
            "attack_requests": self.attack_requests,
            "files": [asdict(file) for file in self.files],
        }
        return json.dumps(document, indent=1)

    def save(self, path: Path) -> None:
        """Replace the file at once, and only when the new content is on disk."""
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(self.to_json())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def load_ledger(path: Path) -> TrafficLedger | None:
    """The ledger at `path`, or None when there is none yet."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return TrafficLedger(
        files=[WrittenFile(**file) for file in document["files"]],
        attack_requests=document["attack_requests"],
        finished=document["finished"],
    )
