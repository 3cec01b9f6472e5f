"""The verbs: start, resume, load, watch and cancel a run. Each is one function; `Graph` only names them."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pydantic
from pydantic import BaseModel

from flowagent.core import journal, loops
from flowagent.core.engine import Engine, Listener
from flowagent.core.events import Event
from flowagent.core.facts import Failure
from flowagent.core.ids import natural
from flowagent.core.machine import Machine
from flowagent.core.nodes import GateNode
from flowagent.core.policies import Durability, Limits, OnFailure
from flowagent.core.position import restored
from flowagent.core.questions import accepted
from flowagent.core.records import Record, RunInfo, Snapshot, Status
from flowagent.core.run import Run, begun
from flowagent.core.scope import Task
from flowagent.core.shape import differences, fingerprint, shape_of
from flowagent.core.topology import Topology
from flowagent.core.version import VERSION
from flowagent.core.writes import Writes
from flowagent.errors import (
    ConflictError,
    FlowAgentError,
    GraphChanged,
    GraphError,
    NodeError,
    RunConflict,
    RunExists,
    RunFailed,
    StateError,
)

if TYPE_CHECKING:
    from flowagent.stores.base import Lease, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one call runs things.

    Args:
        deps: what nodes get as `ctx.deps`.
        limits: how far it may go.
        on_failure: what a failed task does to the rest.
        durability: what is stored when.
        listener: is told every event.
        raise_failed: whether a failed run is raised as `RunFailed`, or returned.
    """

    deps: Any = None
    limits: Limits = Limits()
    on_failure: OnFailure = "finish"
    durability: Durability = "step"
    listener: Listener | None = None
    raise_failed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is run and where it is kept."""

    topology: Topology
    store: Store
    warnings: tuple[str, ...] = ()
    on_purpose: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A stored run, read: the machine, its first record, and what a snapshot would weigh."""

    machine: Machine
    started: Mapping[str, Any]
    weight: tuple[int, int]


# -- verbs ---------------------------------------------------------------------------------------------------------


async def start(
    place: Place, given: BaseModel | Mapping[str, Any] | None, run_id: str | None, options: Options
) -> Run[Any]:
    """Start a run, or go on with the one of that id.

    Raises:
        StateError: the input does not fit.
        RunExists: the id belongs to another graph or was started with another input.
        RunConflict: another process is advancing it.
        RunFailed: it ended as failed.
    """
    _refuse_lost_questions(place)
    if run_id is not None and (known := await _known(place.store, run_id)) is not None:
        return await _start_again(place, known, given, options)
    run_id = run_id if run_id is not None else uuid.uuid4().hex
    values, data = place.topology.schema.start(given, key=run_id)
    shape = shape_of(place.topology)
    started = {
        "graph": place.topology.name,
        "fingerprint": fingerprint(shape),
        "shape": shape,
        "versions": _versions(),
    }
    body = journal.plain(time.time(), **started)[:-1] + b',"input":' + journal.fields_json(data) + b"}"
    try:
        lease = await place.store.create(
            run_id,
            place.topology.name,
            [Record(0, "started", body)],
            blocking=loops.own_loop.get(),
            durable=options.durability == "step",
        )
    except RunExists:
        known = await _known(place.store, run_id)  # somebody was faster by a moment
        assert known is not None, "a store that says a run exists knows it"
        return await _start_again(place, known, given, options)
    machine = Machine(place.topology, values, on_failure=options.on_failure)
    machine.begin()
    return await _drive(place, machine, lease, options, resumed=False, weight=(0, 0))


async def _start_again(
    place: Place, known: RunInfo, given: BaseModel | Mapping[str, Any] | None, options: Options
) -> Run[Any]:
    """`run` with an id that the store knows: the same call twice does the work once."""
    position = await _read(place, known, options.on_failure, accept_changes=False)
    _refuse_other_input(place, known, position, given)
    if known.status in ("completed", "waiting"):
        return _run(place, known.run_id, position.machine, known.status, replayed=True)
    if known.status == "cancelled":
        raise FlowAgentError(f"run `{known.run_id}` was cancelled; resume({known.run_id!r}) goes on with it")
    return await resume(place, known.run_id, options)


