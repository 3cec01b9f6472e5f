"""What each kind of record says, written and read back. Replaying a journal is telling the machine its facts again.

The records are enough to read the run without the code: task, what was written, where it went, when and how long.
Values stand in them as the JSON that their codec made; nothing is encoded twice. As a record is written at every step,
it does not say what goes without saying: the node, which the task's id names, an only attempt, an empty update, and
its parent where that is the task of the record before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from pydantic_core import ValidationError, from_json, to_json

from flowagent.core import forms
from flowagent.core.commits import Sent, datas_of
from flowagent.core.facts import Failure, Question, Way
from flowagent.core.fields import problems_of
from flowagent.core.machine import Machine
from flowagent.core.memos import forget_begun, kept_when_fresh
from flowagent.core.nodes import ItemNode, MapNode
from flowagent.core.position import loaded_write
from flowagent.core.records import Record
from flowagent.core.schema import Schema
from flowagent.core.scope import Task
from flowagent.core.secret import masked
from flowagent.core.topology import Topology
from flowagent.core.usage import Usage
from flowagent.core.writes import NOTHING, WriteKind, Writes, tupled
from flowagent.errors import ConflictError, StateError, StoreError

_KINDS: Mapping[WriteKind, bytes] = {"set": b"set", "delta": b"delta", "replace": b"replace"}

# -- writing -------------------------------------------------------------------------------------------------------


def written(schema: Schema, writes: Writes) -> bytes:
    """An update as JSON: `{field: [kind, [value, ...]]}`."""
    if not writes:
        return b"{}"
    parts: list[bytes] = []
    for name, write in writes.items():
        datas = write.datas or datas_of(schema, name, write)
        data = datas[0] if len(datas) == 1 else b",".join(datas)
        parts.append(b'%b:["%b",[%b]]' % (to_json(name), _KINDS[write.kind], data))
    return b"{" + b",".join(parts) + b"}"


def gone(topology: Topology, ways: Sequence[Way]) -> bytes:
    """Where a task went: names of nodes, or `[name, [item, ...]]` for `Send`s."""
    places = topology.places
    if len(ways) == 1 and not ways[0].items:
        return places[ways[0].head].json_alone
    parts = [
        b"[%b,[%b]]" % (places[head].json, b",".join([item.data for item in items])) if items else places[head].json
        for head, items in ways
    ]
    return b"[%b]" % b",".join(parts)


Done: TypeAlias = tuple[str, Topology, tuple[str, ...], int, Writes, Sequence[Way], float, float, "Usage | None"]
"""A task is done: what its record will say, taken down when it happened and written as JSON when it is stored.

