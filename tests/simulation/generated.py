"""Generated graphs that run: the plans of `tests.core.generate`, with nodes that behave by their task's id."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from flowagent import Context, Goto, Graph, Send
from flowagent.core.nodes import END, START
from flowagent.core.policies import Retry
from flowagent.errors import GraphError
from tests.core.generate import ALWAYS, Behaviour, Plan, Planned, S, planned
from tests.kill.effects import Effects
from tests.simulation.alone import Told, here


class Actors:
    """Makes the functions of a plan's nodes.

    Args:
        behaviour: what tasks do.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def graph(self, plan: Plan, *, caught: bool = False) -> Graph[Any, Effects]:
        """A plan as a graph; `caught` says whether something around it handles its failures."""
        graph: Graph[Any, Effects] = Graph(plan.name, S, deps=Effects)
        for node in plan.nodes:
            self._declare(graph, plan, node, caught=caught or node.handler is not None)
        for head in plan.first:
            graph.edge(START, head)
        for node in plan.nodes:
            for head in () if node.chooses else node.heads:
                graph.edge(node.name, head)
        for one, two in plan.orders:
            graph.before(one, two)
        return graph

    def _declare(self, graph: Any, plan: Plan, node: Planned, *, caught: bool) -> None:
        options: dict[str, Any] = {"name": node.name}
        if node.handler is not None:
            options["on_error"] = node.handler
        if node.each:
            options["join"] = "each"
        if node.retry:
            options["retry"] = Retry(attempts=2)
        # An item's error has no place in this state.
        on_item_error = "skip" if node.on_item_error == "collect" else node.on_item_error
        mapped = {"over": "items", "into": "results", "at_most": node.at_most, "on_item_error": on_item_error}
        caught_inside = caught or (node.kind in ("map", "map_graph") and on_item_error != "fail")
        act = self._act(plan, node, caught=caught_inside)
        match node.kind:
            case "node":
                graph.node(act, **options)
            case "goto":
                graph.node(act, to=node.heads, **options)
            case "router":
                graph.router(act, to=node.heads, **options)
            case "item":
                graph.node(act, item=True, **options)
            case "map":
                graph.map(act, **mapped, **options)
            case "map_graph":
                assert node.child is not None
                child = self.graph(node.child, caught=caught_inside)
                graph.map(child, input={"best": "item"}, output="latest", **mapped, **options)
            case "graph":
                assert node.child is not None
                graph.node(self.graph(node.child, caught=caught), **options)
            case "gate":
                graph.gate(question="?", into="a", **options)
            case "gate_to":
                graph.gate(question="?", schema=str, to={head: head for head in node.heads}, **options)

    def _act(self, plan: Plan, node: Planned, *, caught: bool) -> Any:
        """The function of a node: async or sync, of the state alone or with a context, as its name has it."""

        def done(state: Any, ctx: Context[Effects, Any]) -> Any:
            self._fail(ctx, caught=caught)
            return self._returned(plan, node, state, ctx.task_id)

        async def beside(state: Any, ctx: Context[Effects, Any]) -> Any:
            await ctx.deps.work_beside(ctx)
            return done(state, ctx)

        def in_thread(state: Any, ctx: Context[Effects, Any]) -> Any:
            ctx.deps.work(ctx)
            return done(state, ctx)

        async def beside_alone(state: Any) -> Any:
            return await beside(state, here())

        def in_thread_alone(state: Any) -> Any:
            return in_thread(state, here())

        is_async = self._behaviour.pick(node.name, "is async", 2)
        if node.kind in ("node", "goto", "router") and self._behaviour.pick(node.name, "takes the state alone", 4):
            return beside_alone if is_async else in_thread_alone
        act = beside if is_async else in_thread
        if node.kind in ("map", "item"):
            act.__annotations__["state"] = int
        if node.kind == "map":
            act.__annotations__["return"] = str
        return act

    def _fail(self, ctx: Context[Effects, Any], *, caught: bool) -> None:
        times = self._behaviour.failures(ctx.task_id, caught=caught)
        if caught and times:
            times = ALWAYS  # a handler is called or it is not: that must not hang on who was cancelled when
        if isinstance(ctx.deps, Counting) and ctx.deps.count(ctx.task_id) <= times:
            raise ValueError(f"{ctx.task_id} fails")

    def _returned(self, plan: Plan, node: Planned, state: Any, task: str) -> Any:
        if node.kind == "map":
            return f"{task} gave {self._behaviour.pick(task, 'result', 100)}"
        if node.kind not in ("router", "goto"):
            return self._behaviour.update(task)
        many = node.kind == "router"
        heads = self._behaviour.heads(task, node.heads, forward_of(node), state.steps, many=many)
        if not many:
            return Goto(heads[0], self._behaviour.update(task))
        kinds = {one.name: one.kind for one in plan.nodes}
        return [way for head in heads for way in self._ways(task, head, kinds)]

    def _ways(self, task: str, head: str, kinds: Mapping[str, str]) -> Iterable[Any]:
        if kinds.get(head) != "item":
            return [head]
        return [Send(head, item) for item in self._behaviour.sent(task, head)]


class Counting(Effects):
    """Counts how often each task was called, so that some fail a few times and then do not."""

    def count(self, task: str) -> int:
        """How often a task was called until now."""
        raise NotImplementedError


def forward_of(node: Planned) -> list[str]:
    """The heads of a node that do not lead back; names of generated nodes are in forward order."""
    return [head for head in node.heads if head == END or head > node.name]


class _Answers(dict[str, Any]):
    """What is answered to each node that asks: a gate that chooses is told a way forward."""

    def __init__(self, plan: Plan, behaviour: Behaviour) -> None:
        super().__init__()
        self._nodes = {node.name: node for node in _nodes_of(plan)}
        self._behaviour = behaviour

    def __missing__(self, name: str) -> Any:
        node = self._nodes[name]
        if node.kind != "gate_to":
            return "yes"
        forward = forward_of(node)
        return forward[self._behaviour.pick(name, "answer", len(forward))]


def _nodes_of(plan: Plan) -> Iterable[Planned]:
    for node in plan.nodes:
        yield node
        yield from () if node.child is None else _nodes_of(node.child)


def generated(chance: random.Random) -> Told:
    """A random graph that runs."""
    while True:
        plan = planned(chance, size=chance.choice((3, 7)))
        # Without plain writes and replacements there are no conflicts, which somebody would have to settle.
        behaviour = Behaviour(chance.randrange(2**32), chance.choice([4, 8]), chance.choice([0, 4, 8]), 0, 0)
        graph = Actors(behaviour).graph(plan)
        try:
            graph.check()
        except GraphError as error:
            if all("only routers" in fault for fault in error.faults):
                continue
            raise
        return Told(graph=graph, input=S(), answers=_Answers(plan, behaviour))