async def resume(
    place: Place,
    run_id: str,
    options: Options,
    *,
    answers: Mapping[str, Any] | None = None,
    retry: Mapping[str, str] | None = None,
    resolve: Mapping[str, Any] | None = None,
    accept_changes: bool = False,
) -> Run[Any]:
    """Go on with a stored run: answer its questions, run failed tasks again, settle failed merges.

    Raises:
        RunNotFound: there is no such run.
        RunConflict: another process is advancing it.
        AnswerError: an answer that does not fit; nothing was changed.
        GraphChanged: the graph is not the one that it was started with.
        RunFailed: it ended as failed.
    """
    info = await place.store.info(run_id)
    before = await _read(place, info, options.on_failure, accept_changes=accept_changes)
    _refuse_if_finished(place, run_id, before, answers, retry, resolve)
    if before.machine.final is not None and info.status in ("completed", "running"):
        return _run(place, run_id, before.machine, "completed", replayed=True)
    accepted(before.machine, answers or {})
    _checked_retries(before.machine, run_id, retry)
    lease = await place.store.claim(run_id, blocking=loops.own_loop.get())
    try:
        # Read again under the lease: only now does nobody else write.
        position = await _read(place, info, options.on_failure, accept_changes=accept_changes)
        machine = position.machine
        records, missing = _resumption(place, position, lease, answers or {}, retry or {}, resolve or {})
        if records:
            await place.store.append(lease, records)
        if missing and not machine.ready and not machine.stuck:
            await place.store.append(lease, [], status=_standing(machine))
            await place.store.release(lease)
            return _finished(place, run_id, machine, _standing(machine), options, replayed=True)
    except BaseException:
        await place.store.append(lease, [], status=None if info.status == "interrupted" else info.status)
        await place.store.release(lease)
        raise
    return await _drive(place, machine, lease, options, resumed=True, weight=position.weight)


async def load(place: Place, run_id: str) -> Run[Any]:
    """Read a stored run; nothing is executed and nothing is changed.

    Raises:
        RunNotFound: there is no such run.
        StateError: its state does not fit today's model.
    """
    info = await place.store.info(run_id)
    position = await _read(place, info, "finish", accept_changes=True)
    return _run(place, run_id, position.machine, info.status, replayed=True)


async def cancel(place: Place, run_id: str, *, timeout: float = 30.0) -> Run[Any]:
    """Cancel a run wherever it is; returns when it has stopped.

    Raises:
        RunNotFound: there is no such run.
        RunConflict: its owner did not stop in time.
    """
    info = await place.store.info(run_id)
    if info.status in ("completed", "cancelled"):
        return await load(place, run_id)
    if await place.store.request_cancel(run_id):
        await _until_stopped(place.store, run_id, timeout)
        return await load(place, run_id)
    lease = await place.store.claim(run_id, blocking=loops.own_loop.get())
    body = journal.plain(time.time(), status="cancelled", reason="somebody asked to cancel it")
    await place.store.append(lease, [Record(lease.next_seq, "ended", body)], status="cancelled")
    await place.store.release(lease)
    return await load(place, run_id)


async def _until_stopped(store: Store, run_id: str, timeout: float) -> None:
    """Wait for another call, perhaps in another process, to let go of a run."""
    wait, until = 0.005, time.monotonic() + timeout
    while (await store.info(run_id)).status == "running":
        if time.monotonic() > until:
            raise RunConflict(f"run `{run_id}` was asked to stop and has not within {timeout:g} s")
        await asyncio.sleep(wait)
        wait = min(wait * 1.5, 0.5)


