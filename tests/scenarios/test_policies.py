"""What stops a run and what goes on: `on_failure`, limits, cancelling, nested graphs that catch."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from flowagent import END, START, Context, Graph, ItemError, Limits, Retry, State, Update
from flowagent.core.events import Event, RunEnded, TaskFailed, Warned
from flowagent.core.listening import Guarded
from flowagent.core.teller import Teller
from flowagent.core.watch import Watch
from flowagent.errors import FlowAgentError, NodeError, RunConflict, RunFailed
from flowagent.stores import MemoryStore, Store
from tests.patience import PATIENCE
from tests.scenarios import Caller, Trail, Walk, problems, tasks


async def events_of_a_failure(watched: AbstractAsyncContextManager[Watch]) -> list[Event]:
    """What a watcher is told of a run that fails, which is raised at the end of the events."""
    told: list[Event] = []

    async def watch() -> None:
        async with watched as events:
            async for event in events:
                told.append(event)  # noqa: PERF401  # those before the error are kept

    with pytest.raises(RunFailed):
        await watch()
    return told


async def test_with_cancel_a_failure_calls_off_what_runs_beside_it(caller: Caller, store: Store) -> None:
    """What was called off has not failed: it starts anew with the next resume."""
    graph = Graph("beside", Trail)
    called_off: list[str] = []
    broken = [True]

    @graph.node
    async def slow(state: Trail) -> Update:
        try:
            if broken:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            called_off.append("slow")
            raise
        return {"seen": ["slow"]}

    @graph.node
    async def bad(state: Trail) -> Update:
        if broken:
            raise ValueError("bad")
        return {"seen": ["bad"]}

    graph.edge(START, slow)
    graph.edge(START, bad)
    graph.edge(slow, END)
    graph.edge(bad, END)
    run = await caller.fails(graph, run_id="r", store=store, on_failure="cancel")
    assert (problems(run), called_off) == ({"bad": "ValueError: bad"}, ["slow"])
    broken.clear()
    run = await caller.resume(graph, "r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["slow", "bad"])


# -- nested graphs that catch --------------------------------------------------------------------------------------


def nested(fails: list[int], **options: Any) -> Graph[Trail]:
    """A graph whose inner node `b` fails as often as said, beside a node that does not."""
    inner = Walk("START a END", "START ?b END", name="inner")

    def b(state: Trail) -> Update:
        inner.visit("b")
        if fails:
            fails.pop()
            raise ValueError("b is broken")
        return {"seen": ["b"]}

    inner.graph.node(b, name="b")
    graph = Graph("outer", Trail)
    graph.node(inner.graph, name="g", **options)
    graph.node(lambda state: {"seen": ["h"]}, name="h")
    graph.chain(START, "g", END)
    graph.edge("h", END)
    if "on_error" not in options:
        graph.chain("g", "h")
    return graph


async def test_a_nested_graph_with_retry_runs_again_only_what_failed_inside(caller: Caller, store: Store) -> None:
    """As often as its `retry` allows; a later process knows how often that was."""
    retry = Retry(attempts=3, backoff=0)
    graph = nested([1, 1], retry=retry)
    run = await caller.run(graph, run_id="r", store=store)
    assert (run.status, tasks(run)) == ("completed", ["g/a", "g/b", "g", "h"])
    assert [step.kind for step in run.history].count("failed") == 2
    assert (await graph.load("r", store=store)).state == run.state


async def test_a_nested_graph_that_fails_for_good_goes_to_its_handler(caller: Caller, store: Store) -> None:
    """With what failed inside; that it was tried again is in the history."""
    graph = nested([1, 1, 1], on_error="h", retry=Retry(attempts=2, backoff=0))
    run = await caller.run(graph, run_id="r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["h"])
    assert (await graph.load("r", store=store)).state == run.state


class Sizes(State):
    names: list[str]
    sizes: list[int | ItemError] = []


async def test_the_items_of_a_graph_that_fail_are_collected(caller: Caller, store: Store) -> None:
    """Each failed item leaves its error in its place."""

    class One(State):
        name: str
        size: int = 0

    one = Graph("one", One)

    @one.node
    def measure(item: One) -> Update:
        if item.name == "bad":
            raise ValueError("no size")
        return {"size": len(item.name)}

    one.chain(START, measure, END)
    graph = Graph("all", Sizes)
    graph.map(one, name="m", over="names", into="sizes", input="name", output="size", on_item_error="collect")
    graph.chain(START, "m", END)
    run = await caller.run(graph, Sizes(names=["a", "bad", "abc"]), run_id="r", store=store)
    assert run.state.sizes == [1, ItemError(index=1, kind="ValueError", message="no size"), 3]
    assert (await graph.load("r", store=store)).state == run.state


# -- limits --------------------------------------------------------------------------------------------------------


async def test_a_run_that_works_for_too_long_stops_at_the_limit_and_goes_on_with_another(store: Store) -> None:
    """What was under way is cancelled and starts anew."""
    graph = Graph("slow", Trail)
    hangs = [True]

    @graph.node
    async def work(state: Trail) -> Update:
        if hangs:
            await asyncio.Event().wait()
        return {"seen": ["work"]}

    graph.chain(START, work, END)
    run = await graph.run(run_id="r", store=store, limits=Limits(seconds=0.01))
    assert (run.status, run.reason) == ("limit", "reached the limit of 0.01 s")
    hangs.clear()
    run = await graph.resume("r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["work"])


# -- cancelling ----------------------------------------------------------------------------------------------------


async def test_a_run_that_waits_can_be_cancelled_and_resumed(caller: Caller, store: Store) -> None:
    """Nobody holds it, so it is only noted; an answer afterwards goes on all the same."""
    graph = Graph("asking", Trail)
    graph.gate("ask", question="Go on?", schema=str)
    graph.chain(START, "ask", END)
    await caller.run(graph, run_id="r", store=store)
    run = graph.cancel_sync("r", store=store) if not caller.is_async else await graph.cancel("r", store=store)
    assert (run.status, run.reason) == ("cancelled", "somebody asked to cancel it")
    assert (await graph.cancel("r", store=store)).status == "cancelled"
    run = await caller.resume(graph, "r", answers={"ask": "yes"}, store=store)
    assert run.status == "completed"


async def test_a_run_that_does_not_stop_in_time_is_told_and_stops_when_it_can() -> None:
    """A sync node cannot be interrupted; whoever asked to cancel may wait no longer than it wants to."""
    graph = Graph("stubborn", Trail)
    began, done = threading.Event(), threading.Event()

    @graph.node
    def work(state: Trail) -> Update:
        began.set()
        done.wait(PATIENCE)
        return {"seen": ["work"]}

    graph.chain(START, work, END)
    store = MemoryStore()
    call = asyncio.create_task(asyncio.to_thread(lambda: graph.run_sync(run_id="r", store=store)))
    await asyncio.to_thread(began.wait, 30)
    with pytest.raises(RunConflict, match="run `r` was asked to stop and has not within 0 s"):
        await graph.cancel("r", store=store, timeout=0)
    done.set()
    assert (await call).state.seen == ["work"]


# -- who watches ---------------------------------------------------------------------------------------------------


async def test_who_watches_is_told_of_failures_and_may_not_ask_for_the_run_too_early(store: Store) -> None:
    """Each failed attempt is an event; the error of the run comes at the end of them."""
    graph = Graph("broken", Trail)
    graph.node(lambda state: 1 / 0, name="n", retry=Retry(attempts=2, backoff=0))
    graph.chain(START, "n", END)
    async with graph.stream() as events:
        with pytest.raises(FlowAgentError, match="the run is not over"):
            _ = events.run
    for watched in (graph.stream(run_id="r", store=store), graph.stream_resume("r", store=store)):
        told = [event for event in await events_of_a_failure(watched) if isinstance(event, TaskFailed)]
        assert [event.retry_in is None for event in told] == [False, True]


def test_a_watcher_that_raises_harms_nothing() -> None:
    """Its error goes to the log, and it is told what comes next."""
    told: list[Event] = []

    def listener(event: Event) -> None:
        told.append(event)
        raise ValueError("a broken watcher")

    teller = Teller("r", [Guarded(listener)], lambda: 0.0)
    teller.tell(RunEnded, status="completed")
    teller.tell(RunEnded, status="failed")
    assert [event.number for event in told] == [0, 1]


async def test_a_thread_that_outlives_its_timeout_is_told_of() -> None:
    """It cannot be stopped; what it returns then is discarded."""
    graph = Graph("late", Trail)
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(state: Trail, ctx: Context[object, Trail]) -> Update:
        asyncio.run_coroutine_threadsafe(done.wait(), loop).result(30)
        return {"seen": ["late"]}

    graph.node(work, name="n", timeout=0.01)
    graph.chain(START, "n", END)
    store = MemoryStore()
    told = await events_of_a_failure(graph.stream(run_id="r", store=store))
    done.set()
    assert [event.text for event in told if isinstance(event, Warned)] == [
        "outlived its timeout; its thread goes on, and what it returns is discarded"
    ]
    run = await graph.load("r", store=store)
    assert (problems(run), run.state.seen) == ({"n": "NodeTimeoutError: took longer than its timeout of 0.01 s"}, [])


# -- what a run tells ----------------------------------------------------------------------------------------------


async def test_a_run_tells_the_state_of_each_task_and_at_each_record(store: Store) -> None:
    """A task's state is what it was given; what is not there is refused by name."""
    graph = nested([])
    run = await graph.run(run_id="r", store=store)
    assert [run.state_of(task).model_dump()["seen"] for task in ("g", "g/a", "h")] == [[], [], ["a", "b"]]
    assert run.state_at(len(run.records) - 1) == run.state
    with pytest.raises(FlowAgentError, match=r"run `r` has no task `x`"):
        run.state_of("x")
    with pytest.raises(FlowAgentError, match=r"run `r` has records 0 to \d+, not 99"):
        run.state_at(99)
    assert run.unfinished == {}


