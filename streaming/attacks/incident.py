"""Attackers: one for each service and client, with score, detectors, evidence, and whether it is an incident.

Pure. The book changes only by `update`, from the tables of committed batches: the same tables in the
same order give the same book, because scores fade and incidents end by event time. Whether an incident
is still open at some `now` is asked, never stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from operator import attrgetter
from typing import Any

import polars as pl

from streaming.attacks.behaviour import BEHAVIOUR, behaviour_hits
from streaming.attacks.detector import Detector
from streaming.load.windows import WINDOW_SECONDS

MAX_ATTACKERS = 10_000
RECENT_WINDOWS = 30
MAX_RECENT_ROWS = 200_000
MAX_PARTITIONS = 32
_COUNT_AGAIN_AFTER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class IncidentPolicy:
    """When an attacker becomes an incident, how fast points fade, and when it is over."""

    incident_score: float = 15
    half_life_seconds: float = 300.0
    resolve_after_seconds: float = 300.0
    max_attackers: int = MAX_ATTACKERS


@dataclass(slots=True)
class Attacker:
    """What one client did to one service. Times are epoch seconds of event time."""

    service: str
    client: str
    first_seen: int
    last_seen: int
    score: float = 0.0
    scored_at: int = 0
    peak_score: float = 0.0
    requests: int = 0
    detectors: dict[str, int] = field(default_factory=dict)
    evidence: dict[int, tuple[int, int]] = field(default_factory=dict)
    sample: str = ""
    is_open: bool = False
    opened_at: int | None = None
    counted_at: dict[str, int] = field(default_factory=dict)

    @property
    def incident_id(self) -> str:
        """Short, and the same wherever the book is rebuilt."""
        text = f"{self.service}\0{self.client}\0{self.opened_at or self.first_seen}"
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def score_at(self, time: float, half_life_seconds: float) -> float:
        """The score, faded to `time`; never above what it was."""
        return self.score * _fading(time - self.scored_at, half_life_seconds)

    def add_points(self, points: float, time: int, half_life_seconds: float) -> None:
        """Points of event time `time`; late ones have faded by now. Order does not matter."""
        if time >= self.scored_at:
            self.score = self.score_at(time, half_life_seconds) + points
            self.scored_at = time
        else:
            self.score += points * _fading(self.scored_at - time, half_life_seconds)
        self.peak_score = max(self.peak_score, self.score)
        self.first_seen = min(self.first_seen, time)
        self.last_seen = max(self.last_seen, time + WINDOW_SECONDS)

    def add_evidence(self, partition: int, first_offset: int, last_offset: int) -> None:
        """Widen the range of offsets that holds this attacker's lines."""
        known = self.evidence.get(partition, (first_offset, last_offset))
        if partition in self.evidence or len(self.evidence) < MAX_PARTITIONS:
            self.evidence[partition] = (min(known[0], first_offset), max(known[1], last_offset))


