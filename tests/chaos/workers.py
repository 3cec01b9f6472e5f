"""What the processes of the campaigns do."""

from __future__ import annotations

import fcntl
import os
import random
import resource
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from flowagent import Context, Graph, State, Update
from flowagent.core.loops import run_blocking
from flowagent.errors import AnswerError, RunConflict, StoreError
from flowagent.stores import SQLiteStore, owner
from tests.chaos import wall
from tests.kill.effects import Effects
from tests.kill.graphs import SUBJECTS
from tests.kill.inline import go_on, resumed
from tests.kill.play import RUN

Outcome = tuple[str, str]
"""A status or the name of an error, and its text."""

# -- race --------------------------------------------------------------------------------------------------------------


class Guarded(Effects):
    """Effects that find out whether another process works on the run at the same moment, and may kill their own.

    Args:
        folder: for the files.
        seed: decides how long calls take and which are the last of their process.
        deadly: how likely a call is.
    """

    def __init__(self, folder: Path, seed: str, deadly: float) -> None:
        super().__init__(folder / "effects", seed, longest=0.002)
        self._chance = random.Random(seed)
        self._deadly = deadly
        self._overlaps = folder / "overlaps"
        self._handle = os.open(folder / "holder", os.O_RDWR | os.O_CREAT, 0o600)
        self._lock = threading.Lock()
        self._inside = 0

    def leave(self, ctx: Context[Effects, Any], part: str) -> None:
        with self._lock:
            self._inside += 1
            try:
                # One handle for the process: its own branches share the lock, another process does not.
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.pwrite(self._handle, owner.this_process().encode().ljust(200), 0)
            except BlockingIOError:
                holder = os.pread(self._handle, 200, 0).decode().strip()
                # The dead keep their locks for a moment, until the last of their threads is gone.
                if not owner.is_dead(holder):
                    self._overlaps.write_text(f"{ctx.task_id} in {owner.this_process()} beside {holder}")
        try:
            super().leave(ctx, part)
            time.sleep(0.001)
            if self._chance.random() < self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    fcntl.flock(self._handle, fcntl.LOCK_UN)


def compete(pipe: Connection, subject: str, folder: Path, seed: str, deadly: float) -> tuple[int, bool]:
    """Try to be the one who advances a run, again and again until it is over.

    Returns:
        How often another one had it, and whether this process found it finished.
    """
    effects = Guarded(folder, seed, deadly)
    store = SQLiteStore(folder / "runs.db")
    chance = random.Random(seed)
    conflicts = 0
    pipe.recv()
    while True:
        go = chance.choice((go_on, resumed))
        try:
            run = go(subject, store, effects)
        except (RunConflict, AnswerError):  # Somebody has it, or has answered in between.
            conflicts += 1
            time.sleep(chance.random() * 0.01)
            continue
        assert run.status == "completed", run.status
        return conflicts, run.replayed


# -- frozen ------------------------------------------------------------------------------------------------------------


def hold(pipe: Connection, subject: str, folder: Path, lease: float, seed: str) -> Outcome:
    """Advance a run, until it is over or somebody else has it."""
    store = SQLiteStore(folder / "runs.db", lease=lease)
    pipe.send("begins")
    run = go_on(subject, store, Effects(folder / "effects", seed))
    return run.status, ""


# -- clock -------------------------------------------------------------------------------------------------------------


class Paused(Effects):
    """Effects of which the n-th call says so and waits for a word: the days that the clock is to jump by."""

    def __init__(self, path: Path, pipe: Connection, number: int) -> None:
        super().__init__(path, "", longest=0.0)
        self._pipe = pipe
        self._left = number

    def leave(self, ctx: Context[Effects, Any], part: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._pipe.send("paused")
            wall.jump(self._pipe.recv())
            self._pipe.send("jumped")
            self._pipe.recv()
        super().leave(ctx, part)


def pause(pipe: Connection, subject: str, folder: Path, lease: float, days: float, number: int) -> Outcome:
    """Advance a run, on a clock that is some days off and jumps in the middle."""
    wall.jump(days)
    store = SQLiteStore(folder / "runs.db", lease=lease)
    return go_on(subject, store, Paused(folder / "effects", pipe, number)).status, ""


def take(pipe: Connection, subject: str, folder: Path, days: float) -> Outcome:
    """Resume a run on a clock that is some days off."""
    wall.jump(days)
    return resumed(subject, SQLiteStore(folder / "runs.db"), Effects(folder / "effects", "", longest=0.0)).status, ""


def finish_another(pipe: Connection, folder: Path, days: float, run_id: str) -> None:
    """Do a whole run beside the one that matters, on a clock that is some days off."""
    wall.jump(days)
    store = SQLiteStore(folder / "runs.db")
    effects = Effects(folder / run_id, "", longest=0.0)
    SUBJECTS["router"].graph.run_sync(SUBJECTS["router"].input, run_id=run_id, store=store, deps=effects)


def idle_and_pause(pipe: Connection, subject: str, folder: Path, number: int) -> Outcome:
    """Finish a run, hold nothing until a word is heard, then do another run, and pause in it."""
    finish_another(pipe, folder, 0.0, "earlier")
    pipe.send("idle")
    pipe.recv()
    return go_on(subject, SQLiteStore(folder / "runs.db"), Paused(folder / "effects", pipe, number)).status, ""


class Nap(State):
    woken: int = 0


SECONDS: Final = 0.2


def napping() -> Graph[Nap, Any]:
    """A graph of one node that sleeps."""
    g = Graph("napping", Nap)

    @g.node
    async def nap(state: Nap, ctx: Context[Any, Nap]) -> Update:
        await ctx.sleep(SECONDS)
        return {"woken": state.woken + 1}

    g.chain("START", nap, "END")
    return g


def sleep(pipe: Connection, folder: Path, days: float, jump: float) -> Outcome:
    """Run or resume a graph that sleeps, on a clock that is some days off and jumps while it does."""
    wall.jump(days)
    store = SQLiteStore(folder / "runs.db")
    if jump:
        threading.Timer(SECONDS / 2, wall.jump, (days + jump,)).start()
    run = napping().run_sync(Nap(), run_id=RUN, store=store)
    run_blocking(store.close())
    return run.status, str(run.state.woken)


# -- space -------------------------------------------------------------------------------------------------------------


def fill_limit(pipe: Connection, subject: str, place: Path, effects: Path, room: int) -> Outcome:
    """Run a graph while no file may grow beyond a size, and resume it when it may again."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        pipe.send(_run_out(subject, place, effects))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    pipe.recv()
    return _run_out(subject, place, effects)


def fill_disk(pipe: Connection, subject: str, place: Path, effects: Path, room: int) -> Outcome:
    """Run a graph while a large file has left so much room on its file system, and resume it when that is gone."""
    filler = place / "filler"
    usage = os.statvfs(place)
    filler.write_bytes(bytes(usage.f_bavail * usage.f_frsize - room))
    pipe.send(_run_out(subject, place, effects))
    pipe.recv()
    filler.unlink()
    return _run_out(subject, place, effects)


def _run_out(subject: str, place: Path, effects: Path) -> Outcome:
    store = SQLiteStore(place / "runs.db")
    try:
        run = resumed(subject, store, Effects(effects, "", longest=0.0))
    except StoreError as error:
        return "StoreError", str(error)
    finally:
        run_blocking(store.close())
    return run.status, ""
