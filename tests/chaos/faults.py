"""A disk on which the n-th operation fails, for every n, and storms in which each may fail.

A case sweeps: `router write full once` runs the graph `router` again and again, and the n-th write finds the disk
full, for n = 1, 2, 3, ... until a run goes through without reaching its n-th write. `on` instead of `once`: it and all
after it fail until the call has ended. `router storm 12`: each operation of any kind fails with some probability.

After each run the disk is well again. Then what was acknowledged must be there, and resuming must end the run as if
nothing had happened; by turns with the same store object or with another, as in a process that started anew. One run in
four is encrypted, and resumed with a new key.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from flowagent.core.loops import run_blocking
from flowagent.errors import StoreError
from flowagent.stores import SQLiteStore
from tests.chaos import memory
from tests.chaos.audit import Audit, reference_of
from tests.chaos.campaign import Tally
from tests.chaos.layer import Kind, Layer, Operation
from tests.kill.effects import Effects
from tests.kill.graphs import SUBJECTS
from tests.kill.inline import go_on, go_on_beside, resumed
from tests.kill.sealing import OFTEN, Keys, sealed

T = TypeVar("T")

BUSY_TIMEOUT: Final = 0.2
PATIENCE: Final = 60.0
"""After so many seconds a call is said to hang. Much more than the busy timeout, as the machine may be busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A way to fail.

    Args:
        kind: the operation that fails, or the call on shared memory.
        fail: what happens instead of the operation; raises SQLite's error.
        number: for a call on shared memory, the error number.
        told: what the errors must say, one of these, so that a reader knows what to do.
    """

    kind: Kind | memory.Call
    fail: Callable[[Operation, Callable[..., Any]], Any] = lambda operation, go: go()
    number: int = 0
    told: tuple[str, ...] = ("check the disk and its free space",)


def _io(code: int) -> apsw.Error:
    error = apsw.IOError("injected: the disk does not answer")
    # As apsw has it: what a file layer raises may say more than its class does.
    setattr(error, "extendedresult", code)  # noqa: B010
    return error


def _raising(make: Callable[[], apsw.Error]) -> Callable[[Operation, Callable[..., Any]], Any]:
    def fail(operation: Operation, go: Callable[..., Any]) -> Any:
        raise make()

    return fail


def _short(operation: Operation, go: Callable[..., Any]) -> Any:
    go(operation.data[: len(operation.data) // 2])
    raise apsw.FullError("injected: no space left, half of it was written")


def _late(operation: Operation, go: Callable[..., Any]) -> Any:
    go()
    raise _io(apsw.SQLITE_IOERR_FSYNC)


_FULL: Final = ("free some space",)
_LOCKED: Final = ("raise busy_timeout=",)
_OPEN: Final = ("must be writable", *_LOCKED, "check the disk")

FAULTS: Final[dict[str, Fault]] = {
    "write eio": Fault(kind="write", fail=_raising(lambda: _io(apsw.SQLITE_IOERR_WRITE))),
    "write full": Fault(kind="write", fail=_raising(lambda: apsw.FullError("injected: no space left")), told=_FULL),
    "write short": Fault(kind="write", fail=_short, told=_FULL),
    "sync eio": Fault(kind="sync", fail=_raising(lambda: _io(apsw.SQLITE_IOERR_FSYNC))),
    "sync late": Fault(kind="sync", fail=_late),
    "truncate eio": Fault(kind="truncate", fail=_raising(lambda: _io(apsw.SQLITE_IOERR_TRUNCATE))),
    "read eio": Fault(kind="read", fail=_raising(lambda: _io(apsw.SQLITE_IOERR_READ))),
    "size eio": Fault(kind="size", fail=_raising(lambda: _io(apsw.SQLITE_IOERR_FSTAT))),
    "delete eio": Fault(kind="delete", fail=_raising(lambda: _io(apsw.SQLITE_IOERR_DELETE))),
    "open no": Fault(kind="open", fail=_raising(lambda: apsw.CantOpenError("injected: cannot open")), told=_OPEN),
    "lock busy": Fault(kind="lock", fail=_raising(lambda: apsw.BusyError("injected: locked")), told=_LOCKED),
    "lock eio": Fault(kind="lock", fail=_raising(lambda: _io(apsw.SQLITE_IOERR_LOCK))),
    "shm busy": Fault(kind="fcntl", number=memory.BUSY, told=_LOCKED),
    "map eio": Fault(kind="mmap", number=memory.BROKEN),
    "map memory": Fault(kind="mmap", number=memory.NO_MEMORY, told=("check the disk", "free some memory")),
}
SLOW: Final = {("on", "shm busy")}
"""SQLite tries for ten seconds before it gives up on the locks of its index; it does so the same each time."""
DEEP: Final = frozenset({"fcntl", "mmap"})


def possible() -> list[str]:
    """The faults that can be had on this system."""
    return [name for name, fault in FAULTS.items() if memory.AVAILABLE or fault.kind not in DEEP]


SHALLOW: Final = [name for name in possible() if FAULTS[name].kind not in DEEP]
"""Those of the disk, without those of shared memory."""


class Plan:
    """Decides which operations fail. May be asked from any thread.

    Attributes:
        is_deep: whether it is shared memory that fails, and not the disk.
        hits: how many have.
        kinds: which faults they were hit by.
    """

    is_deep: bool = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.hits = 0
        self.kinds: set[str] = set()

    def fault_for(self, kind: Kind | memory.Call) -> Fault | None:
        """What happens to the next operation of that kind, if anything."""
        with self._lock:
            name = self.chosen(kind)
            if name is None:
                return None
            self.hits += 1
            self.kinds.add(name)
        return FAULTS[name]

    def chosen(self, kind: Kind | memory.Call) -> str | None:
        """The name of the fault; overridden."""
        return None


class Nth(Plan):
    """The n-th operation fails, or it and all that come after."""

    def __init__(self, name: str, number: int, *, on: bool) -> None:
        super().__init__()
        self._name = name
        self._number = number
        self._on = on
        self.is_deep = FAULTS[name].kind in DEEP
        self._seen = 0

    def chosen(self, kind: Kind | memory.Call) -> str | None:
        if kind != FAULTS[self._name].kind:
            return None
        self._seen += 1
        return self._name if self._seen == self._number or (self._on and self._seen > self._number) else None


class Storm(Plan):
    """Each operation fails with some probability."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._likely = chance.choice((0.003, 0.01, 0.03, 0.1))
        self.is_deep = memory.AVAILABLE and chance.random() < 0.25

    def chosen(self, kind: Kind | memory.Call) -> str | None:
        if self._chance.random() > self._likely:
            return None
        return self._chance.choice([name for name, fault in FAULTS.items() if fault.kind == kind])


