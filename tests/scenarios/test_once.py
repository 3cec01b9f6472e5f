"""Nodes with `once=True`: a call whose outcome nobody knows is never repeated without asking."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from flowagent import END, START, Goto, Graph, Update
from flowagent.errors import AnswerError
from flowagent.stores import Store
from tests.scenarios import Caller, Trail


class Till:
    """Counts its calls, and may break."""

    def __init__(self) -> None:
        self.calls = 0
        self.broken = True

    def charge(self) -> None:
        self.calls += 1
        if self.broken:
            raise ValueError("no answer")


def charging(till: Till) -> Graph[Trail]:
    graph = Graph("till", Trail)

    @graph.node(once=True)
    def charge(state: Trail) -> Update:
        till.charge()
        return {"seen": ["charged"]}

    graph.node(lambda state: {"seen": ["sent"]}, name="send")  # pyright: ignore[reportUnknownLambdaType]
    graph.chain(START, charge, "send", END)
    return graph


QUESTION = (
    "`charge` must not be called twice, and a call of it failed (ValueError: no answer): answer "
    '"retry" if it may be called again, "abort", or {"result": ...} with what it would have returned'
)


@pytest.mark.parametrize(
    ("answer", "seen", "calls"),
    [("retry", ["charged", "sent"], 2), ({"result": {"seen": ["receipt 7"]}}, ["receipt 7", "sent"], 1)],
)
async def test_a_call_that_failed_is_asked_about(
    answer: Any, seen: list[str], calls: int, caller: Caller, store: Store
) -> None:
    """It may be called again, or somebody says what it came to."""
    till = Till()
    graph = charging(till)
    run = await caller.run(graph, run_id="r", store=store)
    assert (run.status, [(one.id, one.purpose, one.text) for one in run.questions]) == (
        "waiting",
        [("charge?once", "once", QUESTION)],
    )
    till.broken = False
    run = await caller.resume(graph, "r", answers={"charge?once": answer}, store=store)
    assert (run.status, run.state.seen, till.calls) == ("completed", seen, calls)


async def test_an_answer_may_give_the_call_up(caller: Caller, store: Store) -> None:
    """The task stands failed, and is not called again by a resume."""
    till = Till()
    graph = charging(till)
    await caller.run(graph, run_id="r", store=store)
    with pytest.raises(Exception, match="it was aborted by the answer to what became of its side effect"):
        await caller.resume(graph, "r", answers={"charge?once": "abort"}, store=store)
    assert till.calls == 1


@pytest.mark.parametrize("answer", ["again", {"results": 1}, {"result": object()}, None])
async def test_another_answer_is_refused(answer: Any, caller: Caller, store: Store) -> None:
    """It says what may be answered, and changes nothing."""
    graph = charging(Till())
    await caller.run(graph, run_id="r", store=store)
    with pytest.raises(AnswerError, match=r"the answer to `charge\?once`"):
        await caller.resume(graph, "r", answers={"charge?once": answer}, store=store)
    assert [one.id for one in (await graph.load("r", store=store)).questions] == ["charge?once"]


async def test_a_given_result_has_to_fit_the_state(caller: Caller, store: Store) -> None:
    """As if the node had returned it: the task fails with what is wrong."""
    graph = charging(Till())
    await caller.run(graph, run_id="r", store=store)
    with pytest.raises(Exception, match="seen"):
        await caller.resume(graph, "r", answers={"charge?once": {"result": {"seen": 5}}}, store=store)


async def test_a_call_that_was_cancelled_is_asked_about(store: Store) -> None:
    """Nobody knows how far it came."""
    graph = Graph("slow", Trail)
    began = asyncio.Event()

    @graph.node(once=True)
    async def charge(state: Trail) -> Update:
        began.set()
        await asyncio.Event().wait()
        return {}

    graph.chain(START, charge, END)
    call = asyncio.create_task(graph.run(run_id="r", store=store))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    run = await graph.load("r", store=store)
    assert (run.status, ["was cancelled" in one.text for one in run.questions]) == ("cancelled", [True])


async def test_a_router_may_be_called_once_and_its_choice_given(caller: Caller, store: Store) -> None:
    """What it would have returned is a target."""
    graph = Graph("routed", Trail)
    till = Till()

    @graph.router(to=["left", "right"], once=True)
    def choose(state: Trail) -> Sequence[str]:
        till.charge()
        return ["left"]

    for name in ("left", "right"):
        graph.node(lambda state, name=name: {"seen": [name]}, name=name)  # pyright: ignore[reportUnknownLambdaType]
        graph.chain(name, END)
    graph.chain(START, choose)
    await caller.run(graph, run_id="r", store=store)
    run = await caller.resume(graph, "r", answers={"choose?once": {"result": "right"}}, store=store)
    assert (run.status, run.state.seen, till.calls) == ("completed", ["right"], 1)


async def test_a_node_that_jumps_can_only_be_called_again_or_given_up(caller: Caller, store: Store) -> None:
    """A result is no target, so none can be given for it."""
    graph = Graph("jumping", Trail)
    till = Till()

    @graph.node(to=["END"], once=True)
    def jump(state: Trail) -> Goto[Any]:
        till.charge()
        return Goto("END")

    graph.chain(START, jump)
    await caller.run(graph, run_id="r", store=store)
    with pytest.raises(Exception, match="`jump` chooses its target, so its result cannot be given; answer retry or"):
        await caller.resume(graph, "r", answers={"jump?once": {"result": {}}}, store=store)
