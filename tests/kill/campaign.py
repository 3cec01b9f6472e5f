"""Many runs that are killed, as many at a time as there are warm processes."""

from __future__ import annotations

import queue
import shutil
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from tests.kill import checks
from tests.kill.checks import Journal, Reference, journal_of
from tests.kill.child import Advance, Advanced, How, Nursery, seen
from tests.kill.effects import lines_of, routers_of
from tests.kill.graphs import SUBJECTS
from tests.kill.play import NEIGHBOUR, RUN, STARTS, Case, Durability, Play, Tally
from tests.kill.points import Cut


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
        journals.append(journal_of(seen(subject, store, run_id)))
        calls.append(lines_of(effects))
        seconds.append(reply.seconds)
    reference = Reference(
        store=folder / f"{subject}-{NEIGHBOUR}-{STARTS[0]}" / "runs.db",
        neighbour=journals[0],
        journal=journals[1],
        calls=calls[1],
        seconds=max(seconds),
        routers=routers_of(SUBJECTS[subject].graph),
        once=frozenset(SUBJECTS[subject].results),
        commits=len(passed(subject, nursery, folder / f"{subject}-commits", "run", Cut(at=-1, among="commits"))),
    )
    for journal, lines in zip(journals[1:], calls[1:], strict=True):
        wrong = [*checks.of_store(journal, None), *checks.of_calls(lines, lines, None, journal, reference)]
        wrong += checks.of_end(journal, reference)
        assert not wrong, f"{subject} undisturbed: {wrong}"
        assert len(lines) == len(calls[1]), f"{subject} undisturbed: {lines}"
    return reference


def passed(subject: str, nursery: Nursery, folder: Path, how: How, cut: Cut) -> list[str]:
    """The points that an undisturbed run comes by."""
    folder.mkdir(parents=True)
    job = Advance(
        subject=subject, store=folder / "runs.db", run_id=RUN, how=how, effects=folder / "effects", seed=how, cut=cut
    )
    reply = nursery.advance(job)
    assert reply.ended == "done", f"{subject} while its points were counted: {reply}"
    return Advanced.model_validate_json(reply.text).passed


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
        self._points: dict[tuple[str, How], list[str]] = {}
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

    def points(self, subject: str, how: How) -> list[str]:
        """The points that an undisturbed run of a graph comes by."""
        if (subject, how) not in self._points:
            with self.nursery() as nursery:
                folder = self._folder / f"{subject}-points-{how}"
                self._points[subject, how] = passed(subject, nursery, folder, how, Cut(at=-1, among="all"))
        return self._points[subject, how]

    def play_kills(
        self, seed: int, kills: int, subject: str | None = None, *, encrypted: bool | None = None
    ) -> dict[str, Tally]:
        """What comes of so many cases that there are so many kills, by graph; in turns over them, or of one."""
        sums: dict[str, Tally] = {}
        tried = 0
        while (left := kills - sum(tally.kills for tally in sums.values())) > 0:
            numbers = range(tried, tried + max(left // 2, 1) * (1 if subject is None else len(SUBJECTS)))
            cases = cases_of(seed, numbers, encrypted=encrypted)
            cases = [case for case in cases if subject in (None, case.subject)]
            for name, tally in self.play(cases).items():
                sums[name] = sums.get(name, Tally()) + tally
            tried = numbers.stop
        return sums

    def _undisturbed(self, subject: str) -> Reference:
        with self.nursery() as nursery:
            return undisturbed(subject, nursery, self._folder)

    def _played(self, turn: int, case: Case) -> Tally:
        place = self._folder / f"{turn}-case-{case.number}"
        with self.nursery() as nursery:
            tally = Play(case, nursery, self.references[case.subject], place).play()
        if not tally.faults:
            shutil.rmtree(place)
        return tally

    @contextmanager
    def nursery(self) -> Generator[Nursery]:
        """One of the warm processes, while nobody else uses it."""
        nursery = self._idle.get()
        try:
            yield nursery
        finally:
            self._idle.put(nursery)


def cases_of(
    seed: int, numbers: Iterable[int], durability: Durability | None = None, *, encrypted: bool | None = None
) -> list[Case]:
    """The cases of a campaign; they take turns with the graphs."""
    names = list(SUBJECTS)
    return [Case(seed, n, names[n % len(names)], durability, encrypted=encrypted) for n in numbers]
