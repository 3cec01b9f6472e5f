"""A run is deleted, and its pages given back to the disk by moving others: meanwhile the power fails, or the disk does.

The store is the golden one, and beside its runs there is one so large that its pages are given back in several parts.
A case is `NUMBER HOW`:

    cut    the power fails at an operation of the deletion, perhaps again when it is tried once more
    fail   an operation fails, or it and all that come after it until the call has ended

After each disturbance the run is there with all its records or is gone with all of them; the other runs are as they
were. At the end it is gone, its space is given back, another run may have its name, and the others end as was noted.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import apsw

from flowagent.core.loops import run_blocking
from flowagent.core.records import Record
from flowagent.errors import RunNotFound, StoreError
from flowagent.stores import SQLiteStore
from tests.chaos import faults
from tests.chaos.campaign import Tally
from tests.chaos.layer import Layer
from tests.chaos.power import AGAIN, Disk
from tests.fuzz import golden
from tests.kill.child import integrity_of

WAYS: Final = ("cut", "fail")
LARGE: Final = "large"
LOOKED_AT: Final = 2
"""How many other runs are brought to their end in a case."""

Rows = dict[str, list[tuple[object, ...]]]


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """The ways by turns."""
        return (f"{number} {how}" for number, how in zip(range(rounds), itertools.cycle(WAYS), strict=False))

    def play(self, case: str, folder: Path) -> Tally:
        """Disturb a deletion, and do it again."""
        _, how = case.split()
        full = Full(folder, random.Random(f"{self._seed} {case}"))
        match how:
            case "cut":
                full.cut()
            case "fail":
                full.fail()
            case _:
                raise ValueError(f"no such case: {case!r}")
        full.look_at_end()
        return full.tally


class Full:
    """A store of which a run is deleted."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._expected = golden.expected(golden.formats()[-1])
        self.run_id = chance.choice((LARGE, chance.choice(list(self._expected))))
        self._cuts = 0
        self.tally = Tally()
        self.path = self._place() / "runs.db"
        self.path.write_bytes(_stored())
        self._rows = rows_of(self.path)

    def cut(self) -> None:
        """Let the power fail until the deletion comes through."""
        calm = Disk(0)
        copy = self._folder / "calm.db"
        copy.write_bytes(_stored())
        self._delete(copy, calm)
        cut_at = self._chance.randint(1, calm.operations)
        while True:
            disk = Disk(cut_at)
            with contextlib.suppress(StoreError, RunNotFound):  # The second time it may be gone.
                self._delete(self.path, disk)
            if not disk.is_off:
                return
            self._cuts += 1
            place = self._place()
            disk.after_cut(place, self._chance)
            self.path = place / "runs.db"
            self.tally.figures.update({"cuts": 1, "cuts that left the run": self.look("after a cut")})
            cut_at = self._chance.randint(1, calm.operations) if self._chance.random() < AGAIN else 0

    def fail(self) -> None:
        """Let an operation fail."""
        plan = faults.Nth(
            self._chance.choice(faults.SHALLOW), self._chance.randint(1, 8), on=self._chance.random() < 0.5
        )
        disk = faults.Disk(plan)
        error = faults.outcome(lambda: self._delete(self.path, disk))
        self.tally.faults += faults.untold(error, plan)
        self.tally.figures.update({"operations failed": plan.hits, "errors told": error is not None})
        self.tally.figures["failures that left the run"] += self.look("after a failure")

    def look(self, when: str) -> bool:
        """Check what is there now; whether the run is."""
        now = rows_of(self.path)
        if (integrity := integrity_of(self.path)) != "ok":
            self.tally.faults.append(f"{when} SQLite says that its file is damaged: {integrity}")
        others = [name for name in self._rows if name != self.run_id and now.get(name) != self._rows[name]]
        if others or not set(now) <= set(self._rows):
            self.tally.faults.append(f"{when} the runs {others} are others, and there are {sorted(now)}")
        if now.get(self.run_id) not in (None, self._rows[self.run_id]):
            self.tally.faults.append(f"{when} a part of run `{self.run_id}` is gone")
        return self.run_id in now

    def look_at_end(self) -> None:
        """Delete the run for good, give its name to another one, and bring some of the others to their end."""
        is_there = self.run_id in rows_of(self.path)
        with contextlib.suppress(RunNotFound):
            self._delete(self.path, Layer())
        if self.look("at the end"):
            self.tally.faults.append(f"run `{self.run_id}` is still there")
        with contextlib.closing(apsw.Connection(str(self.path))) as connection:
            free = connection.pragma("freelist_count")
        if free and is_there:
            self.tally.faults.append(f"{free} pages were not given back")
        store = SQLiteStore(self.path)
        run_blocking(store.release(run_blocking(store.create(self.run_id, "g", _FIRST))))
        if run_blocking(store.read(self.run_id)) != _FIRST:
            self.tally.faults.append("a new run of that name has records of the old one")
        run_blocking(store.close())
        names = self._chance.sample([name for name in self._expected if name != self.run_id], LOOKED_AT)
        wrong = [name for name in names if golden.read(self.path, name) != self._expected[name]]
        self.tally.faults += [f"run `{name}` does not end as was noted" for name in wrong]
        self.tally.figures["runs brought to their end"] += len(names)

    def _delete(self, path: Path, disk: Layer) -> None:
        store = SQLiteStore(path, vfs=disk.name, busy_timeout=faults.BUSY_TIMEOUT)
        try:
            run_blocking(store.delete(self.run_id))
        finally:
            run_blocking(store.close())

    def _place(self) -> Path:
        place = self._folder / f"after-cut-{self._cuts}"
        place.mkdir()
        return place


_FIRST: Final = [Record(0, "started", b"{}")]


@functools.cache
def _stored() -> bytes:
    """The bytes of the store that all cases begin with."""
    with tempfile.TemporaryDirectory() as folder:
        path = golden.unpacked(golden.formats()[-1], Path(folder) / "runs.db")
        store = SQLiteStore(path)
        records = [Record(seq, "done", b'{"text":"%b"}' % (b"." * 5000)) for seq in range(600)]
        run_blocking(store.release(run_blocking(store.create(LARGE, "g", records))))
        run_blocking(store.close())
        return path.read_bytes()


def rows_of(path: Path) -> Rows:
    """By run, its line but for who holds it, and its records and snapshots, column by column."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        rows: Rows = {}
        for key, run_id, status, epoch in list(connection.execute("SELECT key, run_id, status, epoch FROM runs")):
            question = (
                "SELECT id, epoch, kind, data, sum FROM records WHERE run = ?1 "
                "UNION ALL SELECT id, 0, 'snapshot', data, sum FROM snapshots WHERE run = ?1 ORDER BY 3, 1"
            )
            rows[str(run_id)] = [(key, status, epoch), *connection.execute(question, (key,))]
        lost = connection.execute("SELECT count(*) FROM records WHERE run NOT IN (SELECT key FROM runs)").get
    return rows | ({"nobody": [(lost,)]} if lost else {})