class Watch:
    """The events of a run that is under way, for `async for`; `run` is the run, once they are over."""

    def __init__(self, work: Any) -> None:
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._work = work
        self._task: asyncio.Task[Run[Any]] | None = None

    def tell(self, event: Event) -> None:
        """Take an event from the engine."""
        self._events.put_nowait(event)

    def begin(self) -> None:
        """Start the run beside the caller."""
        self._task = asyncio.get_running_loop().create_task(self._work(self.tell))
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))

    async def leave(self) -> None:
        """Stop the run if it is still going; it stays resumable."""
        assert self._task is not None, "a watch that is left has begun"
        if not self._task.done():
            self._task.cancel()
        await asyncio.wait([self._task])

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Event]:
        while (event := await self._events.get()) is not None:
            yield event
        assert self._task is not None, "a watch that ends has begun"
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error

    @property
    def run(self) -> Run[Any]:
        """The run.

        Raises:
            FlowAgentError: it is still going, or was left early.
        """
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise FlowAgentError("the run is not over: iterate its events to the end first")
        return self._task.result()


@contextlib.asynccontextmanager
async def watched(work: Any) -> AsyncIterator[Watch]:
    """Run something that takes a listener, and watch it."""
    watch = Watch(work)
    left = asyncio.Event()
    token = loops.interrupted.set(_Flag(left))
    try:
        watch.begin()
    finally:
        loops.interrupted.reset(token)
    try:
        yield watch
    finally:
        left.set()
        await watch.leave()


class _Flag:
    """Tells the engine that its caller went away, which is no cancellation."""

    def __init__(self, left: asyncio.Event) -> None:
        self._left = left

    def is_set(self) -> bool:
        return self._left.is_set()


# -- driving -------------------------------------------------------------------------------------------------------


async def _drive(
    place: Place, machine: Machine, lease: Lease, options: Options, *, resumed: bool, weight: tuple[int, int]
) -> Run[Any]:
    stop = loops.interrupted.get()
    engine = Engine(
        machine,
        place.store,
        lease,
        deps=options.deps,
        limits=options.limits,
        durability=options.durability,
        listener=options.listener,
        own_loop=loops.own_loop.get(),
        is_interrupted=(lambda: False) if stop is None else stop.is_set,
        weight=weight,
    )
    status = await engine.drive(resumed=resumed)
    replayed = engine.executed == 0
    return _finished(place, lease.run_id, machine, status, options, replayed=replayed, reason=engine.reason)


def _finished(
    place: Place,
    run_id: str,
    machine: Machine,
    status: Status,
    options: Options,
    *,
    replayed: bool,
    reason: str = "",
) -> Run[Any]:
    run = _run(place, run_id, machine, status, replayed=replayed, reason=reason)
    if status == "failed" and options.raise_failed:
        causes = [error.__cause__ for error in run.errors if error.__cause__ is not None]
        raise RunFailed(run, run.errors) from (causes[0] if causes else None)
    return run


def _run(
    place: Place, run_id: str, machine: Machine, status: Status, *, replayed: bool, reason: str = ""
) -> Run[Any]:
    values, unmerged = machine.state()
    return Run(
        run_id=run_id,
        graph_name=place.topology.name,
        status=status,
        state=place.topology.schema.result(values),
        errors=tuple(_node_error(failure) for task in machine.failed_tasks() for failure in task.failures),
        questions=tuple(machine.questions[name] for name in sorted(machine.questions, key=natural)),
        unmerged=unmerged,
        replayed=replayed,
        reason=reason,
        store=place.store,
        warnings=place.warnings,
        _topology=place.topology,
        _unfinished={task.id: (task.status, len(task.results)) for task in machine.tasks.values()},
    )


def _node_error(failure: Failure) -> NodeError:
    error = NodeError(
        graph=failure.graph,
        node=failure.node,
        task=failure.task,
        attempt=failure.attempt,
        kind=failure.kind,
        message=failure.message,
    )
    error.__cause__ = failure.cause
    return error


def _standing(machine: Machine) -> Status:
    if machine.final is not None:
        return "completed"
    return "failed" if machine.failing else "waiting"


# -- reading -------------------------------------------------------------------------------------------------------


