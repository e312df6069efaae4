"""How old the oldest record is that waits: two upper bounds, of which the smaller holds.

What waits came after the last committed record; and after the last look that saw nothing waiting. The first alone
would show a whole quiet night as lag when the first record of the morning comes. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from offsets.offset_range import TopicPartition


class LagClock:
    """Remembers, for each partition, when nothing waited in it."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._empty_at: dict[TopicPartition, float] = {}

    def look(self, waiting: Mapping[TopicPartition, int], looked_at: float) -> None:
        """Note what waited when Kafka was asked."""
        for partition, records in waiting.items():
            if records == 0:
                self._empty_at[partition] = looked_at

    def seconds(
        self,
        waiting: Mapping[TopicPartition, int],
        committed_ms: Mapping[tuple[str, int], int],
        now: float,
    ) -> float:
        """Age of the oldest waiting record over all partitions; 0 when nothing waits.

        A partition of which nothing was committed yet counts from the start of this driver.
        """
        ages = [
            now - max(self._empty_at.get(one, 0.0), self._committed(one, committed_ms))
            for one, records in waiting.items()
            if records
        ]
        return max([0.0, *ages])

    def _committed(
        self, partition: TopicPartition, committed_ms: Mapping[tuple[str, int], int]
    ) -> float:
        newest = committed_ms.get((partition.topic, partition.partition))
        return self._started if newest is None else newest / 1000
