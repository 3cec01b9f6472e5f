"""One Markdown page of everything that was run: circumstances, a table for each place, what grows, and versions.

It names no host and no path, so that it can be published as it is.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from _kit import MESSAGE_CHARS

ROOT = Path(__file__).resolve().parents[1]
OURS, FLOOR = "flowagent", "floor"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
NONE = "–"  # what a side does not have

Line: TypeAlias = Mapping[str, Any]  # what a script prints of one run


@dataclass(frozen=True, kw_only=True)
class Row:
    """One workload at one size on one store, with the lines of each side in the order of its rounds."""

    workload: str
    n: int
    store: str
    lines: Mapping[str, Sequence[Line]]

    def median(self, side: str, what: str) -> float | None:
        """The median of a figure of a side; None where it has none."""
        found = [line[what] for line in self.lines.get(side, ()) if line.get(what) is not None]
        return statistics.median(found) if found else None


@dataclass(frozen=True, kw_only=True)
class Table:
    """What was run with databases in one place; `flush` is how long it takes there to append a page and flush it."""

    rows: Sequence[Row]
    runs: int
    place: str
    flush: float

    @classmethod
    def of(cls, rows: Sequence[Row], *, runs: int, flush: float, folder: Path) -> Table:
        return cls(rows=rows, runs=runs, place=file_system(folder), flush=flush)


def page(tables: Sequence[Table], flushes: Mapping[str, float], *, sync: str) -> str:
    """The whole page."""
    rows = [row for table in tables for row in table.rows]
    sides = [OURS, *(side for side in dict.fromkeys(name for row in rows for name in row.lines) if side != OURS)]
    columns = [side for side in sides if "@" not in side or side.partition("@")[0] not in sides]
    parts = [f"{circumstances()}; {flowagent(rows)}; median of {tables[0].runs}, `--sync {sync}`."]
    parts += [part for table in tables for part in (place(table), times(table, columns))]
    if counted := counts(tables[0].rows, flushes, columns):
        parts += ["### Counted", counted]
    parts.append("\n".join(f"- {side}: {versions(side, rows)}" for side in columns))
    return "\n\n".join(parts)


def place(table: Table) -> str:
    """The heading of a table: where its databases are, and what a flush costs there."""
    return f"### On {table.place}\n\nTo append a page to a file and flush it takes {duration(table.flush)} here."


def times(table: Table, columns: Sequence[str]) -> str:
    """The workloads as rows and the sides as columns; a side's variants stand in its column."""
    head = ["workload", "n", "store", *columns]
    body = [
        [row.workload, f"{row.n:,}", row.store, *(column(row, side, table.runs) for side in columns)]
        for row in table.rows
    ]
    return markdown(head, body, left=(0, 2))


def markdown(head: Sequence[str], body: Sequence[Sequence[str]], *, left: Sequence[int]) -> str:
    """A table; its columns are aligned to the right but for some."""
    ruler = ["---" if number in left else "--:" for number in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ruler, *body))


def column(row: Row, side: str, runs: int) -> str:
    """The cell of a side, and after it those of its variants that were run."""
    if side not in row.lines:
        return NONE
    other, comparison = (FLOOR, "{} × floor") if side == OURS else (OURS, "×{}")
    others = row.lines.get(other, ())
    variants = [name for name in row.lines if name.startswith(f"{side}@")]
    cells = {name: cell(row.lines[name], others, runs, comparison) for name in (side, *variants)}
    return "; ".join(f"{name.removeprefix(side).removeprefix('@')} {text}".lstrip() for name, text in cells.items())


def cell(lines: Sequence[Line], others: Sequence[Line], runs: int, comparison: str) -> str:
    """The median time of a side and how many times another's it is: the median of the ratios within each round."""
    reasons = [line.get("cell", NONE) for line in lines if line["seconds"] is None]
    if reasons:
        return reasons[0]
    if all("beside_s" in line["extra"] for line in lines):
        flushes = statistics.median(line["seconds"] / line["extra"]["beside_s"] for line in lines)
        return f"a bare flush ×{flushes:.2f}"
    text = duration(statistics.median(line["seconds"] for line in lines))
    pairs = [(line["seconds"], other["seconds"]) for line, other in zip(lines, others, strict=False)]
    notes: list[str] = []
    if pairs and all(other is not None for _, other in pairs):
        notes.append(comparison.format(ratio(statistics.median(own / other for own, other in pairs))))
    if len(lines) < runs:
        notes.append(f"{len(lines)} run{'s' if len(lines) > 1 else ''}")
    return f"{text} ({', '.join(notes)})" if notes else text


def counts(rows: Sequence[Row], flushes: Mapping[str, float], columns: Sequence[str]) -> str:
    """What hardly depends on the machine: flushes, bytes and growth; nothing where nothing of it was measured."""
    body: list[list[str]] = []
    if flushes:
        body.append(["flushes of the disk in a step of W2", *(shown(flushes.get(side)) for side in columns)])
    stored = [row for row in rows if (row.workload, row.store) == ("W3", "sqlite")]
    for row in stored:
        weights = [row.median(side, "db_bytes") for side in columns]
        per_byte = [None if weight is None else weight / (row.n * MESSAGE_CHARS) for weight in weights]
        body.append([f"bytes stored for each byte appended, W3 with {row.n:,}", *map(shown, per_byte)])
    for less, more in itertools.pairwise(stored):
        name = f"time grows with the power of n, W3 from {less.n:,} to {more.n:,}"
        body.append([name, *(shown(growth(less, more, side)) for side in columns)])
    return markdown(["", *columns], body, left=(0,)) if body else ""


def growth(less: Row, more: Row, side: str) -> float | None:
    """The exponent by which time grows with size: 1 is a constant cost for each step."""
    short, long = less.median(side, "seconds"), more.median(side, "seconds")
    if short is None or long is None:
        return None
    return math.log(long / short) / math.log(more.n / less.n)


def shown(value: float | None) -> str:
    """A figure with three digits at most."""
    return NONE if value is None else f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A time with three digits."""
    value, unit = seconds, "s"
    for smaller in ("ms", "µs"):
        if value < 0.9995:
            value, unit = value * 1000, smaller
    return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:#.3g} {unit}"


def ratio(value: float) -> str:
    """A ratio with two digits, or all before the point."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


def circumstances() -> str:
    """When, and on what kind of machine."""
    today = dt.datetime.now(dt.UTC).date()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{platform.system()} {platform.machine()}"
    return f"{today}, {python}, {usable} processors, {system}"


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


def versions(side: str, rows: Iterable[Row]) -> str:
    """What a side said of itself in its first result."""
    lines = [line for row in rows for line in row.lines.get(side, ()) if "version" in line]
    return f"{lines[0]['version']}, Python {lines[0]['python']}" if lines else "no result"


def put(text: str, file: Path) -> None:
    """Write the table to a file; into one that has the two marker comments, between them."""
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    between = re.compile(f"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.DOTALL)
    new, found = between.subn(lambda _: f"\n{text}\n\n", old, count=1)
    file.write_text(new if found else f"{text}\n", encoding="utf-8")
