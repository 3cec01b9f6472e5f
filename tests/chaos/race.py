"""Processes race to start one run, and to go on with it; some of them die while they have it.

A case is `NUMBER GRAPH`: two to eight processes, which begin at one word, when there is no file yet. So they race to
make the file, to start the run, and each time that one dies, to go on with it. Exactly one may be at work at a time,
which is held by a lock that the calls themselves take; each step is recorded once, and the epochs of the records never
fall.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from flowagent.core.loops import run_blocking
from flowagent.stores import SQLiteStore
from tests.chaos.audit import Audit
from tests.chaos.campaign import Tally, by_turns
from tests.chaos.processes import Worker
from tests.chaos.workers import compete
from tests.kill.child import epochs_at
from tests.kill.effects import Effects
from tests.kill.inline import resumed
from tests.kill.play import RUN

DEADLY: Final = 0.04


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """Graphs by turns."""
        return by_turns(rounds)

    def play(self, case: str, folder: Path) -> Tally:
        """Let processes race until the run is over."""
        _, subject = case.split()
        chance = random.Random(f"{self._seed} {case}")
        tally = Tally()
        audit = Audit(subject, folder / "runs.db", folder / "effects", tally)
        rivals = chance.randint(2, 8)
        with ExitStack() as stack:
            workers = [
                stack.enter_context(Worker(compete, subject, folder, f"{self._seed} {case} {n}", DEADLY))
                for n in range(rivals)
            ]
            for worker in workers:
                worker.tell("go")
            outcomes = [worker.hear() for worker in workers]
        if None in outcomes:
            # Those that are left have finished it; unless all died.
            store = SQLiteStore(folder / "runs.db")
            resumed(subject, store, Effects(folder / "effects", "", longest=0.0))
            run_blocking(store.close())
        tally.faults += [outcome[1] for outcome in outcomes if outcome and isinstance(outcome[0], str)]
        if (folder / "overlaps").exists():
            tally.faults.append(f"two processes were at work at once: {(folder / 'overlaps').read_text()}")
        audit.look_at_end("at the end")
        epochs = epochs_at(folder / "runs.db", RUN)
        tally.figures.update(
            {
                "races": 1,
                "processes": rivals,
                "died": outcomes.count(None),
                "times it was taken": epochs[-1],
                "RunConflict": sum(outcome[0] for outcome in outcomes if outcome and isinstance(outcome[0], int)),
                "records": len(epochs),
            }
        )
        return tally
