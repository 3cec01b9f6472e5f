"""An independent, slow and obvious model of the kernel, written from section 3 of the design, not from `machine.py`.

It keeps the whole history for ever: nothing is sealed or counted. The state at a task is the fold of its whole
causal history from START; whether a write supersedes another is a search among ancestors; whether a join may fire
is a search for ways in the definition, for every live token, after every fact. Values and updates are plain Python.
Tasks are named by their ids, so that the same facts can be told to the machine and to the model, in lockstep.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, TypeAlias

from flowagent.core import ids  # only for how names are written; the numbers are worked out here
from flowagent.core.nodes import END, START, GraphNode, ItemNode, MapNode, Node, is_choice
from flowagent.core.reducers import Replace

Values: TypeAlias = dict[str, Any]
Fold: TypeAlias = Callable[[Any, Any], Any]
Folds: TypeAlias = Mapping[str, Fold | None]
"""How two writes of each field meet; None for a plain field."""


class Conflict(Exception):
    """Two writes of a field that nothing says how to merge."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.field = name


# -- the definition -------------------------------------------------------------------------------------------------


class Definition:
    """The edges of one graph, and everything that the design derives from them by walking along them."""

    def __init__(self, graph: Any, folds: Folds) -> None:
        edges, _, _ = graph.resolved()
        self.graph = graph
        self.folds = folds
        self.names: list[str] = [START, *graph.nodes]
        self.nodes: Mapping[str, Node] = graph.nodes
        self.edges: list[tuple[str, str]] = list(dict.fromkeys((edge.tail, edge.head) for edge in edges))
        self.heads: dict[str, list[str]] = {name: [] for name in self.names}
        for edge in edges:
            if edge.kind != "error" and edge.head not in self.heads[edge.tail]:
                self.heads[edge.tail].append(edge.head)
        self.handlers = {edge.head for edge in edges if edge.kind == "error"}
        self.children: dict[str, Definition] = {}
        for name, node in graph.nodes.items():
            inner = _graph_in(node)
            if inner is not None:
                self.children[name] = Definition(inner, folds)
        self.orders = [(graph.ref_name(one), graph.ref_name(two)) for one, two in graph._orders]
        self._ways: dict[tuple[str, str, str], bool] = {}
        self._dominators: dict[str, str] = {}

    def way(self, tail: str, head: str, avoiding: str) -> bool:
        """Whether a way of one arrow or more leads from a node to another without passing a third on the way."""
        key = (tail, head, avoiding)
        if key not in self._ways:
            seen: set[str] = set()
            todo = [tail]
            while todo:
                at = todo.pop()
                for one, two in self.edges:
                    if one == at and two not in seen:
                        seen.add(two)
                        if two != avoiding:
                            todo.append(two)
            self._ways[key] = head in seen
        return self._ways[key]

    def dominates(self, one: str, other: str) -> bool:
        """Whether every way from START to a node passes another node first."""
        return other not in (one, START) and (one == START or not self.way(START, other, one))

    def d(self, name: str) -> str:
        """The immediate dominator: the one that all other dominators dominate."""
        if name not in self._dominators:
            above = [one for one in self.names if self.dominates(one, name)]
            (self._dominators[name],) = [
                one for one in above if all(two == one or self.dominates(two, one) for two in above)
            ]
        return self._dominators[name]

    def once_each(self, name: str) -> bool:
        return name in self.handlers or (name in self.nodes and self.nodes[name].options.join == "each")

    def is_join(self, name: str) -> bool:
        return name != END and not self.once_each(name) and sum(head == name for _, head in self.edges) > 1

    def comes_round(self, name: str) -> bool:
        return self.way(name, name, self.d(name))

    def may_arrive(self, at: str, join: str) -> bool:
        """Whether a token has a way to a join that avoids its dominator. At the dominator, it has passed it."""
        return at != self.d(join) and self.way(at, join, self.d(join))

    def tied(self) -> list[list[str]]:
        """The groups of joins that can wait for each other, by declared order of nodes."""
        joins = [name for name in self.names if self.is_join(name)]
        waits = {one: {two for two in joins if two != one and self.may_arrive(two, one)} for one in joins}
        grew = True
        while grew:
            grew = False
            for one in joins:
                more = waits[one].union(*(waits[two] for two in waits[one])) - waits[one]
                if more:
                    waits[one] |= more
                    grew = True
        groups: list[list[str]] = []
        for one in joins:
            group = [two for two in joins if two == one or (two in waits[one] and one in waits[two])]
            if len(group) > 1 and group not in groups:
                groups.append(group)
        return groups

    def may_tie(self, name: str) -> bool:
        return any(name in pair for pair in self.orders)

    def goes_first(self, one: str, other: str) -> bool:
        """Whether a declared order, followed from pair to pair, puts a join before another."""
        seen = {one}
        while True:
            more = {two for first, two in self.orders if first in seen} - seen
            if not more:
                return other in seen
            seen |= more


