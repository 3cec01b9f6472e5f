"""Random graphs, nodes that behave by their task's id alone, and a shell that drives machine and model in lockstep.

A generated graph is plain data (`Plan`), so that it can be built twice, with its nodes declared in another order.
What a node returns, where a router goes, what fails and how often: all of it is a hash of the task's id, so "the
same return values" are given under every schedule. Loops end because, after some steps, routers only go forward.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from hypothesis import strategies as st

from flowagent.core.commits import Sent
from flowagent.core.containers import is_run_itself, is_unmerged, limited_items
from flowagent.core.facts import Failure, Question, Way
from flowagent.core.graph import Graph
from flowagent.core.machine import Machine
from flowagent.core.nodes import END, START, GateNode, GraphNode, ItemNode, MapNode, RouterNode, is_choice
from flowagent.core.policies import OnFailure, Retry
from flowagent.core.position import export, restored
from flowagent.core.reducers import Replace, add, append, last, maximum, merge, reducer, union
from flowagent.core.scope import Task
from flowagent.core.state import State
from flowagent.core.topology import Topology
from flowagent.core.writes import Write, Writes, followed
from flowagent.errors import ConflictError
from tests.core.reference import Definition, Folds, Reference

# -- the state ------------------------------------------------------------------------------------------------------


def _mixed(old: int, delta: int) -> int:
    return (old * 31 + delta) % 1_000_003


class S(State):
    """One field for each way of meeting. `log` tells the whole causal history of a task, in fold order."""

    log: Annotated[list[str], append] = []
    steps: Annotated[int, add] = 0
    ratio: Annotated[float, add] = 0.0
    table: Annotated[dict[str, str], merge] = {}
    seen: Annotated[set[str], union] = set()
    best: Annotated[int, maximum] = 0
    latest: Annotated[str, last] = ""
    mix: Annotated[int, reducer(_mixed)] = 1
    bag: Annotated[list[str], append] = []
    results: Annotated[list[str], append] = []
    a: str = ""
    b: str = ""
    items: list[int] = [1, 2]


FOLDS: Folds = {
    "log": lambda old, new: [*old, *new],
    "steps": lambda old, new: old + new,
    "ratio": lambda old, new: old + new,
    "table": lambda old, new: {**old, **new},
    "seen": lambda old, new: {*old, *new},
    "best": max,
    "latest": lambda old, new: new,
    "mix": _mixed,
    "bag": lambda old, new: [*old, *new],
    "results": lambda old, new: [*old, *new],
    "a": None,
    "b": None,
    "items": None,
}

# -- definitions ----------------------------------------------------------------------------------------------------

Kind: TypeAlias = Literal["node", "goto", "router", "map", "map_graph", "item", "gate", "gate_to", "graph"]
OnItemError: TypeAlias = Literal["fail", "skip", "collect"]
_CHOOSERS = ("goto", "router", "gate_to")
_ON_ITEM_ERROR: list[OnItemError] = ["fail", "skip", "collect"]


@dataclass
class Planned:
    """One node of a plan; see the options of `Graph.node` and its like."""

    name: str
    kind: Kind
    heads: list[str] = field(default_factory=list)
    handler: str | None = None
    each: bool = False
    child: Plan | None = None
    at_most: int | None = None
    on_item_error: OnItemError = "fail"
    retry: bool = False

    @property
    def chooses(self) -> bool:
        return self.kind in _CHOOSERS


@dataclass
class Plan:
    """A graph as plain data: heads of START and of each node in declared order, and orders of joins."""

    name: str
    first: list[str] = field(default_factory=list)
    nodes: list[Planned] = field(default_factory=list)
    orders: list[tuple[str, str]] = field(default_factory=list)


def _returns_nothing(state: S) -> None:
    pass


def _takes_item(item: int) -> None:
    pass


def built(plan: Plan, shuffle: random.Random | None = None) -> Graph[Any, Any]:
    """The graph of a plan; its nodes are declared in plan order, or in any other."""
    graph: Graph[Any, Any] = Graph(plan.name, S)
    nodes = list(plan.nodes)
    lines = [(START, head) for head in plan.first]
    lines += [(node.name, head) for node in nodes if not node.chooses for head in node.heads]
    if shuffle is not None:
        shuffle.shuffle(nodes)
        lines = _shuffled_lines(lines, shuffle)
    for node in nodes:
        _declare(graph, node, shuffle)
    for tail, head in lines:
        graph.edge(tail, head)
    for one, two in plan.orders:
        graph.before(one, two)
    return graph


def _shuffled_lines(lines: Sequence[tuple[str, str]], shuffle: random.Random) -> list[tuple[str, str]]:
    """Edges in any order, but for those out of one node: their order is the merge order."""
    tails = [tail for tail, _ in lines]
    shuffle.shuffle(tails)
    left = list(lines)
    mixed: list[tuple[str, str]] = []
    for tail in tails:
        line = next(line for line in left if line[0] == tail)
        left.remove(line)
        mixed.append(line)
    return mixed


def _declare(graph: Any, node: Planned, shuffle: random.Random | None) -> None:
    options: dict[str, Any] = {"name": node.name}
    if node.handler is not None:
        options["on_error"] = node.handler
    if node.each:
        options["join"] = "each"
    if node.retry:
        options["retry"] = Retry(attempts=2)
    mapped: dict[str, Any] = {"over": "items", "into": "results", "on_item_error": node.on_item_error}
    match node.kind:
        case "node":
            graph.node(_returns_nothing, **options)
        case "goto":
            graph.node(_returns_nothing, to=node.heads, **options)
        case "router":
            graph.router(_returns_nothing, to=node.heads, **options)
        case "item":
            graph.node(_takes_item, item=True, **options)
        case "map":
            graph.map(_takes_item, at_most=node.at_most, **mapped, **options)
        case "map_graph":
            assert node.child is not None
            graph.map(built(node.child, shuffle), at_most=node.at_most, input="items", **mapped, **options)
        case "graph":
            assert node.child is not None
            graph.node(built(node.child, shuffle), **options)
        case "gate":
            graph.gate(question="?", into="a", **options)
        case "gate_to":
            graph.gate(question="?", schema=Any, to={head: head for head in node.heads}, **options)


def _often(kind: Kind, times: int) -> list[Kind]:
    return [kind] * times


_KINDS: list[Kind] = [*_often("node", 5), *_often("router", 4), *_often("goto", 2), "map", "gate", "gate_to"]


def planned(rng: random.Random, name: str = "g", *, size: int = 8, depth: int = 1) -> Plan:
    """A random plan of a valid graph."""
    plan = Plan(name)
    plan.nodes = [_node(rng, name, number, depth) for number in range(rng.randint(min(size, 3), size))]
    _connect(rng, plan)
    if rng.randint(0, 2):
        _loop(rng, plan)
    for node in plan.nodes:
        if not any(_is_forward(plan, node, head) for head in node.heads):
            _insert(rng, node.heads, END)
    _declare_orders(rng, plan)
    return plan


def crowded(rng: random.Random) -> Plan:
    """A plan of a map with few slots, which holds maps with few slots."""
    inner = planned(rng, "in m", size=3)
    for node in inner.nodes:
        if node.kind == "node" and rng.randint(0, 1):
            node.kind, node.at_most, node.on_item_error = "map", rng.choice([1, 2]), rng.choice(_ON_ITEM_ERROR)
    crowd = Planned("m", "map_graph", [END], child=inner, at_most=rng.choice([1, 2]), retry=not rng.randint(0, 3))
    crowd.on_item_error = rng.choice(_ON_ITEM_ERROR)
    return Plan("g", ["m"], [crowd])


def _node(rng: random.Random, prefix: str, number: int, depth: int) -> Planned:
    kinds: list[Kind] = [
        *_KINDS,
        *_often("item", 2 * (number > 0)),
        *_often("graph", depth),
        *_often("map_graph", depth),
    ]
    name = "abcdefghijklmnopqrstuvwxyz"[number]
    if not rng.randint(0, 19):
        name += " 50% [x]/(y)~@"
    node = Planned(name if prefix == "g" else f"{prefix[-1]}{name}", rng.choice(kinds))
    if node.kind in ("graph", "map_graph"):
        node.child = planned(rng, f"in {node.name[0]}", size=4, depth=depth - 1)
        node.retry = not rng.randint(0, 3)
    if node.kind in ("map", "map_graph"):
        node.at_most = rng.choice([None, 1, 2])
        node.on_item_error = rng.choice(_ON_ITEM_ERROR)
    if node.kind != "item":
        node.each = not rng.randint(0, 9)
    return node


def _connect(rng: random.Random, plan: Plan) -> None:
    """Give every node a way in from before it, and some of them more ways out, all of them forward."""
    handlers: set[str] = set()
    for number, node in enumerate(plan.nodes):
        before = plan.nodes[:number]
        failing = [one for one in before if one.handler is None]
        if failing and node.kind not in ("router", "item") and not rng.randint(0, 5):
            handlers.add(node.name)
            for one in rng.sample(failing, min(len(failing), rng.randint(1, 2))):
                one.handler = node.name
            continue
        routers = [one for one in before if one.kind == "router"]
        if node.kind == "item" and not routers:
            node.kind = "node"
        tails = routers if node.kind == "item" else before[-4:]
        pick = rng.randint(0 if node.kind != "item" else 1, len(tails))
        _insert(rng, plan.first if not pick else tails[-pick].heads, node.name)
    for number, node in enumerate(plan.nodes):
        after = [one for one in plan.nodes[number + 1 :] if one.name not in handlers]
        for one in after:
            if one.name not in node.heads and _fits(node, one) and not rng.randint(0, 2 if node.chooses else 4):
                _insert(rng, node.heads, one.name)
        if not rng.randint(0, 9) and END not in node.heads:
            _insert(rng, node.heads, END)
    if not plan.first:
        plan.first.append(next(one.name for one in plan.nodes if one.name not in handlers and one.kind != "item"))


def _loop(rng: random.Random, plan: Plan) -> None:
    """Let what chooses its way choose a way back."""
    handlers = {node.handler for node in plan.nodes}
    for number, node in enumerate(plan.nodes):
        for one in plan.nodes[: number + 1]:
            if not node.chooses or one.name in handlers or not _fits(node, one) or one.name in node.heads:
                continue
            if not rng.randint(0, 2) and not _only_routers(plan, one, node):
                _insert(rng, node.heads, one.name)


def _only_routers(plan: Plan, tail: Planned, head: Planned) -> bool:
    """Whether a way from one node to another passes only routers; the design refuses cycles of those."""
    named = {node.name: node for node in plan.nodes}
    seen: set[str] = set()
    todo = [tail.name]
    while todo:
        name = todo.pop()
        if name not in seen and name != END and named[name].kind == "router":
            seen.add(name)
            todo += named[name].heads
    return head.name in seen


def _fits(tail: Planned, head: Planned) -> bool:
    return head.kind != "item" or tail.kind == "router"


def _is_forward(plan: Plan, node: Planned, head: str) -> bool:
    names = [one.name for one in plan.nodes]
    return head == END or names.index(head) > names.index(node.name)


def _insert(rng: random.Random, heads: list[str], head: str) -> None:
    heads.insert(rng.randint(0, len(heads)), head)


def _declare_orders(rng: random.Random, plan: Plan) -> None:
    """Say which join goes first wherever two can wait for each other."""
    for group in Definition(built(plan), FOLDS).tied():
        rng.shuffle(group)
        plan.orders += list(itertools.pairwise(group))


def plans() -> st.SearchStrategy[Plan]:
    """Plans of small valid graphs: some of them shrink well, the others are as varied as chance makes them."""
    shrinking, varied = st.randoms(use_true_random=False), st.integers(0, 2**32).map(random.Random)
    return st.one_of(shrinking.map(planned), varied.map(planned), varied.map(crowded))


# -- behaviour ------------------------------------------------------------------------------------------------------

ALWAYS = 1000


@dataclass(frozen=True)
class Behaviour:
    """What tasks do, by their ids.

    Args:
        salt: another number, another behaviour.
        cap: how many steps may be taken before routers only go forward.
        failing: one of how many tasks fails at first; 0 for none.
        plain: one of how many writes a plain field.
        replacing: one of how many replaces a field with a reducer.
        asking: one of how many functions asks somebody before it is done; 0 for none.
        items: how many the run starts with.
    """

    salt: int = 0
    cap: int = 8
    failing: int = 6
    plain: int = 8
    replacing: int = 16
    asking: int = 0
    items: int = 2

    def pick(self, task: str, what: str, count: int) -> int:
        """A number below another, by hash."""
        return zlib.crc32(f"{self.salt}|{what}|{task}".encode()) % count

    def one_of(self, task: str, what: str, count: int) -> bool:
        return bool(count) and not self.pick(task, what, count)

    def failures(self, task: str, *, caught: bool) -> int:
        """How many attempts of a task fail."""
        if not self.one_of(task, "fails", self.failing if not caught else min(self.failing, 3)):
            return 0
        return (1, 2, ALWAYS)[self.pick(task, "times", 3 if caught else 2)]

    def asks(self, task: str) -> bool:
        return self.one_of(task, "asks", self.asking)

    def update(self, task: str) -> dict[str, Any]:
        """What a task returns."""
        update: dict[str, Any] = {"log": [task], "steps": 1, "mix": self.pick(task, "mix", 1000)}
        some: dict[str, Any] = {
            "ratio": self.pick(task, "ratio", 97) / 7,
            "table": {"xyz"[self.pick(task, "key", 3)]: task},
            "seen": {f"s{self.pick(task, 'seen', 9)}"},
            "best": self.pick(task, "best", 100),
            "latest": task,
            "bag": [task],
        }
        update |= {name: value for name, value in some.items() if self.one_of(task, f"writes {name}", 3)}
        if self.one_of(task, "replaces bag", self.replacing):
            update["bag"] = Replace([f"only {task}"])
        if self.one_of(task, "replaces mix", self.replacing * 2):
            update["mix"] = Replace(7)
        if self.one_of(task, "writes a", self.plain):
            update["a"] = task
        if self.one_of(task, "writes b", self.plain):
            update["b"] = "01"[self.pick(task, "b", 2)]
            if self.one_of(task, "replaces b", 4):
                update["b"] = Replace(update["b"])
        if self.one_of(task, "writes items", self.plain * 2):
            update["items"] = list(range(self.pick(task, "items", 4)))
        return update

    def heads(self, task: str, heads: Sequence[str], forward: Sequence[str], steps: int, *, many: bool) -> list[str]:
        """Where a task goes, of its declared heads."""
        among = list(heads if steps < self.cap else forward)
        if END in among and len(among) > 1 and steps < self.cap and self.pick(task, "goes on", 4):
            among.remove(END)
        first = among[self.pick(task, "head", len(among))]
        if not many or not self.one_of(task, "forks", 3):
            return [first]
        return [first, *(head for head in among if head != first and not self.pick(task, f"fork {head}", 2))]

    def sent(self, task: str, head: str) -> list[int]:
        return [10 * number for number in range(1 + self.pick(task, f"sends {head}", 3))]

    def settlement(self, task: str, name: str) -> Any:
        """What a person decides for a field in conflict."""
        values: dict[str, Any] = {"items": [7], "mix": 11, "bag": ["settled", task]}
        return values.get(name, f"settled {task}")


# -- graphs and behaviour written by hand ---------------------------------------------------------------------------


def drawn(text: str, **details: Mapping[str, Any]) -> Graph[Any, Any]:
    """A graph from lines; see `sketched`."""
    return built(sketched(text, **details))


def sketched(text: str, **details: Mapping[str, Any]) -> Plan:
    """A plan from lines: `a > b, c` are fixed edges, `a ? b, c` a router, `a ! b, c` a node that jumps.

    Args:
        text: lines, or parts parted by `;`.
        details: what is to be said of nodes by name, such as `read={"kind": "item"}`.
    """
    kinds: dict[str, Kind] = {">": "node", "?": "router", "!": "goto"}
    plan = Plan("g")
    for line in text.replace("\n", ";").split(";"):
        if "before" in line:
            one, two = line.split("before")
            plan.orders.append((one.strip(), two.strip()))
        elif line.strip():
            mark = next(mark for mark in kinds if mark in line)
            name, heads = line.split(mark)
            listed = [head.strip() for head in heads.split(",")]
            if name.strip() == START:
                plan.first = listed
            else:
                node = Planned(name.strip(), kinds[mark], listed)
                plan.nodes.append(dataclasses.replace(node, **details.pop(node.name, {})))
    assert not details, f"no such nodes: {details}"
    return plan


@dataclass(frozen=True)
class Script(Behaviour):
    """Tasks that do what is written down for them, and else log their id, take the first way and do not fail.

    Args:
        routes: where tasks go, by id.
        writes: what they write.
        fails: how many of their attempts fail.
        sends: the items that they send.
        asking_tasks: those that ask before they are done.
    """

    routes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    writes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fails: Mapping[str, int] = field(default_factory=dict)
    sends: Mapping[str, list[int]] = field(default_factory=dict)
    asking_tasks: Sequence[str] = ()

    def asks(self, task: str) -> bool:
        return task in self.asking_tasks

    def update(self, task: str) -> dict[str, Any]:
        return {"log": [task], **self.writes.get(task, {})}

    def heads(self, task: str, heads: Sequence[str], forward: Sequence[str], steps: int, *, many: bool) -> list[str]:
        return list(self.routes.get(task, heads[:1]))

    def failures(self, task: str, *, caught: bool) -> int:
        return self.fails.get(task, 0)

    def sent(self, task: str, head: str) -> list[int]:
        return self.sends.get(task, [10, 20])


# -- the shell ------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What a run came to, for comparing with another run of the same graph."""

    final: Any = None
    states: dict[str, Any] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """All of it that no schedule may change."""
        return {"final": self.final, "states": self.states, "done": sorted(self.done), "settled": sorted(self.settled)}


