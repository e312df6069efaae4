"""The generated traffic as a function of time: which requests fall into a slice of it. Pure.

All chance comes from the `Random` passed in, so the same seed and the same slices give the same
lines.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from random import Random

from deploy.local import traffic_visitors as visitors
from deploy.local.traffic_attacks import EPISODES
from deploy.local.traffic_request import Request

DAY_SECONDS = 240.0
"""A day of the demo: long enough to see its rhythm, short enough to watch it."""
_PEOPLE = 400
_LINES_PER_PAGE_VIEW = 4.0
_SHARES = {"page": 0.79, "crawl": 0.03, "api": 0.17, "noise": 0.01}


class TrafficModel:
    """Traffic of about `lines_per_second` and the attacks, which it counts in `attack_requests`."""

    def __init__(self, random: Random, lines_per_second: float) -> None:
        self._random = random
        self._lines_per_second = lines_per_second
        self._people = visitors.people(random, _PEOPLE)
        self.attack_requests: Counter[str] = Counter()

    def requests(self, epoch: float, since: float, until: float) -> list[Request]:
        """Requests of the slice [since, until) of seconds after `epoch`, in order of time."""
        expected = self._lines_per_second * rhythm(since) * (until - since)
        found = [*self._ordinary(expected, epoch + since, epoch + until)]
        found += self._attacks(epoch, since, until)
        return sorted(found, key=lambda request: request.at)

    def _ordinary(self, expected: float, start: float, end: float) -> Iterator[Request]:
        for _ in self._times(expected * _SHARES["page"] / _LINES_PER_PAGE_VIEW):
            yield from visitors.page_view(
                self._random, self._random.choice(self._people), self._moment(start, end)
            )
        for _ in self._times(expected * _SHARES["crawl"]):
            yield visitors.crawl(self._random, self._moment(start, end))
        for _ in self._times(expected * _SHARES["api"]):
            yield visitors.api_call(self._random, self._moment(start, end))
        for _ in self._times(expected * _SHARES["noise"]):
            yield visitors.noise(self._random, self._moment(start, end))

    def _attacks(self, epoch: float, since: float, until: float) -> Iterator[Request]:
        for episode in EPISODES:
            expected = episode.per_second * episode.active_seconds(since, until)
            for _ in self._times(expected):
                self.attack_requests[episode.name] += 1
                yield episode.attack(self._random, self._moment(epoch + since, epoch + until))

    def _times(self, expected: float) -> range:
        """A whole number of events with the given mean: chance decides about the fraction."""
        whole = math.floor(expected)
        return range(whole + (self._random.random() < expected - whole))

    def _moment(self, start: float, end: float) -> float:
        return start + self._random.random() * (end - start)


def rhythm(since_start: float) -> float:
    """Day and night: between 0.6 and 1.4, beginning on a busy morning."""
    return 1.0 + 0.4 * math.sin(2 * math.pi * since_start / DAY_SECONDS)