Its id, the tables of its graph, the ids of the tasks that it came from, the last attempt, its update, where it went,
when (in seconds since 1970), how long its last attempt took, and what it spent since its last record, if anything. A
plain tuple, as one is made at every step.
"""


def done_json(facts: Done, before: str = "") -> bytes:
    """The record of a task that is done; `before` is the task of the record before, if that was one of these, too."""
    task, topology, parents, attempt, writes, ways, at, seconds, usage = facts
    body = b'{"task":%b%b%b%b,"to":%b,"at":%b,"s":%b}' % (
        to_json(task),
        b"" if parents == (before,) else b',"parents":[%b]' % b",".join([to_json(parent) for parent in parents]),
        b',"attempt":%d' % attempt if attempt != 1 else b"",
        b',"writes":%b' % written(topology.schema, writes) if writes else b"",
        gone(topology, ways),
        _stamp(int(at * 1000 + 0.5)),
        _lasted(int(seconds * 1_000_000 + 0.5)),
    )
    return body if usage is None else _with(body, usage)


def _with(body: bytes, usage: Usage | None) -> bytes:
    """A record with what was spent; that key is there only if something was."""
    return body if usage is None else b'%b,"usage":%b}' % (body[:-1], to_json(usage.plain()))


@lru_cache(maxsize=8)
def _stamp(milliseconds: int) -> bytes:
    """A time of day in seconds. Many steps may share a millisecond, and writing a float is dear."""
    return b"%.3f" % (milliseconds / 1000)


@lru_cache(maxsize=1024)
def _lasted(microseconds: int) -> bytes:
    """A duration in seconds."""
    return repr(microseconds / 1_000_000).encode()


def item(task: Task, data: bytes, at: float, seconds: float, usage: Usage | None = None) -> bytes:
    """An item of a map is done."""
    body = b'{"task":%b%b,"value":%b,"at":%.3f,"s":%.6f}' % (
        to_json(task.id),
        b',"attempt":%d' % task.attempt if task.attempt != 1 else b"",
        data,
        at,
        seconds,
    )
    return _with(body, usage)


def opened(task: Task, fields: Mapping[str, bytes], at: float) -> bytes:
    """A nested graph begins with this input."""
    return b'{"task":%b,"node":%b,"input":%b,"at":%.3f}' % (to_json(task.id), task.place.json, fields_json(fields), at)


def fields_json(fields: Mapping[str, bytes]) -> bytes:
    """A JSON object of values that are JSON already."""
    return b"{%b}" % b",".join(b"%b:%b" % (to_json(name), data) for name, data in fields.items())


def failed(
    task: Task, failures: Sequence[Failure], *, final: bool, at: float, seconds: float, usage: Usage | None = None
) -> bytes:
    """An attempt failed; `final` says that no further attempt of this call follows."""
    body = to_json(
        {
            "task": task.id,
            "node": task.place.name,
            "attempt": task.attempt,
            "final": final,
            "errors": [failure.plain() for failure in failures],
            "at": round(at, 3),
            "s": round(seconds, 6),
        }
    )
    return _with(body, usage)


def asked(question: Question, at: float, usage: Usage | None = None) -> bytes:
    """A task asks something."""
    return _with(to_json({**question.plain(), "at": round(at, 3)}), usage)


def answered(question: Question, data: bytes, at: float) -> bytes:
    """A question was answered."""
    return b'{"id":%b,"task":%b,"value":%b,"at":%.3f}' % (to_json(question.id), to_json(question.task), data, at)


def resolved(task: Task, writes: Writes, at: float) -> bytes:
    """Somebody settled a failed merge."""
    return b'{"task":%b,"node":%b,"writes":%b,"at":%.3f}' % (
        to_json(task.id),
        task.place.json,
        written(task.scope.topology.schema, writes),
        at,
    )


def plain(at: float, **facts: Any) -> bytes:
    """Any record whose facts are plain data."""
    return to_json({**facts, "at": round(at, 3)})


def memo(task: Task, name: str, data: Any, at: float, usage: Usage | None = None) -> bytes:
    """Something was done in the middle of a task and need not be done again."""
    return _with(plain(at, task=task.id, name=name, data=data), usage)


def attempted(
    task: Task, at: float, name: str = "", data: Mapping[str, Any] | None = None, usage: Usage | None = None
) -> bytes:
    """A `once` node is called, or a step of a node that must not be done twice, which has a name and a memo."""
    return _with(plain(at, task=task.id, **({"name": name, "data": data} if name else {})), usage)


def usage_of(data: Mapping[str, Any]) -> Usage | None:
    """What a record says was spent; what a later version may tell beside that is left aside."""
    told = data.get("usage")
    return None if told is None else Usage(**{name: told[name] for name in Usage.model_fields if name in told})


# -- reading -------------------------------------------------------------------------------------------------------


def read(run_id: str, record: Record) -> dict[str, Any]:
    """What a record says.

    Raises:
        StoreError: it is not what a record of its kind holds.
    """
    try:
        return forms.read(record.kind, record.data)
    except ValueError as error:
        if record.data.startswith(b"\xfa"):  # no JSON and no UTF-8 begins so
            raise StoreError(
                f"record {record.seq} of run `{run_id}` ({record.kind}) is encrypted: read it through "
                "EncryptedStore(store, keys=[...]), on the command line with --key-env"
            ) from error
        why = problems_of(error) if isinstance(error, ValidationError) else str(error)
        raise StoreError(f"record {record.seq} of run `{run_id}` ({record.kind}) is damaged: {why}") from error


def started(run_id: str, record: Record) -> dict[str, Any]:
    """What a run's first record says.

    Raises:
        StoreError: it is no first record.
    """
    if record.kind != "started":
        raise StoreError(f"record {record.seq} of run `{run_id}` is damaged: it is {record.kind!r}, not the first one")
    return read(run_id, record)


def parsed(data: bytes) -> Any:
    """JSON as plain data.

    Raises:
        ValueError: it is no JSON.
    """
    return from_json(data, cache_strings="keys")


def replay(machine: Machine, run_id: str, records: Iterable[Record]) -> None:
    """Tell the machine what the records say. `Machine.look_again` then lets what is left go on.

    Raises:
        StoreError: a record does not follow from those before it; the text names it.
        StateError: stored values do not fit today's model.
    """
    machine.turns.is_replaying = True
    for record in records:
        data = read(run_id, record)
        try:
            _tell(machine, record, data)
        except ConflictError:
            raise
        except (ValidationError, StateError) as error:
            problem = problems_of(error) if isinstance(error, ValidationError) else str(error)
            raise StateError(
                f"record {record.seq} of run `{run_id}` ({record.kind} {data.get('task', '')}) does not fit today's "
                f"state: {problem}",
                raw=masked(data.get("writes", data)),
                problems=[problem],
            ) from error
        except (KeyError, IndexError, TypeError, AttributeError, AssertionError) as error:
            raise StoreError(
                f"record {record.seq} of run `{run_id}` ({record.kind} {data.get('task', '')}) does not follow from "
                f"the records before it: {type(error).__name__}: {error}"
            ) from error


def _tell(machine: Machine, record: Record, data: dict[str, Any]) -> None:
    usage = usage_of(data) if "usage" in data else None
    if usage is not None:
        machine.spend(data["task"], usage)
    match record.kind:
        case "started" | "ended":
            return
        case "retried":
            _retry(machine, data)
        case "answered":
            answer(machine, data["id"], data["value"])
        case "asked":
            fields = {name: data[name] for name in ("id", "task", "node", "name", "text", "schema", "purpose")}
            task = _task(machine, data["task"])
            machine.catch_up(task)
            machine.ask(task, Question(**fields, about=data.get("about")))
        case "resolved":
            task = machine.tasks[data["task"]]
            machine.resolve(task, _writes(task.scope.topology.schema, data["writes"]))
        case "failed":
            _fail(machine, data)
        case _:
            _tell_of_task(machine, record, data, _task(machine, data["task"]))


def _tell_of_task(machine: Machine, record: Record, data: dict[str, Any], task: Task) -> None:
    schema = task.scope.topology.schema
    machine.catch_up(task)
    match record.kind:
        case "done":
            assert task.closing or (task.items is None and task.child is None), "what it holds is not over"
            task.attempt = data.get("attempt", 1)
            writes = _writes(schema, data["writes"]) if "writes" in data else NOTHING
            machine.finish(task, writes, _ways(task, data["to"]))
        case "item":
            codec = task.place.result_codec
            assert codec is not None, "the node maps nothing any more"
            value = to_json(data["value"])
            machine.finish_item(task, codec.decode(value), value)
        case "opened":
            child = task.place.child
            assert child is not None, "the node holds no graph any more"
            machine.open(task, child.schema.load({name: to_json(value) for name, value in data["input"].items()}))
        case "memo":
            machine.memo(task, data["name"], data["data"])
        case "attempted" if "name" in data:
            machine.memo(task, data["name"], data["data"])
        case "attempted":
            task.attempted = True
        case _:
            raise AssertionError(f"unknown kind {record.kind!r}")


def answer(machine: Machine, question_id: str, value: Any) -> None:
    """An answer arrives at the machine; what it means for a `once` node is decided here."""
    question = machine.questions[question_id]
    task = machine.answer(question_id, to_json(value).decode())
    if question.purpose == "once" and value == "retry":
        if question.name != "once":
            forget_begun(task, question.name)
            return
        task.attempted = False
        task.attempt += 1
        task.answers = None


def _fail(machine: Machine, data: dict[str, Any]) -> None:
    failures = tuple(Failure(**error) for error in data["errors"])
    if failures and failures[0].merge and failures[0].task == data["task"]:
        return  # told for readers; the merge itself is tried again
    if data["task"] not in machine.tasks and not _holders(machine, data["task"]):
        return  # it has been forgotten with its container
    task = _task(machine, data["task"])
    machine.catch_up(task)
    task.attempt = data["attempt"]
    if data["final"]:
        machine.fail(task, failures)
    else:
        task.attempt += 1


def _retry(machine: Machine, data: dict[str, Any]) -> None:
    for name in data.get("inside", ()):
        machine.go_on_inside(machine.tasks[name])
    retry_fresh(machine, data.get("fresh", ()))


def retry_fresh(machine: Machine, names: Iterable[str]) -> None:
    """Some tasks are to be run again as if they had never begun."""
    for name in names:
        task = machine.tasks[name]
        task.memos, task.answers = kept_when_fresh(task.memos), None
        if task.status == "failed":
            machine.retry(task)


def _task(machine: Machine, name: str) -> Task:
    """A task by id; the map that it is an item of is opened if need be, as that has no record of its own."""
    task = machine.tasks.get(name)
    if task is None:
        for holder in _holders(machine, name):
            machine.catch_up(holder)
            machine.open_items(holder)
        task = machine.tasks[name]
    return task


def _holders(machine: Machine, name: str) -> list[Task]:
    return [
        task
        for task in machine.tasks.values()
        if isinstance(task.place.node, (MapNode, ItemNode))
        and task.items is None
        and task.index is None
        and not task.closing
        and name.startswith(f"{task.id}[")
    ]


def _writes(schema: Schema, data: Mapping[str, Any]) -> Writes:
    return {
        name: loaded_write(schema, name, kind, [to_json(value) for value in values])
        for name, (kind, values) in data.items()
    }


def _ways(task: Task, to: Sequence[Any]) -> list[Way]:
    topology = task.scope.topology
    ways: list[Way] = []
    for one in to:
        if isinstance(one, str):
            ways.append(tupled(Way, (topology.index[one], ())))
            continue
        name, items = one
        place = topology.places[topology.index[name]]
        codec = place.item_codec
        sent = [to_json(value) for value in items]
        assert not sent or codec is not None, f"`{name}` takes no items any more"
        ways.append(Way(place.index, tuple(Sent(codec.decode(data), data) for data in sent if codec is not None)))
    return ways


def as_json(fields: Mapping[str, Any]) -> dict[str, bytes]:
    """Each value of a parsed object as JSON again, for the codec that knows its type."""
    return {name: to_json(value) for name, value in fields.items()}
