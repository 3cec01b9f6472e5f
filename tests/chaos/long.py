"""One run of very many steps, whose process is killed near the end: what is stored, and how soon it goes on.

A case is `NUMBER STEPS WHAT`. The graph is a cycle of one node and a router; both are recorded.

    counting   the state is a number: what a step costs at the least
    growing    each lap appends a text of 200 characters, so that the state grows as the run does

The process is killed in one of the last laps; the time that counts goes from the call of `resume` until a node is
called again. The run is brought to its end, and no lap was recorded and done again.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from flowagent import Context, Graph, Limits, State, Update, append
from flowagent.core.loops import run_blocking
from flowagent.stores import SQLiteStore
from tests.chaos.campaign import Tally
from tests.chaos.processes import Worker
from tests.kill.child import integrity_of

What = Literal["counting", "growing"]

STEPS: Final = 100_000
TEXT: Final = "." * 200
RUN: Final = "long"
NO_LIMITS: Final = Limits(steps=None)

SOON: Final = 0.2
"""Seconds of a processor within which a killed run goes on; once more for each megabyte of its state."""
EMPTY: Final = 64 * 1024
"""Bytes that a store takes with nothing in it."""
MOST_OF_A_STEP: Final = 250
"""Bytes that a step takes on the disk at most, beside what it appends."""
MOST_OF_A_BYTE: Final = 3.0
"""How often a byte that a step appends is stored at most: in its record, and in the snapshots that are kept."""


class Laps(State):
    done: int = 0
    texts: Annotated[list[str], append] = []


class Track(NamedTuple):
    """What the laps are told.

    Attributes:
        laps: how many there are to be.
        deadly: the one in which the process dies; 0 for none.
        text: what each appends.
        first: where the first one that this process does notes when it began.
    """

    laps: int
    deadly: int
    text: str
    first: list[tuple[int, float, float]]


def circling() -> Graph[Laps, Track]:
    """A node and a router that goes back to it."""
    graph = Graph("circle", Laps, deps=Track)

    @graph.node
    def lap(state: Laps, ctx: Context[Track, Laps]) -> Update:
        track = ctx.deps
        if not track.first:
            track.first.append((state.done, time.perf_counter(), time.process_time()))
        if state.done + 1 == track.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"done": state.done + 1} | ({"texts": [track.text]} if track.text else {})

    @graph.router
    def again(state: Laps, ctx: Context[Track, Laps]) -> Literal["lap", "END"]:
        return "lap" if state.done < ctx.deps.laps else "END"

    graph.chain("START", lap, again)
    return graph


class Resumed(NamedTuple):
    """What a process says that has gone on with a run and brought it to its end.

    Attributes:
        lap: the lap that it began with.
        seconds: how long that took from the call on.
        processor: how much of it on the processor.
        state: the laps and texts at the end.
    """

    lap: int
    seconds: float
    processor: float
    state: tuple[int, int]


def run_on(pipe: Connection, path: Path, track: Track) -> None:
    """Run until the process dies."""
    circling().run_sync(Laps(), run_id=RUN, store=SQLiteStore(path), deps=track, limits=NO_LIMITS, durability="fast")


def go_on(pipe: Connection, path: Path, track: Track) -> Resumed:
    """Resume, and say how soon the first lap began."""
    graph, store = circling(), SQLiteStore(path)
    graph.check()
    began, used = time.perf_counter(), time.process_time()
    run = graph.resume_sync(RUN, store=store, deps=track, limits=NO_LIMITS, durability="fast")
    run_blocking(store.close())
    ((lap, at, processor),) = track.first
    return Resumed(lap, at - began, processor - used, (run.state.done, len(run.state.texts)))


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """For each hundred rounds one of a hundred thousand steps that counts, and one of ten thousand that grows."""
        numbers = itertools.count()
        for rest in range(rounds, 0, -100):
            share = min(rest, 100)
            yield f"{next(numbers)} {STEPS * share // 100} counting"
            yield f"{next(numbers)} {STEPS * share // 1000} growing"

    def play(self, case: str, folder: Path) -> Tally:
        """Kill a long run near its end, and go on with it."""
        _, steps, what = case.split()
        laps = int(steps) // 2
        deadly = laps - random.Random(f"{self._seed} {case}").randrange(laps // 20)
        path = folder / "runs.db"
        text = TEXT if what == "growing" else ""
        tally = Tally()
        with Worker(run_on, path, Track(laps, deadly, text, [])) as first:
            if (said := first.hear(patience=600.0)) is not None:
                tally.faults.append(f"the run should have been killed in lap {deadly}, and says {said}")
        with Worker(go_on, path, Track(laps, 0, text, [])) as second:
            resumed: Resumed = second.hear(patience=60.0)
        tally.faults += _wrong(resumed, laps, deadly, grows=bool(text))
        _measure(tally, path, int(steps), text, resumed)
        return tally


def _wrong(resumed: Resumed, laps: int, deadly: int, *, grows: bool) -> Iterable[str]:
    if not isinstance(resumed, Resumed):
        yield f"going on says {resumed}"
        return
    if resumed.lap + 1 != deadly:
        yield f"it was killed in lap {deadly} and went on with lap {resumed.lap + 1}"
    if resumed.state != (laps, laps if grows else 0):
        yield f"after {laps} laps the state has {resumed.state[0]}, and {resumed.state[1]} texts"


def _measure(tally: Tally, path: Path, steps: int, text: str, resumed: Resumed) -> None:
    size, appended = path.stat().st_size - EMPTY, len(text) * (steps // 2)
    if (integrity := integrity_of(path)) != "ok":
        tally.faults.append(f"SQLite says that its file is damaged: {integrity}")
    kind = "growing" if text else "counting"
    tally.figures.update({"steps": steps, f"most ms until it went on, {kind}": int(resumed.seconds * 1000)})
    if resumed.processor > SOON * (1 + appended / 1e6):
        tally.faults.append(f"it took {resumed.seconds:.2f} s to go on, {resumed.processor:.2f} s of the processor")
    if not text:
        tally.figures["most bytes of a step"] = size // steps
        if size > MOST_OF_A_STEP * steps:
            tally.faults.append(f"a step takes {size / steps:.0f} bytes")
        return
    times = (size - MOST_OF_A_STEP * steps) / appended
    tally.figures["most % stored of what was appended"] = int(times * 100)
    if times > MOST_OF_A_BYTE:
        tally.faults.append(f"a byte that was appended is stored {times:.2f} times")
