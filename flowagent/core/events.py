"""What a run tells its watchers: one closed union of frozen events.

Events are for watching and are not stored; what must be known afterwards is in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flowagent.core.facts import Failure, Question
from flowagent.core.records import Status
from flowagent.core.usage import NO_USAGE, Usage


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
    """The run starts, or goes on (`resumed`).

    Args:
        graph: the name of its graph.
        resumed: whether it was started by an earlier call.
        carried: what the observers of that call wanted kept, such as where its trace is; else empty.
    """

    graph: str
    resumed: bool
    carried: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(_OfTask):
    """An attempt begins; or a nested graph, which goes on in a resumed run.

    Args:
        opens: the name of the graph that it opens; None for a task that calls a function.
        is_agent: whether that is the graph of an agent.
    """

    opens: str | None = None
    is_agent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone(_OfTask):
    """A task is done and its record is stored with the next commit.

    Args:
        update: the validated values and deltas that it wrote, by field; of secret ones the mask.
        to: the nodes that it led to.
        seconds: how long the attempt took.
        usage: what the attempt spent.
    """

    update: dict[str, Any]
    to: tuple[str, ...]
    seconds: float
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(_OfTask):
    """An attempt failed.

    Args:
        failures: why.
        retry_in: the wait before the next attempt in seconds, or None if there is none.
        usage: what the attempt spent all the same.
    """

    failures: tuple[Failure, ...]
    retry_in: float | None
    usage: Usage = NO_USAGE


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
class TextDelta(_OfTask):
    """A model has written more text; `thinking` says that it is thought and not answered."""

    text: str
    thinking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(_OfTask):
    """A call of a tool begins.

    Args:
        tool: its name.
        call_id: the id that the model gave the call.
        arguments: what it is called with, as the model wrote it: JSON, if the model did well.
    """

    tool: str
    call_id: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded(_OfTask):
    """A call of a tool is over.

    Args:
        tool: its name.
        call_id: the id that the model gave the call.
        is_error: whether the model is told an error.
        text: what the model is told.
        seconds: how long the call took.
    """

    tool: str
    call_id: str
    is_error: bool
    text: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAsked(_OfTask):
    """A model is asked.

    Args:
        model: who, as `provider:model`.
        asked: the `ModelRequest`; the same object in the event that tells how it ended.
    """

    model: str
    asked: Any = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed(_OfTask):
    """A model did not answer, for all its retries.

    Args:
        model: who, as `provider:model`.
        asked: the `ModelRequest`.
        kind: what kind of failure it was, such as `rate_limit`.
        message: what the provider said.
        usage: what it cost all the same.
        seconds: from the request to the failure.
    """

    model: str
    asked: Any = field(repr=False)
    kind: str
    message: str
    usage: Usage
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled(_OfTask):
    """A model has answered.

    Args:
        model: who, as `provider:model`.
        asked: the `ModelRequest`, if who tells this had one.
        reply: the `Reply`, likewise.
        request: which request of the conversation it was, from 1.
        usage: what it cost, retries included.
        seconds: from the request to the end of the reply.
        first_token: seconds from the request to the first part of the reply; None if nothing was streamed.
        finish: why the reply ended.
    """

    model: str
    asked: Any = field(default=None, repr=False)
    reply: Any = field(default=None, repr=False)
    request: int
    usage: Usage
    seconds: float
    first_token: float | None
    finish: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWaits(_OfTask):
    """A request to a model failed in a way that may pass, and is made again after a wait.

    Args:
        model: who, as `provider:model`.
        seconds: how long the wait is.
        kind: what kind of failure it was, such as `rate_limit`.
        message: what the provider said.
        restarted: whether text that was told already is void, as the answer begins anew.
    """

    model: str
    seconds: float
    kind: str
    message: str
    restarted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(_OfTask):
    """Something is odd that will matter later: two branches wrote one field, or a thread outlived its timeout."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_Told):
    """This call is over; `status` is where the run stands."""

    status: Status


OfModel: TypeAlias = TextDelta | ToolStarted | ToolEnded | ModelAsked | ModelCalled | ModelFailed | ModelWaits
"""What models and their tools do inside a task."""

Event: TypeAlias = RunStarted | TaskStarted | TaskDone | TaskFailed | Asked | Emitted | OfModel | Warned | RunEnded
"""Everything that a run can tell. `match` on it and end in `assert_never`."""
