"""What a run tells its watchers: one closed union of frozen events.

Events are for watching and are not stored; what must be known afterwards is in the journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from flowagent.core.facts import Failure, Question
from flowagent.core.records import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What every event says.

    Args:
        run_id: the run.
        number: counts the events of this call, from 0.
        time: when, in seconds since 1970.
    """

    run_id: str
    number: int
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfTask(_Told):
    """What every event of a task says.

    Args:
        task_id: the task.
        node: the name of its node.
        path: the names of the nodes that hold its graph, outermost first.
        attempt: which attempt, from 1.
    """

    task_id: str
    node: str
    path: tuple[str, ...]
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_Told):
    """The run starts, or goes on (`resumed`)."""

    graph: str
    resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(_OfTask):
    """An attempt begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone(_OfTask):
    """A task is done and its record is stored with the next commit.

    Args:
        update: the validated values and deltas that it wrote, by field; of secret ones the mask.
        to: the nodes that it led to.
        seconds: how long the attempt took.
    """

    update: dict[str, Any]
    to: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(_OfTask):
    """An attempt failed. `retry_in` is the wait before the next one in seconds, or None if there is none."""

    failures: tuple[Failure, ...]
    retry_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(_OfTask):
    """A task waits for an answer."""

    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted(_OfTask):
    """A node said something of its own, by `ctx.emit` or `ctx.log`."""

    name: str
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(_OfTask):
    """Something is odd that will matter later: two branches wrote one field, or a thread outlived its timeout."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_Told):
    """This call is over; `status` is where the run stands."""

    status: Status


Event: TypeAlias = RunStarted | TaskStarted | TaskDone | TaskFailed | Asked | Emitted | Warned | RunEnded
"""Everything that a run can tell. `match` on it and end in `assert_never`."""
