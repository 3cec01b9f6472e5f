"""Tasks, and the graph that they are tasks of: which tokens are live, which wait at joins, and which may fire.

A join J merges the arrivals of one visit of d(J) and fires for that visit when no other live token of it has a way
to J that avoids d(J). So each live token is counted, when it is made, at every join that it holds back, and a join
whose count comes down to nothing may fire; nothing is searched at a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel

from flowagent.core.accounts import Account
from flowagent.core.commits import Arrow, Commit, Mark, Marks, Sent
from flowagent.core.facts import Failure, TaskStatus
from flowagent.core.slots import Slots
from flowagent.core.topology import Place, Topology
from flowagent.core.usage import NO_USAGE, Usage
from flowagent.core.writes import NOTHING, Values, Writes

GroupKey: TypeAlias = tuple[int, str]
"""A join's number, and the visit of its dominator whose arrivals it merges."""


NO_RESULTS: list[Any] = []
"""What a task that holds no items has in place of results; containers get a list of their own."""


class Task:
    """One visit of a node, or one item of one.

    Attributes:
        id: made from causality alone.
        scope: the graph that it is a task of.
        place: its node.
        number: the visit part of the id.
        times: which time round it is, for joins that come round.
        arrows: the live tokens that it stands for.
        parents: the commits at their tails, in fold order.
        top: where their branches parted.
        values: the state that it starts from.
        since_top: the update from `top` to there.
        status: see `TaskStatus`.
        attempt: which attempt is next or under way, from 1.
        tried: how many of them do not count against its `retry`: those before somebody resumed the run.
        failures: why it stands failed.
        caught: the failures that a handler's task handles.
        container: the map or `Send` target that it is an item of, or None.
        index: its place among the items.
        item: its item, where that is not in the state.
        items: the tasks of its items, for containers.
        results: what the items gave: (True, value, JSON) or (False, failure).
        slots: who of them may be under way, where `at_most` says how many.
        child: its nested graph, when opened.
        closing: whether all that it holds is over, so that only its own commit is missing.
        memos: what was done through `ctx.step`, by name.
        answers: what was answered, by the question's name, as JSON.
        attempted: whether a `once` node was started and no outcome is known.
        counted: whether it is counted as a step, or need not be: routers and items never are.
        account: what the attempt under way has spent and reserved, if it has.
    """

    __slots__ = (
        "account",
        "answers",
        "arrows",
        "attempt",
        "attempted",
        "caught",
        "child",
        "closing",
        "container",
        "counted",
        "failures",
        "id",
        "index",
        "item",
        "items",
        "memos",
        "number",
        "parents",
        "place",
        "results",
        "scope",
        "since_top",
        "slots",
        "status",
        "times",
        "top",
        "tried",
        "values",
    )

    def __init__(self, id: str, scope: Scope, place: Place, number: str, times: int) -> None:
        self.scope = scope
        self.arrows: Sequence[Arrow] = ()
        self.parents: Sequence[Commit] = ()
        self.top: Commit = scope.start
        self.since_top: Writes = NOTHING
        self.container: Task | None = None
        self.index: int | None = None
        self.item: Sent | None = None
        self.forget()
        self.id = id
        self.place = place
        self.number = number
        self.times = times
        self.values = scope.start.values
        self.status: TaskStatus = "ready"
        self.counted = place.is_router

    def forget(self) -> None:
        """Be as if it had not been run: what attempts have left, and what was made for them, is no more."""
        self.attempt = 1
        self.tried = 0
        self.failures: tuple[Failure, ...] = ()
        self.caught: tuple[Failure, ...] = ()
        self.items: dict[int, Task] | None = None
        self.results: list[Any] = NO_RESULTS
        self.slots: Slots | None = None
        self.child: Scope | None = None
        self.closing = False
        self.memos: dict[str, Any] | None = None
        self.answers: dict[str, Any] | None = None
        self.attempted = False
        self.account: Account | None = None

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.status}>"


