"""One simulated run: processes with all kinds of trouble advance it, one after the other, until it is over."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import json
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from flowagent import Limits, Run
from flowagent.core import loops
from flowagent.core.loops import run_blocking
from flowagent.core.policies import OnFailure
from flowagent.core.records import Record
from flowagent.errors import AnswerError, RunConflict, RunFailed, RunNotFound, StoreError
from flowagent.stores import MemoryStore, SQLiteStore, Store
from tests.kill.checks import Journal, Reference, journal_of
from tests.kill.child import Seen
from tests.kill.effects import Subject, routers_of
from tests.kill.graphs import SUBJECTS
from tests.simulation.generated import generated
from tests.simulation.loop import Clock, Crash, Deadlock, Order
from tests.simulation.store import CALM, FaultyStore, Ledger, Weather
from tests.simulation.trouble import NOTHING, Trouble, cancelled_at, drawn, strike
from tests.simulation.witness import Witness
from tests.simulation.world import simulated

RUN: Final = "r-1"
TROUBLED: Final = 6
"""So many processes at most have trouble; those after them have none."""
MOST: Final = 40
"""So many processes must be enough."""
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
        weather: what the store does.
        trouble: what happens to the process.
    """

    order: Order = "asked"
    own_loop: bool = False
    on_failure: OnFailure = "finish"
    weather: Weather = CALM
    trouble: Trouble = NOTHING


class World:
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
        with simulated(self.clock, self.chance, options.order) as loop:
            work = self._advance(options, log, stores)
            call = loop.create_task(work)
            strike(options.trouble, loop, call)
            try:
                loop.run_until_complete(call)
            except (StoreError, RunConflict, RunFailed, AnswerError, asyncio.CancelledError, Crash) as error:
                self._excuse(error, options)
            except Deadlock as error:
                self.ledger.faults.append(f"{options}: {error}")
            except Exception as error:
                self.ledger.faults.append(f"{options}: {type(error).__name__}: {error}")
            loop.before_step = lambda _: None
            left = [task for task in asyncio.all_tasks(loop) if not task.done()]
            if left and options.trouble.kind not in ("crash", "cancel twice"):
                self.ledger.faults.append(f"{options}: left running: {left}")
            for store in stores:
                store.is_dead = True
            self.tally.steps += loop.steps
        self.tally.awaits += len(log)
        return self._look(options, stores, died=bool(left))

    def _excuse(self, error: BaseException, options: Options) -> None:
        """Errors that must have had a reason."""
        weather, kind = options.weather, options.trouble.kind
        if isinstance(error, StoreError) and not weather.failing:
            self.ledger.faults.append(f"{options}: no reason for {error!r}")
        if isinstance(error, RunConflict) and not (weather.taken or weather.held or kind == "rival"):
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
                await self.subject.graph.cancel(RUN, store=store)
            else:
                await self._call(options, store)

    def _store(self, options: Options, stores: list[FaultyStore]) -> FaultyStore:
        stores.append(FaultyStore(self.inner, self.ledger, self.chance, options.weather))
        return stores[-1]

    async def _call(self, options: Options, store: Store) -> None:
        """Start the run or go on with it, and answer what it asks."""
        graph, trouble = self.subject.graph, options.trouble
        seconds = 0.001 + trouble.after if trouble.kind == "limit" else None
        given: dict[str, Any] = {"store": store, "deps": self.witness, "on_failure": options.on_failure}
        given["limits"] = Limits(steps=None if self._reference else LONGEST, seconds=seconds)
        try:
            run = await graph.load(RUN, store=store)
        except RunNotFound:
            run = None
        while run is None or run.status not in ("completed", "limit"):
            answers = {} if run is None else self.subject.answers_to(run, self.witness)
            if trouble.kind == "leave":
                if not await self._watch(run, answers, trouble.at, given):
                    return
                run = await graph.load(RUN, store=store)
            elif run is None:
                run = await graph.run(self.subject.input, run_id=RUN, **given)
            else:
                run = await graph.resume(RUN, answers=answers, **given)
            if run.status == "cancelled":
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

    # -- between processes -----------------------------------------------------------------------------------------

    def _look(self, options: Options, stores: Sequence[FaultyStore], *, died: bool) -> bool:
        """Hold the store against what it has promised; whether the run is over."""
        for store in stores:
            if store.lease is not None and (died or store.failed_release):
                run_blocking(self.inner.release(store.lease))
        try:
            info = run_blocking(self.inner.info(RUN))
        except RunNotFound:
            if self.ledger.acknowledged:
                self.ledger.faults.append("the run is lost")
            return False
        if info.status == "running":
            self.ledger.faults.append(f"{options}: the run is still held")
            gc.collect()
        records = run_blocking(self.inner.read(RUN))
        self.ledger.check(records)
        if info.next_seq != len(records):
            self.ledger.faults.append(f"the next number is {info.next_seq} after {len(records)} records")
        if info.status != "completed" and records[-1].kind == "ended" and b'"completed"' in records[-1].data:
            self.ledger.faults.append(f"{options}: the run is {info.status} after {records[-1]}")
        return info.status == "completed"

    # -- the end ---------------------------------------------------------------------------------------------------

    def finished(self) -> tuple[Run[Any], Journal]:
        """The run as it is in the end; calling it again changes nothing and calls nothing."""
        graph = self.subject.graph
        records = run_blocking(self.inner.read(RUN))
        calls = len(self.witness.calls)
        for again in (
            graph.run_sync(self.subject.input, run_id=RUN, store=self.inner, deps=self.witness),
            graph.resume_sync(RUN, store=self.inner, deps=self.witness),
        ):
            if not again.replayed or again.status != "completed":
                self.ledger.faults.append(f"a completed run, called again, is {again}")
        if run_blocking(self.inner.read(RUN)) != records or len(self.witness.calls) != calls:
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
        records = run_blocking(self.inner.read(RUN)) if self.ledger.acknowledged else []
        shape = [
            (record.kind, json.loads(record.data).get("task"), json.loads(record.data)["at"]) for record in records
        ]
        self._trace.update(repr((shape, self.witness.calls, self.clock.now, tally.steps)).encode())
        tally.trace = self._trace.hexdigest()
        return tally


