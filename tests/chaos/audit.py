"""Holds a run that is disturbed again and again, in this process or others, against one that was not."""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.chaos.campaign import Tally
from tests.kill import checks
from tests.kill.checks import Journal, Reference, journal_of
from tests.kill.child import seen
from tests.kill.effects import lines_of
from tests.kill.inline import undisturbed
from tests.kill.play import RUN


@functools.cache
def reference_of(subject: str) -> Reference:
    """The undisturbed run of a graph."""
    with tempfile.TemporaryDirectory() as folder:
        return undisturbed(subject, Path(folder))


class Audit:
    """Looks at a run between disturbances, and says what is wrong with it.

    A node that was called is the proof that what it follows from was acknowledged: so each call must have that in the
    store, and nothing that is stored may be called again.

    Args:
        subject: the graph.
        path: the database file; it may change, as a disk that lost power is another one.
        effects: the file that nodes write to.
        tally: where faults go; it counts what was lost, and which calls were repeated.
        keeps: whether the store promises to keep what was acknowledged. One that does not must keep the beginning of
            it, in order.
        keys: what the store is encrypted with; more may be added to them.
    """

    def __init__(
        self, subject: str, path: Path, effects: Path, tally: Tally, *, keeps: bool = True, keys: Sequence[str] = ()
    ) -> None:
        self.subject = subject
        self.path = path
        self.effects = effects
        self.keys = keys
        self._reference = reference_of(subject)
        self._tally = tally
        self._keeps = keeps
        self._before: Journal | None = None
        self._lines: list[str] = []
        tally.figures.update({"lost": 0, "repeats": 0})

    def journal(self) -> Journal:
        """What is stored now."""
        return journal_of(seen(self.subject, self.path, RUN, self.keys))

    def look(self, when: str, *, others_at_work: bool = False) -> Journal:
        """Check what is stored now."""
        now = self.journal()
        lines = lines_of(self.effects)
        new = lines[len(self._lines) :]
        wrong = list(checks.of_store(now, self._before))
        if self._keeps:
            wrong += checks.of_calls(lines, new, None if others_at_work else self._before, now, self._reference)
        self._blame(when, wrong)
        self._before, self._lines = now if now.seen.status is not None else None, lines
        return now

    def look_after_loss(self, when: str, written: Journal) -> int:
        """Check a store that may have lost the end of what was written; how many records it lost."""
        now = self.look(when)
        had, has = written.seen.records, now.seen.records
        if has != had[: len(has)]:
            self._blame(when, [f"what is left is no beginning of what was written: {has}, of {had}"])
        return len(had) - len(has)

    def look_at_end(self, when: str) -> None:
        """Check a run that is over."""
        now = self.look(when)
        self._blame(when, checks.of_end(now, self._reference))
        self._tally.figures["repeats"] += sum(Counter(self._lines).values()) - len(set(self._lines))

    def _blame(self, when: str, wrong: Iterable[str]) -> None:
        for fault in wrong:
            lost = "have changed" in fault or "was started before" in fault or "no beginning" in fault
            self._tally.figures["lost"] += lost
            self._tally.faults.append(f"{when}: {fault}")
