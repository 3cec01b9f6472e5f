"""A run's history as its journal tells it: readable without the code that made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flowagent.core import journal
from flowagent.core.ids import path_of
from flowagent.core.records import Record
from flowagent.core.secret import SEALED, masked
from flowagent.core.usage import NO_USAGE, Usage

StepKind = Literal["done", "item", "failed", "asked", "answered", "opened", "resolved"]
_TOLD = frozenset({"done", "item", "failed", "asked", "answered", "opened", "resolved"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that was recorded of one task.

    Args:
        seq: the record's number in the journal.
        kind: what happened.
        task: the task's id.
        node: its node.
        attempt: which attempt, from 1.
        writes: `{field: (kind, [value, ...])}` as plain data.
        to: the nodes that it led to.
        at: when it was recorded, in seconds since 1970.
        seconds: how long the attempt took.
        final: for failures, whether no further attempt followed by itself.
        errors: for failures, `Class: message` of each.
        detail: the question, the answer or the input, as plain data.
        usage: what was spent since the task's record before, a failed attempt's too.
    """

    seq: int
    kind: StepKind
    task: str
    node: str
    attempt: int = 1
    writes: Mapping[str, tuple[str, list[Any]]]
    to: tuple[str, ...] = ()
    at: float = 0.0
    seconds: float = 0.0
    final: bool = True
    errors: tuple[str, ...] = ()
    detail: Any = None
    usage: Usage = NO_USAGE


def steps_of(run_id: str, records: Iterable[Record]) -> tuple[Step, ...]:
    """The steps that some records tell of.

    Raises:
        StoreError: a record is damaged.
    """
    return tuple(_step(record, _shown(run_id, record)) for record in records if record.kind in _TOLD)


def _shown(run_id: str, record: Record) -> dict[str, Any]:
    data = journal.read(run_id, record)
    return masked(data) if SEALED in record.data else data


def _step(record: Record, data: dict[str, Any]) -> Step:
    return Step(
        seq=record.seq,
        kind=record.kind,  # type: ignore[arg-type]  # one of those told
        task=data.get("task", ""),
        node=path_of(data["task"])[-1] if record.kind in {"done", "item"} else data.get("node", ""),
        attempt=data.get("attempt", 1),
        writes={name: (kind, values) for name, (kind, values) in data.get("writes", {}).items()},
        to=tuple(one if isinstance(one, str) else one[0] for one in data.get("to", ())),
        at=data.get("at", 0.0),
        seconds=data.get("s", 0.0),
        final=data.get("final", True),
        errors=tuple(f"{error['kind']}: {error['message']}" for error in data.get("errors", ())),
        detail=data.get("text", data.get("value", data.get("input"))),
        usage=journal.usage_of(data) or NO_USAGE,
    )


def usage_by_node(run_id: str, records: Iterable[Record]) -> dict[tuple[str, ...], Usage]:
    """What the tasks of each node have spent, by the names of the nodes that lead to it; none that spent nothing."""
    found: dict[tuple[str, ...], Usage] = {}
    for record in records:
        if b'"usage":' not in record.data:
            continue
        data = journal.read(run_id, record)
        usage = journal.usage_of(data)
        if usage is not None:
            path = path_of(data["task"])
            found[path] = found.get(path, NO_USAGE) + usage
    return found
