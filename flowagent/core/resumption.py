"""What a caller adds to a stored run: answers, fresh tries, settled merges; told to the machine and made records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowagent.core import journal
from flowagent.core.containers import is_unmerged
from flowagent.core.fields import short
from flowagent.core.machine import Machine
from flowagent.core.questions import accepted
from flowagent.core.records import Record, RecordKind
from flowagent.core.reducers import Replace
from flowagent.core.scope import Task
from flowagent.core.writes import Write, Writes
from flowagent.errors import AnswerError, ConflictError, FlowAgentError, StateError


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What one `resume` adds.

    Args:
        answers: by question id, or by a gate's name.
        retry: `{task: "fresh"}` for tasks whose memos are dropped.
        resolve: `{field: value}` or `{task: {field: value}}` for failed merges.
    """

    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retry: Mapping[str, str] = field(default_factory=dict[str, str])
    resolve: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        for name, holds in (
            ("answers", "question id: answer"),
            ("retry", "task: 'fresh'"),
            ("resolve", "field: value"),
        ):
            if not isinstance(getattr(self, name), Mapping):
                kind = AnswerError if name == "answers" else FlowAgentError
                raise kind(f"{name}= takes {{{holds}}}, not {short(getattr(self, name))}")

    def __bool__(self) -> bool:
        return bool(self.answers or self.retry or self.resolve)


def refuse_misfits(machine: Machine, run_id: str, addition: Addition) -> None:
    """Check what is added before anything is changed.

    Raises:
        AnswerError: an answer that fits no open question, or not its schema; or the run is completed.
        FlowAgentError: a task to be tried afresh that is not unfinished.
    """
    if addition and machine.final is not None:
        raise AnswerError(f"run `{run_id}` is completed; it asks nothing any more")
    accepted(machine, addition.answers)
    for name, how in addition.retry.items():
        if how != "fresh":
            raise FlowAgentError(f"retry={{{name!r}: {how!r}}}: the only way to say is 'fresh', which drops its memos")
        if name not in machine.tasks:
            known = ", ".join(f"`{task}`" for task in machine.tasks) or "none"
            raise FlowAgentError(f"run `{run_id}` has no unfinished task `{name}`; unfinished are: {known}")


def added(machine: Machine, next_seq: int, addition: Addition) -> list[Record]:
    """Tell the machine what is added, and have every failed task run again; the records of it.

    Raises:
        AnswerError: an answer that does not fit.
        StateError: `resolve` is about no failed merge, or settles one only in part.
    """
    bodies: list[tuple[RecordKind, bytes]] = []
    for question_id, data in accepted(machine, addition.answers).items():
        question = machine.questions[question_id]
        bodies.append(("answered", journal.answered(question, data, time.time())))
        journal.answer(machine, question_id, journal.parsed(data))
    fresh = [name for name in addition.retry if name in machine.tasks]
    if fresh:
        bodies.append(("retried", journal.plain(time.time(), fresh=fresh)))
        journal.retry_fresh(machine, fresh)
    bodies.extend(("resolved", body) for body in _resolved(machine, addition.resolve))
    for task in machine.failed_tasks():
        machine.retry(task)
    return [Record(next_seq + at, kind, body) for at, (kind, body) in enumerate(bodies)]


def _resolved(machine: Machine, resolve: Mapping[str, Any]) -> Sequence[bytes]:
    """Settle the failed merges that `resolve` speaks of."""
    bodies: list[bytes] = []
    used: set[str] = set()
    for task in machine.failed_tasks():
        if not is_unmerged(task):
            continue
        wanted = _wanted(task, resolve, used)
        if not wanted:
            continue
        bodies.append(journal.resolved(task, _settled(machine, task, wanted, resolve, used), time.time()))
    left = [name for name in resolve if name not in used]
    if left:
        raise StateError(f"resolve= names {', '.join(f'`{name}`' for name in left)}, and no failed merge is about that")
    return bodies


def _settled(
    machine: Machine, task: Task, wanted: dict[str, Any], resolve: Mapping[str, Any], used: set[str]
) -> Writes:
    """Settle one failed merge, which names one field in conflict after another."""
    while True:
        writes = _as_sets(task, wanted)
        try:
            machine.resolve(task, writes)
        except ConflictError as error:
            if error.field in wanted or error.field not in resolve:
                raise StateError(f"resolve= settles `{task.id}` only in part: {error}") from error
            wanted[error.field] = resolve[error.field]
            used.add(error.field)
        else:
            return writes


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
    schema = task.scope.topology.schema
    writes = schema.update(task.top.values, {name: Replace(value) for name, value in wanted.items()})
    return {
        name: Write("set" if schema.reducers[name] is None else "replace", *write[1:]) for name, write in writes.items()
    }
