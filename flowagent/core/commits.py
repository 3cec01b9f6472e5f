"""The history of a run as a graph of commits, and what is read off it: common dominators, fold order, merges.

A finished task is a commit; the arrows out of it lead to the commits that it triggered, or are live tokens. What
lies behind is sealed as far as possible, so that a loop costs no memory: a stretch from one commit to another that
is the only way on from it becomes one commit whose update does what the whole stretch did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from flowagent.core.schema import Schema
from flowagent.core.writes import NOTHING, Values, Write, Writes, applied, followed, merged, unmergeable
from flowagent.errors import ConflictError

Marks: TypeAlias = "tuple[Mark | None, ...]"


class Mark:
    """The latest visit of a node on a commit's dominator chain.

    Attributes:
        visit: the id of the visit's task.
        number: its number.
        within: the id of the visit of its own dominator that it belongs to.
        times: which time round within that it is, from 1; 0 for nodes that cannot come round.
    """

    __slots__ = ("number", "times", "visit", "within")

    def __init__(self, visit: str, number: str, within: str, times: int) -> None:
        self.visit = visit
        self.number = number
        self.within = within
        self.times = times


class Arrow:
    """A way from a commit to a node. It is live until the task that it triggers has its own commit.

    Attributes:
        tail: the commit that it comes from.
        head: the number of the node that it leads to.
        children: the commits at its other end; several only for the items of a `Send`.
        ended: whether it has arrived at END.
        sent: the items that it carries, if its head takes items.
    """

    __slots__ = ("children", "ended", "head", "sent", "tail")

    def __init__(self, tail: Commit, head: int) -> None:
        self.tail = tail
        self.head = head
        self.children: list[Commit] = []
        self.ended = False
        self.sent: Sequence[Sent] = ()


class Sent:
    """One item on its way: the value and its JSON."""

    __slots__ = ("data", "value")

    def __init__(self, value: object, data: bytes) -> None:
        self.value = value
        self.data = data


class Commit:
    """A finished task.

    Attributes:
        id: the task's id.
        number: the visit part of it.
        marks: the latest visits of noted nodes on its dominator chain, itself included.
        parents: the commits that triggered it, in fold order.
        arrows: the ways on, in declared order.
        dominator: the last commit that every way from START to it passes; None for START.
        depth: how many dominators stand above it.
        writes: its update, or that of the whole stretch that was sealed into it.
        values: the state after it.
    """

    __slots__ = ("arrows", "depth", "dominator", "id", "marks", "number", "parents", "values", "writes")

    def __init__(self, id: str, number: str, marks: Marks, parents: Sequence[Commit], values: Values) -> None:
        self.id = id
        self.number = number
        self.marks = marks
        self.parents = parents
        self.arrows: list[Arrow] = []
        self.dominator: Commit | None = None
        self.depth = 0
        self.writes: Writes = NOTHING
        self.values = values


def common_dominator(commits: Sequence[Commit]) -> Commit:
    """The nearest commit that dominates all of them (itself, for one)."""
    nearest = commits[0]
    for commit in commits[1:]:
        other = commit
        while nearest is not other:
            if nearest.depth >= other.depth:
                assert nearest.dominator is not None, "START dominates every commit; this is a bug in flowagent"
                nearest = nearest.dominator
            else:
                assert other.dominator is not None, "START dominates every commit; this is a bug in flowagent"
                other = other.dominator
    return nearest


def region(top: Commit, ends: Sequence[Commit]) -> list[Commit]:
    """The commits from below `top` down to `ends`, in fold order.

    Fold order is the reverse of the post-order of a depth-first walk from the top that visits the arrows out of
    each commit last declared first: every commit after its parents, the first declared branch first.
    """
    between: set[Commit] = set()
    todo = [end for end in ends if end is not top]
    while todo:
        commit = todo.pop()
        if commit not in between:
            between.add(commit)
            todo.extend(parent for parent in commit.parents if parent is not top)
    order: list[Commit] = []
    seen: set[Commit] = set()
    stack: list[tuple[Commit, bool]] = [(top, False)]
    while stack:
        commit, left = stack.pop()
        if left:
            order.append(commit)
        elif commit not in seen:
            seen.add(commit)
            stack.append((commit, True))
            # The stack turns the order round: what is pushed last is visited first, as last declared should be.
            stack.extend((child, False) for arrow in commit.arrows for child in arrow.children if child in between)
    order.pop()  # the top itself, which is left last
    order.reverse()
    return order


def fold_order(commits: Sequence[Commit]) -> list[Commit]:
    """Some commits in the order in which their histories are folded."""
    if len(commits) < 2:
        return list(commits)
    top = common_dominator(commits)
    place = {commit: number for number, commit in enumerate(region(top, commits))}
    return sorted(commits, key=lambda commit: place.get(commit, -1))


def meet(schema: Schema, ends: Sequence[Commit], settled: Writes = NOTHING) -> tuple[Commit, Values, Writes]:
    """Where some commits' branches parted, the state where they meet, and the update that leads from one to the other.

    Args:
        schema: of the graph's state.
        ends: the commits that meet.
        settled: fields that somebody decided, whatever the branches wrote.

    Raises:
        ConflictError: two branches wrote a field and nothing says how to merge it, or its reducer fails on both.
    """
    top = common_dominator(ends)
    if len(ends) == 1:
        return top, applied(schema.reducers, top.values, settled), settled
    commits = region(top, ends)
    ancestors = _Ancestry(top, commits)
    writes = merged(
        schema.reducers, commits, ancestors.descends, lambda name, write: datas_of(schema, name, write), settled
    )
    try:
        return top, applied(schema.reducers, top.values, writes), writes
    except ConflictError as error:
        wrote = [commit.id for commit in commits if error.field in commit.writes]
        raise unmergeable(error.field, wrote, error.__cause__) from error.__cause__


class _Ancestry:
    """Answers, within a region, which commit descends from which; worked out when first asked."""

    def __init__(self, top: Commit, commits: Sequence[Commit]) -> None:
        self._top = top
        self._commits = commits
        self._above: dict[Commit, int] | None = None
        self._bit = {commit: 1 << place for place, commit in enumerate(commits)}

    def descends(self, one: object, other: object) -> bool:
        above = self._worked_out()
        return bool(above[one] & self._bit[other])  # type: ignore[index]  # sources of a merge are its commits

    def _worked_out(self) -> dict[Commit, int]:
        if self._above is None:
            self._above = {}
            for commit in self._commits:
                bits = 0
                for parent in commit.parents:
                    if parent is not self._top:
                        bits |= self._above[parent] | self._bit[parent]
                self._above[commit] = bits
        return self._above


def datas_of(schema: Schema, name: str, write: Write) -> list[bytes]:
    """The JSON of a write's values; made now where it was composed and not stored yet."""
    if write.datas:
        return write.datas
    field = schema.fields.get(name)
    assert field is not None, f"a write of the unknown field {name!r}; this is a bug in flowagent"
    codec = field.delta if write.kind == "delta" else field.value
    return [codec.encode(value) for value in write.values]


