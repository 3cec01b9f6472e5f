"""The life of one run: processes advance it one after the other, and after each its store is held to its promises."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from flowagent import Limits, Run
from flowagent.core import loops
from flowagent.core.ids import path_of
from flowagent.core.loops import run_blocking
from flowagent.core.policies import Durability, OnFailure
from flowagent.core.records import Record
from flowagent.errors import AnswerError, RunConflict, RunFailed, RunNotFound, StoreError
from flowagent.stores import MemoryStore, Store
from tests.kill.checks import Journal, Reference, journal_of
from tests.kill.child import Seen
from tests.kill.effects import Subject
from tests.simulation.alone import Told, hear
from tests.simulation.hands import FOR_THREAD
from tests.simulation.loop import Clock, Crash, Deadlock, Livelock, Order
from tests.simulation.store import CALM, FaultyStore, Ledger, Weather
from tests.simulation.trouble import NOTHING, Trouble, cancelled_at, strike
from tests.simulation.witness import Witness
from tests.simulation.world import simulated

T = TypeVar("T")

RUN: Final = "r-1"
LONGEST: Final = 120
"""Generated graphs of more steps are left out."""


@dataclass(slots=True)
class Tally:
    """What came of some cases.

    Attributes:
        trace: what happened, told by a hash; the same for the same seed.
    """

    cases: int = 0
    processes: int = 0
    troubles: Counter[str] = field(default_factory=Counter[str])
    steps: int = 0
    calls: int = 0
    repeated: int = 0
    seconds: float = 0.0
    awaits: int = 0
    trace: str = ""
    faults: list[str] = field(default_factory=list[str])

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one process goes about it.

    Args:
        order: the order in which callbacks run.
        own_loop: whether the loop is flowagent's own, as it is for sync callers.
        on_failure: see `Graph.run`.
        durability: see `Graph.run`.
        weather: what the store does.
        trouble: what happens to the process.
    """

    order: Order = "asked"
    own_loop: bool = False
    on_failure: OnFailure = "finish"
    durability: Durability = "step"
    weather: Weather = CALM
    trouble: Trouble = NOTHING


