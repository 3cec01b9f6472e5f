"""The machine's position as plain data, and back: what a snapshot holds.

It is the sealed history (a few commits), the live tokens, who waits at which join, the tasks that have begun
something, and the open questions. Everything else follows: states are folded again from the commits' updates.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It reads plain data back.)
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from pydantic import ValidationError

from flowagent.core.commits import Arrow, Commit, Mark, Sent, datas_of, meet
from flowagent.core.containers import slots_for
from flowagent.core.facts import Failure, Question
from flowagent.core.fields import problems_of
from flowagent.core.machine import Machine
from flowagent.core.policies import OnFailure
from flowagent.core.schema import Schema
from flowagent.core.scope import Scope, Task
from flowagent.core.topology import Topology
from flowagent.core.usage import Usage
from flowagent.core.writes import Values, Write, Writes, applied, tupled
from flowagent.errors import StateError

Data: TypeAlias = dict[str, Any]
_UNFOLDED: Values = {}


def export(machine: Machine) -> Data:
    """The position as JSON-able data.

    Tasks that are running are exported as ready: a record is what counts, and they have none yet.
    """
    return {
        "steps": machine.steps - sum(_begins_again(task) for task in machine.tasks.values()),
        "scope": _exported_scope(machine, machine.root),
        "questions": [question.plain() for question in machine.questions.values()],
        "final": _dumped(machine.root.topology.schema, machine.root.values),
    }


def restored(topology: Topology, data: Data, *, on_failure: OnFailure = "finish") -> Machine:
    """The machine at an exported position.

    Raises:
        StateError: the stored state does not fit today's model.
    """
    machine = Machine(topology, _UNFOLDED, on_failure=on_failure)
    machine.steps = data["steps"]
    machine.root = Scope(topology, _UNFOLDED, None)
    _restore_scope(machine, machine.root, data["scope"])
    machine.questions = {one["id"]: Question(**one) for one in data["questions"]}
    if data["final"] is not None:
        machine.root.values = topology.schema.load(data["final"])
    machine.look_again()
    return machine


def _begins_again(task: Task) -> bool:
    """Whether a task that was counted as a step will start anew, and be counted then."""
    is_step = task.counted and task.index is None and not task.place.is_router
    return is_step and task.status in ("ready", "running") and not task.closing


# -- scopes --------------------------------------------------------------------------------------------------------


def _exported_scope(machine: Machine, scope: Scope) -> Data:
    schema = scope.topology.schema
    commits = list(_history(scope, machine))
    place = {commit: number for number, commit in enumerate(commits)}
    arrows = {arrow: (place[commit], at) for commit in commits for at, arrow in enumerate(commit.arrows)}
    tasks = [task for task in machine.tasks.values() if task.scope is scope and task.index is None]
    return {
        "values": _dumped(schema, commits[0].values) if commits else None,
        "commits": [_exported_commit(schema, commit, place) for commit in commits],
        "ended": [arrows[arrow] for arrow in scope.ended],
        "waiting": [arrows[arrow] for group in scope.groups.values() for arrow in group],
        "fired": [[join, visit, times] for (join, visit), times in scope.fired.items()],
        "tasks": [_exported_task(machine, task, arrows, place) for task in tasks],
        **({"spent": scope.spent.plain()} if scope.spent else {}),
    }


def _history(scope: Scope, machine: Machine) -> Iterator[Commit]:
    """All commits of a graph that are still known, parents first."""
    ends = [arrow.tail for arrow in scope.ended]
    ends += [arrow.tail for group in scope.groups.values() for arrow in group]
    for task in machine.tasks.values():
        if task.scope is scope:
            ends += [arrow.tail for arrow in task.arrows]
            ends += [outcome[1] for outcome in task.results if _is_commit(outcome)]
    seen: set[Commit] = set()
    stack = [(end, False) for end in reversed(ends)]
    while stack:
        commit, left = stack.pop()
        if left:
            yield commit
        elif commit not in seen:
            seen.add(commit)
            stack.append((commit, True))
            stack.extend((parent, False) for parent in reversed(commit.parents))


def _is_commit(outcome: Any) -> bool:
    return bool(outcome) and outcome[0] and isinstance(outcome[1], Commit)


def _exported_commit(schema: Schema, commit: Commit, place: dict[Commit, int]) -> Data:
    return {
        "id": commit.id,
        "number": commit.number,
        "marks": [mark and [mark.visit, mark.number, mark.within, mark.times] for mark in commit.marks],
        "parents": [place[parent] for parent in commit.parents],
        "writes": _dumped_writes(schema, commit.writes),
        "arrows": [
            [
                arrow.head,
                [place[child] for child in arrow.children if child in place],
                [s.data.decode() for s in arrow.sent],
            ]
            for arrow in commit.arrows
        ],
    }


def _restore_scope(machine: Machine, scope: Scope, data: Data) -> None:
    schema = scope.topology.schema
    scope.spent = Usage(**data.get("spent", {}))
    commits = [_restored_commit(schema, one) for one in data["commits"]]
    for commit, one in zip(commits, data["commits"], strict=True):
        _link(scope, commits, commit, one)
    if not commits:
        return
    scope.start = commits[0]
    scope.fired = {(join, visit): times for join, visit, times in data["fired"]}
    commits[0].values = schema.load(data["values"])
    for commit in commits[1:]:
        # What it set itself is not merged from its branches: they may be in conflict over it, and that was settled.
        whole = {name: write for name, write in commit.writes.items() if write.kind != "delta"}
        top, values, _ = meet(schema, commit.parents, whole)
        commit.dominator, commit.depth = top, top.depth + 1
        commit.values = applied(schema.reducers, values, commit.writes)

    def arrow(where: Sequence[int]) -> Arrow:
        return commits[where[0]].arrows[where[1]]

    for where in data["ended"]:
        arrow(where).ended = True
        scope.ended.append(arrow(where))
    for where in data["waiting"]:
        waiting = arrow(where)
        scope.live += 1
        place = scope.topology.places[waiting.head]
        scope.hold(waiting)
        scope.groups.setdefault(scope.group_key(place, waiting), []).append(waiting)
    for one in data["tasks"]:
        _restore_task(machine, scope, one, [arrow(where) for where in one["arrows"]], commits)


def _restored_commit(schema: Schema, data: Data) -> Commit:
    marks = tuple(mark and Mark(*mark) for mark in data["marks"])
    commit = Commit(data["id"], data["number"], marks, (), _UNFOLDED)
    commit.writes = _loaded_writes(schema, data["writes"])
    return commit


def _link(scope: Scope, commits: Sequence[Commit], commit: Commit, data: Data) -> None:
    commit.parents = tuple(commits[number] for number in data["parents"])
    for head, children, sent in data["arrows"]:
        arrow = Arrow(commit, head)
        arrow.children = [commits[number] for number in children]
        arrow.sent = _loaded_items(scope.topology, head, sent)
        commit.arrows.append(arrow)


def _loaded_items(topology: Topology, head: int, sent: Sequence[str]) -> list[Sent]:
    codec = topology.places[head].item_codec
    return [Sent(one if codec is None else codec.decode(one), one.encode()) for one in sent]


# -- tasks ---------------------------------------------------------------------------------------------------------


def _exported_task(
    machine: Machine, task: Task, arrows: dict[Arrow, tuple[int, int]], place: dict[Commit, int]
) -> Data:
    data: Data = {
        "id": task.id,
        "head": task.place.index,
        "number": task.number,
        "times": task.times,
        "arrows": [arrows[arrow] for arrow in task.arrows],
        **_exported_progress(machine, task),
    }
    if task.items is not None:
        data["items"] = [[index, _exported_progress(machine, item)] for index, item in task.items.items()]
    if task.items is not None or task.results:
        data["results"] = [_exported_result(outcome, place) for outcome in task.results]
    return data


def _exported_progress(machine: Machine, task: Task) -> Data:
    """What a task, or an item, has done and waits for."""
    return {
        "status": "ready" if task.status == "running" else task.status,
        "attempt": task.attempt,
        "tried": task.tried,
        "closing": task.closing,
        "failures": [failure.plain() for failure in task.failures],
        "caught": [failure.plain() for failure in task.caught],
        "memos": task.memos,
        "answers": task.answers,
        "attempted": task.attempted,
        "counted": task.counted and not _begins_again(task),
        "child": None if task.child is None else _exported_child(machine, task.child),
    }


def _exported_child(machine: Machine, scope: Scope) -> Data:
    schema = scope.topology.schema
    return {
        **_exported_scope(machine, scope),
        "final": _dumped(schema, scope.values),
        "since": _dumped_writes(schema, scope.since),
    }


def _exported_result(outcome: Any, place: dict[Commit, int]) -> Any:
    if outcome is None:
        return None
    if _is_commit(outcome):
        return {"commit": place[outcome[1]]}
    return {"value": outcome[2].decode()} if outcome[0] else {"failed": [failure.plain() for failure in outcome[1]]}


def _restore_task(machine: Machine, scope: Scope, data: Data, arrows: list[Arrow], commits: Sequence[Commit]) -> None:
    place = scope.topology.places[data["head"]]
    task = Task(data["id"], scope, place, data["number"], data["times"])
    task.arrows = arrows
    scope.live += len(arrows)
    for arrow in arrows:
        scope.hold(arrow, fired=True)
    task.parents = tuple(dict.fromkeys(arrow.tail for arrow in arrows))
    machine.regain(task)
    _restore_progress(machine, task, data)
    if "results" in data:
        _restore_items(machine, task, data, commits)


def _restore_progress(machine: Machine, task: Task, data: Data) -> None:
    task.attempt, task.tried = data["attempt"], data["tried"]
    task.closing = data["closing"]
    task.caught = tuple(Failure(**one) for one in data["caught"])
    task.memos, task.answers, task.attempted = data["memos"], data["answers"], data["attempted"]
    task.counted = data["counted"]
    if data["child"] is not None:
        topology = task.place.child
        assert topology is not None, "only graphs have graphs inside; this is a bug in flowagent"
        task.child = Scope(topology, _UNFOLDED, task)
        _restore_scope(machine, task.child, data["child"])
        if data["child"]["final"] is not None:
            task.child.values = topology.schema.load(data["child"]["final"])
            task.child.since = _loaded_writes(topology.schema, data["child"]["since"])
    failures = tuple(Failure(**one) for one in data["failures"])
    # A merge of its own that had failed has been tried again: it is `regain` that says whether it still fails.
    was_unmerged = bool(failures) and failures[0].merge and failures[0].task == task.id
    machine.stand(task, data["status"], () if was_unmerged else failures)


def _restore_items(machine: Machine, task: Task, data: Data, commits: Sequence[Commit]) -> None:
    task.results = [_restored_result(task, outcome, commits) for outcome in data["results"]]
    if "items" not in data:
        return
    task.items, task.slots = {}, slots_for(task)
    for index, progress in data["items"]:
        _restore_progress(machine, machine.regain_item(task, index), progress)


def _restored_result(task: Task, outcome: Any, commits: Sequence[Commit]) -> Any:
    if outcome is None:
        return None
    if "commit" in outcome:
        return (True, commits[outcome["commit"]], b"")
    if "failed" in outcome:
        return (False, tuple(Failure(**one) for one in outcome["failed"]))
    codec = task.place.result_codec
    text: str = outcome["value"]
    return (True, json.loads(text) if codec is None else codec.decode(text), text.encode())


# -- values --------------------------------------------------------------------------------------------------------


def _dumped(schema: Schema, values: Values | None) -> dict[str, str] | None:
    return None if values is None else {name: data.decode() for name, data in schema.dump(values).items()}


def _dumped_writes(schema: Schema, writes: Writes) -> Data:
    return {
        name: [write.kind, [data.decode() for data in datas_of(schema, name, write)]] for name, write in writes.items()
    }


def _loaded_writes(schema: Schema, data: Data) -> Writes:
    return {
        name: loaded_write(schema, name, kind, [one.encode() for one in datas]) for name, (kind, datas) in data.items()
    }


def loaded_write(schema: Schema, name: str, kind: Any, datas: list[bytes]) -> Write:
    """A write from its JSON, which it keeps.

    Raises:
        StateError: the field is no field of the model any more, or the data does not fit it.
    """
    assert kind in ("set", "delta", "replace"), f"unknown kind of write {kind!r}"
    field = schema.field(name)
    codec = field.delta if kind == "delta" else field.value
    try:
        values = [codec.decode(data) for data in datas]
    except ValidationError as error:
        cause = None if field.secret else error
        raise StateError(f"`{name}`: {problems_of(error, field.secret)}") from cause
    return tupled(Write, (kind, values, datas))