async def _known(store: Store, run_id: str) -> RunInfo | None:
    from flowagent.errors import RunNotFound  # noqa: PLC0415

    try:
        return await store.info(run_id)
    except RunNotFound:
        return None


async def _read(place: Place, info: RunInfo, on_failure: OnFailure, *, accept_changes: bool) -> Position:
    """Rebuild the machine: from the newest snapshot that can be read, and the records after it."""
    run_id = info.run_id
    first = (await place.store.read(run_id, upto=0))[0]
    started = journal.read(run_id, first)
    _refuse_other_graph(place, run_id, started, accept_changes=accept_changes)
    snapshot = await place.store.snapshot(run_id)
    machine = None if snapshot is None else _from_snapshot(place, snapshot, on_failure)
    if machine is None or snapshot is None:
        machine = begun(place.topology, run_id, [first])
        machine.on_failure = on_failure
        snapshot = Snapshot(0, b"")
    records = await place.store.read(run_id, after=snapshot.seq)
    journal.replay(machine, run_id, records)
    return Position(
        machine=machine,
        started=started,
        weight=(sum(len(record.data) for record in records), len(snapshot.data)),
    )


def _from_snapshot(place: Place, snapshot: Snapshot, on_failure: OnFailure) -> Machine | None:
    """A snapshot is only a cache: one that does not fit is left aside, and the records tell the story."""
    try:
        data = journal.parsed(snapshot.data)
        return restored(place.topology, data, on_failure=on_failure)
    except (StateError, ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError):
        return None


# -- refusals ------------------------------------------------------------------------------------------------------


def _refuse_lost_questions(place: Place) -> None:
    """A question needs a store that outlives the call, or nobody could ever answer it."""
    if place.on_purpose:
        return
    gates = list(_gates(place.topology))
    if gates:
        raise GraphError(
            place.topology.name,
            [
                f"gate {', '.join(f'`{name}`' for name in gates)} asks questions, so the run needs a store that you "
                "can resume from: pass store='runs.db', or an explicit MemoryStore()"
            ],
        )


def _gates(topology: Topology) -> Sequence[str]:
    own = [place.name for place in topology.places if isinstance(place.node, GateNode)]
    inner = [name for place in topology.places if place.child is not None for name in _gates(place.child)]
    return own + inner


def _refuse_other_graph(place: Place, run_id: str, started: Mapping[str, Any], *, accept_changes: bool) -> None:
    name = place.topology.name
    if started["graph"] != name:
        raise RunExists(f"run `{run_id}` in {place.store.name} is one of graph `{started['graph']}`, not of `{name}`")
    shape = shape_of(place.topology)
    if accept_changes or started["fingerprint"] == fingerprint(shape):
        return
    lines = differences(started["shape"], shape)
    if lines:
        raise GraphChanged(run_id, name, lines)


def _refuse_other_input(
    place: Place, known: RunInfo, position: Position, given: BaseModel | Mapping[str, Any] | None
) -> None:
    if given is None:
        return
    schema = place.topology.schema
    _, data = schema.start(given, key=known.run_id)
    stored = schema.load(journal.as_json(position.started["input"]))
    explicit = {name: text for name, text in data.items() if _is_explicit(given, name)}
    other = [name for name, text in explicit.items() if schema.fields[name].value.encode(stored[name]) != text]
    if other:
        raise RunExists(
            f"run `{known.run_id}` in {place.store.name} was started with another input "
            f"({', '.join(f'`{name}`' for name in other)} differ): use another run_id, or load or resume that run"
        )


def _is_explicit(given: BaseModel | Mapping[str, Any], name: str) -> bool:
    """Whether the caller gave a field, so that its default (which may be made anew each time) does not count."""
    return name in (given.model_fields_set if isinstance(given, BaseModel) else given)


