"""Which windows are closed: event time of all sources together, and the wall clock where nothing comes.

Pure. A source is a service in a partition. Its event time is the newest plausible time of its lines, so a host with
a wrong clock says nothing; the job's watermark is the lowest of the sources that still send. It never steps back.

Silence is measured by when records reached Kafka, not by when they were read: a job that was down for an hour closes
nothing too early, and the same batches close the same windows whenever they are replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

WINDOW_SECONDS = 10
NEVER = -(2**53)
MAX_SOURCES = 10_000
_FORGET_AFTER_SECONDS = 24 * 3600.0

Partition = tuple[str, int]
Source = tuple[str, int, str]
"""Topic, partition, service."""


@dataclass(frozen=True, slots=True)
class WindowRules:
    """How long a window waits for late lines, and how long a silent source holds the others back."""

    allowed_lateness_seconds: float = 300.0
    idle_close_seconds: float = 30.0

    def is_closed(self, window: int, watermark: float) -> bool:
        """Whether the window that starts at `window` is over, late lines included."""
        return window <= self.last_closed(watermark)

    def last_closed(self, watermark: float) -> float:
        """The latest start of a window that is closed at this watermark."""
        return watermark - self.allowed_lateness_seconds - WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class Reading:
    """What a batch says about one source, in epoch seconds: event time and when its records reached Kafka.

    `newest_time` and `plausible_append` are of lines with a plausible time only, None where there was none.
    """

    source: Source
    newest_time: float | None
    plausible_append: float | None
    oldest_append: float
    newest_append: float


@dataclass(frozen=True, slots=True)
class SourceClock:
    """The newest plausible event time of a source, and when the last plausible line of it reached Kafka."""

    newest_time: float
    newest_append: float


@dataclass(frozen=True, slots=True)
class WindowClock:
    """Event time as of the last committed batch."""

    watermark: float = NEVER
    sources: Mapping[Source, SourceClock] = field(default_factory=dict)

    def before(self, readings: Iterable[Reading], rules: WindowRules) -> WindowClock:
        """The clock when the first record of a batch reached Kafka: silence before it counts."""
        first = min((one.oldest_append for one in readings), default=None)
        return self if first is None else replace(self, watermark=self.at(first, (), rules))

    def after(self, readings: Collection[Reading], rules: WindowRules) -> WindowClock:
        """The clock once a batch is committed."""
        if not readings:
            return self
        reached: dict[Partition, float] = {}
        for one in readings:
            partition = one.source[:2]
            reached[partition] = max(reached.get(partition, one.newest_append), one.newest_append)
        newest = max(reached.values())
        sources = self._joined(readings, newest)
        slowest = _slowest(sources, reached, newest, rules)
        return WindowClock(max(self.before(readings, rules).watermark, slowest), sources)

    def at(self, now: float, waiting: Collection[Partition], rules: WindowRules) -> float:
        """The watermark by wall clock; partitions with records that wait to be read cannot be called silent."""
        if not waiting:
            slowest = _slowest(self.sources, {}, now, rules)
            return max(self.watermark, self._quiet_until(now, rules), slowest)
        reached = {
            partition: max(
                (c.newest_append for s, c in self.sources.items() if s[:2] == partition),
                default=NEVER,
            )
            for partition in waiting
        }
        return max(self.watermark, _slowest(self.sources, reached, now, rules))

    def _quiet_until(self, now: float, rules: WindowRules) -> float:
        """Where the wall clock has taken event time, if no source sent anything lately."""
        silent_since = now - rules.idle_close_seconds
        if any(clock.newest_append >= silent_since for clock in self.sources.values()):
            return NEVER
        return silent_since if self.sources else NEVER

    def _joined(self, readings: Iterable[Reading], newest: float) -> dict[Source, SourceClock]:
        joined = {
            source: clock
            for source, clock in self.sources.items()
            if newest - clock.newest_append <= _FORGET_AFTER_SECONDS
        }
        for one in readings:
            known = joined.get(one.source, SourceClock(NEVER, NEVER))
            joined[one.source] = SourceClock(
                _later(known.newest_time, one.newest_time),
                _later(known.newest_append, one.plausible_append),
            )
        if len(joined) <= MAX_SOURCES:
            return joined
        latest = sorted(joined.items(), key=lambda item: (-item[1].newest_append, item[0]))
        return dict(latest[:MAX_SOURCES])


def _slowest(
    sources: Mapping[Source, SourceClock],
    reached: Mapping[Partition, float],
    otherwise: float,
    rules: WindowRules,
) -> float:
    """The lowest event time of the sources that are active where their partition was read until."""
    active = (
        clock.newest_time
        for source, clock in sources.items()
        if clock.newest_time > NEVER
        and reached.get(source[:2], otherwise) - clock.newest_append <= rules.idle_close_seconds
    )
    return min(active, default=NEVER)


def _later(known: float, new: float | None) -> float:
    return known if new is None else max(known, new)