def _graph_in(node: Node) -> Any:
    match node:
        case GraphNode():
            return node.child
        case MapNode() if hasattr(node.body, "nodes"):
            return node.body
        case _:
            return None


# -- the history ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """One field's part of an update: a plain `set`, some `delta`s in turn, or a `replace`."""

    kind: Literal["set", "delta", "replace"]
    values: list[Any]


@dataclass(eq=False)
class Past:
    """A commit. `node` is None for what is no visit of a node: an item of a `Send`, or the settlement of a merge."""

    id: str
    node: str | None
    number: str
    parents: list[Past]
    says: Mapping[str, Said]
    tokens: list[Token] = field(default_factory=list)


@dataclass(eq=False)
class Token:
    """An arrow from a commit to a node; live until the commits at its other end are there."""

    tail: Past
    head: str
    items: Sequence[Any] = ()
    live: bool = True
    task: str | None = None
    onto: list[Past] = field(default_factory=list)


def history(ends: Sequence[Past]) -> list[Past]:
    """All commits that some commits descend from, themselves included, in fold order.

    The reverse of the post-order of a depth-first walk from START that visits the arrows out of each commit last
    declared first.
    """
    causes = set(ends)
    todo = list(ends)
    while todo:
        for parent in todo.pop().parents:
            if parent not in causes:
                causes.add(parent)
                todo.append(parent)
    (start,) = [one for one in causes if not one.parents]
    post: list[Past] = []
    seen: set[Past] = set()

    def walk(commit: Past) -> None:
        seen.add(commit)
        for token in reversed(commit.tokens):
            for child in reversed(token.onto):
                if child in causes and child not in seen:
                    walk(child)
        post.append(commit)

    walk(start)
    return post[::-1]


class Ancestry:
    """Who descends from whom, by searching; remembered, because history does not change."""

    def __init__(self) -> None:
        self._ancestors: dict[Past, frozenset[Past]] = {}
        self._dominators: dict[Past, frozenset[Past]] = {}

    def ancestors(self, commit: Past) -> frozenset[Past]:
        if commit not in self._ancestors:
            found: set[Past] = set()
            for parent in commit.parents:
                found |= {parent} | self.ancestors(parent)
            self._ancestors[commit] = frozenset(found)
        return self._ancestors[commit]

    def descends(self, one: Past, other: Past) -> bool:
        return other in self.ancestors(one)

    def dominators(self, commit: Past) -> frozenset[Past]:
        """The commits, itself included, that every way from START to a commit passes."""
        if commit not in self._dominators:
            above = [self.dominators(parent) for parent in commit.parents]
            self._dominators[commit] = frozenset({commit}).union(frozenset.intersection(*above) if above else ())
        return self._dominators[commit]

    def latest(self, commit: Past, node: str) -> Past:
        """The latest commit of a node on a commit's dominator chain."""
        return max(
            (one for one in self.dominators(commit) if one.node == node), key=lambda one: len(self.dominators(one))
        )


