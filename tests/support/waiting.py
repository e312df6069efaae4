"""Wait for a condition instead of sleeping, and say what was seen last when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from palisade_output import printable

Seen = TypeVar("Seen")


def wait_until(condition: Callable[[], Seen], within: float = 10, every: float = 0.05) -> Seen:
    """Return the first truthy value of `condition()`; fail with the last one after `within` s."""
    deadline = time.monotonic() + within
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > deadline:
            message = f"not within {within} s; last seen: {printable(repr(seen), limit=2000)}"
            raise AssertionError(message)
        time.sleep(every)
