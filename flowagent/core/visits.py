"""Which visit of its node a task is: the numbers in ids, and the marks on commits that they are read off."""

from __future__ import annotations

from flowagent.core import ids
from flowagent.core.commits import Commit, Mark, Marks
from flowagent.core.scope import Scope, Task
from flowagent.core.topology import Place


def number_of(place: Place, tail: Commit, scope: Scope) -> tuple[str, int]:
    """The visit part of a new task's id, and which time round it is."""
    if not place.is_numbered:
        return tail.number, 0
    marks, own_slot = tail.marks, place.own_slot
    within = marks[place.slot]
    assert within is not None, f"no visit of the dominator of {place.name!r} is known; this is a bug in flowagent"
    if place.each:
        return ids.triggered(within.number, tail.id), 0
    if own_slot is None or not place.comes_round:
        return within.number, 0
    before = marks[own_slot]
    times = before.times + 1 if before is not None and before.within == within.visit else 1
    if place.tie is not None:  # fired alone, it may be reached again by what does not descend from that firing
        times = scope.fired[place.index, within.visit]
    return f"{within.number}.{times}" if within.number else str(times), times


def marked(task: Task, top: Commit) -> Marks:
    """The marks of a task's commit: those of its dominator and, if somebody asks for its visits, its own."""
    slot = task.place.own_slot
    if slot is None:
        return top.marks
    within = top.marks[task.place.slot]
    mark = Mark(task.id, task.number, "" if within is None else within.visit, task.times)
    return (*top.marks[:slot], mark, *top.marks[slot + 1 :])


def mark_again(task: Task, commit: Commit) -> None:
    """Note a visit in the marks of a commit that nobody else's were taken from, in place."""
    place, marks = task.place, commit.marks
    mark = None if place.own_slot is None else marks[place.own_slot]
    if mark is None:
        commit.marks = marked(task, commit)
        return
    within = marks[place.slot]
    mark.visit = task.id
    mark.number = task.number
    mark.times = task.times
    mark.within = "" if within is None else within.visit