class TooLong(Exception):
    """The run takes more tasks than a test has time for."""


Action: TypeAlias = tuple[str, str]


class Shell:
    """Stands in for the engine: starts tasks, lets them behave, and tells the machine (and the model) the facts."""

    def __init__(
        self,
        graph: Graph[Any, Any],
        behaviour: Behaviour,
        *,
        on_failure: OnFailure = "finish",
        model: bool = False,
        most: int = 400,
    ) -> None:
        graph.check()
        self.topology: Topology = graph.topology
        self.behaviour = behaviour
        self.on_failure: OnFailure = on_failure
        self.most = most
        self.seen = Seen()
        self.attempts: dict[str, int] = {}
        self.running: list[str] = []
        values, _ = self.topology.schema.start({"items": list(range(1, behaviour.items + 1))})
        self.machine = Machine(self.topology, values, on_failure=on_failure)
        self.model = Reference(Definition(graph, FOLDS), plain(values), on_failure) if model else None
        self.machine.begin()
        if self.model is not None:
            self.model.begin()
        self.look()

    # -- running

    def run(self, rng: random.Random, *, in_flight: int = 4, crashes: float = 0.0) -> Seen:
        """Do one thing after another, chosen at random, until the run is over."""
        while self.machine.final is None:
            if rng.random() < crashes:
                self.crash()
            self.act(self.choose(rng, in_flight))
        self.seen.final = plain(self.machine.final)
        return self.seen

    def play(self, *slow: str) -> Seen:
        """Start all that may start; what is slow ends only when nothing else is left to do."""
        self.hold(*slow)
        while self.machine.final is None:
            self.act(next(iter(self.actions(99))))
            self.hold(*slow)
        self.seen.final = plain(self.machine.final)
        return self.seen

    def hold(self, *slow: str) -> None:
        """Go on as far as that is possible without ending, answering or trying again what is slow.

        Args:
            slow: ids of tasks, or single things not to be done, such as `decide g`.
        """
        while quick := [one for one in self.actions(99) if one[0] == "start" or not {one[1], " ".join(one)} & {*slow}]:
            self.act(quick[0])

    def choose(self, rng: random.Random, in_flight: int) -> Action:
        actions = list(self.actions(in_flight))
        assert actions, f"nothing can go on: {list(self.machine.tasks.values())}"
        return rng.choice(actions)

    def actions(self, in_flight: int) -> Iterable[Action]:
        if len(self.running) < in_flight:
            yield from (("start", task.id) for task in self.startable())
        yield from (("end", name) for name in self.running)
        yield from (("answer", question) for question in self.machine.questions)
        for task in self.machine.failing.values():
            if not self.is_handled(task):
                yield ("resolve" if is_unmerged(task) else "retry", task.id)
        for task in self.machine.stuck:
            yield "decide", task.id

    def act(self, action: Action) -> None:
        kind, name = action
        match kind:
            case "start":
                self.start(self.machine.tasks[name])
            case "end":
                self.running.remove(name)
                self.end(self.machine.tasks[name])
            case "answer":
                task = self.machine.answer(name, None)
                self.tell("answer", task.id)
            case "retry":
                self.machine.retry(self.machine.tasks[name])
                self.tell("retry", name)
            case "resolve":
                self.resolve(self.machine.tasks[name])
            case _:
                self.decide(self.machine.tasks[name])
        self.look()

    def crash(self) -> None:
        """The process dies; another takes over from the exported position."""
        data = json.loads(json.dumps(export(self.machine)))
        self.machine = restored(self.topology, data, on_failure=self.on_failure)
        self.running = []
        if self.model is not None:
            self.model.put_back()
        self.look()

    def startable(self) -> list[Task]:
        machine = self.machine
        ready = [task for task in machine.ready if task.status == "ready" and machine.tasks.get(task.id) is task]
        return [task for task in ready if not machine.failing or machine._may_start(task)]

    def start(self, task: Task) -> None:
        self.machine.ready.remove(task)
        self.machine.ready.appendleft(task)
        assert self.machine.next_ready() is task
        self.machine.take(task)
        self.running.append(task.id)
        self.tell("take", task.id)

    # -- what tasks do

    def end(self, task: Task) -> None:
        node = task.place.node
        if not task.closing and self._open(task):
            return
        name = task.id  # the task may be another visit afterwards
        if self.fails(task):
            self.machine.fail(task, (failure(task),))
            self.seen.settled.append(f"{name} failed")
            self.tell("fail", name)
        elif self.asks(task):
            question = Question(id=f"?{name}", task=name, node=task.place.name, name="", text="?")
            self.machine.ask(task, question)
            self.tell("ask", task.id)
        elif task.index is not None and isinstance(node, MapNode):
            result = f"{task.id} gave {self.behaviour.pick(task.id, 'result', 100)}"
            if task.child is not None:
                assert task.child.values is not None
                result += f" after {len(task.child.values['log'])}"
            self.done(task)
            self.machine.finish_item(task, result, json.dumps(result).encode())
            self.tell("finish_item", task.id, result)
        else:
            self._finish(task)

    def asks(self, task: Task) -> bool:
        """Whether a task asks: a gate, or a function that does so; containers ask nobody."""
        if task.answers or task.closing:
            return False
        return isinstance(task.place.node, GateNode) or (
            self.behaviour.asks(task.id) and not isinstance(task.place.node, RouterNode)
        )

    def _open(self, task: Task) -> bool:
        """Whether a task is a container, which was opened."""
        node = task.place.node
        if isinstance(node, GraphNode) or (isinstance(node, MapNode) and task.index is not None and task.place.child):
            values = {**task.values, "steps": 0}
            self.machine.open(task, values)
            self.tell("open", task.id, plain(values))
        elif isinstance(node, (MapNode, ItemNode)) and task.index is None:
            self.machine.open_items(task)
            self.tell("open_items", task.id)
        else:
            return False
        return True

    def _finish(self, task: Task) -> None:
        node, schema = task.place.node, task.scope.topology.schema
        mapping = {} if isinstance(node, RouterNode) else self.behaviour.update(task.id)
        if isinstance(node, MapNode):
            mapping["results"] = self._results(task)
        writes = schema.update(task.values, mapping, key=task.id)
        if isinstance(node, GraphNode):
            assert task.child is not None
            since = task.child.since
            reducers = schema.reducers
            after = {
                name: followed(reducers[name], since[name], w) if name in since else w for name, w in writes.items()
            }
            writes = {**since, **after}
        ways = self.ways(task)
        self.done(task)
        name, places = task.id, task.scope.topology.places  # the task may be another visit afterwards
        self.machine.finish(task, writes, ways)
        self.tell(
            "finish", name, mapping, [(places[way.head].name, [sent.value for sent in way.items]) for way in ways]
        )

    def _results(self, task: Task) -> list[str]:
        results = [outcome[1] if outcome[0] else f"no {index}" for index, outcome in enumerate(task.results)]
        if self.model is not None:
            told = self.model.results(task.id)
            assert results == [value if fine else f"no {index}" for index, (fine, value) in enumerate(told)]
        return results

    def ways(self, task: Task) -> list[Way]:
        node, places = task.place.node, task.scope.topology.places
        if node is None or not is_choice(node):
            return []
        heads = [places[head].name for head in task.place.heads]
        back = self.back(task)
        forward = [head for head in heads if head not in back]
        many = isinstance(node, RouterNode)
        chosen = self.behaviour.heads(task.id, heads, forward, task.values["steps"], many=many)
        ways: list[Way] = []
        for head in chosen:
            place = places[task.scope.topology.index[head]]
            items = self.behaviour.sent(task.id, head) if isinstance(place.node, ItemNode) else ()
            ways.append(Way(place.index, tuple(Sent(item, json.dumps(item).encode()) for item in items)))
        return ways

    def back(self, task: Task) -> set[str]:
        """The heads of a task's node that lead back; names of generated nodes are in forward order."""
        return {head for head in (place.name for place in task.scope.topology.places) if head <= task.place.name} - {
            END
        }

    def fails(self, task: Task) -> bool:
        caught = task.place.handler is not None or self.is_handled(task)
        if task.index is not None and not isinstance(task.place.node, MapNode):
            caught = self.is_handled(task)
        times = self.behaviour.failures(task.id, caught=caught)
        self.attempts[task.id] = self.attempts.get(task.id, 0) + 1
        return self.attempts[task.id] <= times

    # -- failures

    def is_handled(self, task: Task) -> bool:
        """Whether a container around a task handles its failure for good."""
        holder = task.container or task.scope.owner
        while holder is not None:
            if self.is_handled_by(holder):
                return True
            holder = holder.container or holder.scope.owner
        return False

    def is_handled_by(self, holder: Task) -> bool:
        node = holder.place.node
        if holder.index is not None:
            return isinstance(node, MapNode) and node.on_item_error != "fail"
        return holder.place.handler is not None

    def decide(self, task: Task) -> None:
        """A container is stuck: once tried again if it may be, then it fails for good."""
        node = task.place.node
        retried = node is not None and node.options.retry is not None and task.index is None
        tries = self.attempts.get(f"{task.id} inside", 0)
        if retried and tries == 0:
            self.attempts[f"{task.id} inside"] = tries + 1
            self.machine.go_on_inside(task)
            self.tell("go_on_inside", task.id)
        else:
            if self.is_handled_by(task) or self.is_handled(task):
                self.seen.settled.append(f"{task.id} failed inside")
            name = task.id
            self.machine.fail(task, self.machine.failures_inside(task))
            self.tell("fail", name)

    def resolve(self, task: Task) -> None:
        mapping: dict[str, Any] = {}
        schema = task.scope.topology.schema
        while True:
            try:
                self.machine.resolve(task, self._settlement(task, mapping))
            except ConflictError as error:
                mapping[error.field] = self.behaviour.settlement(task.id, error.field)
            else:
                break
        assert mapping, "a merge that failed for no field"
        assert schema is task.scope.topology.schema
        self.seen.settled.append(f"{task.id} {sorted(mapping)}")
        self.tell("resolve", task.id, mapping)

    def _settlement(self, task: Task, mapping: Mapping[str, Any]) -> Writes:
        schema = task.scope.topology.schema
        writes: Writes = {}
        for name, value in mapping.items():
            whole, data = schema.fields[name].value.through(value)
            writes[name] = Write("set" if schema.reducers[name] is None else "replace", [whole], [data])
        return writes

    # -- comparing

    def done(self, task: Task) -> None:
        assert task.id not in self.seen.done, f"{task.id} was done twice"
        self.seen.done.append(task.id)
        if len(self.seen.done) > self.most:
            raise TooLong

    def tell(self, fact: str, *told: Any) -> None:
        if self.model is not None:
            getattr(self.model, fact)(*told)

    def look(self) -> None:
        """Note the state at each task; compare the whole position with the model's."""
        for task in self.machine.tasks.values():
            if is_unmerged(task):
                continue
            values = task.values if task.item is None else {**task.values, "the item": task.item.value}
            name = f"{task.id} closing" if task.closing and isinstance(task.place.node, ItemNode) else task.id
            if name not in self.seen.states:
                self.seen.states[name] = plain(values)  # what is frozen equals what is plain
            assert self.seen.states[name] == values, f"the state at {task.id} has changed"
        if self.model is not None:
            self._compare(self.model)

    def _compare(self, model: Reference) -> None:
        machine = self.machine
        assert {task.id for task in self.startable()} == model.ready()
        assert set(machine.tasks) == set(model.tasks)
        assert set(machine.failing) == model.failed()
        assert {task.id for task in machine.stuck} == model.stuck()
        queued = {task.id for task in machine.tasks.values() if task.status == "queued" and is_run_itself(task)}
        assert queued == model.queued()
        slots = [task.slots for task in machine.tasks.values() if task.slots is not None]
        # What is stuck is decided on next, and until then it does not matter whether the item around it has a slot.
        undecided = {item.id for stuck in machine.stuck for _, item in limited_items(stuck)}
        assert {item.id for one in slots for item in one.taken} - undecided == model.with_slots() - undecided
        assert {question.task for question in machine.questions.values()} == model.asking()
        for task in machine.tasks.values():
            work = model.tasks[task.id]
            if work.merge_failed is not None:
                assert task.failures[0].merge
            elif task.index is None:
                assert plain(task.values) == model.state(task.id), task.id
        assert (machine.final is None) == (model.root.final is None)
        if machine.final is not None:
            assert plain(machine.final) == model.root.final


def failure(task: Task) -> Failure:
    """A failed attempt of a task."""
    return Failure(
        graph=task.scope.topology.name,
        node=task.place.name,
        task=task.id,
        attempt=task.attempt,
        kind="ValueError",
        message=f"{task.id} failed",
    )


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as plain Python, which compares without regard to what is frozen."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return set(value)
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, list) else value