class Scope:
    """One graph being stepped: the run's own, or a nested one inside a task.

    Attributes:
        topology: the graph.
        owner: the task that it is nested in, or None.
        prefix: what the ids of its tasks begin with.
        start: the first commit that is still known: START, which holds the input, or what was sealed into one.
        live: how many tokens are live.
        is_alone: whether there is one live token, out of `start`, and nothing else of a run; it is not counted in
            `holding`, as there is none that it could hold back.
        holding: how many live tokens hold back each join, for each visit of its dominator.
        groups: the tokens that wait at each join, for each visit of its dominator.
        fired: how often each join that may tie has fired, for each visit of its dominator that can still reach it.
        ended: the tokens that have arrived at END.
        values: the final state, once nothing is live.
        since: the update from START to it, for nested graphs.
        spent: what was recorded as spent in it and in the graphs inside it.
    """

    __slots__ = (
        "_shown",
        "_shown_of",
        "ended",
        "fired",
        "groups",
        "holding",
        "is_alone",
        "live",
        "owner",
        "prefix",
        "since",
        "spent",
        "start",
        "topology",
        "values",
    )

    def __init__(self, topology: Topology, values: Values, owner: Task | None) -> None:
        self.topology = topology
        self.owner = owner
        self.prefix = "" if owner is None else f"{owner.id}/"
        root = Mark(f"{self.prefix}START", "", "", 0)
        marks: Marks = (root, *([None] * (topology.slots - 1)))
        self.start = Commit(root.visit, "", marks, (), values)
        self.live = 0
        self.is_alone = False
        self.holding: dict[GroupKey, int] = {}
        self.groups: dict[GroupKey, list[Arrow]] = {}
        self.fired: dict[GroupKey, int] = {}
        self.ended: list[Arrow] = []
        self.values: Values | None = None
        self.since: Writes = NOTHING
        self.spent: Usage = NO_USAGE
        self._shown_of: Values | None = None
        self._shown: BaseModel

    def handed(self, values: Values) -> BaseModel:
        """The state as a task is handed it; the last one is kept, as a router and what follows it get the same."""
        if self._shown_of is values:
            return self._shown
        schema = self.topology.schema
        view = schema.handed(values)
        if schema.is_shareable:
            self._shown, self._shown_of = view, values
        return view

    def group_key(self, place: Place, arrow: Arrow) -> GroupKey:
        """Which visit of the join's dominator a token comes from."""
        mark = arrow.tail.marks[place.slot]
        assert mark is not None, f"no visit of the dominator of {place.name!r} is known; this is a bug in flowagent"
        return place.index, mark.visit

    def hold(self, arrow: Arrow, *, fired: bool = False) -> None:
        """Count a live token at the joins that it holds back. One that waits at a join does not hold its own group."""
        place = self.topology.places[arrow.head]
        marks = arrow.tail.marks
        holding = self.holding
        for hold in place.holds:
            if hold.join == place.index and place.is_join and not fired:
                continue
            mark = marks[hold.slot]
            assert mark is not None, (
                "a token that can reach a join has passed its dominator; this is a bug in flowagent"
            )
            key = (hold.join, mark.visit)
            holding[key] = holding.get(key, 0) + 1

    def be_alone(self) -> None:
        """Nothing is left but one token."""
        self.is_alone = True
        self.holding.clear()

    def release(self, arrows: Sequence[Arrow], place: Place) -> set[GroupKey]:
        """Take back what tokens held; returns the groups that nothing holds any more."""
        freed: set[GroupKey] = set()
        if self.is_alone:  # and so was not counted
            self.is_alone = False
            return freed
        holding = self.holding
        for arrow in arrows:
            marks = arrow.tail.marks
            for hold in place.holds:
                mark = marks[hold.slot]
                assert mark is not None, "a token that was counted has its marks; this is a bug in flowagent"
                key = (hold.join, mark.visit)
                left = holding[key] - 1
                if left:
                    holding[key] = left
                else:
                    del holding[key]
                    freed.add(key)
        return freed

    def take(self, key: GroupKey) -> list[Arrow]:
        """The tokens of a group, which fires now. A task that can come round holds the next time round of its join."""
        place = self.topology.places[key[0]]
        arrows = self.groups.pop(key)
        if place.tie is not None:
            self.fired[key] = self.fired.get(key, 0) + 1
        if place.comes_round:
            self.holding[key] = self.holding.get(key, 0) + len(arrows)
        return arrows

    def forget(self, freed: set[GroupKey]) -> None:
        """Stop counting how often joins fired for visits from which nothing can reach them any more."""
        for key in freed:
            if key not in self.groups and key not in self.holding:
                self.fired.pop(key, None)

    def free(self, asked: set[GroupKey]) -> list[GroupKey]:
        """Those of some groups that may fire, in declared order."""
        return sorted(key for key in asked if key in self.groups and key not in self.holding)

    def tied(self) -> GroupKey | None:
        """Of joins that wait only for each other, the first in declared order.

        They are a smallest closed set: every token that could reach any of them waits inside it. It fires alone;
        then all is asked again.
        """
        if not self.topology.has_ties:
            return None
        waits = {key: self._waits_for(key) for key in self.groups}
        closures = {key: _closure(key, waits) for key in waits}
        for closure in closures.values():
            # Smallest: everything in it waits for everything in it.
            if closure is not None and all(closures[other] == closure for other in closure):
                places = self.topology.places
                return min(closure, key=lambda one: (places[one[0]].tie or 0, one[1]))
        return None

    def _waits_for(self, key: GroupKey) -> set[GroupKey] | None:
        """The groups whose arrivals hold this one; None if a token that does not wait at a join does."""
        waiting: set[GroupKey] = set()
        held = 0
        for other, arrows in self.groups.items():
            for arrow in arrows:
                if self._is_held_by(key, self.topology.places[other[0]], arrow):
                    held += 1
                    waiting.add(other)
        return waiting if held == self.holding.get(key, 0) else None

    def _is_held_by(self, key: GroupKey, place: Place, arrow: Arrow) -> bool:
        for hold in place.holds:
            mark = arrow.tail.marks[hold.slot]
            if hold.join == key[0] and hold.join != place.index and mark is not None and mark.visit == key[1]:
                return True
        return False


def _closure(key: GroupKey, waits: dict[GroupKey, set[GroupKey] | None]) -> set[GroupKey] | None:
    """All groups that one waits for, itself included; None if a token outside can still come."""
    found: set[GroupKey] = set()
    todo = [key]
    while todo:
        one = todo.pop()
        if one in found:
            continue
        found.add(one)
        behind = waits.get(one)
        if behind is None:
            return None
        todo.extend(behind)
    return found