def written_beside(
    schema: Schema, parents: Sequence[Commit], writes: Writes, tails: Sequence[Commit]
) -> dict[str, str]:
    """The plain fields that an update sets otherwise than a branch which is not behind it, with that branch's task."""
    plain = [name for name, write in writes.items() if write.kind == "set" and schema.reducers.get(name) is None]
    if not plain:
        return {}
    ends = [*parents, *tails]
    top = common_dominator(ends)
    behind = {top, *region(top, parents)}
    return {
        name: other.id
        for other in region(top, ends)
        for name in plain
        if other not in behind and name in other.writes and _differ(schema, name, other.writes[name], writes[name])
    }


def _differ(schema: Schema, name: str, one: Write, other: Write) -> bool:
    return one.kind == "set" and datas_of(schema, name, one) != datas_of(schema, name, other)


# -- sealing -----------------------------------------------------------------------------------------------------


def seal(schema: Schema, commit: Commit, since_top: Writes, *, keep: bool) -> bool:
    """Squash what lies between a new commit and its dominator, and the dominator too, if nothing else leads on.

    Args:
        schema: of the graph's state.
        commit: just made; it has no arrows yet, and `writes` is its own update.
        since_top: the update from its dominator to where it started.
        keep: whether the update since START must stay known, as a nested graph's does.

    Returns:
        Whether nothing is left above it: it is the first commit that is still known.
    """
    top = commit.dominator
    if top is None or not _is_only_way_on(top, commit):
        return top is None
    if keep or top.dominator is not None:
        commit.writes = in_turn(schema, in_turn(schema, top.writes, since_top), commit.writes)
    else:
        commit.writes = NOTHING  # nobody folds from above the first commit
    for parent in top.parents:
        for arrow in parent.arrows:
            if top in arrow.children:
                arrow.children[arrow.children.index(top)] = commit
    commit.parents = top.parents
    commit.dominator = top.dominator
    commit.depth = top.depth
    top.arrows = []  # whoever still looks at it must not hold on to all that follows
    return top.dominator is None


def _is_only_way_on(top: Commit, end: Commit) -> bool:
    """Whether every arrow out of `top`, and of what follows, leads to `end` and has arrived there."""
    if len(top.arrows) == 1:
        children = top.arrows[0].children
        if len(children) == 1 and children[0] is end:
            return True
    if len(end.parents) == 1 and end.parents[0] is top:
        return False
    seen = {end}
    todo = [top]
    while todo:
        commit = todo.pop()
        seen.add(commit)
        for arrow in commit.arrows:
            if not arrow.children:
                return False
            todo.extend(child for child in arrow.children if child not in seen)
    return True


def in_turn(schema: Schema, first: Writes, second: Writes) -> Writes:
    """One update that does what two do in turn. May reuse the first, which must not be used again."""
    if not first:
        return second
    both = dict(first)
    for name, write in second.items():
        both[name] = followed(schema.reducers.get(name), both[name], write) if name in both else write
    return both
