"""What a run's journal tells without the code that made it: its steps, and which questions and failures stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowagent.core import journal
from flowagent.core.facts import Question
from flowagent.core.history import Step, steps_of
from flowagent.core.ids import path_of
from flowagent.core.records import Record, RunInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A run as its journal tells it.

    Args:
        info: what the store knows of it.
        steps: what was recorded of its tasks, in order.
        questions: the open ones, by id.
        errors: the failures that stand.
        reason: why it stopped where it did, if there is more to say than its status.
        begun: when it was started, in seconds since 1970.
    """

    info: RunInfo
    steps: tuple[Step, ...]
    questions: tuple[Question, ...]
    errors: tuple[Step, ...]
    reason: str
    begun: float


def story_of(info: RunInfo, records: Sequence[Record]) -> Story:
    """What the records of a run tell."""
    datas = [journal.read(info.run_id, record) for record in records]
    steps = steps_of(info.run_id, records)
    ended = [data for record, data in zip(records, datas, strict=True) if record.kind == "ended"]
    started = datas[0] if records and records[0].kind == "started" else {}
    over = info.status == "completed"
    return Story(
        info=info,
        steps=steps,
        questions=() if over else tuple(_open_questions(records, datas)),
        errors=() if over else tuple(_standing(steps, started.get("shape", {}))),
        reason=ended[-1].get("reason", "") if ended and info.status != "running" else "",
        begun=started.get("at", info.created),
    )


def _open_questions(records: Sequence[Record], datas: Sequence[Mapping[str, Any]]) -> list[Question]:
    """Those that were asked and neither answered nor made pointless by what came after."""
    known: dict[str, Question] = {}
    for record, data in zip(records, datas, strict=True):
        match record.kind:
            case "asked":
                names = ("id", "task", "node", "name", "text", "schema", "purpose")
                known[data["id"]] = Question(**{name: data[name] for name in names})
            case "answered":
                known.pop(data["id"], None)
            case "done" | "item" | "failed":
                known = {name: question for name, question in known.items() if question.task != data["task"]}
            case _:
                pass
    return sorted(known.values(), key=lambda question: question.id)


def _standing(steps: Sequence[Step], shape: Mapping[str, Any]) -> Iterator[Step]:
    """The last failures of tasks that nothing has come after: no success, no handler, no failure of what holds them."""
    handled = set(_handled(shape, ()))
    last = {step.task: step for step in steps if step.kind != "answered"}
    for step in last.values():
        if step.kind != "failed" or not step.final or path_of(step.task) in handled:
            continue
        holders = [last[name] for name in _holders(step.task) if name in last]
        if not any(holder.seq > step.seq and holder.kind in ("done", "item", "failed") for holder in holders):
            yield step


def _handled(shape: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The nodes whose failures an edge leads to a handler for."""
    yield from ((*path, tail) for tail, _, kind in shape.get("edges", ()) if kind == "error")
    for name, node in shape.get("nodes", {}).items():
        if "child" in node:
            yield from _handled(node["child"], (*path, name))


def _holders(task: str) -> Iterator[str]:
    """The ids of the maps and nested graphs that a task is in."""
    return (task[:at] for at, character in enumerate(task) if character in "/[")
