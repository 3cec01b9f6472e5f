"""Limits on what is spent: nothing is begun for which they leave no room, wherever in the run it would be."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowagent import END, START, Context, Graph, Limits, State, Update, add, append
from flowagent.core.accounts import amounts_asked
from flowagent.core.events import RunEnded, Warned
from flowagent.core.usage import Usage
from flowagent.stores import MemoryStore, Store
from tests.scenarios import BY_AWAIT, Caller, Trail
from tests.scenarios.test_usage import few

CALL = Usage(requests=1, input=60, output=40, cost=Decimal("0.10"))
NO_LIMITS = Limits(steps=None)


class Count(State):
    """How many calls were made, and for which items."""

    calls: Annotated[int, add] = 0
    most: int = 5
    items: list[int] = []
    seen: Annotated[list[str], append] = []


class Phone:
    """Counts calls that were really made."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def call(self, ctx: Context[object, Any], usage: Usage = CALL, **reserved: Any) -> None:
        ctx.reserve(**reserved)
        self.calls.append(ctx.task_id)
        ctx.spend(usage)


def loop(phone: Phone, **reserved: Any) -> Graph[Count]:
    """A node that makes a call each time round."""
    graph = Graph("loop", Count)

    @graph.node
    async def model(state: Count, ctx: Context[object, Count]) -> Update:
        await phone.call(ctx, **reserved)
        return {"calls": 1}

    graph.router(lambda state: "model" if state.calls < state.most else END, name="again", to=["model", END])  # pyright: ignore[reportUnknownLambdaType]
    graph.chain(START, model, "again")
    return graph


@pytest.mark.parametrize(
    ("limits", "reserved", "calls", "reason"),
    [
        (
            {"requests": 3},
            {"requests": 1},
            3,
            "reached the limit of 3 requests: 3 requests spent or reserved, and 1 request more would go over it",
        ),
        (
            {"tokens": 250},
            {"requests": 1, "tokens": 100},
            2,
            "reached the limit of 250 tokens: 200 tokens spent or reserved, and 100 tokens more would go over it",
        ),
        ({"tokens": 250}, {"requests": 1}, 3, "reached the limit of 250 tokens: 300 tokens spent or reserved"),
        ({"tokens": 200}, {"requests": 1}, 2, "reached the limit of 200 tokens: 200 tokens spent or reserved"),
        ({"cost": 0.25}, {"requests": 1}, 3, "reached the limit of $0.25: $0.3 spent or reserved"),
        (
            {"cost": "0.2"},
            {"cost": 0.1},
            2,
            "reached the limit of $0.2: $0.2 spent or reserved, and $0.1 more would go over it",
        ),
        (
            {"tool_calls": 1},
            {"tool_calls": 2},
            0,
            "reached the limit of 1 tool call: 0 tool calls spent or reserved, and 2 tool calls more would go over it",
        ),
    ],
)
async def test_a_run_stops_before_it_goes_over(
    limits: dict[str, Any], reserved: dict[str, Any], calls: int, reason: str, caller: Caller, store: Store
) -> None:
    """The reason names limit, figures, node and cycle; with higher limits it goes on and repeats nothing."""
    phone = Phone()
    graph = loop(phone, **reserved)
    run = await caller.run(graph, limits=Limits(**limits), store=store, run_id="r")
    where = f"at node `model` (task `model@{calls + 1}`) in the cycle of `model`, `again`"
    assert (run.status, run.state.calls, len(phone.calls)) == ("limit", calls, calls)
    assert run.reason == f"{reason}, {where}"
    run = await caller.resume(graph, "r", limits=NO_LIMITS, store=store)
    assert (run.status, run.state.calls, len(set(phone.calls)), len(phone.calls)) == ("completed", 5, 5, 5)
    assert run.usage.requests == 5


async def test_totals_of_earlier_calls_count(caller: Caller, store: Store) -> None:
    """Resuming with the same limit makes no call at all."""
    phone = Phone()
    graph = loop(phone, requests=1)
    await caller.run(graph, limits=Limits(requests=2), store=store, run_id="r")
    run = await caller.resume(graph, "r", limits=Limits(requests=2), store=store)
    assert (run.status, len(phone.calls)) == ("limit", 2)


