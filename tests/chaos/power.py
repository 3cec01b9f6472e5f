"""Power cuts, simulated: what was flushed stays, and of what was only written any part may be gone.

`Disk` keeps two things of each file: what it is known to hold (all that was written before its last flush), and what
was written since. The cut comes at one operation: from then on every operation fails, so the run ends. What is found
afterwards is made from what is known, and a random part of what was written since, in pieces of 512 bytes: each
sector of each write is kept or gone by itself, a cut of a file's length is kept or gone, and the operation at which the
power failed is one of these. What lies between kept pieces and was never written is zeros. A file whose name was not
flushed with its directory may be gone altogether, and one that was removed may be back.

What is not simulated: sectors that hold neither old nor new bytes, disks that lie about flushes, and the shared memory
of a file's processes, which a power cut always takes. The real files are given up at the cut, and a new folder is made
as the machine would find it.

With `durability="step"` nothing that was acknowledged may be lost. With `"fast"` and `"exit"` what is left must be the
beginning of what was written, whole and in order. In each case resuming ends the run as if nothing had happened.
A case is `NUMBER GRAPH DURABILITY`. In half of the cases the log is moved into the database again and again while the
run goes on, so that cuts hit that too; and resuming may be cut like the run before it. In one of four the store is
encrypted, with another key after each cut.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
import shutil
import threading
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import apsw

from flowagent import Context
from flowagent.core.loops import run_blocking
from flowagent.errors import StoreError
from flowagent.stores import SQLiteStore
from tests.chaos.audit import Audit
from tests.chaos.campaign import Tally
from tests.chaos.layer import Layer, Operation
from tests.kill.effects import Effects
from tests.kill.graphs import SUBJECTS
from tests.kill.inline import go_on, go_on_beside, resumed
from tests.kill.sealing import OFTEN, Keys, sealed

T = TypeVar("T")

SECTOR: Final = 512
AGAIN: Final = 0.3
"""How likely it is that the power fails once more while the run is resumed."""
Durability = Literal["step", "fast", "exit"]
DURABILITIES: Final[tuple[Durability, ...]] = ("step", "fast", "step", "exit")
COUNTED: Final = frozenset({"write", "truncate", "sync", "delete"})


@dataclass(slots=True)
class Image:
    """A file on a disk whose power may fail.

    Attributes:
        known: what it holds for sure.
        since: what was written since, in order: offset and bytes, or a new length and None.
        is_named: whether its name is in its directory for sure.
    """

    known: bytearray
    since: list[tuple[int, bytes | None]] = field(default_factory=list[tuple[int, bytes | None]])
    is_named: bool = True

    def flush(self) -> None:
        """Let all be known that was written."""
        for at, data in self.since:
            _apply(self.known, at, data)
        self.since.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        """What is found of it when the power is back."""
        found = bytearray(self.known)
        kept = chance.choice((0.1, 0.5, 0.9, 1.0))
        for at, data in self.since:
            if data is None:
                if chance.random() < kept:
                    _apply(found, at, None)
                continue
            ends = [*range(at + SECTOR - at % SECTOR, at + len(data), SECTOR), at + len(data)]
            for start, end in itertools.pairwise([at, *ends]):
                if chance.random() < kept:
                    _apply(found, start, data[start - at : end - at])
        return bytes(found)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
        return
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


class Disk(Layer):
    """A disk whose power fails at the n-th operation that changes it.

    Attributes:
        is_off: whether the power has failed.
        operations: how many there were.
        cut_at: the operation that it failed at.
    """

    def __init__(self, cut_at: int) -> None:
        super().__init__()
        self._cut_at = cut_at
        self._lock = threading.RLock()
        self._files: dict[str, Image] = {}
        self._removed: dict[str, Image] = {}
        self.operations = 0
        self.is_off = False
        self.cut_at: Operation | None = None

    def do(self, operation: Operation, go: Callable[..., T]) -> T:
        with self._lock:
            if self.is_off:
                raise apsw.IOError("injected: the power is off")
            if operation.kind == "open":
                return self._opened(operation.path, go)
            if operation.kind in COUNTED:
                self._note(operation)
            result = go()
            if self.is_off:
                raise apsw.IOError("injected: the power fails")
            self._flush(operation)
            return result

    def _opened(self, path: str, go: Callable[..., T]) -> T:
        file = Path(path)
        was_there = file.exists()
        result = go()
        if path not in self._files:
            # What is there when it is opened has been there since the power came: the folder is made for that.
            self._files[path] = Image(bytearray(file.read_bytes() if was_there else b""), is_named=was_there)
        return result

    def _note(self, operation: Operation) -> None:
        self.operations += 1
        image = self._files.get(operation.path)
        if operation.kind == "write" and image:
            image.since.append((operation.at, operation.data))
        elif operation.kind == "truncate" and image:
            image.since.append((operation.at, None))
        elif operation.kind == "delete" and image:
            self._removed[operation.path] = self._files.pop(operation.path)
        if self.operations == self._cut_at:
            self.is_off = True
            self.cut_at = operation

    def _flush(self, operation: Operation) -> None:
        image = self._files.get(operation.path)
        if operation.kind == "sync" and image:
            image.flush()
            if not image.is_named:  # SQLite flushes the directory with the first flush of a file that it made there.
                self._flush_names()
        elif operation.kind == "delete" and operation.at:
            self._flush_names()

    def _flush_names(self) -> None:
        self._removed.clear()
        for image in self._files.values():
            image.is_named = True

    def after_cut(self, folder: Path, chance: random.Random) -> None:
        """Put what is found when the power is back into another folder."""
        with self._lock:
            files, removed = copy.deepcopy((self._files, self._removed))
        for path, image in files.items():
            if image.is_named or chance.random() < 0.5:
                (folder / Path(path).name).write_bytes(image.after_cut(chance))
        for path, image in removed.items():
            if image.is_named and path not in files and chance.random() < 0.5:
                (folder / Path(path).name).write_bytes(image.after_cut(chance))


class Tidying(Effects):
    """Moves the log into the database at some calls, by a connection of its own.

    Attributes:
        is_at_it: whether it does so just now.
    """

    def __init__(self, path: Path, store: Path, disk: Disk, chance: random.Random) -> None:
        super().__init__(path, "", longest=0.0)
        self._store = store
        self._disk = disk
        self._chance = chance
        self.is_at_it = threading.Event()

    def leave(self, ctx: Context[Effects, Any], part: str) -> None:
        super().leave(ctx, part)
        if self._chance.random() < 0.4:
            self._tidy(self._chance.choice((apsw.SQLITE_CHECKPOINT_PASSIVE, apsw.SQLITE_CHECKPOINT_TRUNCATE)))

    def _tidy(self, mode: int) -> None:
        self.is_at_it.set()
        with contextlib.suppress(apsw.Error):  # The power fails, or somebody writes just now.
            connection = apsw.Connection(str(self._store), vfs=self._disk.name)
            with contextlib.closing(connection):
                connection.pragma("user_version")  # A connection that has read nothing yet knows of no log.
                connection.wal_checkpoint(mode=mode)
        if not self._disk.is_off:
            self.is_at_it.clear()


class Play:
    """Plays cases of this campaign.

    Args:
        seed: what is drawn follows from it.
        keeps: which durabilities must keep all that was acknowledged; others than "step" do not, as a test shows.
    """

    def __init__(self, seed: int, *, keeps: Container[str] = frozenset({"step"})) -> None:
        self._seed = seed
        self._keeps = keeps
        self._lengths: dict[tuple[str, str, bool], int] = {}

    def cases(self, rounds: int) -> Iterable[str]:
        """Graphs and durabilities by turns."""
        ways = itertools.cycle(itertools.product(DURABILITIES, SUBJECTS))
        numbered = zip(range(rounds), ways, strict=False)
        return (f"{number} {subject} {durability}" for number, (durability, subject) in numbered)

    def play(self, case: str, folder: Path) -> Tally:
        """Cut the power once or more, and resume until the run is over."""
        _, subject, durability = case.split()
        chance = random.Random(f"{self._seed} {case}")
        tidies = chance.random() < 0.5
        length = self._length(subject, durability, folder, tidies=tidies)
        tally = Tally()
        keys = Keys(chance, encrypted=chance.random() < OFTEN)
        machine = _Machine(subject, durability, folder, chance, tidies=tidies, keys=keys)
        audit = Audit(subject, machine.path, machine.effects, tally, keeps=durability in self._keeps, keys=keys.all)
        cut_at = chance.randint(1, length)
        while (disk := machine.go_on(cut_at)).is_off:
            written = audit.journal()
            machine.power_returns(disk)
            audit.path = machine.path
            lost = audit.look_after_loss(f"after cut {machine.cuts} at {_named(disk)}", written)
            tally.figures.update(
                {
                    "cuts": 1,
                    f"with {durability}": 1,
                    "in a checkpoint": machine.was_tidying,
                    "in an encrypted store": bool(keys.all),
                    "before the run was stored": not written.seen.records,
                    "that lost records never promised": lost > 0,
                }
            )
            cut_at = chance.randint(1, length) if chance.random() < AGAIN else 0
        audit.look_at_end("at the end")
        return tally

    def _length(self, subject: str, durability: str, folder: Path, *, tidies: bool) -> int:
        """How many operations such a run makes when nothing happens."""
        way = (subject, durability, tidies)
        if way not in self._lengths:
            place = folder / "undisturbed"
            place.mkdir()
            calm = random.Random(0)
            machine = _Machine(subject, durability, place, calm, tidies=tidies, keys=Keys(calm, encrypted=False))
            disk = machine.go_on(0)
            self._lengths[way] = disk.operations
        return self._lengths[way]


class _Machine:
    """A machine on which a run goes on until the power fails or it is over.

    Attributes:
        path: the database file; another one after each cut.
        effects: the file that nodes write to, which is on a disk without faults.
        cuts: how often the power failed.
        was_tidying: whether the last cut came while the log was moved into the database.
    """

    def __init__(
        self, subject: str, durability: str, folder: Path, chance: random.Random, *, tidies: bool, keys: Keys
    ) -> None:
        self._subject = subject
        self._durability = durability
        self._folder = folder
        self._chance = chance
        self._tidies = tidies
        self._keys = keys
        self.effects = folder / "effects"
        self.cuts = 0
        self.was_tidying = False
        self.path = self._place() / "runs.db"

    def _place(self) -> Path:
        place = self._folder / f"after-cut-{self.cuts}"
        place.mkdir()
        return place

    def go_on(self, cut_at: int) -> Disk:
        """Start or resume the run; the disk that it was on."""
        disk = Disk(cut_at)
        effects = Effects(self.effects, "", longest=0.0)
        if self._tidies:
            effects = Tidying(self.effects, self.path, disk, self._chance)
        store = SQLiteStore(self.path, vfs=disk.name)
        self._keys.rotate()
        go = self._chance.choice((go_on, go_on_beside)) if self.cuts == 0 else resumed
        with contextlib.suppress(StoreError):
            go(self._subject, sealed(store, self._keys.all), effects, durability=self._durability)
        run_blocking(store.close())
        self.was_tidying = isinstance(effects, Tidying) and effects.is_at_it.is_set()
        return disk

    def power_returns(self, disk: Disk) -> None:
        """Go on with what is on the disk now."""
        before = self.path.parent
        self.cuts += 1
        place = self._place()
        disk.after_cut(place, self._chance)
        self.path = place / "runs.db"
        shutil.rmtree(before)


def _named(disk: Disk) -> str:
    operation = disk.cut_at
    assert operation is not None
    return f"operation {disk.operations}, a {operation.kind} of the {operation.file}"
