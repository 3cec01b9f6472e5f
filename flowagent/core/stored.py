"""Reading a stored run: the machine as its records left it, and the `Run` that tells where that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from flowagent.core import journal
from flowagent.core.facts import Failure
from flowagent.core.ids import natural
from flowagent.core.machine import Machine
from flowagent.core.policies import OnFailure
from flowagent.core.position import restored
from flowagent.core.records import Past, Record, RunInfo, Snapshot, Status
from flowagent.core.replaying import begun
from flowagent.core.run import Run
from flowagent.core.shape import differences, shape_of
from flowagent.core.topology import Topology
from flowagent.errors import FlowAgentError, GraphChanged, NodeError, RunExists, RunNotFound, StateError, StoreError

if TYPE_CHECKING:
    from flowagent.stores.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is run and where it is kept."""

    topology: Topology
    store: Store
    warnings: tuple[str, ...] = ()
    on_purpose: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A stored run, read.

    Args:
        info: what its store knows of it.
        machine: as its records left it.
        started: its first record.
        weight: the bytes of records since the last snapshot, and of that snapshot.
        status: where it stood when its last record was written, or None if it was under way.
        reason: why it stopped where it did, if it did.
    """

    info: RunInfo
    machine: Machine
    started: Mapping[str, Any]
    weight: tuple[int, int]
    status: Status | None = None
    reason: str = ""


async def known(store: Store, run_id: str) -> Past | None:
    """What a store keeps of a run, or None."""
    try:
        return await store.past(run_id)
    except RunNotFound:
        return None


def hold_to_text(run_id: object) -> None:
    """Refuse what no run can be called.

    Raises:
        FlowAgentError: it is empty, no text, or text that no store can write.
    """
    try:
        is_text = isinstance(run_id, str) and run_id.encode() != b""
    except UnicodeEncodeError:  # a lone surrogate
        is_text = False
    if not is_text:
        raise FlowAgentError(f"{run_id!r} is no run id: give some text that is not empty, or leave it out")


async def read(place: Place, past: Past, on_failure: OnFailure, *, accept_changes: bool) -> Position:
    """Rebuild the machine: from the newest snapshot that can be read, and the records after it."""
    run_id = past.info.run_id
    started = journal.started(run_id, past.first)
    _refuse_other_graph(place, run_id, started, accept_changes=accept_changes)
    snapshot, records = past.snapshot, past.records
    machine = None if snapshot is None else _from_snapshot(place, snapshot, on_failure)
    if machine is None or snapshot is None:
        machine = begun(place.topology, run_id, [past.first])
        machine.on_failure = on_failure
        records = records if snapshot is None else []
        snapshot = Snapshot(0, b"")
    records = await _all_of(place.store, past.info, records, after=snapshot.seq)
    try:
        journal.replay(machine, run_id, records)
    except StoreError as error:
        _refuse_changes(place, run_id, started, error)
        raise
    machine.look_again()
    ended = journal.read(run_id, records[-1]) if records and records[-1].kind == "ended" else {}
    return Position(
        info=past.info,
        machine=machine,
        started=started,
        weight=(sum([len(record.data) for record in records]), len(snapshot.data)),
        status=ended.get("status") or standing(machine),
        reason=str(ended.get("reason", "")),
    )


async def _all_of(store: Store, info: RunInfo, records: list[Record], *, after: int) -> list[Record]:
    """The records of a run after that number, of which some have been read."""
    last = records[-1].seq if records else after
    if last + 1 >= info.next_seq:
        return records
    return [*records, *await store.read(info.run_id, after=last, upto=info.next_seq - 1)]


def standing(machine: Machine) -> Status | None:
    """Where a run stands in which nothing is under way; None if something could start."""
    if machine.final is not None:
        return "completed"
    if machine.ready or machine.stuck or not (machine.failing or machine.questions):
        return None
    return "failed" if machine.failing else "waiting"


def _from_snapshot(place: Place, snapshot: Snapshot, on_failure: OnFailure) -> Machine | None:
    """A snapshot is only a cache: one that does not fit is left aside, and the records tell the story."""
    try:
        data = journal.parsed(snapshot.data)
        return restored(place.topology, data, on_failure=on_failure)
    except (StateError, ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError):
        return None


def as_run(
    place: Place, run_id: str, machine: Machine, status: Status, *, replayed: bool, reason: str = ""
) -> Run[Any]:
    """What a caller is given of a run."""
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
        usage=machine.root.spent,
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


# -- refusals ------------------------------------------------------------------------------------------------------


def _refuse_other_graph(place: Place, run_id: str, started: Mapping[str, Any], *, accept_changes: bool) -> None:
    name = place.topology.name
    if started["graph"] != name:
        raise RunExists(f"run `{run_id}` in {place.store.name} is one of graph `{started['graph']}`, not of `{name}`")
    if not accept_changes:
        _refuse_changes(place, run_id, started)


def _refuse_changes(place: Place, run_id: str, started: Mapping[str, Any], because: Exception | None = None) -> None:
    """Raise `GraphChanged` where today's graph is another than the one that a run was started with."""
    shape = shape_of(place.topology)
    if started["shape"] != shape and (lines := differences(started["shape"], shape)):
        raise GraphChanged(run_id, place.topology.name, lines) from because


def refuse_other_input(place: Place, position: Position, given: BaseModel | Mapping[str, Any] | None) -> None:
    """Raise `RunExists` when a stored run was started with another input than the one given."""
    if given is None:
        return
    schema = place.topology.schema
    _, data = schema.start(given, key=position.info.run_id)
    stored = schema.load(journal.as_json(position.started["input"]))
    explicit = {name: text for name, text in data.items() if _is_explicit(given, name)}
    other = [name for name, text in explicit.items() if schema.fields[name].value.encode(stored[name]) != text]
    if other:
        raise RunExists(
            f"run `{position.info.run_id}` in {place.store.name} was started with another input "
            f"({', '.join(f'`{name}`' for name in other)} differ): use another run_id, or load or resume that run"
        )


def _is_explicit(given: BaseModel | Mapping[str, Any], name: str) -> bool:
    """Whether the caller gave a field, so that its default (which may be made anew each time) does not count."""
    return name in (given.model_fields_set if isinstance(given, BaseModel) else given)
