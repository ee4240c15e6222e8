"""A clock that measures how long something took, and how long something is still good for."""

from __future__ import annotations

import time


def elapsed() -> float:
    """Seconds that only go forward, also while the machine is suspended; from no particular start."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