async def test_a_failed_merge_is_settled_by_field_or_by_task(caller: Caller, store: Store) -> None:
    """A value for the field in conflict, whichever way it is named; what no merge is about is refused."""

    class Pick(State):
        one: str = ""
        two: str = ""

    graph = Graph("picks", Pick)
    for name in ("a", "b"):
        graph.node(lambda state, name=name: {"one": name, "two": name}, name=name)
        graph.edge(START, name)
        graph.edge(name, "j")
    graph.node(lambda state: {}, name="j")
    graph.edge("j", END)
    for run_id, resolve in (
        ("by field", {"one": "x", "two": "y"}),
        ("by task", {"j": {"one": "x", "two": "y"}}),
    ):
        failed = await caller.fails(graph, run_id=run_id, store=store)
        assert [type(error) for error in failed.errors] == [NodeError]
        with pytest.raises(FlowAgentError, match="settles `j` only in part"):
            await caller.resume(graph, run_id, resolve={"one": "x"}, store=store)
        with pytest.raises(FlowAgentError, match="no failed merge is about that"):
            await caller.resume(graph, run_id, resolve={**resolve, "k": {"one": "x"}}, store=store)
        run = await caller.resume(graph, run_id, resolve=resolve, store=store)
        assert (run.status, run.state) == ("completed", Pick(one="x", two="y"))
        assert (await graph.load(run_id, store=store)).state == run.state
