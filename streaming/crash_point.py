"""Named points of the batch protocol at which a test may end the driver as a power cut would."""

from __future__ import annotations

import os
import signal

CRASH_POINTS = (
    "before_pending",
    "after_pending",
    "after_read",
    "after_output",
    "after_commit",
)
_VARIABLE = "PALISADE_CRASH_POINT"


def crash_point(name: str) -> None:
    """End this process with SIGKILL if the environment asks for it here."""
    if os.environ.get(_VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
