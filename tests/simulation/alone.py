"""Nodes that take the state alone: how they learn which task they are, and a graph in which all are such."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from flowagent import END, START, Graph, State, Update, append
from flowagent.core.events import Event, TaskStarted
from tests.kill.effects import Effects, Subject


class Told(Subject):
    """A subject of which some nodes must be told what they are, by `hear`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What a node that takes the state alone knows of its task, in place of a `Context`."""

    deps: Any
    run_id: str
    task_id: str
    attempt: int
    is_over: bool = True
    """Nobody tells; see `Attempt.is_over`."""

    @property
    def key(self) -> str:
        """See `Context.key`."""
        return f"{self.run_id}/{self.task_id}"

    @property
    def _port(self) -> Here:
        return self


_here: Final[contextvars.ContextVar[Any]] = contextvars.ContextVar("simulated_task")


def here() -> Any:
    """What the node knows that asks; see `Here`."""
    return _here.get()


def hear(event: Event, deps: Effects) -> None:
    """Tell nodes that take the state alone which task they are, by the context variables of their attempt."""
    if isinstance(event, TaskStarted):
        _here.set(Here(deps=deps, run_id=event.run_id, task_id=event.task_id, attempt=event.attempt))


class Laps(State):
    lap: int = 0
    seen: Annotated[list[str], append] = []


alone = Graph("alone", Laps, deps=Effects)


@alone.node
async def begin(laps: Laps) -> Update:
    await here().deps.work_beside(here())
    return {"seen": [here().task_id]}


@alone.node
def go_round(laps: Laps) -> Update:
    here().deps.work(here())
    return {"lap": laps.lap + 1, "seen": [here().task_id]}


@alone.router
async def again(laps: Laps) -> Literal["go_round", "prepare"]:
    await here().deps.work_beside(here())
    return "go_round" if laps.lap < 3 else "prepare"


@alone.node
async def prepare(laps: Laps) -> Update:
    return {"seen": [here().task_id]}


@alone.node
async def finish(laps: Laps) -> Update:
    await here().deps.work_beside(here())
    return {"seen": [here().task_id]}


alone.chain(START, begin, go_round, again)
alone.chain(prepare, finish, END)

ALONE: Final = Told(graph=alone, input=Laps())
