"""Case bank, group K: sync callers and event loops. Each test names its case; `tests/SCENARIOS.md` lists them all."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import traceback
import warnings
from typing import Annotated, Any, Self

import pytest

from flowagent import END, START, Context, Graph, State, Update, append
from flowagent.errors import FlowAgentError, RunFailed
from flowagent.stores import Store
from tests.patience import PATIENCE
from tests.scenarios import Caller, Trail, tasks

PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("PLACE", default="missing")


def note_twice() -> Graph[Trail, object]:
    """A sync node, then an async one."""
    g: Graph[Trail, object] = Graph("twice", Trail)
    g.node(lambda state: {"seen": ["sync"]}, name="a")

    @g.node
    async def b(state: Trail) -> Update:
        await asyncio.sleep(0)
        return {"seen": ["async"]}

    g.chain(START, "a", b, END)
    return g


# -- FA-097 ----------------------------------------------------------------------------------------------------------


async def test_fa_097_run_sync_works_inside_a_running_loop(store: Store) -> None:
    """FA-097: as in a notebook's cell: it works, no coroutine is left unawaited, and the user's loop is untouched."""
    graph = note_twice()
    loop = asyncio.get_running_loop()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = graph.run_sync(Trail(), store=store, run_id="r")
        loaded = graph.load_sync("r", store=store)
        again = graph.resume_sync(run)
        gc.collect()
    assert [run.state.seen, loaded.state.seen, again.state.seen] == [["sync", "async"]] * 3
    assert [str(warning.message) for warning in caught] == []
    assert asyncio.get_running_loop() is loop
    await asyncio.sleep(0)


async def test_fa_097_run_sync_inside_a_node_of_a_run(store: Store) -> None:
    """FA-097: a node that calls another graph the sync way, in the middle of a run, gets its result."""
    inner = note_twice()
    g: Graph[Trail, object] = Graph("outer", Trail)

    @g.node
    async def calls_async(state: Trail) -> Update:
        return {"seen": inner.run_sync(Trail()).state.seen}

    @g.node
    def calls_sync(state: Trail) -> Update:
        return {"seen": inner.run_sync(Trail()).state.seen}

    g.chain(START, calls_async, calls_sync, END)
    assert (await g.run(Trail(), store=store)).state.seen == ["sync", "async"] * 2
    assert (await asyncio.to_thread(lambda: g.run_sync(Trail(), store=store))).state.seen == ["sync", "async"] * 2


# -- FA-098 ----------------------------------------------------------------------------------------------------------


class Client:
    """An async client that remembers the loop it was made in, as real ones do."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        self.closed_by: Any = None

    async def ask(self) -> str:
        assert asyncio.get_running_loop() is self.loop, "used in another loop than it was made in"
        await asyncio.sleep(0)
        return "answer"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed_by = (asyncio.get_running_loop(), asyncio.current_task())


async def test_fa_098_one_call_after_another(store: Store) -> None:
    """FA-098: three sync calls, three threads, then a loop of one's own: one store, one graph, no closed loop."""
    clients: list[Client] = []
    g: Graph[Trail, object] = Graph("clients", Trail)

    @g.node
    async def ask(state: Trail) -> Update:
        async with Client() as client:
            clients.append(client)
            return {"seen": [await client.ask()]}

    g.chain(START, ask, END)
    results: list[list[str]] = []

    def call() -> None:
        results.append(g.run_sync(Trail(), store=store).state.seen)

    def three_in_a_row() -> None:
        for _ in range(3):
            call()

    await asyncio.to_thread(three_in_a_row)
    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await asyncio.to_thread(lambda: results.append(asyncio.run(g.run(Trail(), store=store)).state.seen))
    results.append((await g.run(Trail(), store=store)).state.seen)
    gc.collect()
    assert results == [["answer"]] * 8
    assert all(client.closed_by == (client.loop, client.task) for client in clients)
    assert len(await store.runs()) == 8


def test_fa_098_no_thread_or_loop_is_left_behind() -> None:
    """FA-098: a sync call of a sync graph leaves no thread, no loop and no unclosed resource."""
    g: Graph[Trail, object] = Graph("plain", Trail)
    g.node(lambda state: {"seen": ["a"]}, name="a")
    g.chain(START, "a", END)
    before = set(threading.enumerate())
    for _ in range(3):
        assert g.run_sync().state.seen == ["a"]
    gc.collect()
    assert set(threading.enumerate()) <= before
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


