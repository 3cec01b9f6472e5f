"""The workloads, run by flowagent through its public interface; README.md tells what each one measures.

Variants
  (none)  W1, W2, W3 and W6 with a plain function by `run_sync`; W4, W5 and W8 with async ones, since they overlap.
  async   W1, W2 and W3 with an async function on a running loop.
  chat    W6 with W3's growing history.
  beside  W2, in each step of which a page of a plain file is flushed as well; the clock leaves that out, and tells it.

`--sync` chooses the durability: `full` is "step", the default; `normal` is "fast". There is no `off`.
"""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Awaitable, Callable, Generator
from importlib.metadata import version
from typing import Annotated, Literal, TypedDict, TypeVar

import apsw
from pydantic import BaseModel

from _kit import PRAGMAS, WARM_UP, Bench, UnsupportedError, main, text_of
from flowagent import END, START, Graph, Limits, State, Update, append
from flowagent.stores import MemoryStore, SQLiteStore


class CounterState(State):
    count: int = 0
    limit: int = 0


class Message(BaseModel):
    role: str
    content: str


class ChatState(CounterState):
    messages: Annotated[list[Message], append] = []


class MapState(State):
    items: list[int] = []
    results: list[int] = []


CounterT = TypeVar("CounterT", bound=CounterState)
Node = Callable[[CounterT], Update] | Callable[[CounterT], Awaitable[Update]]


def step(state: CounterState) -> Update:
    return {"count": state.count + 1}


async def async_step(state: CounterState) -> Update:
    return step(state)


def talk(state: ChatState) -> Update:
    message = Message(role="user", content=text_of(state.count))
    return {"count": state.count + 1, "messages": [message]}


async def async_talk(state: ChatState) -> Update:
    return talk(state)


def onward(state: CounterState) -> Literal["step", "END"]:
    return "step" if state.count < state.limit else "END"


async def async_onward(state: CounterState) -> Literal["step", "END"]:
    return onward(state)


def loop_of(model: type[CounterT], node: Node[CounterT]) -> Graph[CounterT]:
    """One node, and a router that leads back to it until the limit is reached; both sync or both async."""
    graph = Graph("loop", model)
    graph.node(node, name="step")
    router = async_onward if inspect.iscoroutinefunction(node) else onward
    graph.router(router)
    graph.chain(START, "step", router)
    return graph


def map_of(seconds: float | None) -> Graph[MapState]:
    """A map with one branch for each item, between a node that splits and one that joins."""
    graph = Graph("map", MapState)

    @graph.node
    def split(state: MapState) -> Update:
        return {}

    @graph.map(over="items", into="results")
    async def branch(item: int) -> int:
        if seconds is not None:
            await asyncio.sleep(seconds)
        return item + 1

    @graph.node
    def join(state: MapState) -> Update:
        return {}

    graph.chain(START, split, branch, join, END)
    return graph


class Settings(TypedDict):
    limits: Limits
    durability: Literal["step", "fast"]


def settings(bench: Bench, steps: int) -> Settings:
    """What every run is given; the limit counts routers too, and must not bind."""
    if bench.options.sync == "off":
        raise UnsupportedError("no durability gives up a commit for each step")
    return Settings(
        limits=Limits(steps=3 * steps + 10),
        durability="fast" if bench.options.sync == "normal" else "step",
    )


@contextlib.contextmanager
def new_store(bench: Bench) -> Generator[SQLiteStore | MemoryStore | None]:
    """The store that was asked for; a database is closed and weighed afterwards."""
    if bench.options.store == "none":
        yield None
        return
    path = bench.database()
    store = MemoryStore() if bench.options.store == "memory" else SQLiteStore(path)
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    yield store
    apsw.connection_hooks.remove(opened.append)
    bench.extra |= settings_in_use(opened)
    asyncio.run(store.close())
    if bench.options.store == "sqlite":
        bench.weigh(path)


def settings_in_use(opened: list[apsw.Connection]) -> dict[str, object]:
    """The PRAGMAs of the connection that wrote, asked on that connection."""
    for connection in opened:
        with contextlib.suppress(apsw.ConnectionClosedError):
            if not connection.readonly("main"):
                return {"pragmas": {name: connection.pragma(name) for name in PRAGMAS}}
    return {}


def looped(bench: Bench, graph: Graph[CounterT], model: type[CounterT], warm_up: int) -> int:
    """W1, W2, W3: a run to warm up, then the measured one on a store of its own."""
    with asyncio.Runner() as runner:

        def count(limit: int, store: SQLiteStore | MemoryStore | None) -> CounterT:
            given = settings(bench, limit)
            if bench.options.variant == "async":
                return runner.run(graph.run(model(limit=limit), store=store, run_id="r", **given)).state
            return graph.run_sync(model(limit=limit), store=store, run_id="r", **given).state

        state = model()
        for limit, clock in bench.rounds(warm_up):
            with new_store(bench) as store, clock():
                state = count(limit, store)
    assert state.count == bench.n
    assert not isinstance(state, ChatState) or len(state.messages) == bench.n
    return bench.n


