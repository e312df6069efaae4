"""What the shipper counts, as plain numbers.

One writer, the shipper's own thread; readers may look at any time. The
names under which these numbers appear on /metrics are spelled in `alerts.metric_names`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ShipCounts:
    """Totals since the start, and the state as of the last look at the files."""

    lines: int = 0
    bytes: int = 0
    records: int = 0
    retries: int = 0
    truncated: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    files: int = 0
    behind_bytes: int = 0
    behind_seconds: float = 0.0
    unconfirmed_bytes: int = 0

    def drop(self, reason: str) -> None:
        """Count a record the broker never takes; in a new dict, so no reader sees one change."""
        self.dropped = {**self.dropped, reason: self.dropped.get(reason, 0) + 1}
