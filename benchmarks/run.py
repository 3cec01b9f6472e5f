"""Run the workloads by flowagent, by the floor and by others in turn, and print medians and ratios.

    python benchmarks/run.py                            all workloads
    python benchmarks/run.py W1 W2:sqlite W3:sqlite:4000
    python benchmarks/run.py --peers .venvs             beside LangGraph and Burr, whose environments are there
    python benchmarks/run.py W2 --side NAME[@VARIANT]=PYTHON:SCRIPT
    python benchmarks/run.py --markdown FILE            and one table of it all; "-" prints it

A workload is NAME[:STORE[:N]]. Every run is a process of its own, and the sides take turns (A B A B ...), so that what
else the machine does falls on all alike. `--side` adds any script that has the command line of `_kit.py`. A FILE that
has the marker comments of `docs/performance.md` keeps what is around them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _kit import TIMED_OUT
from _table import OURS, Row, put, table

HERE = Path(__file__).resolve().parent
# Python may keep its bytecode: compiling is nobody's work here.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
STORES = {"W1": "none", "W2": "sqlite", "W3": "sqlite", "W4": "none", "W5": "sqlite", "W6": "sqlite"}
SIZES = {"W6": 10_000, "W8": 50, "W9": 2000}
ALL = ("W1", "W2", "W3", "W3::4000", "W4", "W4:sqlite", "W5", "W6", "W8", "W9")
HEAD = ("side", "median s", "min", "max", "cpu s", "steps/s", "rss MB", "db bytes", "x floor")
ROW = "  {:22} {:>10} {:>9} {:>9} {:>8} {:>10} {:>7} {:>11} {:>8}"


@dataclass(frozen=True, kw_only=True)
class Side:
    """A script that runs workloads, and the Python to run it with."""

    name: str
    python: str
    script: Path

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


def run_once(side: Side, job: Job, options: argparse.Namespace) -> dict[str, Any]:
    """The line of one run; its `seconds` is None and `unsupported` tells why where there is no result."""
    variant = side.name.partition("@")[2]
    words = [side.python, str(side.script), job.workload, f"--n={job.n}", f"--store={job.store}"]
    words += [f"--variant={variant}", f"--sync={options.sync}", f"--dir={options.dir}"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=options.timeout, env=ENVIRONMENT
        )
    except subprocess.TimeoutExpired:
        return {"seconds": None, "unsupported": f"{TIMED_OUT}{options.timeout:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        complaint = done.stderr.strip().splitlines() or [f"no result, exit status {done.returncode}"]
        return {"seconds": None, "unsupported": f"FAILED: {complaint[-1]}"}
    return json.loads(lines[-1])


def row(name: str, lines: Sequence[dict[str, Any]], floor: Sequence[dict[str, Any]]) -> str:
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


def compare(job: Job, sides: Sequence[Side], options: argparse.Namespace) -> Row:
    """Run a job by all sides in turn and print their rows."""
    lines: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for _ in range(options.runs):
        for side in sides:
            own = lines[side.name]
            gave_up = bool(own) and own[-1]["seconds"] is None
            own.append(own[-1] if gave_up else run_once(side, job, options))
    print(f"{job.workload} n={job.n} store={job.store} sync={options.sync} runs={options.runs}")
    print(ROW.format(*HEAD))
    for name, own in lines.items():
        print(row(name, own, lines["floor"]))
    print(flush=True)
    return Row(workload=job.workload, n=job.n, store=job.store, lines=lines)


def failed(done: Row) -> bool:
    """Whether a side broke down, which is not the same as lacking a workload."""
    return any(str(line.get("unsupported", "")).startswith("FAILED") for own in done.lines.values() for line in own)


def peers_in(folder: str) -> list[Side]:
    """The other engines that have an environment of their own in a folder."""
    found: list[Side] = []
    for script in sorted((HERE / "peers").glob("*_bench.py"), reverse=True):
        name = script.stem.removesuffix("_bench")
        python = Path(folder).absolute() / name / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        if python.exists():
            found.append(Side(name=name, python=str(python), script=script))
        else:
            print(f"no environment for {name} in {folder}: {script.name} tells how to make it", file=sys.stderr)
    if not found:
        raise argparse.ArgumentTypeError(f"{folder!r} has no environment of any engine in benchmarks/peers")
    return found


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", type=Job.parse, metavar="WORKLOAD", default=[Job.parse(job) for job in ALL])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sync", choices=["native", "off", "normal", "full"], default="native")
    parser.add_argument("--dir", type=Path, help="where databases are made; on a tmpfs, the disk costs nothing")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--side", dest="sides", action="append", type=Side.parse, default=[])
    parser.add_argument("--peers", type=peers_in, default=[], metavar="DIR", help="a folder of environments")
    parser.add_argument("--markdown", metavar="FILE", help="write one table of all that was run")
    options = parser.parse_args()
    own = [
        Side(name="floor", python=sys.executable, script=HERE / "floor.py"),
        Side(name=OURS, python=sys.executable, script=HERE / "flowagent_bench.py"),
    ]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as folder:
        options.dir = folder
        rows = [compare(job, [*own, *options.peers, *options.sides], options) for job in options.jobs]
        text = table(rows, runs=options.runs, sync=options.sync, folder=Path(folder))
    if options.markdown == "-":
        print(text)
    elif options.markdown:
        put(text, Path(options.markdown))
    return 1 if any(map(failed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
