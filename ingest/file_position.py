"""How far a file generation is confirmed, although confirmations may come in any order.

Pure. The confirmed position moves only over ranges that were confirmed without a hole before them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from ingest.file_identity import Mark


class SentRange(Protocol):
    """Bytes `[start, end)` of a generation on their way."""

    @property
    def start(self) -> int:
        """Offset of the first byte."""

    @property
    def end(self) -> int:
        """Offset after the last byte."""

    def tail(self) -> Mark:
        """A mark of the last bytes, by which the file is recognised after a restart."""


@dataclass(slots=True)
class FilePosition:
    """The contiguous confirmed position of one generation, with the ranges still on their way."""

    confirmed: int
    _tail: Mark
    _last: SentRange | None = None
    _sent: deque[SentRange] = field(default_factory=deque)
    _early: set[int] = field(default_factory=set)

    @property
    def tail(self) -> Mark:
        """The mark of the bytes right before the confirmed position."""
        return self._tail if self._last is None else self._last.tail()

    @property
    def next_start(self) -> int:
        """Where the next range to send begins."""
        return self._sent[-1].end if self._sent else self.confirmed

    @property
    def is_settled(self) -> bool:
        """Whether everything sent is confirmed."""
        return not self._sent

    def send(self, sent: SentRange) -> None:
        """Register a range about to be sent; ranges follow each other without gap or overlap."""
        if sent.start != self.next_start or sent.end <= sent.start:
            message = (
                f"Range [{sent.start}, {sent.end}) does not continue position {self.next_start}: "
                f"records of one file must be sent in order."
            )
            raise ValueError(message)
        self._sent.append(sent)

    def confirm(self, start: int) -> None:
        """The range that begins at `start` arrived; move on as far as there is no hole."""
        self._early.add(start)
        while self._sent and self._sent[0].start in self._early:
            done = self._sent.popleft()
            self._early.discard(done.start)
            self.confirmed, self._last = done.end, done
        if self._last is not None and not self._sent:
            # Nothing is on its way: keep the small mark, not the bytes it is made from.
            self._tail, self._last = self._last.tail(), None


@dataclass(slots=True)
class WaitingBytes:
    """How long the oldest unconfirmed byte of a file has waited, from sizes noticed over time."""

    _noticed: deque[tuple[float, int]] = field(default_factory=deque)

    def notice(self, size: int, now: float) -> None:
        """The file is `size` bytes long at `now`; a bounded number of notices is kept."""
        if self._noticed and size <= self._noticed[-1][1]:
            return
        if len(self._noticed) >= 64:
            now, _ = self._noticed.pop()
        self._noticed.append((now, size))

    def confirm(self, position: int) -> None:
        """Everything before `position` has arrived."""
        while self._noticed and self._noticed[0][1] <= position:
            self._noticed.popleft()

    def clear(self) -> None:
        """Nothing is waiting, or the file began anew."""
        self._noticed.clear()

    def seconds(self, now: float) -> float:
        """Age of the oldest byte that still waits; 0 when none does."""
        return max(0.0, now - self._noticed[0][0]) if self._noticed else 0.0