def _refuse_if_finished(
    place: Place,
    run_id: str,
    position: Position,
    answers: Mapping[str, Any] | None,
    retry: Mapping[str, str] | None,
    resolve: Mapping[str, Any] | None,
) -> None:
    if position.machine.final is not None and (answers or retry or resolve):
        from flowagent.errors import AnswerError  # noqa: PLC0415

        raise AnswerError(f"run `{run_id}` of graph `{place.topology.name}` is completed; it asks nothing any more")


def _checked_retries(machine: Machine, run_id: str, retry: Mapping[str, str] | None) -> None:
    for name, how in (retry or {}).items():
        if how != "fresh":
            raise FlowAgentError(f"retry={{{name!r}: {how!r}}}: the only way to say is 'fresh', which drops its memos")
        if name not in machine.tasks:
            known = ", ".join(f"`{task}`" for task in machine.tasks) or "none"
            raise FlowAgentError(f"run `{run_id}` has no unfinished task `{name}`; unfinished are: {known}")


# -- what a resumption adds ------------------------------------------------------------------------------------------


def _resumption(
    place: Place,
    position: Position,
    lease: Lease,
    answers: Mapping[str, Any],
    retry: Mapping[str, str],
    resolve: Mapping[str, Any],
) -> tuple[list[Record], bool]:
    """Tell the machine what the caller adds; the records of it, and whether failed merges were all that is left."""
    machine = position.machine
    bodies: list[tuple[Any, bytes]] = []
    for question_id, data in accepted(machine, answers).items():
        question = machine.questions[question_id]
        bodies.append(("answered", journal.answered(question, data, time.time())))
        journal.answer(machine, question_id, journal.parsed(data))
    fresh = [name for name in retry if name in machine.tasks]
    if fresh:
        bodies.append(("retried", journal.plain(time.time(), fresh=fresh)))
        journal.retry_fresh(machine, fresh)
    bodies += [("resolved", body) for body in _resolved(machine, resolve)]
    for task in machine.failed_tasks():
        machine.retry(task)
    records = [Record(lease.next_seq + at, kind, body) for at, (kind, body) in enumerate(bodies)]
    return records, bool(machine.failing or machine.questions)


def _resolved(machine: Machine, resolve: Mapping[str, Any]) -> Sequence[bytes]:
    """Settle the failed merges that `resolve` speaks of."""
    bodies: list[bytes] = []
    used: set[str] = set()
    for task in machine.failed_tasks():
        if not task.failures[0].merge:
            continue
        wanted = _wanted(task, resolve, used)
        if not wanted:
            continue
        writes = _as_sets(task, wanted)
        try:
            machine.resolve(task, writes)
        except ConflictError as error:
            raise StateError(f"resolve= settles `{task.id}` only in part: {error}") from error
        bodies.append(journal.resolved(task, writes, time.time()))
    left = [name for name in resolve if name not in used]
    if left:
        raise StateError(f"resolve= names {', '.join(f'`{name}`' for name in left)}, and no failed merge is about that")
    return bodies


def _wanted(task: Task, resolve: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    """What `resolve` says of one task: `{field: value}` serves all, `{task: {field: value}}` one."""
    fields = task.scope.topology.schema.fields
    cause = task.failures[0].cause
    about = cause.field if isinstance(cause, ConflictError) else None
    wanted = {name: value for name, value in resolve.items() if name in fields and name == about}
    used |= set(wanted)
    if task.id in resolve:
        used.add(task.id)
        wanted |= resolve[task.id]
    return wanted


def _as_sets(task: Task, wanted: Mapping[str, Any]) -> Writes:
    from flowagent.core.reducers import Replace  # noqa: PLC0415
    from flowagent.core.writes import Write  # noqa: PLC0415

    schema = task.scope.topology.schema
    writes = schema.update(task.top.values, {name: Replace(value) for name, value in wanted.items()})
    return {
        name: Write("set" if schema.reducers[name] is None else "replace", *write[1:]) for name, write in writes.items()
    }


def _versions() -> dict[str, str]:
    return {
        "flowagent": VERSION,
        "python": platform.python_version(),
        "pydantic": pydantic.VERSION,
    }
