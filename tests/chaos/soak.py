"""Processes that advance runs of one store for a long time while some of them are killed every few seconds.

A case is `NUMBER SECONDS`. Three processes, each with four runs at a time, begin new runs of the eight graphs and take
over those of the dead; two of them are killed again and again and replaced. The third one lives all the time: its
memory, its threads and its open files must stay what they were, and so must the log and the file of the store, from
which each run is deleted when it is over and was held against an undisturbed one. (How much there is of all this, only
Linux tells.)
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from flowagent.core.loops import run_blocking
from flowagent.core.records import RunInfo
from flowagent.errors import AnswerError, RunConflict
from flowagent.stores import SQLiteStore
from tests.chaos import memory
from tests.chaos.audit import reference_of
from tests.chaos.campaign import Tally
from tests.chaos.processes import PATIENCE, Worker
from tests.kill import checks
from tests.kill.checks import journal_of
from tests.kill.child import seen_in
from tests.kill.effects import Effects, lines_of
from tests.kill.graphs import SUBJECTS
from tests.kill.play import RUN

VICTIMS: Final = 2
AT_A_TIME: Final = 4
MOST_WAITING: Final = 40
"""So many runs may be over and not yet looked at; no new ones are begun meanwhile."""
LIFE: Final = (0.3, 3.0)
"""How long a process lives that is killed, in seconds."""
SHORT: Final = 20
"""Fewer looks than this tell nothing of what grows."""


class Look(NamedTuple):
    """What is there at one moment: kilobytes of memory, files and threads of the process, kilobytes of log and file."""

    memory: int
    files: int
    threads: int
    log: int
    file: int


MAY_GROW: Final = Look(memory=16 * 1024, files=4, threads=4, log=8 * 1024, file=8 * 1024)
"""By how much the last third of the looks may be above the middle one, in the median."""


def serve(pipe: Connection, folder: Path, name: str) -> None:
    """Advance runs until this process is killed, or told to end."""
    asyncio.run(_serve(pipe, folder, name))


async def _serve(pipe: Connection, folder: Path, name: str) -> None:
    store, numbers = SQLiteStore(folder / "runs.db"), itertools.count()
    stop = asyncio.Event()

    async def work() -> None:
        while not stop.is_set():
            await _advance(store, folder, f"{name}.{next(numbers)}")

    workers = [asyncio.create_task(work()) for _ in range(AT_A_TIME)]
    pipe.send("here")
    await asyncio.to_thread(pipe.recv)
    stop.set()
    await asyncio.gather(*workers)
    await store.close()
    pipe.send("done")


async def _advance(store: SQLiteStore, folder: Path, name: str) -> None:
    """Take over a run that nobody has, or begin one; and bring it to its end."""
    chance = random.Random(name)
    left = await store.runs(statuses=["interrupted", "waiting"])
    run_id, subject = name, chance.choice(list(SUBJECTS))
    if left:
        info = chance.choice(left)
        run_id, subject = info.run_id, info.graph
    elif len(await store.runs(statuses=["completed"])) > MOST_WAITING:
        await asyncio.sleep(0.05)
        return
    with contextlib.suppress(RunConflict, AnswerError):  # Another one was faster.
        await _to_the_end(store, folder, run_id, subject)


async def _to_the_end(store: SQLiteStore, folder: Path, run_id: str, subject: str) -> None:
    graph, given = SUBJECTS[subject].graph, SUBJECTS[subject].input
    effects = Effects(folder / "effects" / run_id, run_id)
    run: Any = await graph.run(given, run_id=run_id, store=store, deps=effects)
    while run.status == "waiting":
        run = await graph.resume(run, answers=SUBJECTS[subject].answers_to(run, effects), deps=effects)


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """One case, of so many seconds."""
        yield f"0 {rounds}"

    def play(self, case: str, folder: Path) -> Tally:
        """Kill and replace processes, and look at the one that lives."""
        seconds = float(case.split()[1])
        (folder / "effects").mkdir()
        soak = _Soak(folder, random.Random(f"{self._seed} {case}"))
        with contextlib.ExitStack() as stack:
            survivor = stack.enter_context(Worker(serve, folder, "survivor"))
            assert survivor.hear() == "here"
            soak.go_on(survivor, time.monotonic() + seconds)
            survivor.tell("end")
            if (said := survivor.hear()) != "done":
                soak.tally.faults.append(f"the process that lived says {said}")
        soak.finish()
        return soak.tally


class _Soak:
    """What happens in the process that kills and looks."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._store = SQLiteStore(folder / "runs.db")
        self._looks: list[Look] = []
        self._dead: set[str] = set()
        self.tally = Tally()
        for subject in SUBJECTS:
            reference_of(subject)

    def go_on(self, survivor: Worker, until: float) -> None:
        """Kill and replace processes until it is late, and look now and then."""
        names = (f"victim-{number}" for number in itertools.count())
        victims = deque[tuple[str, Worker]]()
        try:
            while time.monotonic() < until:
                while len(victims) < VICTIMS:
                    victims.append((name := next(names), Worker(serve, self._folder, name)))
                self._look_around(survivor, time.monotonic() + self._chance.uniform(*LIFE) / VICTIMS)
                victims.rotate(self._chance.randrange(VICTIMS))
                name, victim = victims.popleft()
                self.tally.faults += [f"`{name}` says {word}" for word in victim.heard() if word != "here"]
                victim.end()
                self._dead.add(name)
                self.tally.figures["kills"] += 1
        finally:
            for _, victim in victims:
                victim.end()

    def _look_around(self, survivor: Worker, until: float) -> None:
        while time.monotonic() < until:
            self._audit()
            if memory.AVAILABLE:
                self._looks.append(look_at(survivor.pid, self._folder))
            time.sleep(0.05)

    def _audit(self) -> None:
        """Hold each run that is over against an undisturbed one, and delete it."""
        for info in run_blocking(self._store.runs(statuses=["completed"])):
            path, aside = self._folder / "effects" / info.run_id, self._folder / "aside"
            lines = [line.replace(f" {info.run_id}/", f" {RUN}/") for line in lines_of(path)]
            wrong = list(self._wrong(info, lines))
            # In this order: who took it for one that is left may begin it anew as soon as it is deleted.
            path.rename(aside)
            try:
                run_blocking(self._store.delete(info.run_id))
            except RunConflict:  # It is over, and its process has not let go of it yet.
                aside.rename(path)
                continue
            self._count(info, lines)
            self.tally.faults += [f"run `{info.run_id}` ({info.graph}): {fault}" for fault in wrong]

    def _wrong(self, info: RunInfo, lines: list[str]) -> Iterable[str]:
        reference = reference_of(info.graph)
        found = seen_in(self._store, info.graph, info.run_id)
        now = journal_of(found.model_copy(update={"dot": found.dot.replace(info.run_id, RUN)}))
        yield from checks.of_store(now, None)
        yield from checks.of_end(now, reference)
        yield from checks.of_calls(lines, [], None, now, reference)
        for line, times in Counter(lines).items():
            if times > info.epoch:  # Each owner calls a task once at most.
                yield f"`{line}` was called {times} times by {info.epoch} owners"

    def _count(self, info: RunInfo, lines: list[str]) -> None:
        of_dead = info.run_id.partition(".")[0] in self._dead
        repeated = len(lines) - len(set(lines))
        self.tally.figures.update({"runs": 1, "of the dead": of_dead, "calls": len(lines), "repeated": repeated})

    def finish(self) -> None:
        """Bring what is left to its end, and judge what grew."""
        until = time.monotonic() + PATIENCE
        while left := run_blocking(self._store.runs(statuses=["running", "interrupted", "waiting"])):
            for info in left:
                with contextlib.suppress(RunConflict):
                    asyncio.run(_to_the_end(self._store, self._folder, info.run_id, info.graph))
            if time.monotonic() > until:
                self.tally.faults.append(f"{len(left)} runs cannot be brought to their end")
                break
        self._audit()
        run_blocking(self._store.close())
        self.tally.figures["looks"] = len(self._looks)
        self.tally.faults += grown(self._looks)
        for name, seen in zip(Look._fields, zip(*self._looks, strict=True), strict=False):
            self.tally.figures[f"most {name}"] = max(seen)


def look_at(pid: int, folder: Path) -> Look:
    """What a process and a store take now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return Look(
        memory=pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        files=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=len(list(Path(f"/proc/{pid}/task").iterdir())),
        log=_kilobytes(folder / "runs.db-wal"),
        file=_kilobytes(folder / "runs.db"),
    )


def _kilobytes(file: Path) -> int:
    """The size of a file, which may not be there yet."""
    return file.stat().st_size // 1024 if file.exists() else 0


def grown(looks: Sequence[Look]) -> Iterable[str]:
    """What grew between the middle third of the looks and the last one; the first is left for warming up."""
    if len(looks) < SHORT:
        return
    third = len(looks) // 3
    for name in Look._fields:
        middle, last = (
            statistics.median(getattr(look, name) for look in part)
            for part in (looks[third : 2 * third], looks[2 * third :])
        )
        if last - middle > getattr(MAY_GROW, name):
            yield f"`{name}` grew from {middle:g} to {last:g}"