class IncidentBook:
    """All attackers, at most `policy.max_attackers`: the lowest scores make room for new ones."""

    def __init__(self, detectors: Sequence[Detector], policy: IncidentPolicy | None = None) -> None:
        self.policy = policy or IncidentPolicy()
        self.opened: dict[str, int] = {}
        self.detector_names = tuple(detector.name for detector in detectors)
        self._detectors = tuple(detector for detector in detectors if detector.rule)
        self._attackers: dict[tuple[str, str], Attacker] = {}
        self._behaviour = BEHAVIOUR.empty()
        self._recent: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._touched: set[tuple[str, str]] = set()

    def update(self, attacks: pl.DataFrame, behaviour: pl.DataFrame) -> None:
        """Add a committed batch's tables."""
        self._touched.clear()
        self._add_attacks(attacks)
        self._add_behaviour(behaviour)
        self._open_incidents()
        self._make_room()

    def is_open(self, attacker: Attacker, now: float) -> bool:
        """Whether an attacker is an incident at `now`: it was opened, and its last request is not long ago."""
        return attacker.is_open and not self._is_over(attacker, now)

    def attackers(self, now: float) -> list[Attacker]:
        """Every attacker, highest score at `now` first."""
        half_life = self.policy.half_life_seconds
        return sorted(
            self._attackers.values(),
            key=lambda one: (-one.score_at(now, half_life), one.service, one.client),
        )

    def score(self, attacker: Attacker, now: float) -> float:
        """An attacker's score at `now`."""
        return attacker.score_at(now, self.policy.half_life_seconds)

    def incidents(self) -> list[Attacker]:
        """Attackers that became an incident and have not begun another one since; `is_open` tells which are over."""
        return [attacker for attacker in self._attackers.values() if attacker.is_open]

    def to_document(self) -> dict[str, Any]:
        """Everything but the remembered behaviour, for a snapshot."""
        return {
            "attackers": [
                {**asdict(one), "evidence": [[p, *r] for p, r in one.evidence.items()]}
                for one in self._attackers.values()
            ],
            "opened": self.opened,
            "recent": [list(place) for place in self._recent],
        }

    @property
    def behaviour(self) -> pl.DataFrame:
        """The remembered behaviour, for a snapshot."""
        return self._behaviour

    def fill_from(self, document: Mapping[str, Any], behaviour: pl.DataFrame) -> None:
        """Bring an empty book to where `to_document` was called."""
        for fields in document["attackers"]:
            evidence = {p: (first, last) for p, first, last in fields["evidence"]}
            attacker = Attacker(**{**fields, "evidence": evidence})
            self._attackers[attacker.service, attacker.client] = attacker
        self.opened = dict(document["opened"])
        self._recent = OrderedDict.fromkeys(
            (service, window) for service, window in document["recent"]
        )
        self._behaviour = behaviour

    def _is_over(self, attacker: Attacker, time: float) -> bool:
        return time - attacker.last_seen >= self.policy.resolve_after_seconds

    def _add_attacks(self, attacks: pl.DataFrame) -> None:
        for row in attacks.sort("window", "service", "client", "detector", "partition").iter_rows(
            named=True
        ):
            attacker = self._attacker(row["service"], row["client"], row["window"])
            attacker.add_points(row["points"], row["window"], self.policy.half_life_seconds)
            attacker.add_evidence(row["partition"], row["first_offset"], row["last_offset"])
            attacker.requests += row["first_requests"]
            seen = attacker.detectors.get(row["detector"], 0)
            attacker.detectors[row["detector"]] = seen + row["requests"]
            attacker.sample = attacker.sample or row["sample"] or ""

    def _add_behaviour(self, behaviour: pl.DataFrame) -> None:
        """Points for rules that were reached now: once a minute for each client and detector."""
        if behaviour.is_empty():
            return
        self._behaviour = self._remember(behaviour)
        for row in behaviour_hits(self._around(behaviour), self._detectors).iter_rows(named=True):
            attacker = self._attacker(row["service"], row["client"], row["window"])
            counted_at = attacker.counted_at.get(row["detector"], 0)
            # Remembered windows reach the rule again with every batch: only later ones count anew.
            if row["window"] < counted_at + _COUNT_AGAIN_AFTER_SECONDS:
                continue
            attacker.counted_at[row["detector"]] = row["window"]
            attacker.add_points(row["points"], row["window"], self.policy.half_life_seconds)
            seen = attacker.detectors.get(row["detector"], 0)
            attacker.detectors[row["detector"]] = seen + row["requests"]
            attacker.requests = max(attacker.requests, attacker.detectors[row["detector"]])

    def _remember(self, behaviour: pl.DataFrame) -> pl.DataFrame:
        """Keep the windows that lines arrived for last, so one wrong clock cannot push out others."""
        touched = behaviour.select("service", "window").unique().sort("window", "service")
        for place in touched.iter_rows():
            self._recent[place] = None
            self._recent.move_to_end(place)
        services = touched["service"].n_unique()
        while len(self._recent) > RECENT_WINDOWS * max(services, 1):
            self._recent.popitem(last=False)
        kept = pl.DataFrame(
            list(self._recent), schema={"service": pl.String, "window": pl.Int64}, orient="row"
        )
        merged = BEHAVIOUR.merge([self._behaviour, behaviour])
        return merged.join(kept, on=["service", "window"], how="semi").tail(MAX_RECENT_ROWS)

    def _around(self, behaviour: pl.DataFrame) -> pl.DataFrame:
        """What is remembered of the clients in `behaviour`: nobody else's sums have changed."""
        return self._behaviour.join(behaviour, on=["service", "client"], how="semi")

    def _attacker(self, service: str, client: str, window: int) -> Attacker:
        key = (service, client)
        self._touched.add(key)
        attacker = self._attackers.get(key)
        if attacker is None:
            attacker = Attacker(service, client, window, window, scored_at=window)
            self._attackers[key] = attacker
        elif attacker.is_open and self._is_over(attacker, window):
            attacker.is_open = False
        return attacker

    def _open_incidents(self) -> None:
        for key in sorted(self._touched):
            attacker = self._attackers[key]
            if not attacker.is_open and attacker.score >= self.policy.incident_score:
                attacker.is_open, attacker.opened_at = True, attacker.scored_at
                self.opened[attacker.service] = self.opened.get(attacker.service, 0) + 1

    def _make_room(self) -> None:
        surplus = len(self._attackers) - self.policy.max_attackers
        if surplus <= 0:
            return
        latest = max(map(attrgetter("last_seen"), self._attackers.values()))
        half_life = self.policy.half_life_seconds
        weakest = sorted(
            self._attackers.items(),
            key=lambda item: (item[1].is_open, item[1].score_at(latest, half_life), item[0]),
        )
        for key, _ in weakest[:surplus]:
            del self._attackers[key]


def _fading(seconds: float, half_life_seconds: float) -> float:
    return 1.0 if seconds <= 0 else float(0.5 ** (seconds / half_life_seconds))
