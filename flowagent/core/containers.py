"""Who holds whom: maps and nested graphs are tasks that hold tasks, and may catch what fails inside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from flowagent.core.nodes import GraphNode, MapNode
from flowagent.core.scope import Task
from flowagent.core.slots import Slots


def mapped_items(collection: Any) -> list[Any]:
    """The items of a collection, in an order that is the same in every process."""
    if isinstance(collection, (set, frozenset)):
        return sorted(collection, key=repr)  # pyright: ignore[reportUnknownArgumentType]
    if collection is None:
        return []
    return cast("list[Any]", collection) if isinstance(collection, list) else list(collection)


def is_unmerged(task: Task) -> bool:
    """Whether a task stands failed because the branches that meet there could not be merged."""
    return bool(task.failures) and task.failures[0].merge and task.failures[0].task == task.id


def has_begun_inside(task: Task) -> bool:
    """Whether a container has been opened, so that what it holds is what is run."""
    return task.child is not None or task.items is not None


def is_run_itself(task: Task) -> bool:
    """Whether what is next is the task itself, and not what it holds: it has not begun, or all inside is over."""
    return task.closing or not has_begun_inside(task)


def holder_of(task: Task) -> Task | None:
    """The container that a task is held by: the map of an item, or the task that its graph is nested in."""
    return task.container or task.scope.owner


def upwards(task: Task | None) -> Iterator[Task]:
    """A task and all that hold it, from the inside out."""
    while task is not None:
        yield task
        task = holder_of(task)


def tolerates(container: Task) -> bool:
    """Whether a map goes on without the items that fail."""
    node = container.place.node
    return isinstance(node, MapNode) and node.on_item_error != "fail"


def catches(task: Task) -> bool:
    """Whether a container fails itself, in place of letting what failed inside stand: somebody handles it."""
    if task.container is not None:
        return tolerates(task.container)
    node = task.place.node
    retried = node is not None and node.options.retry is not None and isinstance(node, (GraphNode, MapNode))
    return task.place.handler is not None or retried


def is_contained(task: Task) -> bool:
    """Whether some container catches what failed here."""
    return any(catches(holder) for holder in upwards(holder_of(task)))


def is_caught_below(task: Task, top: Task) -> bool:
    """Whether a container between a failed task and one further up still has to fail in place of it."""
    for holder in upwards(holder_of(task)):
        if holder is top:
            return False
        if holder.status == "inside" and catches(holder):
            return True
    return False


def slots_for(container: Task) -> Slots | None:
    """The slots for the items of a container, all of them free; None if all items may be under way at once."""
    node = container.place.node
    return Slots(node.at_most) if isinstance(node, MapNode) and node.at_most is not None else None


def limited_items(task: Task | None) -> list[tuple[Slots, Task]]:
    """The items that need a slot for a task to go on: itself and those around it, from the inside out."""
    return [
        (one.container.slots, one)
        for one in upwards(task)
        if one.container is not None and one.container.slots is not None
    ]


def is_beside(task: Task, failed: Task) -> bool:
    """Whether a task belongs to another item of a map in which one item failed."""
    items = {one.container.id: one.id for one in upwards(failed) if one.container is not None}
    return any(one.container is not None and items.get(one.container.id, one.id) != one.id for one in upwards(task))
