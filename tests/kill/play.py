"""One run that is killed and resumed until it is over, and held against a run that nobody disturbed."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from tests.kill import checks
from tests.kill.checks import Journal, Reference, call_of, journal_of
from tests.kill.child import Advance, Advanced, How, Nursery, Reply, seen
from tests.kill.effects import lines_of
from tests.kill.points import Cut
from tests.kill.sealing import OFTEN, Keys

RUN: Final = "r-1"
NEIGHBOUR: Final = "r-0"
STARTS: Final[tuple[How, ...]] = ("run_sync", "run", "stream")
RECOVERIES: Final[tuple[How, ...]] = get_args(How)
FRESH: Final = 0.3
"""How likely a case starts with no file at all, so that kills hit while it is made; else there is another run in it."""
AIMED: Final = 0.4
"""How likely a kill is aimed at a commit; else it hits at any time."""
AGAIN: Final = 0.6
"""How likely a recovery is killed too."""
MOST_KILLS: Final = 4
LOOKED_AROUND: Final = 0.15
"""How likely, when a run is over, it is called once more and the other run in its file is looked at."""
Durability = Literal["step", "fast", "exit"]
Kill = float | Cut
"""When a process is killed: after so many seconds, or at one of its points."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run to be killed.

    Args:
        seed: what is drawn follows from this,
        number: and from this.
        subject: the graph.
        durability: drawn where it is not given.
        cuts: at which points its processes end, one after the other; drawn where it is not given.
        how: by which verb it starts; drawn where it is not given.
        encrypted: whether its store is, with another key in each process; drawn where it is not given.
    """

    seed: int
    number: int
    subject: str
    durability: Durability | None = None
    cuts: tuple[int, ...] | None = None
    how: How | None = None
    encrypted: bool | None = None

    def __str__(self) -> str:
        again = f"--seed {self.seed} --case {self.number}"
        if self.cuts is not None:
            again = f"cuts --graph {self.subject} --how {self.how} --at {' '.join(map(str, self.cuts))}"
        again += " --encrypted" if self.encrypted else ""
        return f"case {self.number} ({self.subject}); again: python -m tests.kill {again}"


@dataclass(slots=True)
class Tally:
    """What came of some cases."""

    cases: int = 0
    kills: int = 0
    aimed: int = 0
    recovery_kills: int = 0
    unstored: int = 0
    waiting: int = 0
    over: int = 0
    from_snapshot: int = 0
    encrypted: int = 0
    calls: int = 0
    repeated: int = 0
    faults: list[str] = field(default_factory=list[str])

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


class Play:
    """Plays one case: the only place that knows in which order things happen.

    Args:
        case: what to play.
        nursery: where the processes come from.
        reference: the undisturbed run.
        folder: an empty folder for its files.
    """

    def __init__(self, case: Case, nursery: Nursery, reference: Reference, folder: Path) -> None:
        self._case = case
        self._nursery = nursery
        self._reference = reference
        self._folder = folder
        self._chance = random.Random(f"{case.seed} {case.number}")
        self._durability: Durability = case.durability or self._chance.choice(("step", "step", "fast"))
        encrypted = self._chance.random() < OFTEN if case.encrypted is None else case.encrypted
        self._keys = Keys(self._chance, encrypted=encrypted)
        self._tally = Tally(cases=1, encrypted=encrypted)
        self._has_neighbour = False
        self._is_aimed = False
        self._before: Journal | None = None
        self._lines: list[str] = []

    def play(self) -> Tally:
        """Kill and resume until the run is over."""
        reply = self._first_kill() if self._case.cuts is None else self._first_cut()
        while reply.ended == "killed":
            self._after_kill()
            how = self._chance.choice(RECOVERIES if self._before is not None else STARTS)
            reply = self._advance(how, self._next_kill())
        if reply.ended != "done":
            self._blame([f"the process {reply.ended}: {reply.text}"])
            return self._tally
        self._after_end(Advanced.model_validate_json(reply.text))
        return self._tally

    def _first_kill(self) -> Reply:
        how = self._chance.choice(STARTS)
        self._has_neighbour = self._chance.random() > FRESH
        for attempt in range(100):
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True)
            if self._has_neighbour:
                shutil.copy(self._reference.store, self._folder / "runs.db")
            reply = self._advance(how, self._drawn(1.0))
            if reply.ended != "done":
                return reply
            assert attempt < 99, "a hundred times the process was faster than its killer"
        raise AssertionError

    def _first_cut(self) -> Reply:
        self._folder.mkdir(parents=True)
        assert self._case.cuts, "a case with cuts has at least one"
        how = self._case.how or STARTS[self._case.number % len(STARTS)]
        return self._advance(how, Cut(at=self._case.cuts[0], among="all"))

    def _next_kill(self) -> Kill | None:
        kills = self._tally.kills
        if self._case.cuts is not None:
            return Cut(at=self._case.cuts[kills], among="all") if kills < len(self._case.cuts) else None
        if kills >= MOST_KILLS or self._chance.random() > AGAIN:
            return None
        stored = 0 if self._before is None else len(self._before.seen.records)
        return self._drawn(max(1 - stored / len(self._reference.journal.seen.records), 0.2))

    def _drawn(self, left: float) -> Kill:
        """A moment in what is left of a run: any, or one right before or after a commit."""
        if self._chance.random() < AIMED:
            at = self._chance.randrange(max(int(self._reference.commits * left), 1))
            return Cut(at=at, among="commits", by="kill")
        return self._reference.seconds * left * self._chance.random()

    def _advance(self, how: How, kill: Kill | None) -> Reply:
        self._is_aimed = isinstance(kill, Cut)
        self._keys.rotate()
        return self._nursery.advance(
            Advance(
                subject=self._case.subject,
                store=self._folder / "runs.db",
                run_id=RUN,
                how=how,
                effects=self._folder / "effects",
                seed=f"{self._case.seed} {self._case.number}",
                durability=self._durability,
                kill_after=kill if isinstance(kill, float) else None,
                cut=kill if isinstance(kill, Cut) else None,
                keys=self._keys.all,
            )
        )

    def _after_kill(self) -> None:
        tally = self._tally
        tally.kills += 1
        tally.aimed += self._is_aimed
        tally.recovery_kills += tally.kills > 1
        # A copy is looked at, so that whoever resumes finds the files as the killed process left them.
        copy = self._folder / f"after-kill-{tally.kills}"
        copy.mkdir()
        for file in self._folder.glob("runs.db*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, copy)
        now = self._checked(copy / "runs.db")
        self._blame(checks.of_killed(now))
        tally.unstored += now.seen.status is None
        tally.waiting += now.seen.status == "waiting"
        tally.over += now.seen.status == "completed"
        tally.from_snapshot += now.seen.snapshot is not None
        self._before = None if now.seen.status is None else now

    def _after_end(self, ended: Advanced) -> None:
        if ended.status != "completed":
            self._blame([f"the run ended as {ended.status!r}"])
        now = self._checked(self._folder / "runs.db")
        self._blame(checks.of_end(now, self._reference))
        times = Counter(self._lines)
        self._tally.calls = len(self._lines)
        self._tally.repeated = sum(times.values()) - len(times)
        for line, number in times.items():
            if number > self._tally.kills + 1:
                self._blame([f"`{call_of(line)}` was called {number} times"])
        if self._chance.random() < LOOKED_AROUND:
            self._once_more()
            if self._has_neighbour:
                self._visit_neighbour()

    def _once_more(self) -> None:
        """The same call again reads what is there, and does nothing."""
        reply = self._advance("run_sync", None)
        if reply.ended != "done" or not Advanced.model_validate_json(reply.text).replayed:
            self._blame([f"the same call again does not replay: {reply}"])
        if lines_of(self._folder / "effects") != self._lines:
            self._blame(["the same call again calls something"])

    def _visit_neighbour(self) -> None:
        """The other run in the file is as it was."""
        store = self._folder / "runs.db"
        found = seen(self._case.subject, store, NEIGHBOUR)
        if found != self._reference.neighbour.seen:
            self._blame([f"the other run in the file is now {found}"])

    def _checked(self, store: Path) -> Journal:
        """What is stored now, held against what was and what was called in between."""
        now = journal_of(seen(self._case.subject, store, RUN, self._keys.all))
        lines = lines_of(self._folder / "effects")
        new = lines[len(self._lines) :]
        self._blame(checks.of_store(now, self._before))
        self._blame(checks.of_calls(lines, new, self._before, now, self._reference))
        self._lines = lines
        return now

    def _blame(self, faults: Iterable[str]) -> None:
        self._tally.faults += [f"{self._case}\n    after {self._tally.kills} kills: {fault}" for fault in faults]
