"""Ten thousand runs at once in one process, and what becomes of them when it is killed in the middle.

A case is `NUMBER RUNS HOW`. Each run is three steps one after the other, all are begun before the first is over, and
each record is flushed to the disk before the step that depends on it starts.

    calm    the process brings all to their end: how long a commit takes, and how much memory it all needs
    killed  the process is killed at a random moment, and another one brings all of them to their end
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import apsw

from flowagent import Context, Graph, State, Update, add
from flowagent.stores import SQLiteStore
from tests.chaos.campaign import Tally
from tests.chaos.processes import Worker
from tests.kill.child import integrity_of
from tests.kill.points import Reached

RUNS: Final = 10_000
STEPS: Final = ("first", "second", "third")
LONGEST_COMMIT: Final = 2.0
"""Seconds within which 99 of 100 commits must be done by a process that has a processor for itself. As all wait at the
same time, that is how long it takes to do one step of each."""
MOST_MEMORY: Final = 1024
"""Megabytes that the process may have at most."""


class Sum(State):
    total: Annotated[int, add] = 0


class Ledger:
    """What steps did: a line for each call, in a file that outlives the process."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, key: str) -> None:
        """Write down that a step is called."""
        os.write(self._handle, f"{key}\n".encode())


def crowding() -> Graph[Sum, Ledger]:
    """Three async nodes in a row."""
    graph = Graph("crowd", Sum, deps=Ledger)

    async def step(state: Sum, ctx: Context[Ledger, Sum]) -> Update:
        ctx.deps.note(ctx.key)
        return {"total": 1}

    for name in STEPS:
        graph.node(step, name=name)
    graph.chain("START", *STEPS, "END")
    return graph


