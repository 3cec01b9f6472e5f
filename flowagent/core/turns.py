"""Which tasks may start, where maps with `at_most` have items that wait for their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from flowagent.core import ids
from flowagent.core.containers import has_begun_inside, holder_of, is_run_itself, limited_items
from flowagent.core.facts import TaskStatus
from flowagent.core.scope import Task
from flowagent.core.slots import Slots

_CAN_GO_ON: frozenset[TaskStatus] = frozenset({"ready", "queued", "running"})


class Turns:
    """Gives slots to items and takes them back.

    Args:
        tasks: the machine's, all unfinished ones by id.
        ready: the machine's, those that may start.
        stuck: the machine's, containers that somebody has to decide on.

    Attributes:
        is_replaying: whether records are told, which say themselves which items had a slot: no other gets one.
    """

    def __init__(self, tasks: dict[str, Task], ready: deque[Task], stuck: list[Task]) -> None:
        self.is_replaying = False
        self._tasks = tasks
        self._ready = ready
        self._stuck = stuck

    def make_ready(self, task: Task) -> None:
        """Let a task start, unless an item that it is or is inside of has to wait for its turn."""
        if (task.container is not None or task.scope.owner is not None) and not self._get_slots(task):
            task.status = "queued"
            return
        task.status = "ready"
        self._ready.append(task)

    def _get_slots(self, task: Task) -> bool:
        """Whether each item around a task has a slot or gets one; from the outside in, the first without one waits."""
        for slots, item in reversed(limited_items(task)):
            if item in slots.taken:
                continue
            if slots.is_full or self.is_replaying:
                slots.wait(item)
                item.status = "queued"
                return False
            slots.take(item)
        return True

    def share_out(self, slots: Slots) -> None:
        """Give free slots to the items that wait for one."""
        while slots.waiting and not (slots.is_full or self.is_replaying):
            self.let_on(slots, slots.waiting[0])

    def let_on(self, slots: Slots, item: Task) -> None:
        """It is an item's turn: what waits with it may go on."""
        slots.take(item)
        if is_run_itself(item):
            self.make_ready(item)
            return
        item.status = "inside"
        for inner in self.in_order(item):
            if inner.status == "queued" and is_run_itself(inner):
                self.make_ready(inner)

    def give_way(self, task: Task) -> None:
        """Something has come to rest: the items around it in which nothing can go on leave their slots to others."""
        for slots, item in limited_items(task):
            if self._can_go_on(item):
                return
            slots.leave(item)
            self.share_out(slots)

    def _can_go_on(self, item: Task) -> bool:
        """Whether there is anything to do in an item before somebody answers, settles a merge or tries again."""
        if item.status in _CAN_GO_ON or not has_begun_inside(item):
            return item.status in _CAN_GO_ON
        # What is stuck is decided on at once, and is tried again or handled without having to wait.
        going_on = chain(self._stuck, (one for one in self._tasks.values() if one.status in _CAN_GO_ON))
        prefix = _prefixes_inside(item)
        return any(one.id.startswith(prefix) for one in going_on)

    def share_out_anew(self) -> None:
        """Who is under way keeps a slot; the others get what is left, in their order."""
        kept = list(dict.fromkeys(task for task in self._ready if task.status == "ready"))
        self._ready.clear()
        self._ready.extend(kept)
        waiting = _by_id(task for task in self._tasks.values() if task.status == "queued")
        under_way = [task for task in self._tasks.values() if task.status in ("ready", "running")]
        for task in self._tasks.values():
            if task.slots is not None:
                task.slots.clear()
        for task in (*under_way, *map(holder_of, self._stuck)):
            for slots, item in limited_items(task):
                slots.take(item)
        for task in waiting:
            if not is_run_itself(task):
                task.status = "inside"
        for task in waiting:
            if is_run_itself(task):
                self.make_ready(task)

    def inside(self, task: Task) -> Iterator[Task]:
        """All that a task holds."""
        prefix = _prefixes_inside(task)
        return (other for other in self._tasks.values() if other.id.startswith(prefix))

    def in_order(self, task: Task) -> list[Task]:
        """What is inside a task, by id: after a crash the tasks may lie in another order."""
        return _by_id(self.inside(task))


def _prefixes_inside(task: Task) -> tuple[str, str]:
    """What the ids of all that a task holds begin with."""
    return f"{task.id}/", f"{task.id}["


def _by_id(tasks: Iterable[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: ids.natural(task.id))