def merge_field(name: str, writers: list[tuple[Past, Said]], fold: Fold | None, ancestry: Ancestry) -> Said:
    """One write that does what all writes of a field in a history do.

    Args:
        name: the field.
        writers: in fold order.
        fold: its reducer.
        ancestry: of the history.
    """
    wholes = [(one, said) for one, said in writers if said.kind != "delta"]
    left = [(one, said) for one, said in wholes if not any(ancestry.descends(two, one) for two, _ in wholes)]
    replaces = [(one, said) for one, said in left if said.kind == "replace"]
    if len(replaces) > 1 or (not replaces and len({json.dumps(said.values[0]) for _, said in left}) > 1):
        raise Conflict(name)
    deltas = [(one, said) for one, said in writers if said.kind == "delta"]
    if not left:
        return Said("delta", [value for _, said in deltas for value in said.values])
    winner, whole = (replaces or left)[0]
    value = whole.values[0]
    for one, said in deltas:
        assert fold is not None, "only fields with a reducer are written by deltas"
        if ancestry.descends(one, winner):
            for delta in said.values:
                value = fold(value, delta)
    return Said(whole.kind, [value])


def applied(folds: Folds, values: Values, says: Mapping[str, Said]) -> Values:
    """The values after an update."""
    new = dict(values)
    for name, said in says.items():
        for value in said.values:
            fold = folds[name]
            new[name] = value if said.kind != "delta" or fold is None else fold(new[name], value)
    return new


def in_turn(fold: Fold | None, first: Said, second: Said) -> Said:
    """One write that does what two do, one after the other."""
    if second.kind != "delta":
        return second
    if first.kind == "delta":
        return Said("delta", [*first.values, *second.values])
    value = first.values[0]
    for delta in second.values:
        assert fold is not None, "only fields with a reducer are written by deltas"
        value = fold(value, delta)
    return Said(first.kind, [value])


def update_of(folds: Folds, mapping: Mapping[str, Any]) -> dict[str, Said]:
    """What a node's returned mapping says."""
    return {
        name: Said("replace", [value.value])
        if isinstance(value, Replace)
        else Said("set" if folds[name] is None else "delta", [value])
        for name, value in mapping.items()
    }


# -- the run --------------------------------------------------------------------------------------------------------

Status: TypeAlias = Literal["ready", "running", "inside", "failed", "asking", "closing", "gone"]


@dataclass(eq=False)
class Work:
    """A task, or an item of one."""

    id: str
    run: Part
    node: str
    number: str
    tokens: list[Token]
    parents: list[Past]
    status: Status = "ready"
    closing: bool = False
    merge_failed: str | None = None
    container: Work | None = None
    index: int | None = None
    items: list[Work] = field(default_factory=list)
    opened: bool = False
    settled: dict[int, Any] = field(default_factory=dict)
    child: Part | None = None
    slot: bool = False

    @property
    def holder(self) -> Work | None:
        return self.container or self.run.owner


