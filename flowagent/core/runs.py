"""The verbs: start, resume, load and cancel a run. Each is one function; `Graph` only names them."""

from __future__ import annotations

import contextlib
import platform
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import pydantic
from pydantic import BaseModel

from flowagent.core import journal, loops
from flowagent.core.engine import Engine
from flowagent.core.listening import NOTHING_CARRIED, Heard, Listener, heard, hold_to_listeners
from flowagent.core.machine import Machine
from flowagent.core.nodes import GateNode
from flowagent.core.policies import Durability, Limits, OnFailure
from flowagent.core.records import Past, Record, Status
from flowagent.core.resumption import Addition, added, refuse_misfits
from flowagent.core.run import Run
from flowagent.core.secret import ENCRYPT
from flowagent.core.shape import fingerprint, shape_of
from flowagent.core.stopping import let_go, settled, stop
from flowagent.core.stored import Place, Position, as_run, hold_to_text, known, read, refuse_other_input, standing
from flowagent.core.topology import Topology
from flowagent.core.version import VERSION
from flowagent.errors import FlowAgentError, GraphError, RunConflict, RunExists, RunFailed, StoreError

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
        listeners: hear every event.
        raise_failed: whether a failed run is raised as `RunFailed`, or returned.
    """

    deps: Any = None
    limits: Limits = field(default_factory=Limits)
    on_failure: OnFailure = "finish"
    durability: Durability = "step"
    listeners: Sequence[Listener] = ()
    raise_failed: bool = True

    def __post_init__(self) -> None:
        for name, words in (("on_failure", get_args(OnFailure)), ("durability", get_args(Durability))):
            if getattr(self, name) not in words:
                raise FlowAgentError(f"{name}={getattr(self, name)!r}: it may be {', '.join(map(repr, words))}")
        if not isinstance(self.limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            raise FlowAgentError(f"limits= takes Limits(...), not {self.limits!r}")
        hold_to_listeners(self.listeners)


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
    _refuse_open_secrets(place)
    is_new = run_id is None
    run_id = uuid.uuid4().hex if run_id is None else run_id
    hold_to_text(run_id)
    with heard(place.topology, run_id, options.listeners) as by:
        found = None if is_new else await known(place.store, run_id)
        if found is not None:
            return await _start_again(place, found, given, options, by)
        return await _start_anew(place, given, run_id, options, by)


async def _start_anew(
    place: Place, given: BaseModel | Mapping[str, Any] | None, run_id: str, options: Options, by: Heard
) -> Run[Any]:
    """Start a run that the store does not know."""
    values, data = place.topology.schema.start(given, key=run_id)
    try:
        lease = await place.store.create(
            run_id,
            place.topology.name,
            [Record(0, "started", _started(place.topology, data, by))],
            blocking=loops.own_loop.get(),
            durable=options.durability == "step",
        )
    except RunExists:
        found = await known(place.store, run_id)  # somebody was faster by a moment
        assert found is not None, "a store that says a run exists knows it"
        return await _start_again(place, found, given, options, by)
    del data  # a run may wait for long, and many at once
    machine = Machine(place.topology, values, on_failure=options.on_failure)
    machine.begin()
    return await _drive(place, machine, lease, options, by, resumed=False, weight=(0, 0))


def _started(topology: Topology, data: Mapping[str, bytes], by: Heard) -> bytes:
    """The first record of a run: what is run, by which versions, with what input."""
    shape = shape_of(topology)
    facts = {"graph": topology.name, "fingerprint": fingerprint(shape), "shape": shape, "versions": _versions()}
    carried = {"carried": by.carried} if by.carried else {}
    return journal.plain(time.time(), **facts, **carried)[:-1] + b',"input":' + journal.fields_json(data) + b"}"


async def _start_again(
    place: Place, past: Past, given: BaseModel | Mapping[str, Any] | None, options: Options, by: Heard
) -> Run[Any]:
    """`run` with an id that the store knows: the same call twice does the work once."""
    run_id, status = past.info.run_id, past.info.status
    position = await read(place, past, options.on_failure, accept_changes=False)
    refuse_other_input(place, position, given)
    if status in ("completed", "waiting"):
        return as_run(place, run_id, position.machine, status, replayed=True, reason=position.reason)
    if status == "cancelled":
        raise _was_cancelled(run_id)
    return await _resume(place, run_id, options, by, Addition(), accept_changes=False, on_purpose=False)


def _was_cancelled(run_id: str) -> FlowAgentError:
    return FlowAgentError(f"run `{run_id}` was cancelled; resume({run_id!r}) goes on with it")


async def resume(
    place: Place,
    run_id: str,
    options: Options,
    *,
    addition: Addition | None = None,
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
    hold_to_text(run_id)
    _refuse_open_secrets(place)
    with heard(place.topology, run_id, options.listeners) as by:
        return await _resume(place, run_id, options, by, addition or Addition(), accept_changes=accept_changes)


async def _resume(
    place: Place,
    run_id: str,
    options: Options,
    by: Heard,
    addition: Addition,
    *,
    accept_changes: bool,
    on_purpose: bool = True,
) -> Run[Any]:
    before: Position | None = None

    async def position_of(past: Past) -> Position:
        if before is not None and before.info == past.info:
            return before  # nobody was faster
        return await read(place, past, options.on_failure, accept_changes=accept_changes)

    def completed(position: Position) -> Run[Any]:
        refuse_misfits(position.machine, run_id, addition)
        return as_run(place, run_id, position.machine, "completed", replayed=True)

    if addition:  # Refused before anything is changed; without one there is nothing to refuse.
        before = await position_of(await place.store.past(run_id))
        refuse_misfits(before.machine, run_id, addition)
    try:
        lease, past = await place.store.resume(run_id, blocking=loops.own_loop.get())
    except RunConflict:
        # Whoever holds it may have come to its end, and not have said so yet.
        position = await position_of(await place.store.past(run_id))
        if position.machine.final is None:
            raise
        return completed(position)
    if lease is None:
        position = await position_of(past)
        if position.machine.final is not None:
            return completed(position)
        lease, past = await _taken_again(place.store, run_id)
    position = await _told(place, lease, past, position_of, addition, on_purpose=on_purpose)
    if (status := standing(position.machine)) is not None:
        await let_go(place.store, lease, status)
        return _finished(place, run_id, position.machine, status, options, replayed=True)
    by = Heard(by.listeners, position.started.get("carried", NOTHING_CARRIED))
    return await _drive(place, position.machine, lease, options, by, resumed=True, weight=position.weight)


async def _told(
    place: Place,
    lease: Lease,
    past: Past,
    position_of: Callable[[Past], Awaitable[Position]],
    addition: Addition,
    *,
    on_purpose: bool,
) -> Position:
    """A run that is held, told what is added; if that cannot be, it is let go of as it stood."""
    first, stood = lease.next_seq, settled(past.info.status)
    try:
        if stood == "cancelled" and not on_purpose:  # since `run` has looked
            raise _was_cancelled(lease.run_id)
        position = await position_of(past)
        stood = stood or position.status
        if position.machine.final is not None:
            refuse_misfits(position.machine, lease.run_id, addition)
        records = added(position.machine, lease.next_seq, addition)
        if records:
            await place.store.append(lease, records)
    except BaseException:
        with contextlib.suppress(RunConflict, StoreError):  # the error that is raised is the one to tell
            await let_go(place.store, lease, stood if lease.next_seq == first else None)
        raise
    return position


async def _taken_again(store: Store, run_id: str) -> tuple[Lease, Past]:
    """Hold of a run that was completed, and is not by the graph as it is today."""
    lease = await store.claim(run_id, blocking=loops.own_loop.get())
    try:
        return lease, await store.past(run_id)
    except BaseException:
        await store.release(lease)
        raise


async def load(place: Place, run_id: str) -> Run[Any]:
    """Read a stored run; nothing is executed and nothing is changed.

    Raises:
        RunNotFound: there is no such run.
        StateError: its state does not fit today's model.
    """
    hold_to_text(run_id)
    past = await place.store.past(run_id)
    position = await read(place, past, "finish", accept_changes=True)
    return as_run(place, run_id, position.machine, past.info.status, replayed=True, reason=position.reason)


async def cancel(place: Place, run_id: str, *, timeout: float = 30.0) -> Run[Any]:
    """Cancel a run wherever it is; returns when it has stopped.

    Raises:
        RunNotFound: there is no such run.
        RunConflict: its owner did not stop in time.
    """
    hold_to_text(run_id)
    await stop(place.store, run_id, timeout)
    return await load(place, run_id)


# -- driving -------------------------------------------------------------------------------------------------------


async def _drive(
    place: Place,
    machine: Machine,
    lease: Lease,
    options: Options,
    by: Heard,
    *,
    resumed: bool,
    weight: tuple[int, int],
) -> Run[Any]:
    stop = loops.interrupted.get()
    engine = Engine(
        machine,
        place.store,
        lease,
        deps=options.deps,
        limits=options.limits,
        durability=options.durability if place.on_purpose else "exit",  # no process but this one will ever read it
        listeners=by.listeners,
        carried=by.carried if resumed else NOTHING_CARRIED,
        own_loop=loops.own_loop.get(),
        keeps_questions=place.on_purpose,
        is_interrupted=(lambda: False) if stop is None else stop.is_set,
        weight=weight,
    )
    status = await engine.drive(resumed=resumed)
    replayed = not engine.has_executed
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
    run = as_run(place, run_id, machine, status, replayed=replayed, reason=reason)
    if status == "failed" and options.raise_failed:
        causes = [error.__cause__ for error in run.errors if error.__cause__ is not None]
        raise RunFailed(run, run.errors) from (causes[0] if causes else None)
    return run


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


def _refuse_open_secrets(place: Place) -> None:
    """What nobody may see is not written where it can be read."""
    secrets = place.topology.secrets
    if secrets and not getattr(place.store, "keeps_secrets", False):
        are = "is" if len(secrets) == 1 else "are"
        raise GraphError(
            place.topology.name,
            [f"{', '.join(secrets)} {are} secret, and {place.store.name} is not encrypted: {ENCRYPT}"],
        )


def _gates(topology: Topology) -> Sequence[str]:
    own = [place.name for place in topology.places if isinstance(place.node, GateNode)]
    inner = [name for place in topology.places if place.child is not None for name in _gates(place.child)]
    return own + inner


def _versions() -> dict[str, str]:
    return {
        "flowagent": VERSION,
        "python": platform.python_version(),
        "pydantic": pydantic.VERSION,
    }