class Disk(Layer):
    """A disk on which what a plan says fails.

    Attributes:
        plan: None makes it a good disk.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan: Plan | None = plan

    def do(self, operation: Operation, go: Callable[..., T]) -> T:
        fault = self.plan.fault_for(operation.kind) if self.plan else None
        return go() if fault is None else fault.fail(operation, go)

    def refuses(self, call: memory.Call) -> int:
        """The error number for a call on shared memory."""
        fault = self.plan.fault_for(call) if self.plan else None
        return 0 if fault is None else fault.number


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """Sweeps and storms by turns; the sweeps, each graph with each fault, in an order that the seed decides."""
        chance = random.Random(self._seed)
        ways = [way for way in itertools.product(("once", "on"), possible(), SUBJECTS) if way[:2] not in SLOW]
        sweeps = [f"{subject} {name} {way}" for way, name, subject in chance.sample(ways, len(ways))]
        for number in range(rounds):
            if number % 2 == 0 and number // 2 < len(sweeps):
                yield sweeps[number // 2]
            else:
                yield f"{chance.choice(list(SUBJECTS))} storm {number}"

    def play(self, case: str, folder: Path) -> Tally:
        """Sweep, or storm; a sweep whose name ends in a number plays that one alone."""
        tally = Tally()
        match case.split():
            case [subject, "storm", _]:
                _one(subject, Storm(random.Random(f"{self._seed} {case}")), folder, tally, random.Random(case))
            case [subject, operation, what, way, *only]:
                numbers = [int(number) for number in only] or itertools.count(1)
                for number in numbers:
                    plan = Nth(f"{operation} {what}", number, on=way == "on")
                    chance = random.Random(f"{self._seed} {case} {number}")
                    before = len(tally.faults)
                    _one(subject, plan, folder / str(number), tally, chance)
                    tally.faults[before:] = [f"number {number}: {fault}" for fault in tally.faults[before:]]
                    if plan.hits == 0:
                        break
            case _:
                raise ValueError(f"no such case: {case!r}")
        return tally


def _one(subject: str, plan: Plan, folder: Path, tally: Tally, chance: random.Random) -> None:
    """Run a graph on a bad disk, and go on with it on a good one."""
    reference_of(subject)
    folder.mkdir(parents=True, exist_ok=True)
    disk = Disk(plan)
    path = folder / "runs.db"
    store = SQLiteStore(path, vfs=None if plan.is_deep else disk.name, busy_timeout=BUSY_TIMEOUT)
    effects = Effects(folder / "effects", "", longest=0.0)
    keys = Keys(chance, encrypted=chance.random() < OFTEN)
    audit = Audit(subject, path, folder / "effects", tally, keys=keys.all)
    start = chance.choice((go_on, go_on_beside))
    began = time.monotonic()
    with ExitStack() as stack:
        if plan.is_deep:
            stack.enter_context(memory.failing(path, disk.refuses))
        error = outcome(lambda: start(subject, sealed(store, keys.all), effects))
        if chance.random() < 0.5:
            # The disk is still bad while the store is closed, which never raises.
            tally.faults += [
                f"closing: {wrong}" for wrong in untold(outcome(lambda: run_blocking(store.close())), plan)
            ]
    disk.plan = None
    tally.figures.update(
        {"runs": 1, "encrypted": bool(keys.all), "operations failed": plan.hits, "errors told": error is not None}
    )
    tally.figures["most ms in a call"] = max(tally.figures["most ms in a call"], int((time.monotonic() - began) * 1000))
    tally.faults += untold(error, plan)
    if chance.random() < 0.5:
        run_blocking(store.close())
        store = SQLiteStore(path)
    keys.rotate()
    audit.look("after the faults")
    again = outcome(lambda: resumed(subject, sealed(store, keys.all), effects))
    if again is not None:
        tally.faults.append(f"on a good disk again, resume says {again!r}")
    run_blocking(store.close())
    audit.look_at_end("at the end")


def untold(error: BaseException | None, plan: Plan) -> list[str]:
    """What is wrong with an error: it must be a `StoreError` that says what to do about what happened."""
    if error is None:
        return []
    if type(error) is not StoreError:
        return [f"the error is {error!r}"]
    remedies = {remedy for kind in plan.kinds for remedy in FAULTS[kind].told}
    if not any(remedy in str(error) for remedy in remedies):
        return [f"after {sorted(plan.kinds)} the error does not say {sorted(remedies)}: {error}"]
    return []


def outcome(call: Callable[[], object]) -> BaseException | None:
    """How a call ends; of an error a copy without what it refers to, for its tracebacks would keep leases alive."""
    ended: list[BaseException | None] = []

    def body() -> None:
        try:
            call()
            ended.append(None)
        except StoreError as error:
            ended.append(StoreError(str(error)))
        except BaseException as error:
            ended.append(AssertionError("".join(traceback.format_exception(error))))

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return ended[0] if ended else TimeoutError(f"it still hangs after {PATIENCE:g} s")