class Part:
    """One graph being stepped: the run's own or a nested one."""

    def __init__(self, whole: Reference, definition: Definition, values: Values, owner: Work | None) -> None:
        self.whole = whole
        self.definition = definition
        self.owner = owner
        self.values = values
        self.prefix = "" if owner is None else f"{owner.id}/"
        self.ancestry = Ancestry()
        self.start = Past(f"{self.prefix}{START}", START, "", [], {})
        self.tokens: list[Token] = []
        self.final: Values | None = None
        self.since: dict[str, Said] = {}
        self.fired: dict[tuple[str, Past], list[str]] = {}

    def begin(self) -> None:
        self.send(self.start, [(head, ()) for head in self.definition.heads[START]])

    # -- commits and tokens

    def send(self, commit: Past, ways: Sequence[tuple[str, Sequence[Any]]]) -> None:
        for head, items in ways:
            token = Token(commit, head, items)
            commit.tokens.append(token)
            self.tokens.append(token)
        self.settle()

    def live(self) -> list[Token]:
        return [token for token in self.tokens if token.live and token.head != END]

    def settle(self) -> None:
        """Start what has arrived: first what waits for nobody, then joins, one at a time, until none may fire."""
        definition = self.definition
        for token in self.live():
            if token.task is None and not definition.is_join(token.head):
                self.start_task([token])
        while True:
            firing = self.smallest_closed_set()
            if firing is None:
                break
            self.start_task(firing)
        if not self.live() and self.final is None and not self.ending():
            self.end([token.tail for token in self.tokens if token.live])

    def ending(self) -> bool:
        return f"{self.prefix}{END}" in self.whole.tasks

    def tag(self, token: Token, join: str) -> Past:
        return self.ancestry.latest(token.tail, self.definition.d(join))

    def groups(self) -> dict[tuple[str, Past], list[Token]]:
        found: dict[tuple[str, Past], list[Token]] = {}
        for token in self.live():
            if token.task is None and self.definition.is_join(token.head):
                found.setdefault((token.head, self.tag(token, token.head)), []).append(token)
        return found

    def holders(self, join: str, tag: Past, group: list[Token]) -> list[Token]:
        """The other live tokens of a join's tag that may still arrive at it."""
        return [
            token
            for token in self.live()
            if token not in group and self.definition.may_arrive(token.head, join) and self.tag(token, join) is tag
        ]

    def smallest_closed_set(self) -> list[Token] | None:
        """The arrivals of the join to fire: the first of a smallest set of joins that wait for nothing outside it.

        A join that nothing holds is such a set by itself.
        """
        groups = self.groups()
        holders = {key: self.holders(*key, group) for key, group in groups.items()}
        for size in range(1, len(groups) + 1):
            for some in combinations(groups, size):
                inside = [token for key in some for token in groups[key]]
                if all(token in inside for key in some for token in holders[key]):
                    first = [
                        one
                        for one in some
                        if all(one is two or self.definition.goes_first(one[0], two[0]) for two in some)
                    ]
                    names = [key[0] for key in some]
                    assert len(first) == 1, f"a tie that no declared order decides: {names}"
                    assert size == len(set(names)), f"a tie of one join with itself: {names}"
                    return groups[first[0]]
        return None

    def start_task(self, tokens: list[Token]) -> None:
        name = tokens[0].head
        tails = {token.tail for token in tokens}
        parents = [commit for commit in history(list(tails)) if commit in tails]
        number = self.number(name, parents)
        tokens = [token for parent in parents for token in tokens if token.tail is parent]
        work = Work(ids.task_id(self.prefix, ids.encoded(name), number), self, name, number, tokens, parents)
        assert work.id not in self.whole.seen, f"two tasks are called {work.id}"
        self.whole.seen.add(work.id)
        self.whole.tasks[work.id] = work
        for token in tokens:
            token.task = work.id
        self.try_merge(work)

    def number(self, name: str, parents: list[Past]) -> str:
        """That of the visit of the dominator that it came from, and the trigger or the time round."""
        definition = self.definition
        visit = self.ancestry.latest(parents[0], definition.d(name))
        if definition.once_each(name):
            return ids.triggered(visit.number, parents[0].id)
        if not definition.comes_round(name):
            return visit.number
        before = self.fired.setdefault((name, visit), [])
        if before and not definition.may_tie(name):
            assert any(one.id == before[-1] for one in history(parents)), "a firing descends from the one before"
        times = str(len(before) + 1)
        before.append(ids.task_id(self.prefix, ids.encoded(name), f"{visit.number}.{times}".lstrip(".")))
        return f"{visit.number}.{times}" if visit.number else times

    # -- states

    def merged(self, ends: Sequence[Past]) -> dict[str, Said]:
        """The update that the whole history of some commits comes to."""
        writers: dict[str, list[tuple[Past, Said]]] = {}
        for commit in history(ends):
            for name, said in commit.says.items():
                writers.setdefault(name, []).append((commit, said))
        folds = self.definition.folds
        return {name: merge_field(name, some, folds[name], self.ancestry) for name, some in writers.items()}

    def state(self, ends: Sequence[Past]) -> Values:
        return applied(self.definition.folds, self.values, self.merged(ends))

    def try_merge(self, work: Work) -> None:
        try:
            self.state(work.parents)
        except Conflict as conflict:
            work.status, work.merge_failed = "failed", conflict.field
        else:
            work.status, work.merge_failed = "ready", None

    def end(self, ends: list[Past]) -> None:
        ends = [one for one in history(ends) if one in set(ends)]
        try:
            values, since = self.state(ends), self.merged(ends)
        except Conflict as conflict:
            work = Work(f"{self.prefix}{END}", self, END, "", [], ends, status="failed", merge_failed=conflict.field)
            self.whole.tasks[work.id] = work
        else:
            self.final, self.since = values, since
            if self.owner is not None:
                self.owner.status, self.owner.closing = "ready", True

    def commit(self, work: Work, says: Mapping[str, Said], ways: Sequence[tuple[str, Sequence[Any]]]) -> None:
        done = Past(work.id, work.node, work.number, work.parents, says)
        for token in work.tokens:
            token.live = False
            token.onto.append(done)
        self.whole.forget(work)
        self.send(done, ways)
        self.whole.share_out()