def w1(bench: Bench) -> int:
    bench.need("none")
    node = async_step if bench.options.variant == "async" else step
    return looped(bench, loop_of(CounterState, node), CounterState, bench.n)


def w2(bench: Bench) -> int:
    bench.need("sqlite", "memory")

    def flushed(state: CounterState) -> Update:
        bench.flush_beside()
        return step(state)

    node = {"async": async_step, "beside": flushed}.get(bench.options.variant, step)
    return looped(bench, loop_of(CounterState, node), CounterState, WARM_UP)


def w3(bench: Bench) -> int:
    bench.need("sqlite", "memory", "none")
    node = async_talk if bench.options.variant == "async" else talk
    return looped(bench, loop_of(ChatState, node), ChatState, WARM_UP)


def mapped(bench: Bench, seconds: float | None) -> int:
    """W4, W8: one run whose branches overlap; the graph is built and checked before."""
    graph = map_of(seconds)
    with asyncio.Runner() as runner:

        def spread(items: int, store: SQLiteStore | MemoryStore | None) -> MapState:
            given = MapState(items=list(range(items)))
            return runner.run(graph.run(given, store=store, run_id="r", **settings(bench, items))).state

        state = MapState()
        for items, clock in bench.rounds(WARM_UP):
            with new_store(bench) as store, clock():
                state = spread(items, store)
    assert sum(state.results) == bench.n * (bench.n + 1) // 2
    return bench.n + 2


def w4(bench: Bench) -> int:
    bench.need("none", "memory", "sqlite")
    return mapped(bench, None)


def w8(bench: Bench) -> int:
    bench.need("none")
    bench.extra["ideal_s"] = 0.05
    return mapped(bench, 0.05)


def w5(bench: Bench) -> int:
    """Many runs at once: one process, one loop, one store."""
    bench.need("sqlite")
    graph = loop_of(CounterState, async_step)
    steps = bench.options.steps
    with asyncio.Runner() as runner, new_store(bench) as store:

        async def one(run_id: str, limit: int) -> int:
            given = CounterState(limit=limit)
            run = await graph.run(given, store=store, run_id=run_id, **settings(bench, limit))
            return run.state.count

        async def all_at_once() -> list[int]:
            return await asyncio.gather(*(one(f"r{i}", steps) for i in range(bench.n)))

        runner.run(one("warm-up", WARM_UP))
        with bench.clock():
            counts = runner.run(all_at_once())
    assert counts == [steps] * bench.n
    return bench.n * steps


def resumed(bench: Bench, model: type[CounterT], act: Callable[[CounterT], Update]) -> int:
    """W6: from before the store is opened until step n+1 begins, in a process that did not run the first n."""

    def node(state: CounterT) -> Update:
        bench.begins(state.count)
        return act(state)

    node.__annotations__["state"] = model
    path = bench.crashed_database()
    given = settings(bench, bench.n)
    if bench.options.crash_at is not None:
        loop_of(model, node).run_sync(model(limit=bench.n + 1), store=SQLiteStore(path), run_id="r", **given)
        raise AssertionError("the run was to die inside its last step")
    with new_store(bench) as store:
        loop_of(model, node).run_sync(model(limit=WARM_UP), store=store, run_id="r", **given)
    with bench.resuming():
        store = SQLiteStore(path)
        run = loop_of(model, node).resume_sync("r", store=store, **given)
    asyncio.run(store.close())
    bench.weigh(path)
    assert run.state.count == bench.n + 1
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
        graph = Graph("line", CounterState)
        for name in names:
            graph.node(step, name=name)
        graph.chain(START, *names, END)
        graph.check()
        built = time.perf_counter()
        run = graph.run_sync(CounterState(limit=bench.n), **settings(bench, bench.n))
        done = time.perf_counter()
    assert run.state.count == bench.n
    bench.extra |= {"build_s": round(built - start, 6), "run_s": round(done - built, 6)}
    return bench.n


if __name__ == "__main__":
    main(
        "flowagent",
        f"{version('flowagent')}, apsw {version('apsw')}, pydantic {version('pydantic')}",
        {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W8": w8, "W9": w9},
        begin="from flowagent import END, START, Graph, State, Update, append",
        variants={"async": ("W1", "W2", "W3"), "chat": ("W6",), "beside": ("W2",)},
    )
