"""What a task's id tells: which visit of its node it is, which item, and what it stands in."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

from flowagent.core.ids import around

_ITEM: Final = re.compile(r"\[(\d+)\]$")
_VISIT: Final = re.compile(r"^[^@~\[]*@([0-9.]+)")


class Place(NamedTuple):
    """A task, and where it stands.

    Attributes:
        task: its id.
        node: the name of its node.
        path: the names of the nodes that hold its graph, outermost first.
        visit: which visit of the node it is; `1` where the node has but one for each run of its graph.
        item: which item of a map it is, from 0; None if it is none.
    """

    task: str
    node: str
    path: tuple[str, ...]
    visit: str
    item: int | None


class OfTask(Protocol):
    """What is needed of an event of a task."""

    @property
    def task_id(self) -> str:
        """The task."""
        ...

    @property
    def node(self) -> str:
        """The name of its node."""
        ...

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the nodes that hold its graph, outermost first."""
        ...


def lineage(event: OfTask) -> list[Place]:
    """The tasks that hold an event's task, outermost first, and that task as the last.

    Example:
        >>> from flowagent.core.events import TaskStarted
        >>> event = TaskStarted(
        ...     run_id="r", number=0, time=0.0, task_id="read@2[3]/search", node="search", path=("read",), attempt=1
        ... )
        >>> [(place.task, place.visit, place.item) for place in lineage(event)]
        [('read@2', '2', None), ('read@2[3]', '2', 3), ('read@2[3]/search', '1', None)]
    """
    nodes = (*event.path, event.node)
    found: list[Place] = []
    start = 0
    for depth, task in enumerate([*around(event.task_id), event.task_id]):
        own = task[start:]
        visit = match[1] if (match := _VISIT.match(own)) else "1"
        item = _ITEM.search(own)
        if item is not None:
            found.append(Place(task[: -len(item[0])], nodes[depth], nodes[:depth], visit, None))
        found.append(Place(task, nodes[depth], nodes[:depth], visit, int(item[1]) if item is not None else None))
        start = len(task) + 1
    return found
