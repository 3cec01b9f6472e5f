"""The workloads, run by LangGraph as its documentation shows it; ../README.md tells what each one measures.

    python -m venv .venvs/langgraph
    .venvs/langgraph/bin/pip install langgraph langgraph-checkpoint-sqlite

A pydantic model is the state, a conditional edge leads back, `Send` makes the branches, and `SqliteSaver` or
`AsyncSqliteSaver` keeps the checkpoints. Where there is one, `durability="sync"`: the checkpoint of a step is committed
before the next step starts, which is what the other sides do.

Variants
  (none)   W1, W2, W3, W6 and W9 by `invoke`; W4, W5 and W8 by `ainvoke`, since they overlap.
  async    W1, W2 and W3 by `ainvoke`.
  default  W2 and W3 with the default durability: a checkpoint is written while the next step runs.
  chat     W6 with W3's growing history.
"""

# pyright: basic, reportMissingImports=false
# (LangGraph lives in an environment of its own.)
from __future__ import annotations

import asyncio
import contextlib
import operator
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from pydantic import VERSION, BaseModel

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `_kit` is
from _kit import PRAGMAS, WARM_UP, Bench, main, text_of

BEGIN = """
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel
"""

os.environ["LANGSMITH_TRACING"] = "false"  # whatever the shell has set: nothing is traced, on any side


class CounterState(BaseModel):
    count: int = 0
    limit: int = 0


class Message(BaseModel):
    role: str
    content: str


class ChatState(CounterState):
    messages: Annotated[list[Message], operator.add] = []


class MapState(BaseModel):
    items: list[int] = []
    results: Annotated[list[int], operator.add] = []


class Item(BaseModel):
    value: int


Model: TypeAlias = type[CounterState]
Saver: TypeAlias = "SqliteSaver | AsyncSqliteSaver | InMemorySaver | None"


def step(state: CounterState) -> dict[str, Any]:
    return {"count": state.count + 1}


async def async_step(state: CounterState) -> dict[str, Any]:
    return step(state)


def talk(state: ChatState) -> dict[str, Any]:
    message = Message(role="user", content=text_of(state.count))
    return {"count": state.count + 1, "messages": [message]}


async def async_talk(state: ChatState) -> dict[str, Any]:
    return talk(state)


def onward(state: CounterState) -> str:
    return "step" if state.count < state.limit else END


def loop_of(model: Model, node: Callable[[Any], Any], saver: Saver) -> Any:
    """One node, and a conditional edge that leads back to it until the limit is reached."""
    graph = StateGraph(model)
    graph.add_node("step", node)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", onward, ["step", END])
    return graph.compile(checkpointer=saver)


def map_of(work: Callable[[Item], Awaitable[dict[str, Any]]], saver: Saver) -> Any:
    """A branch for each item, between a node that splits and one that joins."""

    def split(state: MapState) -> dict[str, Any]:
        return {}

    def scatter(state: MapState) -> list[Send]:
        return [Send("branch", Item(value=item)) for item in state.items]

    def join(state: MapState) -> dict[str, Any]:
        return {}

    graph = StateGraph(MapState)
    graph.add_node("split", split)
    graph.add_node("branch", work, input_schema=Item)
    graph.add_node("join", join)
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", scatter, ["branch"])
    graph.add_edge("branch", "join")
    graph.add_edge("join", END)
    return graph.compile(checkpointer=saver)


def config(steps: int, thread: str = "r") -> dict[str, Any]:
    """The configuration of a run; the recursion limit must not bind."""
    return {"recursion_limit": steps + 10, "configurable": {"thread_id": thread}}


def durability(bench: Bench) -> dict[str, Any]:
    """When checkpoints are written; without a checkpointer the option is refused."""
    if bench.options.store == "none" or bench.options.variant == "default":
        return {}
    return {"durability": "sync"}


