"""One Markdown table of everything that was run, with a head that says when, on what and with which versions.

It names no host and no path, so that it can be published as it is.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from _kit import TIMED_OUT

ROOT = Path(__file__).resolve().parents[1]
OURS = "flowagent"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"

Line: TypeAlias = Mapping[str, Any]  # what a script prints of one run


@dataclass(frozen=True, kw_only=True)
class Row:
    """One workload at one size on one store, with the lines of each side in the order of its rounds."""

    workload: str
    n: int
    store: str
    lines: Mapping[str, Sequence[Line]]


def table(rows: Sequence[Row], *, runs: int, sync: str, folder: Path) -> str:
    """The head, the table and the versions of all sides."""
    sides = [OURS, *(side for side in rows[0].lines if side != OURS)]
    head = ["workload", "n", "store", *sides]
    body = [
        [row.workload, str(row.n), row.store, *(cell(row.lines[side], row.lines[OURS]) for side in sides)]
        for row in rows
    ]
    ruler = ["---", "--:", "---", *["--:"] * len(sides)]
    return "\n".join(
        [
            f"{circumstances(folder)}; {flowagent(rows)}; median of {runs}, `--sync {sync}`.",
            "",
            *("| " + " | ".join(cells) + " |" for cells in (head, ruler, *body)),
            "",
            *(f"- {side}: {versions(side, rows)}" for side in sides),
        ]
    )


def cell(lines: Sequence[Line], ours: Sequence[Line]) -> str:
    """The median time of a side and how many times ours that is: the median of the ratios within each round."""
    reasons = [line["unsupported"] for line in lines if line["seconds"] is None]
    if reasons:
        return reasons[0] if reasons[0].startswith(TIMED_OUT) else "failed" if "FAILED" in reasons[0] else "–"
    text = duration(statistics.median(line["seconds"] for line in lines))
    pairs = [(line["seconds"], own["seconds"]) for line, own in zip(lines, ours, strict=True)]
    if lines is ours or any(own is None for _, own in pairs):
        return text
    return f"{text} (×{ratio(statistics.median(theirs / own for theirs, own in pairs))})"


def duration(seconds: float) -> str:
    """A time with three digits."""
    value, unit = (seconds, "s") if seconds >= 0.9995 else (seconds * 1000, "ms")
    return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:#.3g} {unit}"


def ratio(value: float) -> str:
    """A ratio with two digits, or all before the point."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


def circumstances(folder: Path) -> str:
    """When, on what kind of machine, and on what kind of disk."""
    today = dt.datetime.now(dt.UTC).date()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{platform.system()} {platform.machine()}"
    return f"{today}, {python}, {usable} processors, {system}, databases on {file_system(folder)}"


def file_system(folder: Path) -> str:
    """The kind of file system of a folder, which decides what a flush costs, where the system tells."""
    unknown = "an unknown file system"
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return unknown
    kinds = {point: kind for _, point, kind, *_ in map(str.split, mounts)}  # of two on one point, the later one counts
    place = folder.resolve()
    return next((kinds[str(above)] for above in (place, *place.parents) if str(above) in kinds), unknown)


def flowagent(rows: Sequence[Row]) -> str:
    """The version that is measured, and its commit."""
    return f"{OURS} {versions(OURS, rows).partition(',')[0]}{commit()}"


def commit() -> str:
    """The commit that is measured, if this is a working copy and git is there; else nothing."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return ""
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "flowagent", "benchmarks")
        return f" at {git('rev-parse', '--short=10', 'HEAD')}{', changed' if changed else ''}"
    except (OSError, subprocess.CalledProcessError):
        return ""


def versions(side: str, rows: Sequence[Row]) -> str:
    """What a side said of itself in its first result."""
    lines = [line for row in rows for line in row.lines[side] if "version" in line]
    return f"{lines[0]['version']}, Python {lines[0]['python']}" if lines else "no result"


def put(text: str, file: Path) -> None:
    """Write the table to a file; into one that has the two marker comments, between them."""
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    between = re.compile(f"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.DOTALL)
    new, found = between.subn(lambda _: f"\n{text}\n\n", old, count=1)
    file.write_text(new if found else f"{text}\n", encoding="utf-8")
