"""Stores of an older format while they are brought to a newer one: the power fails, the disk does, processes race.

What is there of older formats are the golden stores; the newer format is made up here, and does what such steps do: a
column more, an index, a table copied into another one that takes its place. A case is `NUMBER HOW`:

    cut    the power fails at an operation of the first call, perhaps again when the next one tries
    fail   an operation of the first call fails, or it and all that come after it until that call has ended
    race   two to eight processes open the file at one word, and each brings a run of its own to its end

After each disturbance the file has the one format or the other, whole, with each record that it had. At the end it has
the newer one, and its runs end as it was noted when they were stored.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeVar

import apsw

from flowagent.core.loops import run_blocking
from flowagent.errors import StoreError
from flowagent.stores import SQLiteStore, sqlite_schema
from tests.chaos import faults
from tests.chaos.campaign import Tally
from tests.chaos.power import AGAIN, Disk
from tests.chaos.processes import Worker
from tests.fuzz import golden
from tests.fuzz.facts import Facts
from tests.kill.child import integrity_of

D = TypeVar("D", Disk, faults.Disk)

WAYS: Final = ("cut", "fail", "race")
LOOKED_AT: Final = 3
"""How many runs of the file are brought to their end in a case."""

STEPS: Final = (
    "ALTER TABLE runs ADD COLUMN label TEXT",
    "UPDATE runs SET label = upper(run_id)",
    "CREATE INDEX runs_by_label ON runs(label)",
    "ALTER TABLE records RENAME TO older",
    next(step for step in sqlite_schema.MIGRATIONS[1] if step.startswith("CREATE TABLE records(")),
    "INSERT INTO records(id, epoch, kind, data, sum) SELECT id, epoch, kind, data, sum FROM older",
    "DROP TABLE older",
)


@contextlib.contextmanager
def newer() -> Generator[int]:
    """A version of flowagent that knows one format more; its number."""
    version = sqlite_schema.newest() + 1
    sqlite_schema.MIGRATIONS[version] = STEPS
    try:
        yield version
    finally:
        del sqlite_schema.MIGRATIONS[version]


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """The ways by turns."""
        return (f"{number} {how}" for number, how in zip(range(rounds), itertools.cycle(WAYS), strict=False))

    def play(self, case: str, folder: Path) -> Tally:
        """Disturb an upgrade, and let another process do it."""
        _, how = case.split()
        old = Old(folder, random.Random(f"{self._seed} {case}"))
        with newer() as version:
            match how:
                case "cut":
                    old.cut()
                case "fail":
                    old.fail()
                case "race":
                    old.race()
                case _:
                    raise ValueError(f"no such case: {case!r}")
            old.look_at_end(version)
        return old.tally


class Old:
    """A store of an older format, and what became of it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._chance = chance
        self._folder = folder
        self._golden = chance.choice(golden.formats())
        self._names = chance.sample(list(golden.expected(self._golden)), LOOKED_AT)
        self._cuts = 0
        self.tally = Tally()
        self.path = golden.unpacked(self._golden, self._place() / "runs.db")
        self._format, self._rows = format_of(self.path), rows_of(self.path)

    def cut(self) -> None:
        """Let the power fail until an upgrade comes through."""
        calm = golden.unpacked(self._golden, self._folder / "calm.db")
        operations = self._opened(calm, Disk(0)).operations
        cut_at = self._chance.randint(1, operations)
        while (disk := self._opened(self.path, Disk(cut_at))).is_off:
            self._cuts += 1
            place = self._place()
            disk.after_cut(place, self._chance)
            self.path = place / "runs.db"
            self.tally.figures.update({"cuts": 1, "cuts that left the older format": self.look("after a cut")})
            cut_at = self._chance.randint(1, operations) if self._chance.random() < AGAIN else 0

    def fail(self) -> None:
        """Let an operation fail."""
        plan = faults.Nth(
            self._chance.choice(faults.SHALLOW), self._chance.randint(1, 20), on=self._chance.random() < 0.5
        )
        disk = faults.Disk(plan)
        error = faults.outcome(lambda: self._opened(self.path, disk))
        self.tally.faults += faults.untold(error, plan)
        self.tally.figures.update({"operations failed": plan.hits, "errors told": error is not None})
        self.tally.figures["failures that left the older format"] += self.look("after a failure")

    def race(self) -> None:
        """Have processes upgrade it at once."""
        names = self._chance.sample(list(golden.expected(self._golden)), self._chance.randint(2, 8))
        with ExitStack() as stack:
            workers = {name: stack.enter_context(Worker(upgrade, self.path, name)) for name in names}
            for worker in workers.values():
                worker.hear()
                worker.tell("go")
            told: dict[str, Facts] = {name: worker.hear() for name, worker in workers.items()}
        self.tally.figures.update({"races": 1, "processes": len(names)})
        self._compare(told)
        self._names = [name for name in self._names if name not in names]

    def look_at_end(self, version: int) -> None:
        """Bring some of its runs to their end; the file is of the newer format then."""
        self._compare({name: golden.read(self.path, name) for name in self._names})
        self.tally.figures["runs brought to their end"] += len(self._names)
        found = format_of(self.path), integrity_of(self.path)
        if self._names and found != (version, "ok"):
            self.tally.faults.append(f"at the end the format is {found[0]}; integrity: {found[1]}")

    def _compare(self, told: dict[str, Facts]) -> None:
        expected = golden.expected(self._golden)
        wrong = [name for name, facts in told.items() if facts != expected[name]]
        self.tally.faults += [f"`{name}` is {told[name]}, not {expected[name]}" for name in wrong]

    def _opened(self, path: Path, disk: D) -> D:
        """Open a file, which brings it to the newest format, by reading or by taking a run."""
        store = SQLiteStore(path, vfs=disk.name, busy_timeout=faults.BUSY_TIMEOUT)
        try:
            if self._chance.random() < 0.5:
                run_blocking(store.info(self._names[0]))
            else:
                run_blocking(store.read(self._names[0]))
        except StoreError:
            if not isinstance(disk, Disk):
                raise
        finally:
            run_blocking(store.close())
        return disk

    def look(self, when: str) -> bool:
        """Check what is there now; whether it has the older format still."""
        now, integrity = format_of(self.path), integrity_of(self.path)
        if now not in (self._format, sqlite_schema.newest()) or integrity != "ok":
            self.tally.faults.append(f"{when} the format is {now}; integrity: {integrity}")
        tables = tables_of(self.path)
        if ("runs_by_label" in tables) != (now != self._format) or "older" in tables:
            self.tally.faults.append(f"{when} format {now} has the tables {sorted(tables)}")
        if rows_of(self.path) != self._rows:
            self.tally.faults.append(f"{when} records are others")
        return now == self._format

    def _place(self) -> Path:
        place = self._folder / f"after-cut-{self._cuts}"
        place.mkdir()
        return place


def upgrade(pipe: Connection, path: Path, name: str) -> Facts:
    """Bring a run of an older store to its end, in a process that knows the newer format."""
    with newer():
        pipe.send("here")
        pipe.recv()
        return golden.read(path, name)


def format_of(path: Path) -> int:
    """The format that a file says it has."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        return sqlite_schema.stored(connection)


def tables_of(path: Path) -> set[str]:
    """The tables and indexes of a file."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        return {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


def rows_of(path: Path) -> list[tuple[object, ...]]:
    """The records of all runs, column by column."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        return list(connection.execute("SELECT id, epoch, kind, data, sum FROM records ORDER BY id"))
