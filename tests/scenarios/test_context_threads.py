"""A context in a thread that an async node has started, and contexts of classes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowagent import END, START, Context, Graph, Limits, Update
from flowagent.core.events import Emitted, ModelCalled, ModelWaits, TextDelta, ToolEnded, ToolStarted
from flowagent.core.usage import Usage
from flowagent.errors import FlowAgentError
from flowagent.stores import Store
from tests.scenarios import BY_AWAIT, Caller, Trail

Ctx = Context[object, Trail]


class ToolContext(Context[object, Trail]):
    """A context with a field of its own, as the layers above have."""

    __slots__ = ("call_id",)
    call_id: str


def calling(tool: Callable[[ToolContext], Any]) -> Graph[Trail]:
    """A graph whose async node calls a sync function in a thread, with a context for it."""
    graph = Graph("g", Trail)

    @graph.node
    async def node(state: Trail, ctx: Ctx) -> Update:
        for_tool = ToolContext.sharing(ctx)
        for_tool.call_id = "call 1"
        result = await asyncio.to_thread(tool, for_tool.in_thread())
        return {"seen": [str(result)]}

    graph.chain(START, node, END)
    return graph


async def test_the_sync_methods_work_in_the_thread(caller: Caller, store: Store) -> None:
    """Steps, calls that must not repeat, and sleeps are recorded as if the node had made them itself."""

    def tool(ctx: ToolContext) -> str:
        ctx.sleep_sync(0)
        ctx.sleep_sync(0)
        return ctx.step_sync("add", lambda: "a") + ctx.once_sync("pay", lambda: "b") + ctx.call_id + ctx.key

    run = await caller.run(calling(tool), run_id="r", store=store)
    assert run.state.seen == ["abcall 1r/node"]
    assert [record.kind for record in run.records] == [
        "started",
        "memo",
        "memo",
        "memo",
        "attempted",
        "memo",
        "done",
        "ended",
    ]


async def test_a_question_in_the_thread_pauses_the_node(caller: Caller, store: Store) -> None:
    """The attempt is waiting; with the answer, the thread gets it."""
    graph = calling(lambda ctx: ctx.ask_sync("sure", "Sure?"))
    waiting = await caller.run(graph, run_id="r", store=store)
    run = await caller.resume(graph, "r", answers={"node?sure": "yes"}, store=store)
    assert ([one.text for one in waiting.questions], run.state.seen) == (["Sure?"], ["yes"])


async def test_a_limit_met_in_the_thread_stops_the_run(caller: Caller, store: Store) -> None:
    """What is spent and reserved there counts for the node."""

    def tool(ctx: ToolContext) -> str:
        ctx.reserve(requests=1)
        ctx.spend(Usage(requests=1))
        before = ctx.spent.requests
        ctx.reserve(requests=1)
        return str(before)

    run = await caller.run(calling(tool), limits=Limits(requests=1), run_id="r", store=store)
    assert (run.status, run.usage.requests) == ("limit", 1)


@pytest.mark.parametrize("call", ["step", "once", "ask", "sleep"])
async def test_the_async_methods_refuse_there(call: str, caller: Caller) -> None:
    """And say which is the right one."""

    def tool(ctx: ToolContext) -> str:
        arguments: dict[str, tuple[Any, ...]] = {
            "step": ("a", int),
            "once": ("a", int),
            "ask": ("a", "?"),
            "sleep": (0,),
        }
        with pytest.raises(FlowAgentError, match=rf"called ctx.{call}; write ctx.{call}_sync"):
            asyncio.run(getattr(ctx, call)(*arguments[call]))
        return "refused"

    run = await caller.run(calling(tool))
    assert run.state.seen == ["refused"]


async def test_on_the_loop_itself_it_refuses() -> None:
    """There it would wait for what cannot go on before it returns."""
    graph = Graph("g", Trail)

    @graph.node
    async def node(state: Trail, ctx: Ctx) -> Update:
        with pytest.raises(FlowAgentError, match=r"a Context made by in_thread\(\) was used outside a thread"):
            ctx.in_thread().step_sync("add", int)
        return {"seen": ["refused"]}

    graph.chain(START, node, END)
    assert (await BY_AWAIT.run(graph)).state.seen == ["refused"]


async def test_beyond_its_attempt_it_refuses() -> None:
    """A thread that goes on when the node has returned can record nothing any more."""
    kept: list[Ctx] = []
    graph = Graph("g", Trail)

    @graph.node
    async def node(state: Trail, ctx: Ctx) -> Update:
        kept.append(ctx.in_thread().in_thread())
        return {}

    graph.chain(START, node, END)
    await BY_AWAIT.run(graph)
    with pytest.raises(FlowAgentError, match="belongs to an attempt that is over"):
        kept[0].step_sync("add", int)


async def test_a_sync_node_hands_on_its_own(caller: Caller) -> None:
    """It is in a thread already, and its context is the right one for what it calls."""
    graph = Graph("g", Trail)

    @graph.node
    def node(state: Trail, ctx: Ctx) -> Update:
        return {"seen": [ctx.in_thread().in_thread().step_sync("add", lambda: "a")]}

    graph.chain(START, node, END)
    assert (await caller.run(graph)).state.seen == ["a"]


async def test_what_models_and_tools_do_is_told(store: Store) -> None:
    """In order, with the task that it is of; from the loop and from threads."""
    graph = Graph("g", Trail)

    def tool(ctx: Ctx) -> None:
        ctx.tell(ToolStarted, tool="add", call_id="1", arguments='{"a": 1}')
        ctx.log("adding")
        ctx.tell(ToolEnded, tool="add", call_id="1", is_error=False, text="2", seconds=0.5)

    @graph.node
    async def node(state: Trail, ctx: Ctx) -> Update:
        ctx.tell(ModelWaits, model="m", seconds=1.0, kind="overloaded", message="busy", restarted=True)
        ctx.tell(TextDelta, text="Hm", thinking=True)
        ctx.tell(ModelCalled, model="m", request=1, usage=Usage(), seconds=1.0, first_token=None, finish="tools")
        await asyncio.to_thread(tool, ctx.in_thread())
        ctx.tell(TextDelta, text="2")
        return {}

    graph.chain(START, node, END)
    async with graph.stream(store=store, run_id="r") as events:
        told = [event async for event in events]
    of_model = (ModelWaits, TextDelta, ModelCalled, ToolStarted, Emitted, ToolEnded)
    kinds = [type(event).__name__ for event in told if isinstance(event, of_model) and event.task_id == "node"]
    assert kinds == ["ModelWaits", "TextDelta", "ModelCalled", "ToolStarted", "Emitted", "ToolEnded", "TextDelta"]
    assert [event.number for event in told] == list(range(len(told)))
