"""An async function that goes on alone is awaited where the engine stands, and misses nothing a task would give it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import AsyncGenerator, Callable
from typing import Literal

import pytest

from flowagent import END, START, Graph, Limits, Retry, State, Update
from flowagent.errors import RunFailed
from flowagent.stores import MemoryStore

COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


class Seen(State):
    """What nodes have to say."""

    seen: list[str] = []
    laps: int = 0


Node = Callable[[Seen], object]


def line(*nodes: Node) -> Graph[Seen]:
    """A graph that runs some nodes one after the other."""
    graph = Graph("line", Seen)
    for node in nodes:
        graph.node(node)
    graph.chain(START, *[node.__name__ for node in nodes], END)
    return graph


# -- what it is given ----------------------------------------------------------------------------------------------


async def test_it_runs_in_the_task_of_its_caller() -> None:
    """So what the caller's task carries (a scope, a timeout, a name) is around it, too."""
    tasks: list[object] = []

    async def look(state: Seen) -> None:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())

    await line(look).run()
    assert tasks == [asyncio.current_task()] * 2


async def test_context_variables_are_its_own_across_everything_it_awaits() -> None:
    """What it sets it finds again after it has waited, and nobody else sees it."""

    async def first(state: Seen) -> Update:
        token = COLOUR.set("red")
        await asyncio.sleep(0)
        found = [COLOUR.get()]
        COLOUR.reset(token)
        COLOUR.set("green")
        return {"seen": [*found, COLOUR.get()]}

    async def second(state: Seen) -> Update:
        await asyncio.sleep(0)
        return {"seen": [*state.seen, COLOUR.get()]}

    COLOUR.set("blue")
    run = await line(first, second).run()
    assert (run.state.seen, COLOUR.get()) == (["red", "green", "blue"], "blue")


async def test_its_own_timeout_ends_what_it_awaits_and_nothing_else() -> None:
    """`asyncio.timeout` cancels the task that it was entered in, which is the caller's, and takes that back."""

    async def hasty(state: Seen) -> Update:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return {"seen": ["too slow"]}
        raise AssertionError("it was not stopped")

    run = await line(hasty).run()
    me = asyncio.current_task()
    assert (run.state.seen, me and me.cancelling()) == (["too slow"], 0)


async def test_a_group_of_tasks_in_it_fails_as_anywhere() -> None:
    """A group whose member fails cancels the task that it was entered in, and takes that back."""

    async def bad() -> None:
        raise ValueError("bad")

    async def parent(state: Seen) -> Update:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(bad())
                await asyncio.Event().wait()
        except ExceptionGroup as errors:
            return {"seen": [str(error) for error in errors.exceptions]}
        raise AssertionError("it was not stopped")

    assert (await line(parent).run()).state.seen == ["bad"]


async def test_what_it_awaits_may_raise() -> None:
    """An error arrives where it waits, and if it is not caught there the node has failed."""

    async def waits(state: Seen) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, KeyError("no"))
        await future

    with pytest.raises(RunFailed, match="KeyError"):
        await line(waits).run()


async def test_a_cancellation_that_it_raises_itself_is_a_failure_like_any_other() -> None:
    """Nobody has cancelled the run."""

    async def gives_up(state: Seen) -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(RunFailed, match="CancelledError") as failed:
        await line(gives_up).run()
    assert failed.value.run.status == "failed"


async def test_it_is_tried_again_as_its_retry_says() -> None:
    """The next attempts are made after a wait, and may be the ones that wait."""
    tries: list[int] = []
    graph = Graph("again", Seen)

    @graph.node(retry=Retry(attempts=3, backoff=0.001))
    async def shaky(state: Seen) -> Update:
        await asyncio.sleep(0)
        tries.append(len(tries) + 1)
        if len(tries) < 3:
            raise ConnectionError
        return {"seen": ["done"]}

    graph.chain(START, "shaky", END)
    assert ((await graph.run()).state.seen, tries) == (["done"], [1, 2, 3])


# -- who stops it --------------------------------------------------------------------------------------------------


