"""What durability costs on a disk: how long a bare flush takes there, and how many a side needs for each step."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _kit import ENVIRONMENT, PAGE

SAMPLES = 200
SHORT, LONG = 50, 150  # steps; what set-up, warm-up and end flush is the same in both, so the difference has steps only
FLUSH = re.compile(r"^\d+ +(?:fsync|fdatasync)\(", re.MULTILINE)


def bare_flush(folder: Path) -> float:
    """The median time to append a page to a file and flush it."""
    handle, path = tempfile.mkstemp(dir=folder)

    def once() -> float:
        start = time.perf_counter()
        os.write(handle, bytes(PAGE))
        os.fdatasync(handle)
        return time.perf_counter() - start

    try:
        return statistics.median(once() for _ in range(SAMPLES))
    finally:
        os.close(handle)
        Path(path).unlink()


def flushes_per_step(command: Sequence[str], folder: Path) -> float | None:
    """How often a script flushes in each step of W2; None where it has no W2, or strace is missing or not allowed."""
    if shutil.which("strace") is None:
        return None
    counts = [
        _flushes([*command, "W2", f"--n={n}", "--store=sqlite", f"--dir={folder}"], folder) for n in (SHORT, LONG)
    ]
    if None in counts:
        return None
    short, long = (count or 0 for count in counts)
    return (long - short) / (LONG - SHORT)


def _flushes(command: Sequence[str], folder: Path) -> int | None:
    trace = folder / "strace"
    watched = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
    done = subprocess.run([*watched, *command], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if done.returncode or '"seconds": null' in done.stdout:
        return None
    return len(FLUSH.findall(trace.read_text(encoding="utf-8")))
