"""Tells whoever listens to a run what happens."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

from flowagent.core.events import Emitted, Event, TaskDone, TaskFailed, TaskStarted, Warned
from flowagent.core.facts import Failure, Way
from flowagent.core.listening import Hears
from flowagent.core.scope import Task
from flowagent.core.secret import MASK
from flowagent.core.usage import NO_USAGE, Usage
from flowagent.core.writes import Writes


class Teller:
    """Makes events, numbers them and hands them to the listeners, if there are any."""

    def __init__(self, run_id: str, listeners: Sequence[Hears], clock: Callable[[], float]) -> None:
        self.is_heard = bool(listeners)
        self._run_id = run_id
        self._listeners = listeners
        self._clock = clock
        self._told = 0

    def tell(self, kind: Callable[..., Event], /, **facts: Any) -> None:
        """Tell an event of the run."""
        if not self.is_heard:
            return
        event = kind(run_id=self._run_id, number=self._told, time=self._clock(), **facts)
        self._told += 1
        for hears in self._listeners:
            hears(event)

    def of(self, kind: Callable[..., Event], task: Task, /, **facts: Any) -> None:
        """Tell an event of a task."""
        if self.is_heard:
            self.tell(kind, task_id=task.id, node=task.place.name, path=path_of(task), attempt=task.attempt, **facts)

    def started(self, task: Task, variables: contextvars.Context) -> contextvars.Context:
        """Tell that an attempt begins, in the context variables that it will have: a copy of these."""
        context = variables.copy()
        if self.is_heard:
            context.run(self.of, TaskStarted, task)
        return context

    def done(self, task: Task, writes: Writes, ways: Sequence[Way], seconds: float) -> None:
        """Tell that a task is done."""
        topology = task.scope.topology
        places = topology.places
        update: dict[str, Any] = {
            name: write.values[0] if len(write.values) == 1 else write.values for name, write in writes.items()
        }
        if topology.schema.secrets:
            update = {name: MASK if name in topology.schema.secrets else value for name, value in update.items()}
        to = tuple(places[way.head].name for way in ways)
        self.of(TaskDone, task, update=update, to=to, seconds=seconds, usage=_spent(task))

    def failed(self, task: Task, failures: tuple[Failure, ...], retry_in: float | None = None) -> None:
        """Tell that an attempt failed."""
        self.of(TaskFailed, task, failures=failures, retry_in=retry_in, usage=_spent(task))

    def item_done(self, task: Task, seconds: float) -> None:
        """Tell that an item of a map is done."""
        self.of(TaskDone, task, update={}, to=(), seconds=seconds, usage=_spent(task))

    def emitted(self, task: Task, name: str, data: Any) -> None:
        """Pass on what a node emitted."""
        self.of(Emitted, task, name=name, data=data)

    def warning(self, task: Task, text: str) -> None:
        """Say that something is odd."""
        self.of(Warned, task, text=text)


def _spent(task: Task) -> Usage:
    """What the attempt has spent that is over now."""
    return NO_USAGE if task.account is None else task.account.total


def path_of(task: Task) -> tuple[str, ...]:
    """The names of the nodes that hold a task's graph, outermost first."""
    path: list[str] = []
    owner = task.scope.owner
    while owner is not None:
        path.append(owner.place.name)
        owner = owner.scope.owner
    return tuple(reversed(path))
