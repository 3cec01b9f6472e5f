"""Kill runs at random moments, resume them, and hold each against a run that nobody disturbed.

    python -m tests.kill --kills 1000 --seed 7              a campaign
    python -m tests.kill --seed 7 --case 123 --times 20     one of its cases again, twenty times

A case is one run: started in some way, killed at a moment drawn evenly from the time that an undisturbed run takes,
resumed in some way, perhaps killed again meanwhile, until it is over. All that is drawn follows from the seed and the
number of the case. What a seed cannot fix is how fast the machine is, and so where exactly a kill hits.
"""

from __future__ import annotations

import argparse
import queue
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self, get_args

from flowagent.core.nodes import RouterNode
from tests.kill import checks
from tests.kill.checks import Journal, Reference, call_of, journal_of
from tests.kill.child import Advance, Advanced, How, Look, Nursery, Reply
from tests.kill.graphs import SUBJECTS

RUN: Final = "r-1"
NEIGHBOUR: Final = "r-0"
STARTS: Final[tuple[How, ...]] = ("run_sync", "run", "stream")
RECOVERIES: Final[tuple[How, ...]] = get_args(How)
FRESH: Final = 0.3
"""How likely a case starts with no file at all, so that kills hit while it is made; else there is another run in it."""
AGAIN: Final = 0.35
"""How likely a recovery is killed too."""
MOST_KILLS: Final = 3
LOOKED_AROUND: Final = 0.3
"""How likely, when a run is over, it is called once more and the other run in its file is looked at."""
Durability = Literal["step", "fast", "exit"]


@dataclass(frozen=True, slots=True)
class Case:
    """One run to be killed; `durability` is drawn where it is not given."""

    seed: int
    number: int
    subject: str
    durability: Durability | None = None

    def __str__(self) -> str:
        return (
            f"case {self.number} ({self.subject}); again: python -m tests.kill --seed {self.seed} --case {self.number}"
        )


@dataclass(slots=True)
class Tally:
    """What came of some cases."""

    cases: int = 0
    kills: int = 0
    recovery_kills: int = 0
    unstored: int = 0
    waiting: int = 0
    over: int = 0
    from_snapshot: int = 0
    calls: int = 0
    repeated: int = 0
    faults: list[str] = field(default_factory=list[str])

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


# -- one case ----------------------------------------------------------------------------------------------------------


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
        self._tally = Tally(cases=1)
        self._has_neighbour = False
        self._before: Journal | None = None
        self._lines: list[str] = []

    def play(self) -> Tally:
        """Kill and resume until the run is over."""
        reply = self._first_kill()
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
            reply = self._advance(how, self._reference.seconds * self._chance.random())
            if reply.ended != "done":
                return reply
            assert attempt < 99, "a hundred times the process was faster than its killer"
        raise AssertionError

    def _next_kill(self) -> float | None:
        if self._tally.kills >= MOST_KILLS or self._chance.random() > AGAIN:
            return None
        stored = 0 if self._before is None else len(self._before.seen.records)
        left = 1 - stored / len(self._reference.journal.seen.records)
        return self._reference.seconds * max(left, 0.2) * self._chance.random()

    def _advance(self, how: How, kill_after: float | None) -> Reply:
        return self._nursery.advance(
            Advance(
                subject=self._case.subject,
                store=self._folder / "runs.db",
                run_id=RUN,
                how=how,
                effects=self._folder / "effects",
                seed=f"{self._case.seed} {self._case.number}",
                durability=self._durability,
                kill_after=kill_after,
            )
        )

    def _after_kill(self) -> None:
        tally = self._tally
        tally.kills += 1
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
        seen = self._nursery.look(Look(subject=self._case.subject, store=store, run_id=NEIGHBOUR))
        if seen != self._reference.neighbour.seen:
            self._blame([f"the other run in the file is now {seen}"])

    def _checked(self, store: Path) -> Journal:
        """What is stored now, held against what was and what was called in between."""
        seen = self._nursery.look(Look(subject=self._case.subject, store=store, run_id=RUN))
        now = journal_of(seen)
        lines = lines_of(self._folder / "effects")
        new = lines[len(self._lines) :]
        self._blame(checks.of_store(now, self._before))
        self._blame(checks.of_calls(lines, new, self._before, now, self._reference))
        self._lines = lines
        return now

    def _blame(self, faults: Iterable[str]) -> None:
        self._tally.faults += [f"{self._case}\n    after {self._tally.kills} kills: {fault}" for fault in faults]


def lines_of(effects: Path) -> list[str]:
    """The lines of an effects file."""
    return effects.read_text().splitlines() if effects.exists() else []


# -- many --------------------------------------------------------------------------------------------------------------


