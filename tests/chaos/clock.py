"""Wall clocks that jump by a day: of the process that has a run, of the one that wants it, or of both.

A case is `NUMBER GRAPH WHAT`:

    held      a process has a run and lives: no clock lets another one take it; dead, it is replaced at once
    frozen    a process that is stopped for longer than its lease is replaced, whatever the clocks say
    asleep    a clock jumps while `ctx.sleep` waits: it waits as long as it was to
    slept     a process is killed in `ctx.sleep`; another one, with another clock, does not wait longer than it was to
    idle      a process that holds nothing is cleared away by one whose clock is ahead, and then takes a run: it has it

All processes are of one machine, so they share a monotonic clock.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from flowagent.core.loops import run_blocking
from flowagent.errors import RunNotFound
from flowagent.stores import SQLiteStore
from tests.chaos.audit import Audit
from tests.chaos.campaign import Tally
from tests.chaos.processes import PATIENCE, Worker
from tests.chaos.workers import Outcome, finish_another, idle_and_pause, pause, sleep, take
from tests.kill.graphs import SUBJECTS
from tests.kill.play import RUN

DAYS: Final = (-1.0, 0.0, 1.0)
LEASE: Final = 30.0
SHORT: Final = 0.3
CALL: Final = 3
"""The call in which the holder pauses."""


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._kinds: dict[str, Callable[[_Case], None]] = {
            "held": _held,
            "frozen": _frozen,
            "asleep": _asleep,
            "slept": _slept,
            "idle": _idle,
        }

    def cases(self, rounds: int) -> Iterable[str]:
        """Each kind with each graph by turns."""
        ways = itertools.cycle(itertools.product(SUBJECTS, self._kinds))
        numbered = zip(range(rounds), ways, strict=False)
        return (f"{number} {subject} {kind}" for number, (subject, kind) in numbered)

    def play(self, case: str, folder: Path) -> Tally:
        """Let clocks jump."""
        _, subject, kind = case.split()
        tally = Tally()
        tally.figures.update({"jumps": 0, "early steals": 0, "stuck timers": 0, kind: 1})
        try:
            self._kinds[kind](_Case(subject, folder, random.Random(f"{self._seed} {case}"), tally))
        except TimeoutError as error:
            tally.figures["stuck timers"] += 1
            tally.faults.append(str(error))
        return tally


class _Case:
    """What each kind of case needs."""

    def __init__(self, subject: str, folder: Path, chance: random.Random, tally: Tally) -> None:
        self.subject = subject
        self.folder = folder
        self.tally = tally
        self._chance = chance

    def days(self) -> float:
        """How many days a clock is off."""
        return self._chance.choice(DAYS)

    def jump(self, holder: Worker, days: float) -> None:
        """Have the clock of a process that paused jump."""
        assert holder.hear() == "paused"
        holder.tell(days)
        assert holder.hear() == "jumped"
        self.tally.figures["jumps"] += 1

    def taken_by(self, days: float) -> Outcome:
        """What a process is told that wants the run."""
        with Worker(take, self.subject, self.folder, days) as rival:
            return rival.hear()

    def expect(self, what: str, outcome: Outcome, wanted: str) -> None:
        """Blame another outcome."""
        if outcome[0] != wanted:
            self.tally.faults.append(f"{what}: {outcome}, not {wanted}")

    def expect_held(self, what: str, days: float) -> None:
        """A process that wants the run is refused."""
        outcome = self.taken_by(days)
        self.tally.figures["early steals"] += outcome[0] != "RunConflict"
        self.expect(f"{what}, a rival {days:+g} days off", outcome, "RunConflict")

    def look_at_end(self) -> None:
        """The run is over, as if nothing had happened."""
        Audit(self.subject, self.folder / "runs.db", self.folder / "effects", self.tally).look_at_end("at the end")


def _held(case: _Case) -> None:
    with Worker(pause, case.subject, case.folder, LEASE, case.days(), CALL) as holder:
        case.jump(holder, case.days())
        for days in DAYS:
            case.expect_held("while a living process has it", days)
        holder.kill()
        case.expect("when the holder is dead", case.taken_by(case.days()), "completed")
    case.look_at_end()


def _frozen(case: _Case) -> None:
    with Worker(pause, case.subject, case.folder, SHORT, case.days(), CALL) as holder:
        case.jump(holder, case.days())
        holder.signal(signal.SIGSTOP)
        days = case.days()
        until = time.monotonic() + PATIENCE
        while (outcome := case.taken_by(days))[0] == "RunConflict":
            if time.monotonic() > until:
                raise TimeoutError("the lease of a stopped process never ran out")
        case.expect("when the lease has run out", outcome, "completed")
        holder.signal(signal.SIGCONT)
        holder.tell("go on")
        case.expect("the woken process", holder.hear(), "RunConflict")
    case.look_at_end()


def _asleep(case: _Case) -> None:
    for jump in (-1.0, 1.0):
        place = case.folder / f"{jump:+g}"
        place.mkdir()
        with Worker(sleep, place, case.days(), jump) as sleeper:
            case.tally.figures["jumps"] += 1
            case.expect("the one that sleeps", sleeper.hear(), "completed")


def _slept(case: _Case) -> None:
    first, second = case.days(), case.days()
    with Worker(sleep, case.folder, first, 0.0) as sleeper:
        _until_it_sleeps(case.folder)
        sleeper.kill()
    case.tally.figures["jumps"] += first != second
    with Worker(sleep, case.folder, second, 0.0) as sleeper:
        outcome = sleeper.hear()
    case.expect(f"slept {first:+g} days off, woken {second:+g} days off", outcome, "completed")


def _until_it_sleeps(folder: Path) -> None:
    store = SQLiteStore(folder / "runs.db")
    until = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(RunNotFound):
            if any(record.kind == "memo" for record in run_blocking(store.read(RUN))):
                break
        assert time.monotonic() < until, "it never slept"
        time.sleep(0.002)
    run_blocking(store.close())


def _idle(case: _Case) -> None:
    with Worker(idle_and_pause, case.subject, case.folder, CALL) as holder:
        assert holder.hear() == "idle"
        with Worker(finish_another, case.folder, 1.0, "another") as other:
            other.hear()
        case.tally.figures["jumps"] += 1
        holder.tell("go on")
        case.jump(holder, case.days())
        case.expect_held("while a process has it that was idle", case.days())
        holder.kill()
        case.expect("when the holder is dead", case.taken_by(case.days()), "completed")
    case.look_at_end()