class Reference:
    """The model of a run. Its methods are the machine's, told by ids."""

    def __init__(self, definition: Definition, values: Values, on_failure: str = "finish") -> None:
        self.on_failure = on_failure
        self.tasks: dict[str, Work] = {}
        self.seen: set[str] = set()
        self.root = Part(self, definition, values, None)

    def begin(self) -> None:
        self.root.begin()

    # -- what can be asked

    def ready(self) -> set[str]:
        """The ids of the tasks that may start, or whose container may be closed."""
        return {
            work.id for work in self.tasks.values() if work.status == "ready" and self.may_start(work)
        } - self.queued()

    def queued(self) -> set[str]:
        """Those that could start if each item that they are or are inside of had a slot, where `at_most` says so."""
        return {
            work.id
            for work in self.tasks.values()
            if work.status == "ready" and not all(item.slot for item in self.upwards(work) if self.is_limited(item))
        }

    def with_slots(self) -> set[str]:
        return {work.id for work in self.tasks.values() if work.slot}

    def state(self, task: str) -> Values:
        work = self.tasks[task]
        return work.run.state(work.parents)

    def failed(self) -> set[str]:
        return {work.id for work in self.tasks.values() if work.status == "failed"}

    def asking(self) -> set[str]:
        return {work.id for work in self.tasks.values() if work.status == "asking"}

    def stuck(self) -> set[str]:
        """Containers that catch failures, with failures inside, where nothing else inside can go on."""
        return {work.id for work in self.tasks.values() if work.status == "inside" and self.is_stuck(work)}

    def is_stuck(self, work: Work) -> bool:
        return self.catches(work) and self.at_rest(work)

    def at_rest(self, work: Work) -> bool:
        """Whether a task failed, or all that is left to do inside it is to decide on what failed there."""
        inside = list(self.inside(work))
        failed = [one for one in inside if one.status == "failed"]
        undecided = [
            holder
            for one in failed
            for holder in self.upwards(one)[1:]
            if holder in inside and holder.status == "inside" and self.catches(holder)
        ]
        waiting = [one for one in inside if one.status in ("ready", "running", "asking")]
        return work.status == "failed" or bool(failed and not undecided and not waiting)

    def inside(self, work: Work) -> Iterator[Work]:
        return (one for one in self.tasks.values() if work in self.upwards(one)[1:])

    def in_order(self, work: Work) -> list[Work]:
        return sorted(self.inside(work), key=lambda one: ids.natural(one.id))

    def upwards(self, work: Work | None) -> list[Work]:
        found: list[Work] = []
        while work is not None:
            found.append(work)
            work = work.holder
        return found

    def catches(self, work: Work) -> bool:
        """Whether somebody handles the failure of a container, so that a failure inside is not yet the run's."""
        node = work.run.definition.nodes[work.node]
        if work.index is not None:
            return isinstance(node, MapNode) and node.on_item_error != "fail"
        retried = node.options.retry is not None and isinstance(node, (GraphNode, MapNode))
        return node.options.on_error is not None or retried

    def caught(self, work: Work) -> bool:
        return any(self.catches(holder) for holder in self.upwards(work)[1:])

    def may_start(self, work: Work) -> bool:
        return self.on_failure == "continue" or all(
            self.caught(failed) or (self.on_failure == "finish" and self.beside(work, failed))
            for failed in self.tasks.values()
            if failed.status == "failed"
        )

    def beside(self, one: Work, other: Work) -> bool:
        """Whether two tasks belong to different items of one map: a failing item does not stop other items."""
        return any(
            a.container is not None and a.container is b.container and a is not b
            for a in self.upwards(one)
            for b in self.upwards(other)
        )

    # -- facts

    def take(self, task: str) -> None:
        work = self.tasks[task]
        assert work.status == "ready", (task, work.status)
        work.status = "running"

    def put_back(self) -> None:
        """The process has died: what was running has no record and may start anew."""
        for work in self.tasks.values():
            if work.status == "running":
                work.status = "ready"

    def finish(
        self, task: str, mapping: Mapping[str, Any], ways: Sequence[tuple[str, Sequence[Any]]] | None = None
    ) -> None:
        """A task is done. `mapping` is what its function returned; for a nested graph what it writes comes on top."""
        work = self.tasks[task]
        definition = work.run.definition
        says = update_of(definition.folds, mapping)
        if work.index is not None:
            self.settle_item(work, Past(work.id, None, work.number, work.parents, says))
            return
        if work.child is not None:
            since, folds = work.child.since, definition.folds
            after = {
                name: in_turn(folds[name], since[name], said) if name in since else said for name, said in says.items()
            }
            says = {**since, **after}
        if is_choice(definition.nodes[work.node]):
            declared = definition.heads[work.node]
            heads = sorted(ways or (), key=lambda way: declared.index(way[0]))
        else:
            heads = [(head, ()) for head in definition.heads[work.node]]
        work.run.commit(work, says, heads)

    def finish_item(self, task: str, value: Any) -> None:
        self.settle_item(self.tasks[task], value)

    def fail(self, task: str) -> None:
        work = self.tasks[task]
        handler = work.run.definition.nodes[work.node].options.on_error
        if work.index is None and handler is not None:
            work.run.commit(work, {}, [(handler, ())])
        elif work.container is not None and self.catches(work):
            self.settle_item(work, None, failed=True)
        else:
            work.status = "failed"
        self.share_out()

    def open(self, task: str, values: Values) -> None:
        work = self.tasks[task]
        work.status = "inside"
        work.child = Part(self, work.run.definition.children[work.node], values, work)
        work.child.begin()

    def open_items(self, task: str) -> None:
        work = self.tasks[task]
        node = work.run.definition.nodes[work.node]
        if isinstance(node, MapNode):
            count = len(self.state(task)[node.over])
        else:
            count = sum(len(token.items) for token in work.tokens)
        work.status, work.opened = "inside", True
        for index in range(count):
            item = Work(ids.item_id(work.id, index), work.run, work.node, work.number, [], work.parents)
            item.container, item.index = work, index
            work.items.append(item)
            self.tasks[item.id] = item
            self.seen.add(item.id)
        if not count:
            self.close(work)
        self.share_out()

    def ask(self, task: str) -> None:
        self.tasks[task].status = "asking"
        self.share_out()

    def answer(self, task: str) -> None:
        self.tasks[task].status = "ready"
        self.share_out()

    def retry(self, task: str) -> None:
        """A failed task is run again; a container goes on inside. What holds it goes on as well."""
        work = self.tasks[task]
        assert work.status == "failed"
        assert work.merge_failed is None
        self.go_on(work)
        for one in self.in_order(work):
            if one.status == "failed" and one.merge_failed is None:
                self.go_on(one)
        self.share_out()

    def go_on(self, work: Work) -> None:
        for holder in self.upwards(work)[1:]:
            if holder.status == "failed":
                holder.status = "inside"
        work.merge_failed = None
        if (work.child is not None or work.opened) and not work.closing:
            work.status = "inside"
        else:
            work.status = "ready"

    def go_on_inside(self, task: str) -> None:
        for one in self.in_order(self.tasks[task]):
            if one.status == "failed" and one.merge_failed is None:
                self.go_on(one)
        self.share_out()

    # -- at_most

    def at_most(self, container: Work) -> int | None:
        node = container.run.definition.nodes.get(container.node)
        return node.at_most if isinstance(node, MapNode) else None

    def is_limited(self, work: Work) -> bool:
        return work.container is not None and self.at_most(work.container) is not None

    def wants_slot(self, item: Work) -> bool:
        """Whether there is something to run in an item."""
        return any(one.status in ("ready", "running") for one in [item, *self.inside(item)])

    def keeps_slot(self, item: Work) -> bool:
        """What is stuck inside is decided on at once, so its item is not left for that."""
        return self.wants_slot(item) or any(one.id in self.stuck() for one in self.inside(item))

    def share_out(self) -> None:
        """Items that can do nothing but wait leave their slots; free slots go to those that can, in their order.

        An item inside of one that has no slot gets none.
        """
        limited = sorted(filter(self.is_limited, self.tasks.values()), key=lambda one: ids.natural(one.id))
        for item in limited:
            item.slot = item.slot and self.keeps_slot(item)
        for item in limited:
            container = item.container
            assert container is not None
            limit = self.at_most(container)
            assert limit is not None
            is_let_in = all(one.slot for one in self.upwards(container) if self.is_limited(one))
            if is_let_in and self.wants_slot(item) and sum(one.slot for one in container.items) < limit:
                item.slot = True

    def resolve(self, task: str, mapping: Mapping[str, Any]) -> None:
        """A failed merge is settled: a commit between the arrivals and the task that could not start."""
        work = self.tasks[task]
        run = work.run
        settled = Past(f"{work.id}~resolved", None, work.number, work.parents, {})
        says = update_of(run.definition.folds, mapping)
        settled.says = {
            name: Said("replace", said.values) if run.definition.folds[name] else said for name, said in says.items()
        }
        ends = [token for token in run.tokens if token.live and token.head == END] if work.node == END else work.tokens
        onward = Token(settled, work.node, [item for token in ends for item in token.items], task=work.id)
        settled.tokens.append(onward)
        run.tokens.append(onward)
        for token in ends:
            token.live = False
            token.onto.append(settled)
        work.parents, work.tokens = [settled], [onward]
        if work.node == END:
            self.go_on(work)
            self.forget(work)
            run.end([settled])
        else:
            self.go_on(work)
        self.share_out()

    # -- items

    def settle_item(self, work: Work, result: Any, *, failed: bool = False) -> None:
        container, index = work.container, work.index
        assert container is not None
        assert index is not None
        self.forget(work)
        container.settled[index] = (not failed, result)
        if len(container.settled) == len(container.items):
            self.close(container)
        self.share_out()

    def close(self, work: Work) -> None:
        work.closing = True
        if not isinstance(work.run.definition.nodes[work.node], ItemNode):
            work.status = "ready"
            return
        commits: list[Past] = [work.settled[index][1] for index in sorted(work.settled)]
        for token in work.tokens:
            token.live = False
            token.onto.extend(commits)
        work.tokens, work.parents = [], commits
        for commit in commits:
            onward = Token(commit, work.node, task=work.id)
            commit.tokens.append(onward)
            work.run.tokens.append(onward)
            work.tokens.append(onward)
        work.run.try_merge(work)

    def results(self, task: str) -> list[Any]:
        """What the items of a map gave, in order; (False, None) for one that failed and was let go."""
        work = self.tasks[task]
        return [work.settled[index] for index in sorted(work.settled)]

    def forget(self, work: Work) -> None:
        """A task is over, with all that is inside it."""
        for one in list(self.inside(work)):
            one.status, one.slot = "gone", False
            del self.tasks[one.id]
        work.status, work.slot = "gone", False
        del self.tasks[work.id]
