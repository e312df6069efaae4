"""One measured figure and the goal it is held against."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Measurement:
    """A figure in `unit`; `goal` is the most it may be, or the least where `more_is_better`."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    more_is_better: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the goal is reached; a figure without a goal always is."""
        if self.goal is None:
            return True
        return self.value >= self.goal if self.more_is_better else self.value <= self.goal

    @property
    def shown(self) -> str:
        """For the table."""
        return f"{self.value:,.3g} {self.unit}"

    @property
    def shown_goal(self) -> str:
        """For the table."""
        if self.goal is None:
            return ""
        return f"{'≥' if self.more_is_better else '≤'} {self.goal:,.3g} {self.unit}"

    def to_json(self) -> dict[str, object]:
        """For results.json."""
        return {**asdict(self), "met": self.is_met}