async def test_no_node_can_swallow_a_limit(caller: Caller, store: Store) -> None:
    """Whatever it catches, retries or returns: the attempt is over, and the task is as if it had not begun."""
    graph = Graph("g", Trail)

    @graph.node
    async def stubborn(state: Trail, ctx: Context[object, Trail]) -> Update:
        try:
            ctx.reserve(requests=2)
        except BaseException:  # that is what is tried
            return {"seen": ["went on"]}
        return {"seen": ["had room"]}

    graph.chain(START, stubborn, END)
    run = await caller.run(graph, limits=Limits(requests=1), store=store, run_id="r")
    assert (run.status, run.state.seen, run.errors) == ("limit", [], ())
    run = await caller.resume(graph, "r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["had room"])


async def test_what_was_spent_before_the_limit_was_met_is_recorded(caller: Caller, store: Store) -> None:
    """An attempt that is put back has made calls; they count, and what it did as steps is not done again."""
    phone = Phone()
    graph = Graph("g", Trail)

    @graph.node
    async def work(state: Trail, ctx: Context[object, Trail]) -> Update:
        for number in range(3):
            await ctx.step(f"call {number}", phone.call, ctx, CALL, requests=1)
        return {}

    graph.chain(START, work, END)
    run = await caller.run(graph, limits=Limits(requests=2), store=store, run_id="r")
    assert (run.status, run.usage.requests, len(phone.calls)) == ("limit", 2, 2)
    run = await caller.resume(graph, "r", store=store)
    assert (run.status, run.usage.requests, len(phone.calls)) == ("completed", 3, 3)


async def test_a_call_that_must_not_repeat_is_asked_about_when_a_limit_stops_it(caller: Caller, store: Store) -> None:
    """Nobody knows what a `once` node had done when it met the limit."""
    graph = Graph("g", Trail)

    @graph.node(once=True)
    async def pay(state: Trail, ctx: Context[object, Trail]) -> Update:
        ctx.reserve(requests=2)
        return {}

    graph.chain(START, pay, END)
    run = await caller.run(graph, limits=Limits(requests=1), store=store, run_id="r")
    assert (run.status, [question.purpose for question in run.questions]) == ("limit", ["once"])


async def test_a_sync_node_meets_its_limits_too(caller: Caller, store: Store) -> None:
    """`reserve` and `spend` are the same in sync nodes, in threads or on our own loop."""
    calls: list[str] = []
    graph = Graph("g", Count)

    def model(item: int, ctx: Context[object, Any]) -> str:
        ctx.reserve(requests=1)
        ctx.spend(CALL)
        calls.append(ctx.task_id)
        return str(item)

    graph.map(model, over="items", into="seen")
    graph.chain(START, model, END)
    run = await caller.run(graph, Count(items=[1, 2, 3, 4]), limits=Limits(requests=3), store=store, run_id="r")
    assert (run.status, len(calls), run.usage.requests) == ("limit", 3, 3)
    run = await caller.resume(graph, "r", store=store)
    assert (run.status, run.state.seen, len(calls)) == ("completed", ["1", "2", "3", "4"], 4)


async def test_one_limit_holds_for_all_nested_graphs(store: Store) -> None:
    """Graphs in graphs, and graphs that are mapped, spend from one purse; streamed or not."""
    phone = Phone()
    graph = Graph("g", Count)
    graph.node(loop(phone, requests=1), name="nested")
    graph.map(
        loop(phone, requests=1),
        over="items",
        into="seen",
        name="mapped",
        input="most",
        output=lambda end: str(end.calls),
    )
    graph.chain(START, "nested", END)
    graph.chain(START, "mapped", END)
    start = Count(items=[3, 3], most=3)
    async with graph.stream(start, limits=Limits(requests=7), store=store, run_id="r") as events:
        told = [event async for event in events]
    assert (events.run.status, len(phone.calls), events.run.usage.requests) == ("limit", 7, 7)
    assert isinstance(told[-1], RunEnded)
    run = await graph.resume("r", store=store)
    assert (run.status, len(phone.calls), len(set(phone.calls))) == ("completed", 9, 9)


async def test_a_reservation_ends_with_its_attempt(caller: Caller, store: Store) -> None:
    """What was set aside and not spent, because the attempt failed or was cheaper, is there for others."""
    graph = Graph("g", Trail)
    graph.node(lambda _, ctx: ctx.reserve(requests=2, tokens=100), name="a")  # pyright: ignore[reportUnknownLambdaType]
    graph.node(lambda _, ctx: ctx.reserve(requests=2, tokens=100), name="b")  # pyright: ignore[reportUnknownLambdaType]
    graph.chain(START, "a", "b", END)
    run = await caller.run(graph, limits=Limits(requests=2, tokens=100), store=store)
    assert run.status == "completed"


async def test_a_limit_of_cost_says_when_it_is_a_lower_bound(store: Store) -> None:
    """Something was spent whose price nobody knows: that is told once, not taken for free in silence."""
    phone = Phone()
    graph = loop(phone, usage=Usage(requests=1, input=5, unpriced=1), requests=1)
    async with graph.stream(limits=Limits(cost=1), store=store) as events:
        told = [(event.task_id, event.text) async for event in events if isinstance(event, Warned)]
    assert told == [
        (
            phone.calls[0],
            "the limit of cost, $1, is a lower bound from here on: something was spent whose price nobody knows",
        )
    ]


async def test_what_others_have_in_flight_finishes_when_one_meets_the_limit(store: Store) -> None:
    """The run stops; a call that is paid for already is not torn off."""
    met, graph = asyncio.Event(), Graph("g", Trail)

    @graph.node
    async def greedy(state: Trail, ctx: Context[object, Trail]) -> Update:
        try:
            ctx.reserve(requests=5)
        finally:
            met.set()
        return {}

    @graph.node
    async def patient(state: Trail, ctx: Context[object, Trail]) -> Update:
        ctx.reserve(requests=1)
        await met.wait()
        ctx.spend(CALL)
        return {"seen": ["patient"]}

    graph.chain(START, patient, END)
    graph.chain(START, greedy, END)
    run = await graph.run(limits=Limits(requests=2), store=store, run_id="r")
    assert (run.status, run.usage, run.state.seen) == ("limit", CALL, ["patient"])


@few(40)
@given(
    most=st.builds(
        Limits, requests=st.integers(1, 12), tokens=st.none() | st.integers(1, 600), tool_calls=st.integers(1, 9)
    ),
    salt=st.integers(0, 2**20),
    seed=st.integers(0, 2**20),
)
def test_no_reservation_lets_spent_and_reserved_go_over(most: Limits, salt: int, seed: int) -> None:
    """Under any schedule, and over any number of resumes: whoever spends only what was reserved stays within limits."""
    graph, spent = _careful(random.Random(seed), lambda task: random.Random(f"{salt} {task}"))

    async def driven() -> None:
        store = MemoryStore()
        run = await graph.run(Count(items=[1, 2, 3, 4]), store=store, run_id="r", limits=most)
        assert within(run.usage, most)
        again = await graph.resume("r", store=store, limits=most)  # others may fit than those that were refused
        assert within(again.usage, most)
        whole = await graph.resume("r", store=store)
        assert (whole.status, whole.usage) == ("completed", sum_of(spent))

    asyncio.run(driven())


def within(usage: Usage, most: Limits) -> bool:
    """Whether nothing is over its limit."""
    pairs = [(usage.requests, most.requests), (usage.tool_calls, most.tool_calls), (usage.tokens or 0, most.tokens)]
    return all(limit is None or spent <= limit for spent, limit in pairs)


def sum_of(spent: dict[str, Usage]) -> Usage:
    found = Usage()
    for usage in spent.values():
        found += usage
    return found


def _careful(rng: random.Random, dice: Callable[[str], random.Random]) -> tuple[Graph[Count], dict[str, Usage]]:
    """A fork of a map and a loop whose nodes spend at most what they reserved, in steps that are not done again."""
    graph, spent = Graph("careful", Count), dict[str, Usage]()

    async def work(ctx: Context[object, Any]) -> None:
        throw = dice(ctx.task_id)
        for number in range(throw.randint(1, 2)):
            wanted = {
                "requests": throw.randint(0, 2),
                "tool_calls": throw.randint(0, 2),
                "tokens": throw.randint(0, 99),
            }

            async def call(
                name: str = f"{ctx.task_id} {number}", wanted: dict[str, int] = wanted, share: float = throw.random()
            ) -> None:
                ctx.reserve(**wanted)
                for _ in range(rng.randint(0, 3)):
                    await asyncio.sleep(0)
                used = int(wanted["tokens"] * share)
                spent[name] = Usage(requests=wanted["requests"], tool_calls=wanted["tool_calls"], input=used)
                ctx.spend(spent[name])

            await ctx.step(f"call {number}", call)

    async def item(one: int, ctx: Context[object, Any]) -> str:
        await work(ctx)
        return str(one)

    @graph.node
    async def lap(state: Count, ctx: Context[object, Count]) -> Update:
        await work(ctx)
        return {"calls": 1}

    graph.map(item, over="items", into="seen")
    graph.router(lambda state: "lap" if state.calls < 3 else END, name="again", to=["lap", END])  # pyright: ignore[reportUnknownLambdaType]
    graph.chain(START, lap, "again")
    graph.chain(START, item, END)
    return graph, spent


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"requests": 0}, r"Limits\(requests=0\): at least 1"),
        ({"tokens": -1}, r"Limits\(tokens=-1\): at least 1"),
        ({"tool_calls": 0}, r"Limits\(tool_calls=0\): at least 1"),
        ({"cost": 0}, r"Limits\(cost=0\): US dollars, more than 0"),
        ({"cost": "much"}, r"Limits\(cost='much'\): US dollars"),
        ({"cost": float("nan")}, r"Limits\(cost=nan\): US dollars"),
        ({"cost": float("inf")}, r"Limits\(cost=inf\): US dollars"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(given: dict[str, Any], why: str) -> None:
    """As those of steps and seconds are."""
    with pytest.raises(ValueError, match=why):
        Limits(**given)


def test_a_cost_is_kept_as_it_was_written() -> None:
    """A tenth is a tenth, however it is given."""
    assert [Limits(cost=cost).cost for cost in (0.1, "0.1", Decimal("0.1"))] == [Decimal("0.1")] * 3


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"requests": -1}, r"reserve\(requests=-1\): 0 or more"),
        ({"tokens": -1}, r"reserve\(tokens=-1\): 0 or more"),
        ({"tool_calls": -1}, r"reserve\(tool_calls=-1\): 0 or more"),
        ({"cost": -0.5}, r"reserve\(cost=-0.5\): US dollars, 0 or more"),
        ({"cost": "much"}, r"reserve\(cost='much'\): a number of US dollars"),
        ({"cost": "nan"}, r"reserve\(cost='nan'\): US dollars, 0 or more"),
    ],
)
def test_less_than_nothing_cannot_be_reserved(given: dict[str, Any], why: str) -> None:
    """A mistake in a figure is no way around a limit."""
    figures: dict[str, Any] = {"requests": 0, "tool_calls": 0, "tokens": 0, "cost": 0}
    with pytest.raises(ValueError, match=why):
        amounts_asked(**{**figures, **given})


async def test_a_context_that_is_over_spends_nothing_any_more() -> None:
    """Whoever keeps it beyond its attempt is told so, in place of being counted nowhere."""
    kept: list[Context[object, Trail]] = []
    graph = Graph("g", Trail)
    graph.node(lambda _, ctx: kept.append(ctx), name="n")  # pyright: ignore[reportUnknownLambdaType]
    graph.chain(START, "n", END)
    await BY_AWAIT.run(graph)
    with pytest.raises(Exception, match="belongs to an attempt that is over"):
        kept[0].spend(CALL)