class Clock:
    """How long each commit takes whoever waits for it."""

    def __init__(self) -> None:
        self._since: dict[object, float] = {}
        self.seconds: list[float] = []

    def reach(self, point: str) -> None:
        """A store begins to append, or has done it."""
        if point == "before append":
            self._since[asyncio.current_task()] = time.perf_counter()
        elif point == "after append":
            self.seconds.append(time.perf_counter() - self._since.pop(asyncio.current_task()))

    def of_hundred(self, part: int) -> float:
        """The seconds that so many of a hundred took at most."""
        return sorted(self.seconds)[len(self.seconds) * part // 100 - 1]


class Crowd(NamedTuple):
    """What a process says when all its runs are over.

    Attributes:
        over: how many are over as they should be.
        seconds: how long that took.
        processor: how many seconds of its processor.
        middle: how long a commit took, at most half of them longer,
        longest: and one of a hundred.
        megabytes: how much memory it had at most.
    """

    over: int
    seconds: float
    processor: float
    middle: float
    longest: float
    megabytes: float


def advance(pipe: Connection, folder: Path, runs: int) -> Crowd:
    """Begin or go on with all runs at once."""
    clock, ledger, graph = Clock(), Ledger(folder / "ledger"), crowding()

    async def advance_all() -> list[Any]:
        store = Reached(SQLiteStore(folder / "runs.db"), clock.reach)
        calls = [graph.run(Sum(), run_id=f"r{number}", store=store, deps=ledger) for number in range(runs)]
        ended = await asyncio.gather(*calls)
        await store.close()
        return ended

    pipe.send("begins")
    began = time.monotonic()
    ended = asyncio.run(advance_all())
    over = sum(run.status == "completed" and run.state == Sum(total=len(STEPS)) for run in ended)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    times = (clock.of_hundred(50), clock.of_hundred(99)) if clock.seconds else (0.0, 0.0)
    return Crowd(over, time.monotonic() - began, time.process_time(), *times, peak)


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """Both kinds by turns, with fifty runs for each round, and ten thousand at most."""
        numbers = itertools.count()
        for rest in range(rounds, 0, -2 * RUNS // 100):
            runs = min(50 * rest, RUNS)
            yield f"{next(numbers)} {runs} calm"
            yield f"{next(numbers)} {runs} killed"

    def play(self, case: str, folder: Path) -> Tally:
        """Let a crowd run, be it killed or not."""
        _, runs, how = case.split()
        chance = random.Random(f"{self._seed} {case}")
        tally = Tally()
        stored: set[str] = set()
        if how == "killed":
            _kill(folder, int(runs), chance)
            stored = recorded(folder / "runs.db")
        with Worker(advance, folder, int(runs)) as worker:
            assert worker.hear() == "begins"
            crowd: Crowd = worker.hear(patience=600.0)
        tally.figures.update({"runs": int(runs), "steps recorded before a kill": len(stored)})
        tally.faults += wrong_with(folder, int(runs), stored)
        if crowd.over != int(runs):
            tally.faults.append(f"{crowd.over} of {runs} runs are over as they should be: {crowd}")
        _measure(tally, crowd, int(runs), calm=how == "calm")
        return tally


def _kill(folder: Path, runs: int, chance: random.Random) -> None:
    """Kill a process while it advances a crowd: before all of them are over, and after some steps are stored."""
    with Worker(advance, folder, runs) as worker:
        assert worker.hear() == "begins"
        enough = int(chance.uniform(0.05, 0.9) * runs * len(STEPS))
        while steps_in(folder / "runs.db") < enough:
            time.sleep(0.01)
        worker.kill()


def _measure(tally: Tally, crowd: Crowd, runs: int, *, calm: bool) -> None:
    tally.figures["most MB"] = int(crowd.megabytes)
    if crowd.megabytes > MOST_MEMORY:
        tally.faults.append(f"the process had {crowd.megabytes:.0f} MB, more than {MOST_MEMORY}")
    if not calm:
        return
    tally.figures["most ms of a commit, 99 of 100"] = int(crowd.longest * 1000)
    tally.figures["most ms of a commit, 50 of 100"] = int(crowd.middle * 1000)
    tally.figures["most steps a second"] = int(runs * len(STEPS) / crowd.seconds)
    tally.figures["most steps a second of its processor"] = int(runs * len(STEPS) / crowd.processor)
    # A process that others keep from its processor is as much slower as it had less of it.
    bound = LONGEST_COMMIT * max(crowd.seconds / crowd.processor, 1.0)
    if crowd.longest > bound:
        tally.faults.append(f"of 100 commits 99 took {crowd.longest:.2f} s at most, more than {bound:.2f} s")


def recorded(path: Path) -> set[str]:
    """The keys of the steps that are stored, of all runs."""
    question = "SELECT run_id || '/' || (data ->> 'task') FROM records JOIN runs ON run = key WHERE kind = 'done'"
    return {str(key) for (key,) in _asked(path, question)}


def steps_in(path: Path) -> int:
    """How many steps are stored."""
    return sum(int(str(number)) for (number,) in _asked(path, "SELECT count(*) FROM records WHERE kind = 'done'"))


def _asked(path: Path, question: str) -> list[tuple[object, ...]]:
    """The answer of a store's file; none where there is no store yet."""
    if not path.exists():
        return []
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        return list(connection.execute(question)) if connection.table_exists("main", "records") else []


def wrong_with(folder: Path, runs: int, stored: set[str]) -> Iterable[str]:
    """What is wrong with what is stored at the end, and with what was called."""
    wanted = {f"r{number}/{name}" for number in range(runs) for name in STEPS}
    if (found := recorded(folder / "runs.db")) != wanted:
        yield f"{len(wanted - found)} steps are not recorded, {len(found - wanted)} should not be"
    called = Counter((folder / "ledger").read_text(encoding="ascii").split())
    if set(called) != wanted:
        yield f"{len(wanted - set(called))} steps were never called, {len(set(called) - wanted)} should not have been"
    again = [key for key in stored if called[key] != 1]
    if again:
        yield f"{len(again)} steps were recorded and called again, such as {again[0]}"
    if (integrity := integrity_of(folder / "runs.db")) != "ok":
        yield f"SQLite says that its file is damaged: {integrity}"
