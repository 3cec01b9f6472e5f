"""How many processes may play the tests at once."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

MOST: Final = 8
"""Each process imports all tests before it plays some, so that more processes gain nothing."""

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def cores(quota: Path = _QUOTA) -> int:
    """The cores that this process may keep busy, of which a container may allow fewer than it shows.

    Args:
        quota: where Linux tells what the container may use: `200000 100000` is two cores, `max 100000` all.
    """
    shown = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        time, period = quota.read_text("ascii").split()
    except OSError:
        time, period = "max", "1"
    allowed = shown if time == "max" else math.ceil(int(time) / int(period))
    return min(shown, allowed, MOST)