def waiting(entered: asyncio.Event, left: list[str], *, stubborn: bool = False) -> Graph[Seen]:
    """A node that waits for ever, and one after it; a stubborn one returns when it is cancelled."""

    async def waits(state: Seen) -> Update:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.append("cancelled")
            if not stubborn:
                raise
        return {"seen": ["waits"]}

    async def after(state: Seen) -> Update:
        left.append("after")
        return {"seen": [*state.seen, "after"]}

    return line(waits, after)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_whoever_asks_to_cancel_the_run_stops_it_there(stubborn: bool) -> None:
    """The caller's own task goes on; what it had finished all the same is kept, and nothing starts after it."""
    entered, left, store = asyncio.Event(), list[str](), MemoryStore()
    graph = waiting(entered, left, stubborn=stubborn)
    running = asyncio.ensure_future(graph.run(store=store, run_id="r"))
    await entered.wait()
    stopped = await graph.cancel("r", store=store)
    run = await running
    assert (run.status, stopped.status, left) == ("cancelled", "cancelled", ["cancelled"])
    assert run.state.seen == (["waits"] if stubborn else [])


@pytest.mark.parametrize("stubborn", [False, True])
async def test_cancelling_the_caller_cancels_the_run(stubborn: bool) -> None:
    """It gets its `CancelledError` even if the node made nothing of it, and the run is stored as cancelled."""
    entered, left, store = asyncio.Event(), list[str](), MemoryStore()
    graph = waiting(entered, left, stubborn=stubborn)
    running = asyncio.ensure_future(graph.run(store=store, run_id="r"))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    run = await graph.load("r", store=store)
    assert (run.status, left, run.state.seen) == ("cancelled", ["cancelled"], ["waits"] if stubborn else [])


async def test_the_limit_of_seconds_stops_it() -> None:
    """It starts anew when somebody goes on with the run; the caller is not cancelled."""
    entered, left, store = asyncio.Event(), list[str](), MemoryStore()
    run = await waiting(entered, left).run(store=store, run_id="r", limits=Limits(seconds=0.01))
    me = asyncio.current_task()
    assert (run.status, left, me and me.cancelling()) == ("limit", ["cancelled"], 0)


async def test_a_timeout_around_the_call_is_told_as_one() -> None:
    """As with any coroutine: what `asyncio.timeout` cancels it turns into a `TimeoutError`."""
    entered, left = asyncio.Event(), list[str]()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await waiting(entered, left).run()
    assert left == ["cancelled"]


async def test_a_run_that_is_thrown_away_closes_what_it_awaits() -> None:
    """A loop that is gone cannot go on with it, but its `finally` is run."""
    left: list[str] = []

    async def waits(state: Seen) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            left.append("closed")

    work = line(waits).run()
    assert work.send(None) is None  # it stands in `asyncio.sleep`
    work.close()
    del work
    gc.collect()
    assert left == ["closed"]


# -- and the others --------------------------------------------------------------------------------------------------


def endless() -> Graph[Seen]:
    """A loop of functions that are async and never wait."""
    graph = Graph("endless", Seen)

    @graph.node
    async def lap(state: Seen) -> Update:
        return {"laps": state.laps + 1}

    @graph.router
    async def again(state: Seen) -> Literal["lap", "END"]:
        return "lap"

    graph.chain(START, lap, again)
    return graph


async def test_functions_that_never_wait_let_others_have_their_turn() -> None:
    """Else a loop of them would hold the event loop for as long as it runs."""
    running = asyncio.ensure_future(endless().run(limits=Limits(steps=10**9)))
    await asyncio.sleep(0)  # it has begun
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_while_a_router_waits_the_node_before_it_is_safe() -> None:
    """A router is asked before its node's record is stored; if it takes its time, that is stored meanwhile."""
    store, entered, may_go = MemoryStore(), asyncio.Event(), asyncio.Event()
    stored: list[str] = []
    graph = Graph("slow router", Seen)

    @graph.node
    async def work(state: Seen) -> Update:
        return {"seen": ["work"]}

    @graph.router
    async def choose(state: Seen) -> Literal["END"]:
        entered.set()
        await may_go.wait()
        return "END"

    graph.chain(START, work, choose)
    running = asyncio.ensure_future(graph.run(store=store, run_id="r"))
    await entered.wait()
    for _ in range(10):  # turns of the loop, in which it is stored
        await asyncio.sleep(0)
    stored += [step.task for step in (await graph.load("r", store=store)).history]
    may_go.set()
    await running
    assert stored == ["work"]


async def test_a_stream_that_is_left_leaves_nothing_running() -> None:
    """The node is cancelled, and the run can be gone on with."""
    entered, left, store = asyncio.Event(), list[str](), MemoryStore()
    graph = waiting(entered, left)

    async def first_event() -> AsyncGenerator[str]:
        async with graph.stream(store=store, run_id="r") as events:
            async for event in events:
                yield type(event).__name__

    stream = first_event()
    assert await anext(stream) == "RunStarted"
    await entered.wait()
    await stream.aclose()
    assert (left, (await graph.load("r", store=store)).status) == (["cancelled"], "interrupted")