def _needed_by(reference: Reference | None) -> Any:
    """What must be acknowledged before a call; a router may be asked before the node ahead of it is."""
    if reference is None:
        return lambda _: ()
    needs = reference.journal.needs
    routers = {task for task, node in _nodes(reference.journal) if node in reference.routers}

    def needed_by(call: str) -> frozenset[str]:
        task = call.partition("#")[0]
        # What failed for good, and an item of what takes Sends, has no commit to say what it follows from.
        needed = needs.get(task, needs.get(task.rpartition("[")[0], frozenset[str]()))
        if task not in routers:
            return needed
        return frozenset[str]().union(*(needs.get(before, {before}) for before in needed))

    return needed_by


def _nodes(journal: Journal) -> Iterable[tuple[str, str]]:
    for _, kind, text in journal.seen.records:
        if kind == "done":
            data = json.loads(text)
            yield data["task"], data["node"]


def _journal(records: Sequence[Record]) -> Journal:
    return journal_of(Seen(records=[(record.seq, record.kind, record.data.decode()) for record in records]))


def _steps(run: Run[Any]) -> Counter[str]:
    """What was done, but for when, in which order and at which attempt."""
    return Counter(
        json.dumps([step.kind, step.task, _sorted(step.writes), step.to], sort_keys=True)
        for step in run.history
        if step.kind in ("done", "item", "opened", "resolved")
    )


def _sorted(writes: Any) -> Any:
    """Writes with the members of the one set of the generated state in order."""
    return {
        name: (kind, [sorted(value) if name == "seen" else value for value in values])
        for name, (kind, values) in writes.items()
    }


# -- cases -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A run to which nothing happened."""

    run: Run[Any]
    reference: Reference