class Life:
    """What outlives the processes: the store, the time, what was called and what was promised.

    Args:
        subject: the graph.
        inner: the store.
        chance: draws everything.
        reference: the undisturbed run, once there is one.
    """

    def __init__(self, subject: Subject, inner: Store, chance: random.Random, reference: Reference | None) -> None:
        self.subject = subject
        self.inner = inner
        self.chance = chance
        self.clock = Clock()
        self.ledger = Ledger()
        once = frozenset() if reference is None else reference.once
        self.witness = Witness(self.ledger, str(chance.random()), _needed_by(reference), once)
        self.tally = Tally(cases=1)
        self._trace = hashlib.blake2b(digest_size=8)
        self._reference = reference

    # -- one process -----------------------------------------------------------------------------------------------

    def process(self, options: Options) -> bool:
        """Whether the run is over after a process has advanced it."""
        self.tally.processes += 1
        self.tally.troubles[options.trouble.kind] += 1
        log: list[int] = []
        stores: list[FaultyStore] = []
        self.witness.is_ahead = options.durability != "exit"
        with simulated(self.clock, self.chance, options.order) as loop:
            work = self._advance(options, log, stores)
            if options.trouble.kind not in ("crash", "cancel twice"):
                loop.set_exception_handler(self._complain)
            call = loop.create_task(work)
            strike(options.trouble, loop, call)
            try:
                loop.run_until_complete(call)
            except (StoreError, RunConflict, RunFailed, AnswerError, asyncio.CancelledError, Crash) as error:
                self._excuse(error, options)
            except (Deadlock, Livelock) as error:
                self.ledger.faults.append(f"{options}: {error}")
            except Exception as error:
                self.ledger.faults.append(f"{options}: {type(error).__name__}: {error}")
            loop.before_step = lambda _: None
            left = [task for task in asyncio.all_tasks(loop) if not task.done() and task.get_name() != FOR_THREAD]
            if left and options.trouble.kind not in ("crash", "cancel twice"):
                self.ledger.faults.append(f"{options}: left running: {left}")
            for store in stores:
                store.is_dead = True
            self.tally.steps += loop.steps
        self.tally.awaits += len(log)
        return self._look(options, stores, died=bool(left))

    def _complain(self, _: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        """What asyncio would log: something was left behind, or failed where nobody looks."""
        self.ledger.faults.append(f"asyncio complains: {about}")

    def _excuse(self, error: BaseException, options: Options) -> None:
        """Errors that must have had a reason."""
        weather, kind = options.weather, options.trouble.kind
        if isinstance(error, StoreError) and not weather.failing:
            self.ledger.faults.append(f"{options}: no reason for {error!r}")
        if isinstance(error, RunConflict) and not (weather.taken or weather.held or kind in ("rival", "ask to cancel")):
            self.ledger.faults.append(f"{options}: no reason for {error!r}")
        if isinstance(error, AnswerError) and not (kind == "rival" or weather.taken):
            self.ledger.faults.append(f"{options}: no reason for {error!r}")
        if isinstance(error, asyncio.CancelledError) and not kind.startswith("cancel"):
            self.ledger.faults.append(f"{options}: no reason for {error!r}")

    async def _advance(self, options: Options, log: list[int], stores: list[FaultyStore]) -> None:
        loops.own_loop.set(options.own_loop)
        trouble = options.trouble
        beside: list[asyncio.Task[Any]] = []
        if trouble.kind in ("rival", "ask to cancel"):
            rival = self._rival(options, stores)
            beside.append(asyncio.get_running_loop().create_task(rival))
        try:
            await cancelled_at(trouble, self._call(options, self._store(options, stores)), log)
        finally:
            if beside:
                await asyncio.wait(beside)

    async def _rival(self, options: Options, stores: list[FaultyStore]) -> None:
        await asyncio.sleep(options.trouble.after)
        store = self._store(options, stores)
        with contextlib.suppress(StoreError, RunConflict, RunFailed, AnswerError, RunNotFound):
            if options.trouble.kind == "ask to cancel":
                since = max((seq for seq, _ in self._ends()), default=0)
                run = await self.subject.graph.cancel(RUN, store=store)
                # Somebody may have gone on with it since.
                ends = {run.status} | {status for seq, status in self._ends() if seq >= since}
                if not ends & {"completed", "cancelled"}:
                    self.ledger.faults.append(f"{options}: a run was cancelled, and is {run.status}")
            else:
                await self._call(options, store)

    def _ends(self) -> list[tuple[int, str]]:
        """What was acknowledged of calls that ended: number and status."""
        return [
            (seq, json.loads(record.data)["status"])
            for seq, record in self.ledger.acknowledged.items()
            if record.kind == "ended"
        ]

    def _store(self, options: Options, stores: list[FaultyStore]) -> FaultyStore:
        stores.append(FaultyStore(self.inner, self.ledger, self.chance, options.weather))
        return stores[-1]

    async def _call(self, options: Options, store: Store) -> None:
        """Start the run or go on with it, and answer what it asks."""
        graph, trouble = self.subject.graph, options.trouble
        seconds = 0.001 + trouble.after if trouble.kind == "limit" else None
        given: dict[str, Any] = {"store": store, "deps": self.witness}
        if isinstance(self.subject, Told):
            given["listeners"] = [functools.partial(hear, deps=self.witness)]
        given |= {"on_failure": options.on_failure, "durability": options.durability}
        given["limits"] = Limits(steps=None if self._reference else LONGEST, seconds=seconds)
        try:
            run = await graph.load(RUN, store=store)
        except RunNotFound:
            run = None
        while True:
            self.witness.begun = None if trouble.kind == "rival" else set()
            answers = {} if run is None else self.subject.answers_to(run, self.witness)
            if trouble.kind == "leave":
                if not await self._watch(run, answers, trouble.at, given):
                    return
                run = await graph.load(RUN, store=store)
            elif run is None:
                run = await graph.run(self.subject.input, run_id=RUN, **given)
            else:
                run = await graph.resume(RUN, answers=answers, **given)
            if run.status != "waiting":
                return

    async def _watch(self, run: Run[Any] | None, answers: dict[str, Any], most: int, given: dict[str, Any]) -> bool:
        """Watch the events of a run, and leave after some; whether it came to its end before."""
        graph = self.subject.graph
        stream = (
            graph.stream(self.subject.input, run_id=RUN, **given)
            if run is None
            else graph.stream_resume(RUN, answers=answers, **given)
        )
        async with stream as events:
            async for event in events:
                if event.number == most:
                    return False
        return True

    def status(self) -> str:
        """Where the stored run stands."""
        return self._now(self.inner.info(RUN)).status

    def _now(self, work: Coroutine[Any, Any, T]) -> T:
        """What the store says outside of any process; one in memory never suspends, which saves a loop."""
        if not isinstance(self.inner, MemoryStore):
            return run_blocking(work)
        try:
            work.send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("a store in memory has suspended")

    # -- between processes -----------------------------------------------------------------------------------------

    def _look(self, options: Options, stores: Sequence[FaultyStore], *, died: bool) -> bool:
        """Hold the store against what it has promised; whether the run is over."""
        for store in stores:
            if store.lease is not None and (died or store.failed_release):
                self._now(self.inner.release(store.lease))
        try:
            info = self._now(self.inner.info(RUN))
        except RunNotFound:
            if self.ledger.acknowledged:
                self.ledger.faults.append("the run is lost")
            return False
        if info.status == "running":
            self.ledger.faults.append(f"{options}: the run is still held")
            gc.collect()
        records = self._now(self.inner.read(RUN))
        self.ledger.adopt(records)
        if info.next_seq != len(records):
            self.ledger.faults.append(f"the next number is {info.next_seq} after {len(records)} records")
        if info.status != "completed" and records[-1].kind == "ended" and b'"completed"' in records[-1].data:
            self.ledger.faults.append(f"{options}: the run is {info.status} after {records[-1]}")
        run = self._now(self.subject.graph.load(RUN, store=self.inner))
        if (run.status == "waiting" and not run.questions) or (run.status == "failed" and not run.errors):
            self.ledger.faults.append(f"{options}: the run is {run.status}, and has neither questions nor errors")
        return info.status == "completed"

    # -- the end ---------------------------------------------------------------------------------------------------

    def finished(self) -> tuple[Run[Any], Journal]:
        """The run as it is in the end; calling it again changes nothing and calls nothing."""
        graph = self.subject.graph
        records = self._now(self.inner.read(RUN))
        calls = len(self.witness.calls)
        for again in (
            graph.run_sync(self.subject.input, run_id=RUN, store=self.inner, deps=self.witness),
            graph.resume_sync(RUN, store=self.inner, deps=self.witness),
        ):
            if not again.replayed or again.status != "completed":
                self.ledger.faults.append(f"a completed run, called again, is {again}")
        if self._now(self.inner.read(RUN)) != records or len(self.witness.calls) != calls:
            self.ledger.faults.append("a completed run, called again, has done something")
        run = graph.load_sync(RUN, store=self.inner)
        if run.state_at(len(records) - 1) != run.state:
            self.ledger.faults.append("the state of the snapshot is not the fold of the records")
        return run, _journal(records)

    def told(self) -> Tally:
        """What came of it."""
        tally = self.tally
        tally.calls = len(self.witness.calls)
        tally.repeated = tally.calls - len(set(self.witness.calls))
        tally.faults = self.ledger.faults
        records = self._now(self.inner.read(RUN)) if self.ledger.acknowledged else []
        shape = [
            (record.kind, json.loads(record.data).get("task"), json.loads(record.data)["at"]) for record in records
        ]
        self._trace.update(repr((shape, self.witness.calls, self.clock.now, tally.steps)).encode())
        tally.trace = self._trace.hexdigest()
        return tally


def _nothing(_: str) -> frozenset[str]:
    return frozenset()


def _needed_by(reference: Reference | None) -> Callable[[str], frozenset[str]]:
    """What must be acknowledged before a call; routers may be asked before the node ahead of them is."""
    if reference is None:
        return _nothing
    needs = reference.journal.needs
    routers = {task for task, node in _nodes(reference.journal) if node in reference.routers}
    passed = routers | _without_code(reference.journal)

    def before(task: str) -> frozenset[str]:
        # What failed for good has no commit to say what it follows from, and an item has its map's.
        return needs.get(task, needs.get(task.rpartition("[")[0], frozenset()))

    def needed_by(call: str) -> frozenset[str]:
        task = call.partition("#")[0]
        return ahead_of(task) if task in routers else before(task)

    @functools.cache
    def ahead_of(router: str) -> frozenset[str]:
        # Their records share a transaction with that of the node ahead, and with whatever calls nobody's code between:
        # the beginning and the end of a nested graph or a map, and gates that pass an answer on.
        found: set[str] = set()
        for name in before(router):
            one = name.removesuffix("/START")
            found |= {one} if one == "START" else ahead_of(one) if one in passed else before(one)
        return frozenset(found)

    return needed_by


def _without_code(journal: Journal) -> set[str]:
    """The tasks of gates, maps and nested graphs: the engine does them itself."""
    found: set[str] = set()
    for _, kind, text in journal.seen.records:
        data = json.loads(text)
        if kind == "opened" or (kind == "asked" and not data["name"] and data["purpose"] == "ask"):
            found.add(data["task"])
        elif kind in ("done", "item") and data["task"].endswith("]"):
            found.add(data["task"].rpartition("[")[0])
    return found


def _nodes(journal: Journal) -> Iterable[tuple[str, str]]:
    for _, kind, text in journal.seen.records:
        if kind in ("done", "failed"):
            data = json.loads(text)
            yield data["task"], path_of(data["task"])[-1]


def _journal(records: Sequence[Record]) -> Journal:
    return journal_of(Seen(records=[(record.seq, record.kind, record.data.decode()) for record in records]))
