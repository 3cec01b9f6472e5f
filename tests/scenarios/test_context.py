"""What a node does through its `Context`: steps, sleeps, events; and what it is told when it uses it wrongly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowagent import END, START, Context, Graph, Update
from flowagent.core.engine import Engine
from flowagent.core.events import Emitted
from flowagent.errors import FlowAgentError
from flowagent.stores import Store
from tests.patience import PATIENCE
from tests.scenarios import BY_AWAIT, Caller, Trail, problems

Ctx = Context[object, Trail]


def of_one(node: Callable[..., Any], **options: Any) -> Graph[Trail]:
    """A graph with one node, which is called `n`."""
    graph = Graph("one", Trail)
    graph.node(node, name="n", **options)
    graph.chain(START, "n", END)
    return graph


class Clock:
    """Seconds that pass only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The engine's clock and its sleeps, without any waiting."""
    clock = Clock()

    async def sleep(seconds: float) -> None:
        clock.sleep(seconds)

    defaults = {**(Engine.__init__.__kwdefaults__ or {}), "clock": clock}
    monkeypatch.setattr(Engine.__init__, "__kwdefaults__", defaults)
    monkeypatch.setattr("flowagent.core.attempts.time.sleep", clock.sleep)
    monkeypatch.setattr("flowagent.core.attempts.asyncio.sleep", sleep)
    return clock


@pytest.mark.parametrize("is_async", [True, False], ids=["async node", "sync node"])
async def test_a_sleep_that_was_interrupted_is_waited_out_and_not_begun_again(
    is_async: bool, clock: Clock, caller: Caller, store: Store
) -> None:
    """The wake time is recorded: a later attempt waits for what is left, and one after that time not at all."""
    broken = [True, True]

    def after() -> Update:
        if broken:
            broken.pop()
            raise ValueError("woken")
        return {"seen": ["awake"]}

    async def node(state: Trail, ctx: Ctx) -> Update:
        await ctx.sleep(60)
        return after()

    def sync_node(state: Trail, ctx: Ctx) -> Update:
        ctx.sleep_sync(60)
        return after()

    graph = of_one(node if is_async else sync_node)
    await caller.fails(graph, run_id="r", store=store)
    assert clock.slept == [60.0]
    clock.now -= 20
    with pytest.raises(Exception, match="woken"):
        await caller.resume(graph, "r", store=store)
    clock.now += 1000
    run = await caller.resume(graph, "r", store=store)
    assert (run.state.seen, clock.slept) == (["awake"], [60.0, 20.0])


@pytest.mark.parametrize("is_async", [True, False], ids=["async node", "sync node"])
async def test_what_a_node_emits_reaches_who_watches_and_is_not_stored(is_async: bool, store: Store) -> None:
    """`log` is an `emit` of text; without a watcher both do nothing."""

    def tell(ctx: Ctx) -> None:
        ctx.emit("progress", {"done": 1})
        ctx.log("half way")

    async def node(state: Trail, ctx: Ctx) -> None:
        tell(ctx)

    def sync_node(state: Trail, ctx: Ctx) -> None:
        tell(ctx)

    graph = of_one(node if is_async else sync_node)
    async with graph.stream(run_id="r", store=store) as events:
        told = [event async for event in events if isinstance(event, Emitted)]
    assert [(event.task_id, event.name, event.data) for event in told] == [
        ("n", "progress", {"done": 1}),
        ("n", "log", "half way"),
    ]
    assert [step.kind for step in events.run.history] == ["done"]
    assert (await graph.run(store=store)).status == "completed"


async def test_a_step_that_is_used_again_with_other_arguments_is_an_error(caller: Caller, store: Store) -> None:
    """Its recorded result would be that of another call; `fresh` drops it."""
    given = [1]

    def twice(number: int) -> int:
        return number * 2

    async def node(state: Trail, ctx: Ctx) -> Update:
        doubled = await ctx.step("double", twice, given[0])
        await ctx.ask("go", "Go on?")
        return {"seen": [str(doubled)]}

    graph = of_one(node)
    await caller.run(graph, run_id="r", store=store)
    given[0] = 5
    with pytest.raises(Exception, match=r"task `n` used the step `double` before with other arguments: give each"):
        await caller.resume(graph, "r", answers={"n?go": "yes"}, store=store)
    run = await caller.resume(graph, "r", retry={"n": "fresh"}, store=store)
    run = await caller.resume(graph, "r", answers={"n?go": "yes"}, store=store)
    assert run.state.seen == ["10"]