def undisturbed(subject: Subject) -> Undisturbed | None:
    """Run a graph with no trouble at all; None if it takes too long."""
    world = World(subject, MemoryStore(), random.Random(0), None)
    while not world.process(Options(on_failure="continue")):
        assert world.tally.processes < MOST, "an undisturbed run does not come to its end"
        if run_blocking(world.inner.info(RUN)).status == "limit":
            return None
    run, journal = world.finished()
    assert not world.ledger.faults, world.ledger.faults
    routers = frozenset(
        name for graph in _graphs(subject.graph) for name in Subject(graph=graph, input=subject.input).routers
    )
    reference = Reference(
        store=Path(),
        neighbour=journal,
        journal=journal,
        calls=[f"{call} {RUN}" for call in world.witness.calls],
        seconds=0.0,
        routers=routers,
        once=frozenset(subject.results),
    )
    return Undisturbed(run, reference)


def _graphs(graph: Any) -> list[Any]:
    inner = [node.graph for node in graph.nodes.values() if getattr(node, "graph", None) is not None]
    return [graph, *(one for child in inner for one in _graphs(child))]


_KNOWN: dict[str, Undisturbed] = {}


def drawn_subject(chance: random.Random) -> tuple[Subject, Undisturbed]:
    """One of the eight graphs, or a generated one."""
    if chance.random() < 0.4:
        name = chance.choice(list(SUBJECTS))
        return SUBJECTS[name], known(name)
    while True:
        subject = generated(chance)
        found = undisturbed(subject)
        if found is not None:
            return subject, found


def known(name: str) -> Undisturbed:
    """The undisturbed run of one of the eight graphs."""
    if name not in _KNOWN:
        found = undisturbed(SUBJECTS[name])
        assert found is not None, "none of the eight takes too long"
        _KNOWN[name] = found
    return _KNOWN[name]


def played(seed: int) -> Tally:
    """What comes of one seed."""
    chance = random.Random(seed)
    subject, found = drawn_subject(chance)
    with tempfile.TemporaryDirectory(prefix="flowagent-simulation-") as folder:
        inner = SQLiteStore(Path(folder) / "runs.db") if chance.random() < 0.25 else MemoryStore()
        options = [_drawn_options(chance) for _ in range(chance.randrange(1, TROUBLED + 1))]
        tally = go(World(subject, inner, chance, found.reference), found, options)
        run_blocking(inner.close())
    tally.faults = [f"seed {seed} (python -m tests.simulation --seed {seed}): {fault}" for fault in tally.faults]
    return tally


def _drawn_options(chance: random.Random) -> Options:
    calm = chance.random() < 0.4
    return Options(
        order=chance.choice(get_args(Order)),
        own_loop=chance.random() < 0.3,
        on_failure=chance.choice(get_args(OnFailure)),
        weather=Weather(slow=0.5)
        if calm
        else Weather(
            *(chance.choice((0.0, 0.02, 0.1)) for _ in range(3)), chance.random(), chance.choice((0.002, 0.05))
        ),
        trouble=drawn(chance),
    )


def go(world: World, found: Undisturbed, options: Sequence[Options]) -> Tally:
    """Advance a run by processes of which the first are as said, and hold its end against an undisturbed run's."""
    faults = world.ledger.faults
    for number in range(MOST):
        trouble = options[number] if number < len(options) else Options(on_failure="continue")
        if world.process(trouble) or faults:
            break
    else:
        faults.append(f"{MOST} processes were not enough")
    if not faults:
        run, journal = world.finished()
        if run.state != found.run.state:
            faults.append(f"the state is {run.state!r}, not {found.run.state!r}")
        if journal.needs != found.reference.journal.needs:
            faults.append(f"the parents are {journal.needs}, not {found.reference.journal.needs}")
        done, should = _steps(run), _steps(found.run)
        faults += [f"the history has, and should not: {step}" for step in (done - should).elements()]
        faults += [f"the history lacks: {step}" for step in (should - done).elements()]
    return world.told()
