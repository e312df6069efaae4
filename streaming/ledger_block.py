"""Blocks: many consecutive batches of the ledger in a few large files. Names, and which blocks count.

Pure. A block counts once its marker is there; from then on the small files of its batches do not count. Blocks are
named by the epoch of the driver that wrote them, so that two drivers never write the same file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

FORMAT_VERSION = 1
_NAME = re.compile(r"^compact-(\d{12})-(\d{12})-e(\d{20})$")


@dataclass(frozen=True, slots=True)
class Block:
    """Batches `first` to `last`; `parts` says how many files each table has."""

    first: int
    last: int
    epoch: int
    parts: dict[str, int] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """The block's file name without ending; names sort by batch."""
        return f"compact-{self.first:012d}-{self.last:012d}-e{self.epoch:020d}"

    def part_name(self, table: str, part: int) -> str:
        """Where one part of a table is."""
        return f"{table}/{self.name}.{part:04d}.parquet"

    def files(self, table: str) -> list[str]:
        """Where a table is; nothing when it is empty."""
        return [self.part_name(table, part) for part in range(self.parts.get(table, 0))]

    def covers(self, batch: int) -> bool:
        """Whether the block holds a batch."""
        return self.first <= batch <= self.last

    def to_marker(self) -> bytes:
        """The content of the marker."""
        return json.dumps({"v": FORMAT_VERSION, "parts": self.parts}).encode()

    @staticmethod
    def parse(file_name: str) -> Block | None:
        """The block a file belongs to, without its parts; None for files that are not of a block."""
        match = _NAME.match(file_name.split(".", 1)[0])
        return Block(int(match[1]), int(match[2]), int(match[3])) if match else None

    @staticmethod
    def from_marker(file_name: str, content: bytes) -> Block | None:
        """The block that a marker makes count; None for a marker that is torn or of another version."""
        named = Block.parse(file_name)
        try:
            document = json.loads(content)
            known = named is not None and document["v"] == FORMAT_VERSION
            parts = {str(table): int(count) for table, count in document["parts"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return Block(named.first, named.last, named.epoch, parts) if known and named else None


def blocks_that_count(marked: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks that follow each other without overlap; of several for the same batches the widest, then the newest."""
    chosen: list[Block] = []
    for block in sorted(marked, key=lambda one: (one.first, -one.last, -one.epoch)):
        if not chosen or block.first > chosen[-1].last:
            chosen.append(block)
    return tuple(chosen)


def is_superseded(block: Block, chosen: Iterable[Block]) -> bool:
    """Whether a newer block holds everything of this one: its files can go."""
    return any(
        one.first <= block.first and block.last <= one.last and one.epoch > block.epoch
        for one in chosen
    )