def undisturbed(subject: str, nursery: Nursery, folder: Path) -> Reference:
    """Run a graph in each way without a kill; all must give the same."""
    journals: list[Journal] = []
    calls: list[list[str]] = []
    seconds: list[float] = []
    for run_id, how in zip((NEIGHBOUR, RUN, RUN, RUN), (STARTS[0], *STARTS), strict=True):
        place = folder / f"{subject}-{run_id}-{how}"
        place.mkdir(parents=True)
        store, effects = place / "runs.db", place / "effects"
        reply = nursery.advance(
            Advance(subject=subject, store=store, run_id=run_id, how=how, effects=effects, seed=f"{how} {run_id}")
        )
        assert reply.ended == "done", f"{subject} undisturbed, by {how}: {reply}"
        journals.append(journal_of(nursery.look(Look(subject=subject, store=store, run_id=run_id))))
        calls.append(lines_of(effects))
        seconds.append(reply.seconds)
    routers = frozenset(name for name, node in SUBJECTS[subject].graph.nodes.items() if isinstance(node, RouterNode))
    reference = Reference(
        store=folder / f"{subject}-{NEIGHBOUR}-{STARTS[0]}" / "runs.db",
        neighbour=journals[0],
        journal=journals[1],
        calls=calls[1],
        seconds=max(seconds),
        routers=routers,
    )
    for journal, lines in zip(journals[1:], calls[1:], strict=True):
        wrong = [*checks.of_store(journal, None), *checks.of_calls(lines, lines, None, journal, reference)]
        wrong += checks.of_end(journal, reference)
        assert not wrong, f"{subject} undisturbed: {wrong}"
        assert len(lines) == len(calls[1]), f"{subject} undisturbed: {lines}"
    return reference


class Campaign:
    """Plays cases, as many at a time as there are warm processes. Leave it to end those.

    Args:
        folder: for the files; those of a case that went well are removed.
        jobs: how many cases are played at a time.
        subjects: the graphs.

    Attributes:
        references: by graph, the undisturbed run.
    """

    def __init__(self, folder: Path, *, jobs: int, subjects: Iterable[str] = SUBJECTS) -> None:
        self._folder = folder
        self._jobs = jobs
        self._subjects = tuple(subjects)
        self._idle: queue.SimpleQueue[Nursery] = queue.SimpleQueue()
        self.references: dict[str, Reference] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for _ in range(self._jobs):
                self._idle.put(stack.enter_context(Nursery()))
            self._stack = stack.pop_all()
        self._pool = self._stack.enter_context(ThreadPoolExecutor(self._jobs))
        # Side by side as well, for then they are as slow as the runs that are killed will be.
        references = self._pool.map(self._undisturbed, self._subjects)
        self.references = dict(zip(self._subjects, references, strict=True))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, cases: Sequence[Case]) -> dict[str, Tally]:
        """What comes of some cases, by graph."""
        sums: dict[str, Tally] = {}
        for case, tally in zip(cases, self._pool.map(self._played, range(len(cases)), cases), strict=True):
            sums[case.subject] = sums.get(case.subject, Tally()) + tally
        return sums

    def _undisturbed(self, subject: str) -> Reference:
        with self._nursery() as nursery:
            return undisturbed(subject, nursery, self._folder)

    def _played(self, turn: int, case: Case) -> Tally:
        place = self._folder / f"{turn}-case-{case.number}"
        with self._nursery() as nursery:
            tally = Play(case, nursery, self.references[case.subject], place).play()
        if not tally.faults:
            shutil.rmtree(place)
        return tally

    @contextmanager
    def _nursery(self) -> Generator[Nursery]:
        nursery = self._idle.get()
        try:
            yield nursery
        finally:
            self._idle.put(nursery)


def cases_of(seed: int, numbers: Iterable[int], durability: Durability | None = None) -> list[Case]:
    """The cases of a campaign; they take turns with the graphs."""
    names = list(SUBJECTS)
    return [Case(seed, number, names[number % len(names)], durability) for number in numbers]


# -- the command -------------------------------------------------------------------------------------------------------

COLUMNS: Final = {
    "runs": "cases",
    "kills": "kills",
    "in recovery": "recovery_kills",
    "not yet stored": "unstored",
    "waiting": "waiting",
    "over": "over",
    "snapshot": "from_snapshot",
    "calls": "calls",
    "repeated": "repeated",
}


def table_of(sums: dict[str, Tally]) -> str:
    """The figures of a campaign."""
    rows = {**sums, "all": sum(sums.values(), Tally())}
    lines = [f"{'graph':<10}" + "".join(f"{title:>16}" for title in COLUMNS) + f"{'faults':>16}"]
    for name, tally in rows.items():
        figures = [getattr(tally, attribute) for attribute in COLUMNS.values()]
        lines.append(f"{name:<10}" + "".join(f"{figure:>16}" for figure in [*figures, len(tally.faults)]))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign and print what came of it; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description="Kill runs and resume them.")
    parser.add_argument("--kills", type=int, default=100, help="how many runs are killed, in turns over the graphs")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--case", type=int, help="play only the case of this number")
    parser.add_argument("--times", type=int, default=1, help="with --case: play it so often")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    options = parser.parse_args(arguments)
    numbers = range(options.kills) if options.case is None else [options.case] * options.times
    cases = cases_of(options.seed, numbers)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="flowagent-kill-"))
    with Campaign(folder, jobs=options.jobs, subjects={case.subject for case in cases}) as campaign:
        sums = campaign.play(cases)
    faults = [fault for tally in sums.values() for fault in tally.faults]
    print("\n\n".join([*faults, table_of(sums)]))
    print(f"seed {options.seed}, {time.monotonic() - began:.1f} s", end="")
    print(f"; the files of what went wrong are in {folder}" if faults else "")
    if not faults:
        shutil.rmtree(folder)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
