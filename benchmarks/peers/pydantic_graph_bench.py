"""The workloads, run by pydantic-graph as its documentation shows it; ../README.md tells what each one measures.

    python -m venv .venvs/pydantic_graph
    .venvs/pydantic_graph/bin/pip install pydantic-graph

A `GraphBuilder` with async steps, a decision that leads back, `.map()` for the branches and a join. The state is a
pydantic model that the steps change in place, and that is not validated again. Since 2.0 nothing of a run is stored, so
there are no W2, W5 and W6, and no W3 with a store. There are no variants.
"""

# pyright: basic, reportMissingImports=false
# (pydantic-graph lives in an environment of its own.)
from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import VERSION, BaseModel
from pydantic_graph import Graph, GraphBuilder, StepContext, TypeExpression, reduce_list_append

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `_kit` is
from _kit import WARM_UP, Bench, main, text_of

BEGIN = """
from pydantic import BaseModel
from pydantic_graph import GraphBuilder, StepContext
"""


class CounterState(BaseModel):
    count: int = 0
    limit: int = 0


class Message(BaseModel):
    role: str
    content: str


class ChatState(CounterState):
    messages: list[Message] = []


class MapState(BaseModel):
    items: list[int] = []
    results: list[int] = []


Onward: TypeAlias = Literal["again", "done"]


async def step(ctx: StepContext[CounterState, None, Any]) -> Onward:
    ctx.state.count += 1
    return "again" if ctx.state.count < ctx.state.limit else "done"


async def talk(ctx: StepContext[ChatState, None, Any]) -> Onward:
    ctx.state.messages.append(Message(role="user", content=text_of(ctx.state.count)))
    return await step(ctx)


def loop_of(model: type[CounterState], act: Callable[[Any], Awaitable[Onward]]) -> Graph:
    """One step, and a decision that leads back to it until the limit is reached."""
    graph = GraphBuilder(state_type=model, output_type=str, auto_instrument=False)
    node = graph.step(act, node_id="step")
    again = graph.match(TypeExpression[Literal["again"]]).to(node)
    done = graph.match(TypeExpression[Literal["done"]]).to(graph.end_node)
    graph.add(
        graph.edge_from(graph.start_node).to(node),
        graph.edge_from(node).to(graph.decision().branch(again).branch(done)),
    )
    return graph.build()


def map_of(work: Callable[[int], Awaitable[int]]) -> Graph:
    """A branch for each item, between a step that splits and a join, which hands the results to the last step."""
    graph = GraphBuilder(state_type=MapState, output_type=int, auto_instrument=False)

    @graph.step
    async def split(ctx: StepContext[MapState, None, None]) -> list[int]:
        return ctx.state.items

    @graph.step
    async def branch(ctx: StepContext[MapState, None, int]) -> int:
        return await work(ctx.inputs)

    @graph.step
    async def keep(ctx: StepContext[MapState, None, list[int]]) -> int:
        ctx.state.results = ctx.inputs
        return len(ctx.inputs)

    join = graph.join(reduce_list_append, initial_factory=list[int])
    graph.add(
        graph.edge_from(graph.start_node).to(split),
        graph.edge_from(split).map().to(branch),
        graph.edge_from(branch).to(join),
        graph.edge_from(join).to(keep),
        graph.edge_from(keep).to(graph.end_node),
    )
    return graph.build()


async def looped(bench: Bench, model: type[CounterState], act: Callable[[Any], Awaitable[Onward]], warm_up: int) -> Any:
    """W1, W3: a run to warm up, then the measured one; its last state."""
    graph, state = loop_of(model, act), model()
    for limit, clock in bench.rounds(warm_up):
        state = model(limit=limit)
        with clock():
            await graph.run(state=state, inputs=None)
    assert state.count == bench.n
    return state


def w1(bench: Bench) -> int:
    bench.need("none")
    asyncio.run(looped(bench, CounterState, step, bench.n))
    return bench.n


def w3(bench: Bench) -> int:
    bench.need("none")
    state = asyncio.run(looped(bench, ChatState, talk, WARM_UP))
    assert len(state.messages) == bench.n
    return bench.n


async def mapped(bench: Bench, work: Callable[[int], Awaitable[int]]) -> int:
    """W4, W8: one run whose branches overlap; the graph is built before."""
    graph, state = map_of(work), MapState()
    for items, clock in bench.rounds(WARM_UP):
        state = MapState(items=list(range(items)))
        with clock():
            await graph.run(state=state, inputs=None)
    assert sum(state.results) == bench.n * (bench.n + 1) // 2
    return bench.n + 2


def w4(bench: Bench) -> int:
    bench.need("none")

    async def add_one(item: int) -> int:
        return item + 1

    return asyncio.run(mapped(bench, add_one))


def w8(bench: Bench) -> int:
    bench.need("none")
    bench.extra["ideal_s"] = 0.05

    async def nap(item: int) -> int:
        await asyncio.sleep(0.05)
        return item + 1

    return asyncio.run(mapped(bench, nap))


async def line(bench: Bench) -> int:
    async def count(ctx: StepContext[CounterState, None, None]) -> None:
        ctx.state.count += 1

    state = CounterState(limit=bench.n)
    with bench.clock():
        start = time.perf_counter()
        graph = GraphBuilder(state_type=CounterState, auto_instrument=False)
        nodes = [graph.step(count, node_id=f"n{i}") for i in range(bench.n)]
        ends = [graph.start_node, *nodes, graph.end_node]
        graph.add(*(graph.edge_from(tail).to(head) for tail, head in itertools.pairwise(ends)))
        app = graph.build()
        built = time.perf_counter()
        await app.run(state=state, inputs=None)
        done = time.perf_counter()
    bench.extra |= {"build_s": round(built - start, 6), "run_s": round(done - built, 6)}
    assert state.count == bench.n
    return bench.n


def w9(bench: Bench) -> int:
    bench.need("none")
    return asyncio.run(line(bench))


if __name__ == "__main__":
    main(
        "pydantic_graph",
        f"{version('pydantic-graph')}, pydantic {VERSION}",
        {"W1": w1, "W3": w3, "W4": w4, "W8": w8, "W9": w9},
        begin=BEGIN,
        lacks=dict.fromkeys(("W2", "W5", "W6"), "nothing of a run is stored, since version 2"),
    )
