"""A process that has a run is stopped for longer than its lease, another one takes the run over, and the first wakes.

A case is `NUMBER GRAPH`. What the woken process wants to record must be refused, it must say so by `RunConflict`, and
the journal must be what the other one made it. A process that is stopped in the middle of a commit holds the file
itself: then the other one is told that the file is locked, and the case is counted and ends there. One that is stopped
while its run waits for an answer holds nothing: it is told that its answer is not asked for any more. And of one that
is stopped when all but the end of its run is recorded, nothing is taken: whoever resumes is told how it ended.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from flowagent.core.loops import run_blocking
from flowagent.errors import RunConflict, StoreError
from flowagent.stores import SQLiteStore
from tests.chaos.audit import Audit
from tests.chaos.campaign import Tally, by_turns
from tests.chaos.processes import PATIENCE, Worker
from tests.chaos.workers import Outcome, hold
from tests.kill.effects import Effects, lines_of
from tests.kill.graphs import SUBJECTS
from tests.kill.inline import resumed

LEASE: Final = 0.3
LONGEST: Final = 0.06
"""How long a process works before it is stopped, at most, in seconds; less than any of the graphs takes."""


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """Graphs by turns."""
        return by_turns(rounds)

    def play(self, case: str, folder: Path) -> Tally:
        """Stop the holder, take over, wake it."""
        _, subject = case.split()
        chance = random.Random(f"{self._seed} {case}")
        tally = Tally()
        audit = Audit(subject, folder / "runs.db", folder / "effects", tally)
        with Worker(hold, subject, folder, LEASE, f"{self._seed} {case}") as holder:
            assert holder.hear() == "begins"
            _until_called(folder / "effects")
            time.sleep(chance.random() * LONGEST)
            holder.signal(signal.SIGSTOP)
            taken = _take_over(subject, folder)
            before = audit.look("when it was taken over", others_at_work=True)
            at_its_end = taken and before.seen.status == "running"
            if taken and not at_its_end:
                audit.look_at_end("when it was taken over")
            holder.signal(signal.SIGCONT)
            outcome: Outcome = holder.hear()
            after = audit.look("when the first woke", others_at_work=True)
            if at_its_end:
                audit.look_at_end("when the first woke")
        tally.figures.update(
            {
                "stopped": 1,
                "refused": outcome[0] == "RunConflict",
                "stopped in a commit": not taken,
                "stopped too late": taken and outcome[0] == "completed",
                "stopped between two calls": outcome[0] == "AnswerError",
                "stopped at its end": at_its_end,
            }
        )
        if taken and not at_its_end and after.seen.records != before.seen.records:
            tally.faults.append("the woken process has changed the journal")
        allowed = {"RunConflict", "completed"} | ({"AnswerError"} if SUBJECTS[subject].answers else set[str]())
        if outcome[0] not in allowed:
            tally.faults.append(f"the woken process says {outcome}")
        return tally


def _until_called(effects: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not lines_of(effects):
        assert time.monotonic() < until, "the holder never began"
        time.sleep(0.001)


def _take_over(subject: str, folder: Path) -> bool:
    """Resume as soon as the lease has run out; False when the file itself is held."""
    store = SQLiteStore(folder / "runs.db", busy_timeout=0.5)
    until = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < until, "the lease never ran out"
        try:
            resumed(subject, store, Effects(folder / "effects", "", longest=0.0))
        except RunConflict:
            time.sleep(0.02)
        except StoreError as error:
            if "stayed locked" not in str(error):
                raise
            return False
        else:
            return True
        finally:
            run_blocking(store.close())
