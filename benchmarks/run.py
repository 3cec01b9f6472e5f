"""Run the workloads by flowagent, by the floor and by others in turn, and print medians and ratios.

    python benchmarks/run.py                            all workloads
    python benchmarks/run.py W1 W2:sqlite W3:sqlite:4000
    python benchmarks/run.py --peers .venvs             beside the engines whose environments are there
    python benchmarks/run.py W2 --side NAME[@VARIANT]=PYTHON:SCRIPT
    python benchmarks/run.py --markdown FILE            and one table of it all; "-" prints it
    python benchmarks/run.py --full --peers .venvs --dir /dev/shm --dir /var/tmp
                                                        everything, on a tmpfs; what is stored, on a disk as well

A workload is NAME[:STORE[:N]]. Every run is a process of its own, and the sides take turns (A B A B ...), so that what
else the machine does falls on all alike. `--side` adds any script that has the command line of `_kit.py`. A FILE that
has the marker comments of `docs/performance.md` keeps what is around them.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _flushes import bare_flush, flushes_per_step
from _kit import ENVIRONMENT
from _table import OURS, Line, Row, Table, page, put

HERE = Path(__file__).resolve().parent
STORES = {"W1": "none", "W2": "sqlite", "W3": "sqlite", "W4": "none", "W5": "sqlite", "W6": "sqlite"}
SIZES = {"W6": 10_000, "W7": 3, "W8": 50, "W9": 2000}
ALL = ("W1", "W2", "W3", "W3::4000", "W4", "W4:sqlite", "W5", "W6", "W7", "W8", "W9")
# Of each workload the smaller sizes first: they tell which sides would need too long for the next.
FULL = (
    *("W1", "W1::100000", "W2", "W3::100", "W3", "W3::4000"),
    *("W4::100", "W4", "W4::10000", "W4:sqlite:100", "W4:sqlite", "W5::50", "W5"),
    *("W6::1000", "W6", "W6::100000", "W7", "W8", "W9::200", "W9"),
)
A_DISK = 20e-6  # seconds; where a flush takes less, it reaches no disk
HEAD = ("side", "median s", "min", "max", "cpu s", "steps/s", "rss MB", "db bytes", "x floor")
ROW = "  {:22} {:>10} {:>9} {:>9} {:>8} {:>10} {:>7} {:>11} {:>8}"


@dataclass(frozen=True, kw_only=True)
class Side:
    """A script that runs workloads, and the Python to run it with."""

    name: str
    python: str
    script: Path
    only: str = ""  # the one workload that a variant is for
    flushes: bool = False  # whether it is of use only where a flush costs something

    @classmethod
    def parse(cls, text: str) -> Side:
        """Read NAME[@VARIANT]=PYTHON:SCRIPT."""
        name, equals, rest = text.partition("=")
        python, colon, script = rest.partition(":")
        if not (name and equals and python and colon and script):
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME[@VARIANT]=PYTHON:SCRIPT")
        return cls(name=name, python=python, script=Path(script))


@dataclass(frozen=True, kw_only=True)
class Job:
    """One workload at one size on one store."""

    workload: str
    store: str
    n: int

    @classmethod
    def parse(cls, text: str) -> Job:
        """Read NAME[:STORE[:N]]."""
        workload, store, size = [*text.split(":"), "", ""][:3]
        try:
            n = int(size) if size else SIZES.get(workload, 1000)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME[:STORE[:N]]") from error
        return cls(workload=workload, store=store or STORES.get(workload, "none"), n=n)


def without(cell: str, reason: str) -> Line:
    """The line of a run that has no result: what the table shows, and what the terminal is told."""
    return {"seconds": None, "cell": cell, "unsupported": reason}


def run_once(side: Side, job: Job, folder: Path, options: argparse.Namespace) -> Line:
    """The line of one run; its `seconds` is None and `unsupported` tells why where there is no result."""
    variant = side.name.partition("@")[2]
    words = [side.python, str(side.script), job.workload, f"--n={job.n}", f"--store={job.store}"]
    words += [f"--variant={variant}", f"--sync={options.sync}", f"--dir={folder}"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=options.timeout, env=ENVIRONMENT
        )
    except subprocess.TimeoutExpired:
        late = f"over {options.timeout:g} s"
        return without(late, late)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        complaint = done.stderr.strip().splitlines() or [f"no result, exit status {done.returncode}"]
        return without("failed", f"FAILED: {complaint[-1]}")
    return json.loads(lines[-1])


def cost(line: Line) -> float:
    """The seconds of a run that grow with its size: what was measured, and a run that was made to be resumed."""
    return line["seconds"] + line["extra"].get("prepare_s", 0.0)


def expected(side: Side, job: Job, before: Iterable[Row]) -> float:
    """How long a side would need at least, by what it needed for the next smaller size of the same."""
    smaller = [row for row in before if (row.workload, row.store) == (job.workload, job.store) and row.n < job.n]
    if not smaller or side.name not in smaller[-1].lines:
        return 0.0
    lines = smaller[-1].lines[side.name]
    if any(line.get("cell", "failed") != "failed" for line in lines):
        return math.inf
    return min((cost(line) * job.n / smaller[-1].n for line in lines if line["seconds"] is not None), default=0.0)


def row(name: str, lines: Sequence[Line], floor: Sequence[Line]) -> str:
    """The medians of one side as a row; the ratio is the median of the ratios within each round."""
    if complaints := [line["unsupported"] for line in lines if line["seconds"] is None]:
        return f"  {name:22} {complaints[0]}"
    seconds = [line["seconds"] for line in lines]
    pairs = zip(seconds, (line["seconds"] for line in floor), strict=False)
    ratios = [own / other for own, other in pairs if other is not None]
    size = lines[-1]["db_bytes"]
    return ROW.format(
        name,
        f"{statistics.median(seconds):.4f}",
        f"{min(seconds):.4f}",
        f"{max(seconds):.4f}",
        f"{statistics.median(line['extra'].get('cpu_s', 0.0) for line in lines):.3f}",
        f"{statistics.median(line['steps_per_s'] for line in lines):.0f}",
        f"{statistics.median(line['peak_rss_mb'] for line in lines):.0f}",
        "-" if size is None else size,
        f"{statistics.median(ratios):.2f}" if ratios else "-",
    )


def compare(job: Job, sides: Sequence[Side], before: Sequence[Row], folder: Path, options: argparse.Namespace) -> Row:
    """Run a job by all sides in turn and print their rows; a side that has used up the patience leaves the turns."""
    too_slow = without("not run", f"not run: by a smaller size it would take over {options.patience:g} s")
    sides = [side for side in sides if side.only in ("", job.workload)]
    lines = {side.name: [too_slow] if expected(side, job, before) > options.patience else [] for side in sides}
    spent = dict.fromkeys(lines, 0.0)
    for _ in range(options.runs):
        for side in sides:
            own = lines[side.name]
            if spent[side.name] > options.patience or (own and own[-1]["seconds"] is None):
                continue
            start = time.perf_counter()
            own.append(run_once(side, job, folder, options))
            spent[side.name] += time.perf_counter() - start
    print(f"{job.workload} n={job.n} store={job.store} sync={options.sync} runs={options.runs}")
    print(ROW.format(*HEAD))
    for name, own in lines.items():
        print(row(name, own, lines["floor"]))
    print(flush=True)
    return Row(workload=job.workload, n=job.n, store=job.store, lines=lines)


def measured(jobs: Sequence[Job], sides: Sequence[Side], where: Path | None, options: argparse.Namespace) -> Table:
    """All jobs with databases in one place."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=where) as name:
        folder = Path(name)
        flush = bare_flush(folder)
        sides = [side for side in sides if flush > A_DISK or not side.flushes]
        rows: list[Row] = []
        for job in jobs:
            rows.append(compare(job, sides, rows, folder, options))
        return Table.of(rows, runs=options.runs, flush=flush, folder=folder)