@contextlib.contextmanager
def saving(bench: Bench, path: Path) -> Generator[SqliteSaver | InMemorySaver | None]:
    """The checkpointer that was asked for; a database is closed and weighed afterwards."""
    if bench.options.store != "sqlite":
        yield InMemorySaver() if bench.options.store == "memory" else None
        return
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
        for statement in bench.sync_statements():
            saver.conn.execute(statement)
        yield saver
        bench.extra["pragmas"] = {name: saver.conn.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
    bench.weigh(path)


@contextlib.asynccontextmanager
async def saving_async(bench: Bench, path: Path) -> AsyncGenerator[AsyncSqliteSaver | InMemorySaver | None]:
    """Likewise, for a running loop."""
    if bench.options.store != "sqlite":
        yield InMemorySaver() if bench.options.store == "memory" else None
        return
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()
        for statement in bench.sync_statements():
            await saver.conn.execute(statement)
        yield saver
        bench.extra["pragmas"] = {
            name: (await (await saver.conn.execute(f"PRAGMA {name}")).fetchone())[0] for name in PRAGMAS
        }
    bench.weigh(path)


def looped(bench: Bench, model: Model, node: Callable[[Any], Any], warm_up: int) -> int:
    """W1, W2, W3: a run to warm up, then the measured one on a checkpointer of its own."""
    result: dict[str, Any] = {}
    for limit, clock in bench.rounds(warm_up):
        with saving(bench, bench.database()) as saver:
            app = loop_of(model, node, saver)
            with clock():
                result = app.invoke(model(limit=limit), config(limit), **durability(bench))
    return checked(bench, result)


async def looped_async(bench: Bench, model: Model, node: Callable[[Any], Any], warm_up: int) -> int:
    """Likewise, on a running loop."""
    result: dict[str, Any] = {}
    for limit, clock in bench.rounds(warm_up):
        async with saving_async(bench, bench.database()) as saver:
            app = loop_of(model, node, saver)
            with clock():
                result = await app.ainvoke(model(limit=limit), config(limit), **durability(bench))
    return checked(bench, result)


def checked(bench: Bench, result: dict[str, Any]) -> int:
    assert result["count"] == bench.n
    assert len(result.get("messages", range(bench.n))) == bench.n
    return bench.n


def w1(bench: Bench) -> int:
    bench.need("none")
    if bench.options.variant == "async":
        return asyncio.run(looped_async(bench, CounterState, async_step, bench.n))
    return looped(bench, CounterState, step, bench.n)


def w2(bench: Bench) -> int:
    bench.need("sqlite", "memory")
    if bench.options.variant == "async":
        return asyncio.run(looped_async(bench, CounterState, async_step, WARM_UP))
    return looped(bench, CounterState, step, WARM_UP)


def w3(bench: Bench) -> int:
    bench.need("sqlite", "memory", "none")
    if bench.options.variant == "async":
        return asyncio.run(looped_async(bench, ChatState, async_talk, WARM_UP))
    return looped(bench, ChatState, talk, WARM_UP)


async def mapped(bench: Bench, work: Callable[[Item], Awaitable[dict[str, Any]]]) -> int:
    """W4, W8: one run whose branches overlap; the graph is built before."""
    result: dict[str, Any] = {}
    for items, clock in bench.rounds(WARM_UP):
        async with saving_async(bench, bench.database()) as saver:
            app = map_of(work, saver)
            given = MapState(items=list(range(items)))
            with clock():
                result = await app.ainvoke(given, config(3), **durability(bench))
    assert sum(result["results"]) == bench.n * (bench.n + 1) // 2
    return bench.n + 2


def w4(bench: Bench) -> int:
    bench.need("none", "memory", "sqlite")

    async def add_one(item: Item) -> dict[str, Any]:
        return {"results": [item.value + 1]}

    return asyncio.run(mapped(bench, add_one))


def w8(bench: Bench) -> int:
    bench.need("none")
    bench.extra["ideal_s"] = 0.05

    async def nap(item: Item) -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return {"results": [item.value + 1]}

    return asyncio.run(mapped(bench, nap))


def w5(bench: Bench) -> int:
    """Many runs at once: one process, one loop, one checkpointer."""
    bench.need("sqlite")
    steps = bench.options.steps

    async def all_at_once() -> list[int]:
        async with saving_async(bench, bench.database()) as saver:
            app = loop_of(CounterState, async_step, saver)

            async def one(thread: str, limit: int) -> int:
                given = CounterState(limit=limit)
                return (await app.ainvoke(given, config(limit, thread), **durability(bench)))["count"]

            await one("warm-up", WARM_UP)
            with bench.clock():
                return await asyncio.gather(*(one(f"r{i}", steps) for i in range(bench.n)))

    assert asyncio.run(all_at_once()) == [steps] * bench.n
    return bench.n * steps


def resumed(bench: Bench, model: Model, act: Callable[[Any], dict[str, Any]]) -> int:
    """W6: from before the database is opened until step n+1 begins, in a process that did not run the first n."""

    def node(state: CounterState) -> dict[str, Any]:
        bench.begins(state.count)
        return act(state)

    node.__annotations__["state"] = model
    path = bench.crashed_database()
    if bench.options.crash_at is not None:
        with saving(bench, path) as saver:
            loop_of(model, node, saver).invoke(model(limit=bench.n + 1), config(bench.n), durability="sync")
        raise AssertionError("the run was to die inside its last step")
    with saving(bench, bench.database()) as saver:
        loop_of(model, node, saver).invoke(model(limit=WARM_UP), config(WARM_UP), durability="sync")
    with contextlib.ExitStack() as opened, bench.resuming():  # the clock stops before the database is closed
        saver = opened.enter_context(saving(bench, path))
        result = loop_of(model, node, saver).invoke(None, config(bench.n), durability="sync")
    assert result["count"] == bench.n + 1
    return 1


def w6(bench: Bench) -> int:
    bench.need("sqlite")
    if bench.options.variant == "chat":
        return resumed(bench, ChatState, talk)
    return resumed(bench, CounterState, step)


def w9(bench: Bench) -> int:
    bench.need("none")
    names = [f"n{i}" for i in range(bench.n)]
    with bench.clock():
        start = time.perf_counter()
        graph = StateGraph(CounterState)
        for name in names:
            graph.add_node(name, step)
        for tail, head in zip([START, *names], [*names, END], strict=True):
            graph.add_edge(tail, head)
        app = graph.compile()
        built = time.perf_counter()
        result = app.invoke(CounterState(limit=bench.n), config(bench.n))
        done = time.perf_counter()
    bench.extra |= {"build_s": round(built - start, 6), "run_s": round(done - built, 6)}
    assert result["count"] == bench.n
    return bench.n


if __name__ == "__main__":
    main(
        "langgraph",
        f"{version('langgraph')}, checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}, pydantic {VERSION}",
        {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W8": w8, "W9": w9},
        begin=BEGIN,
        variants={"async": ("W1", "W2", "W3"), "default": ("W2", "W3"), "chat": ("W6",)},
    )
