"""How nodes are declared: what counts as a function, how it is named and referred to, and how a graph shows itself."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from flowagent import END, START, Graph, State, Update
from flowagent.errors import GraphError


class N(State):
    n: int = 0


class Plain:
    """Nothing that pydantic knows."""


class Adder:
    """Methods and callable objects can be nodes."""

    def add(self, state: N) -> Update:
        return {"n": state.n + 1}

    async def __call__(self, state: N) -> Update:
        await asyncio.sleep(0)
        return {"n": state.n + 10}


def test_a_method_is_referred_to_by_itself() -> None:
    """Each access makes another object, which is the same method."""
    adder, graph = Adder(), Graph("methods", N)
    graph.node(adder.add)
    graph.chain(START, adder.add, END)
    assert (list(graph.nodes), graph.run_sync().state.n) == (["add"], 1)


def test_a_partial_is_named_after_its_function_and_keeps_its_kind() -> None:
    """Partials of partials and of async functions too."""

    async def scale(by: int, plus: int, state: N) -> Update:
        return {"n": state.n * by + plus}

    graph = Graph("partials", N)
    graph.node(functools.partial(functools.partial(scale, 3), 1))
    graph.chain(START, "scale", END)
    assert graph.run_sync(N(n=2)).state.n == 7


def test_a_callable_object_is_a_node_when_it_is_named() -> None:
    """An async `__call__` makes it an async node."""
    graph = Graph("objects", N)
    graph.node(Adder(), name="ten")
    graph.chain(START, "ten", END)
    assert graph.run_sync().state.n == 10


def test_a_builtin_without_a_signature_is_a_function_of_one_argument() -> None:
    """So such functions can be mapped."""

    class Items(State):
        items: list[list[str]] = [["a", "b"], ["c"]]
        results: list[Any] = []

    graph = Graph("builtins", Items)
    graph.map(dict.fromkeys, name="m", over="items", into="results")
    graph.chain(START, "m", END)
    assert graph.run_sync().state.results == [{"a": None, "b": None}, {"c": None}]


def test_what_is_no_function_is_refused() -> None:
    """With the name that it was given."""
    graph: Any = Graph("none", N)
    graph.node(5, name="five")
    graph.chain(START, "five", END)
    with pytest.raises(GraphError, match="node `five` is no function but 5"):
        graph.check()


def test_a_handler_and_a_single_target_may_be_given_as_functions() -> None:
    """References are names, functions or graphs, wherever one is taken."""
    graph = Graph("refs", N)

    @graph.node
    def mend(state: N) -> Update:
        return {"n": -1}

    @graph.node(on_error=mend)
    def broken(state: N) -> Update:
        raise ValueError("broken")

    target: Any = broken  # one target needs no list around it
    graph.router(lambda state: "broken", name="r", to=target)
    graph.chain(START, "r")
    graph.edge(broken, END)
    graph.edge(mend, END)
    assert graph.run_sync().state.n == -1


def test_a_graph_tells_what_it_is_and_draws_itself() -> None:
    """In a console by a line, in a notebook by a picture; a run is drawn too."""
    graph = Graph("shown", N)
    graph.node(lambda state: {}, name="a")
    graph.chain(START, "a", END)
    assert repr(graph) == "Graph('shown', N, 1 nodes)"
    run = graph.run_sync()
    assert ["<svg" in picture for picture in (graph._repr_svg_(), run._repr_svg_())] == [True, True]


def test_an_item_type_that_no_store_can_hold_is_found_by_check() -> None:
    """Before anything is sent."""
    graph = Graph("items", N)

    @graph.node(item=True)
    def take(item: Plain) -> Update:
        return {}

    graph.router(lambda state: [], name="r", to=["take"], empty="END")
    graph.chain(START, "r")
    graph.edge(take, END)
    with pytest.raises(GraphError, match="node `take` takes items that cannot be stored"):
        graph.check()
