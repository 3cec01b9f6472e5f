"""The command line, the clock, the crash and the result line that all workload scripts share.

A script gives `main` one function per workload. Each takes a `Bench`, prepares and warms up as it likes, wraps what
is measured in `with bench.clock():`, and returns how many steps that was. One run prints one line of JSON. W7, the
import, is measured here for all: a script only says which lines its users begin with.
Standard library only, so that every engine's own environment can run it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import logging
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9")
WARM_UP = 20  # steps of the warm-up run where it is not a whole one
WARM = 1000  # steps after which nothing gets warmer
MESSAGE_CHARS = 200
PAGE = 4096  # bytes; what SQLite writes at least
CRASHED = 42  # exit status of a process that died on purpose
PRAGMAS = ("journal_mode", "synchronous", "busy_timeout", "wal_autocheckpoint", "page_size")
# Python may keep its bytecode: compiling is nobody's work here.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
NOTHING: Mapping[str, str] = MappingProxyType({})


class UnsupportedError(Exception):
    """Raised for what a side cannot do; the line says so, nothing is imitated."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asked for."""

    workload: str
    n: int
    steps: int
    store: str
    variant: str
    sync: str
    repeat: int
    dir: Path
    crash_at: int | None
    crash_dir: Path | None


@dataclass(kw_only=True)
class Bench:
    """One measured run of one workload.

    Attributes:
        options: the command line.
        scratch: a folder of this run alone, removed afterwards.
        seconds: what the clock measured; None before.
        db_bytes: the size of the database after it was closed, where there is one.
        extra: further facts for the line.
        reached: W6: when each step of a resumed run began.
        beside: how long the bare flushes took that were made beside those of the store.
    """

    options: Options
    scratch: Path
    seconds: float | None = None
    db_bytes: int | None = None
    extra: dict[str, object] = field(default_factory=dict[str, object])
    reached: list[float] = field(default_factory=list[float])
    beside: float = 0.0

    @property
    def n(self) -> int:
        return self.options.n

    def need(self, *stores: str) -> None:
        """Refuse a store that the workload does not have."""
        if self.options.store not in stores:
            raise UnsupportedError(f"store {self.options.store!r}: this workload has {', '.join(stores)}")

    def database(self) -> Path:
        """A path for a new database, in a new folder."""
        return Path(tempfile.mkdtemp(dir=self.scratch)) / "bench.sqlite"

    def weigh(self, database: Path) -> None:
        """Note the size of a closed database with what is beside it (-wal, -journal, -shm), or of a folder's files."""
        files = [*database.parent.glob(f"{database.name}*"), *database.rglob("*")]
        self.db_bytes = sum(file.stat().st_size for file in files if file.is_file())

    def sync_statements(self) -> list[str]:
        """What `--sync` asks of a connection, in SQL; nothing where each side keeps its own settings."""
        if self.options.sync == "native":
            return []
        return ["PRAGMA journal_mode=WAL", f"PRAGMA synchronous={self.options.sync}"]

    @contextlib.contextmanager
    def clock(self) -> Generator[None]:
        """Measure the block: wall time, CPU time of all threads, bytes of all read and write calls."""
        self.beside = 0.0
        io, cpu, wall = bytes_moved(), time.process_time(), time.perf_counter()
        yield
        self.seconds = time.perf_counter() - wall - self.beside
        self.extra["cpu_s"] = round(time.process_time() - cpu, 4)
        for name, count in bytes_moved().items():
            self.extra[name] = count - io[name]
        if self.beside:
            self.extra["beside_s"] = round(self.beside, 6)

    @functools.cached_property
    def _beside(self) -> int:
        return os.open(self.scratch / "beside", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def flush_beside(self) -> None:
        """Append a page to a plain file and flush it, which the clock leaves out: what a flush costs in this very step.

        What else the disk has to do changes by the second, so only flushes that take turns can be compared.
        """
        start = time.perf_counter()
        os.write(self._beside, bytes(PAGE))
        os.fdatasync(self._beside)
        self.beside += time.perf_counter() - start

    def rounds(self, warm_up: int) -> Sequence[tuple[int, Callable[[], AbstractContextManager[None]]]]:
        """The size and the clock of the run that warms up, and of the one that is measured."""
        return [(min(warm_up, WARM), contextlib.nullcontext), (self.n, self.clock)]

    @contextlib.contextmanager
    def resuming(self) -> Generator[None]:
        """W6: measure from the start of the block until the one step that is left begins, which tells `begins`."""
        self.reached.clear()
        with self.clock():
            start = time.perf_counter()
            yield
        self.extra["until_end_of_run_s"] = round(self.seconds or 0.0, 6)
        assert len(self.reached) == 1, f"{len(self.reached)} steps were executed instead of the last one alone"
        self.seconds = self.reached[0] - start

    def begins(self, count: int) -> None:
        """W6: what a node does first: the run that is to die does so here, and the resumed one tells the time."""
        if self.options.crash_at == count:
            os._exit(CRASHED)  # as a killed process dies: nothing is closed, flushed or unwound
        self.reached.append(time.perf_counter())

    def crashed_database(self) -> Path:
        """W6: a private copy of a database whose run died inside step n+1.

        It is made once for each script, n and variant, by this script as a child process, and kept under `--dir`.
        In that child (`options.crash_at` is set) this is where the database to die on belongs.
        """
        options = self.options
        if options.crash_dir is not None:
            return options.crash_dir / "bench.sqlite"
        kept = options.dir / f"w6-{Path(sys.argv[0]).stem}-{options.variant or 'main'}-{options.n}"
        ready = kept / "READY"
        if not ready.exists():
            ready.write_text(f"{self._die(kept):.3f}\n", encoding="utf-8")
        self.extra["prepare_s"] = float(ready.read_text(encoding="utf-8"))
        return Path(shutil.copytree(kept, self.scratch / "crashed")) / "bench.sqlite"

    def _die(self, kept: Path) -> float:
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        options = self.options
        asked: dict[str, object] = {
            "--n": options.n,
            "--store": options.store,
            "--variant": options.variant,
            "--sync": options.sync,
            "--dir": self.scratch,  # the dead cannot tidy up; this goes with the run that asked
            "--crash-at": options.n,
            "--crash-dir": kept,
        }
        words = [f"{name}={value}" for name, value in asked.items()]
        start = time.perf_counter()
        child = subprocess.run([sys.executable, sys.argv[0], "W6", *words], capture_output=True, text=True, check=False)
        if child.returncode != CRASHED:
            raise RuntimeError(f"the W6 child was to die with {CRASHED}, not {child.returncode}:\n{child.stderr}")
        return time.perf_counter() - start


def text_of(count: int) -> str:
    """W3: the text of a message, always equally long."""
    return f"{count:06d}".ljust(MESSAGE_CHARS, "x")


def bytes_moved() -> dict[str, int]:
    """Bytes that read and write calls of this process moved so far; nothing where the system does not tell."""
    try:
        counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    except OSError:
        return {}
    return {"read_bytes": int(counts["rchar"]), "write_bytes": int(counts["wchar"])}


def peak_rss_mb() -> float:
    """The most memory that this process ever had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


Workloads: TypeAlias = Mapping[str, Callable[[Bench], int]]
Variants: TypeAlias = Mapping[str, Sequence[str]]  # and the workloads that have them


def main(
    peer: str,
    version: str,
    workloads: Workloads,
    *,
    begin: str,
    variants: Variants = MappingProxyType({}),
    lacks: Mapping[str, str] = NOTHING,
) -> None:
    """Run what the command line asks for and print a line for each run.

    Args:
        begin: the lines with which a user's script begins, for W7.
        lacks: the workloads that the engine cannot do, and why.
    """
    options = parse(peer, ["", *variants])
    workloads = {**workloads, "W7": lambda bench: imported(bench, begin)}
    logging.disable(logging.CRITICAL)  # the same for every side: no log is formatted
    name = f"{peer}[{options.variant}]" if options.variant else peer
    who = {"peer": name, "version": version, "python": platform.python_version()}
    for _ in range(options.repeat):
        head = who | {k: getattr(options, k) for k in ("workload", "n", "store")}
        print(json.dumps(head | measured(options, workloads, variants, lacks)), flush=True)


def parse(peer: str, variants: Sequence[str]) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=f"the workloads, run by {peer}")
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20, help="W5: steps in each run")
    parser.add_argument("--store", choices=["none", "memory", "sqlite"], default="none")
    parser.add_argument("--variant", choices=variants, default="")
    parser.add_argument("--sync", choices=["native", "off", "normal", "full"], default="native", help="durability")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where databases are made")
    parser.add_argument("--crash-at", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--crash-dir", type=Path, help=argparse.SUPPRESS)
    return Options(**vars(parser.parse_args()))


def imported(bench: Bench, begin: str) -> int:
    """W7: how long the first lines of a user's script take, in n fresh processes; their bytecode is there."""
    code = (
        f"import sys, time\nstart = time.perf_counter()\n{begin}\nprint(time.perf_counter() - start, len(sys.modules))"
    )

    def fresh() -> list[str]:
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=ENVIRONMENT)
        return done.stdout.split()

    bench.need("none")
    bench.extra["modules"] = int(fresh()[1])
    bench.seconds = statistics.median(float(fresh()[0]) for _ in range(bench.n))
    return 1


def measured(options: Options, workloads: Workloads, variants: Variants, lacks: Mapping[str, str]) -> dict[str, object]:
    """Run a workload once; what the line tells of it."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as scratch:
        bench = Bench(options=options, scratch=Path(scratch))
        try:
            if options.workload in lacks:
                raise UnsupportedError(lacks[options.workload])
            if options.variant and options.workload not in variants[options.variant]:
                raise UnsupportedError(f"no variant {options.variant!r} of {options.workload}")
            steps = workloads[options.workload](bench)
        except UnsupportedError as error:
            return {"seconds": None, "unsupported": str(error)}
    assert bench.seconds is not None, "the workload measured nothing"
    if options.sync != "native":
        bench.extra["sync"] = options.sync
    return {
        "seconds": round(bench.seconds, 6),
        "steps_per_s": round(steps / bench.seconds, 1),
        "peak_rss_mb": peak_rss_mb(),
        "db_bytes": bench.db_bytes,
        "extra": bench.extra,
    }