# -- FA-099 ----------------------------------------------------------------------------------------------------------


async def test_fa_099_sync_nodes_run_beside_one_another_with_their_context(caller: Caller, store: Store) -> None:
    """FA-099: two sync nodes meet in the middle, see a variable set before the run, and leak none to each other."""
    in_the_middle = threading.Barrier(2)
    g: Graph[Trail, object] = Graph("threads", Trail)

    def node(name: str) -> None:
        def work(state: Trail) -> Update:
            found = PLACE.get()
            PLACE.set(name)
            in_the_middle.wait(PATIENCE)
            return {"seen": [f"{name} saw {found}, then {PLACE.get()}"]}

        g.node(work, name=name)
        g.chain(START, name, "join")

    node("a")
    node("b")
    g.node(lambda state: {"seen": [PLACE.get()]}, name="join")
    g.chain("join", END)
    token = PLACE.set("before")
    try:
        run = await caller.run(g, Trail(), store=store)
    finally:
        PLACE.reset(token)
    assert run.state.seen == ["a saw before, then a", "b saw before, then b", "before"]


class Items(State):
    items: list[int] = list(range(4))
    results: list[int] = []
    seen: Annotated[list[str], append] = []


async def test_fa_099_sync_items_of_a_map_run_beside_one_another(caller: Caller, store: Store) -> None:
    """FA-099: so do the items of a map; an async sibling goes on meanwhile."""
    all_there = threading.Barrier(4)
    g: Graph[Items, object] = Graph("map", Items)

    @g.map(over="items", into="results")
    def double(item: int) -> int:
        all_there.wait(PATIENCE)
        return item * 2

    g.chain(START, double, END)
    run = await caller.run(g, Items(), store=store)
    assert run.state.results == [0, 2, 4, 6]


# -- FA-101 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [RuntimeError("boom"), RuntimeError("This event loop is already running"), StopIteration("odd")]
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync node", "async node"])
@pytest.mark.parametrize("inside", [False, True], ids=["script", "notebook"])
async def test_fa_101_a_nodes_own_error_is_the_one_that_is_seen(error: Exception, is_async: bool, inside: bool) -> None:
    """FA-101: with and without a running loop, the caller sees the node's error and the line that raised it."""
    g: Graph[Trail, object] = Graph("raises", Trail)

    def node_that_raises(state: Trail) -> Update:
        raise error

    async def async_node_that_raises(state: Trail) -> Update:
        raise error

    g.node(async_node_that_raises if is_async else node_that_raises, name="raises")
    g.chain(START, "raises", END)

    def call() -> RunFailed:
        with pytest.raises(RunFailed) as caught:
            g.run_sync()
        return caught.value

    failure = call() if inside else await asyncio.to_thread(call)
    cause = failure.errors[0].__cause__
    assert cause is not None
    if is_async and isinstance(error, StopIteration):
        cause = cause.__cause__  # Python itself turns it into a RuntimeError in a coroutine
        assert cause is not None
    assert cause is error
    assert any("node_that_raises" in frame.name for frame in traceback.extract_tb(cause.__traceback__))
    assert failure.errors[0].message in ("boom", str(error), "coroutine raised StopIteration")


# -- the right method in the right place ------------------------------------------------------------------------------


async def test_the_wrong_twin_of_a_method_is_refused(caller: Caller, store: Store) -> None:
    """A sync node that calls `ctx.step`, and an async one that calls `ctx.step_sync`, are told which to write."""
    g: Graph[Trail, object] = Graph("twins", Trail)

    @g.node
    def a(state: Trail, ctx: Context[object, Trail]) -> Update:
        coroutine = ctx.step("x", lambda: 1)
        try:
            coroutine.send(None)
        finally:
            coroutine.close()
        return None

    @g.node
    async def b(state: Trail, ctx: Context[object, Trail]) -> Update:
        ctx.step_sync("x", lambda: 1)
        return None

    g.chain(START, a, END)
    g.chain(START, b, END)
    failure = await caller.failure(g, Trail(), store=store, on_failure="continue")
    assert [error.message for error in failure.errors] == [
        "a sync node called ctx.step; write ctx.step_sync, or make the node async",
        "an async node called ctx.step_sync; write await ctx.step",
    ]
    assert all(isinstance(error.__cause__, FlowAgentError) for error in failure.errors)
    assert tasks(failure.run) == []