async def test_the_result_of_a_step_has_to_be_storable(caller: Caller) -> None:
    """It would have to be given again after a crash."""

    async def node(state: Trail, ctx: Ctx) -> None:
        await ctx.step("make", object)

    told = problems(await caller.fails(of_one(node)))["n"]
    assert told.startswith("UnstorableError: the result of step `make` ")


async def test_the_wrong_kind_of_call_is_told(caller: Caller, store: Store) -> None:
    """A sync node calls the `_sync` methods, an async node awaits the others."""

    async def on_the_loop(state: Trail, ctx: Ctx) -> None:
        ctx.sleep_sync(1)

    def in_a_thread(state: Trail, ctx: Ctx) -> None:
        ctx.sleep(1).send(None)

    assert problems(await caller.fails(of_one(on_the_loop), store=store)) == {
        "n": "FlowAgentError: an async node called ctx.sleep_sync; write await ctx.sleep"
    }
    assert problems(await caller.fails(of_one(in_a_thread), store=store)) == {
        "n": "FlowAgentError: a sync node called ctx.sleep; write ctx.sleep_sync, or make the node async"
    }


def test_a_sync_node_that_needs_the_loop_is_told_to_be_async() -> None:
    """Where it runs on the loop's own thread, a step that awaits cannot be waited for."""

    def node(state: Trail, ctx: Ctx) -> None:
        ctx.step_sync("wait", asyncio.sleep, 0)  # pyright: ignore[reportUnusedCoroutine]  # that is the mistake

    with pytest.raises(Exception, match=r"node `n` is sync and called something async through its Context"):
        of_one(node).run_sync()


# -- contexts that are kept ------------------------------------------------------------------------------------------

OVER = (
    "this Context belongs to an attempt that is over, so nothing can be recorded or told through it any more: do not "
    "keep it beyond the call of the node"
)


def keeping(caller: Caller, keep: Callable[[Ctx], object]) -> Graph[Trail]:
    """A graph whose first node keeps its context, and whose second one uses it."""
    graph = Graph("keeping", Trail)
    kept: list[Ctx] = []

    async def first(state: Trail, ctx: Ctx) -> Update:
        kept.append(ctx)
        return {"seen": ["first"]}

    def first_sync(state: Trail, ctx: Ctx) -> Update:
        kept.append(ctx)
        return {"seen": ["first"]}

    async def second(state: Trail) -> None:
        result = keep(kept[0])
        if asyncio.iscoroutine(result):
            await result

    def second_sync(state: Trail) -> None:
        keep(kept[0])

    graph.node(first if caller.is_async else first_sync, name="first")
    graph.node(second if caller.is_async else second_sync, name="second")
    graph.chain(START, "first", "second", END)
    return graph


@pytest.mark.parametrize("verb", ["step", "ask", "sleep", "emit"])
async def test_a_context_that_is_kept_beyond_the_call_is_of_no_use(caller: Caller, verb: str, store: Store) -> None:
    """Another visit must not be told of, nor remember, what somebody does for one that is over."""
    uses: dict[str, Callable[[Ctx], object]] = {
        "step": lambda ctx: ctx.step("s", int) if caller.is_async else ctx.step_sync("s", int),
        "ask": lambda ctx: ctx.ask("q", "?") if caller.is_async else ctx.ask_sync("q", "?"),
        "sleep": lambda ctx: ctx.sleep(5) if caller.is_async else ctx.sleep_sync(5),
        "emit": lambda ctx: ctx.emit("e", 1),
    }
    graph = keeping(caller, uses[verb])
    run = await caller.fails(graph, store=store, run_id="r")
    assert problems(run) == {"second": f"FlowAgentError: {OVER}"}
    assert [record.kind for record in run.records] == ["started", "done", "failed", "ended"]


async def test_a_thread_that_outlives_its_timeout_records_nothing(store: Store) -> None:
    """What it does through its context then is refused where it does it."""
    graph = Graph("late", Trail)
    go, refused = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(state: Trail, ctx: Ctx) -> Update:
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(30)
        try:
            ctx.step_sync("late", int)
        except FlowAgentError as error:
            if str(error) == OVER:
                loop.call_soon_threadsafe(refused.set)
        return {"seen": ["late"]}

    graph.node(work, name="n", timeout=0.01)
    graph.chain(START, "n", END)
    run = await BY_AWAIT.fails(graph, run_id="r", store=store)
    go.set()
    await asyncio.wait_for(refused.wait(), PATIENCE)
    assert [record.kind for record in await store.read("r")] == [record.kind for record in run.records]