def flushes(sides: Sequence[Side], where: Path | None) -> dict[str, float]:
    """How often each side flushes in a step, where that can be counted; variants are left out."""
    if shutil.which("strace") is None:
        print("flushes are not counted: there is no strace (on Debian: apt-get install strace)", file=sys.stderr)
        return {}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=where) as folder:
        named = [side for side in sides if "@" not in side.name]
        counts = {side.name: flushes_per_step([side.python, str(side.script)], Path(folder)) for side in named}
    found = {name: count for name, count in counts.items() if count is not None}
    print("flushes a step:", ", ".join(f"{name} {count:g}" for name, count in found.items()), flush=True)
    return found


def failed(done: Row) -> bool:
    """Whether a side broke down, which is not the same as lacking a workload."""
    return any(line.get("cell") == "failed" for own in done.lines.values() for line in own)


def peers_in(folder: str) -> list[Side]:
    """The other engines that have an environment of their own in a folder."""
    found: list[Side] = []
    for script in sorted((HERE / "peers").glob("*_bench.py"), key=lambda script: script.stem):
        name = script.stem.removesuffix("_bench")
        python = Path(folder).absolute() / name / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        if python.exists():
            found.append(Side(name=name, python=str(python), script=script))
        else:
            print(f"no environment for {name} in {folder}: {script.name} tells how to make it", file=sys.stderr)
    if not found:
        raise argparse.ArgumentTypeError(f"{folder!r} has no environment of any engine in benchmarks/peers")
    return found


def own_sides() -> list[Side]:
    """The floor and flowagent, with their variants."""
    floor, ours = HERE / "floor.py", HERE / "flowagent_bench.py"
    return [
        Side(name="floor", python=sys.executable, script=floor),
        Side(name="floor@beside", python=sys.executable, script=floor, only="W2", flushes=True),
        Side(name="floor@group", python=sys.executable, script=floor, only="W5"),
        Side(name=OURS, python=sys.executable, script=ours),
        Side(name=f"{OURS}@beside", python=sys.executable, script=ours, only="W2", flushes=True),
    ]


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", type=Job.parse, metavar="WORKLOAD")
    parser.add_argument("--full", action="store_true", help="all sizes, and flushes counted")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sync", choices=["native", "off", "normal", "full"], default="native")
    parser.add_argument(
        "--dir",
        dest="dirs",
        action="append",
        type=Path,
        help="where databases are made; in further places, only what stores something is run",
    )
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one run")
    parser.add_argument("--patience", type=float, default=12.0, help="seconds of one side for all runs of a workload")
    parser.add_argument("--side", dest="sides", action="append", type=Side.parse, default=[])
    parser.add_argument("--peers", type=peers_in, default=[], metavar="DIR", help="a folder of environments")
    parser.add_argument("--markdown", metavar="FILE", help="write one page of all that was run")
    return parser.parse_args()


def main() -> int:
    """Run what the command line asks for."""
    options = parsed()
    sides = [*own_sides(), *options.peers, *options.sides]
    jobs = options.jobs or [Job.parse(job) for job in (FULL if options.full else ALL)]
    stored = [job for job in jobs if job.store == "sqlite"]
    first, *further = options.dirs or [None]
    tables = [measured(jobs, sides, first, options), *(measured(stored, sides, place, options) for place in further)]
    counted = flushes(sides, first) if options.full else {}
    text = page(tables, counted, sync=options.sync)
    if options.markdown == "-":
        print(text)
    elif options.markdown:
        put(text, Path(options.markdown))
    return 1 if any(failed(row) for table in tables for row in table.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
