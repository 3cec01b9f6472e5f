"""What nodes spend: it stands in the journal, and its sums are the same whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowagent import END, START, Context, Graph, Retry, Run, State, Update, append
from flowagent.core.events import Event, TaskDone, TaskFailed
from flowagent.core.ids import path_of
from flowagent.core.journal import replay
from flowagent.core.position import export, restored
from flowagent.core.records import Record
from flowagent.core.replaying import begun
from flowagent.core.usage import NO_USAGE, Usage
from flowagent.errors import StoreError
from flowagent.stores import MemoryStore, Store
from tests.scenarios import BY_AWAIT, Caller, Trail

Ctx = Context[object, Trail]
ONE = Usage(requests=1, input=10, output=5, cost=Decimal("0.001"), unpriced=0)


class Tree(State):
    """Items to map, and who was there."""

    items: list[int] = [1, 2, 3]
    seen: Annotated[list[str], append] = []


class Spender:
    """A graph with a fork, a map, a mapped graph and a nested graph with a loop, whose nodes spend by their task's id.

    Args:
        salt: what they spend depends on it, and which of them fail the first time.
        rng: how long each of them takes.
    """

    def __init__(self, salt: int, rng: random.Random) -> None:
        self.salt = salt
        self.rng = rng
        self.spent: dict[tuple[str, int], Usage] = {}

    def amount(self, task: str, attempt: int) -> Usage:
        dice = random.Random(f"{self.salt} {task} {attempt}")
        if dice.random() < 0.2:
            return NO_USAGE
        known = dice.random() < 0.7
        return Usage(
            requests=dice.randint(0, 2),
            tool_calls=dice.randint(0, 2),
            input=dice.randint(0, 99) if known else None,
            cost=Decimal(dice.randint(0, 999)) / 1000 if known else None,
            unmeasured=0 if known else 1,
        )

    async def spend(self, ctx: Context[object, Any]) -> None:
        total = self.amount(ctx.task_id, ctx.attempt)
        self.spent[ctx.task_id, ctx.attempt] = total
        ctx.spend(total)
        if self.rng.random() < 0.4:
            await ctx.step("noted", lambda: 1)
        for _ in range(self.rng.randint(0, 3)):
            await asyncio.sleep(0)
        if random.Random(f"{self.salt} {ctx.task_id}").random() < 0.3 and ctx.attempt == 1:
            raise ValueError("not yet")

    def graph(self) -> Graph[Tree]:
        graph = Graph("spender", Tree)
        patient = Retry(backoff=0)

        @graph.node(retry=patient)
        async def first(state: Tree, ctx: Context[object, Tree]) -> Update:
            await self.spend(ctx)
            return {"seen": ["first"]}

        async def item(one: int, ctx: Context[object, Any]) -> str:
            await self.spend(ctx)
            return str(one)

        graph.map(item, over="items", into="seen", retry=patient)
        graph.map(self.inner("mapped"), over="items", into="seen", input={"times": "item"}, output="name")
        graph.node(self.inner("nested"), output=lambda _: {"seen": ["nested"]}, input=lambda _: {"times": 2})

        @graph.node(retry=patient)
        async def last(state: Tree, ctx: Context[object, Tree]) -> Update:
            await self.spend(ctx)
            return {"seen": ["last"]}

        for branch in (item, "mapped", "nested"):
            graph.chain(first, branch, last)
        graph.chain(START, first)
        graph.chain(last, END)
        return graph

    def inner(self, name: str) -> Graph[Any]:
        graph = Graph(name, Laps)

        @graph.node(retry=Retry(backoff=0))
        async def lap(state: Laps, ctx: Context[object, Laps]) -> Update:
            await self.spend(ctx)
            return {"times": state.times - 1}

        graph.router(lambda state: "lap" if state.times > 0 else END, name="again", to=["lap", "END"])  # pyright: ignore[reportUnknownLambdaType]
        graph.chain(START, lap, "again")
        return graph


class Laps(State):
    """How often to go round."""

    times: int = 1
    name: str = "lap"


def total(usages: Mapping[Any, Usage] | Sequence[Usage]) -> Usage:
    """The sum of some."""
    found = NO_USAGE
    for usage in usages.values() if isinstance(usages, Mapping) else usages:
        found += usage
    return found


def by_path(spent: Mapping[tuple[str, int], Usage]) -> dict[tuple[str, ...], Usage]:
    """What was spent by each node."""
    found: dict[tuple[str, ...], Usage] = {}
    for (task, _), usage in spent.items():
        if usage:
            found[path_of(task)] = found.get(path_of(task), NO_USAGE) + usage
    return found


def few(count: int) -> Any:
    """Some examples of whole runs."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few(25)
@given(st.integers(0, 2**20), st.integers(0, 2**20))
def test_the_sums_are_what_the_nodes_spent_under_any_schedule(salt: int, seed: int) -> None:
    """FA-117: failed attempts are counted; per node, in the run, in its events and in what is read back: the same."""
    spender = Spender(salt, random.Random(seed))
    told: list[Event] = []

    async def watched() -> Run[Tree]:
        async with spender.graph().stream(Tree(), store=MemoryStore()) as events:
            told.extend([event async for event in events])
        return events.run

    run = asyncio.run(watched())
    ended = [event.usage for event in told if isinstance(event, (TaskDone, TaskFailed))]
    everything = total(spender.spent)
    assert (run.usage, run.usage_by_node(), total(ended)) == (everything, by_path(spender.spent), everything)
    assert spender.graph().load_sync(run).usage == everything


@few(15)
@given(st.integers(0, 2**20), st.integers(0, 2**20), st.data())
def test_a_cut_anywhere_loses_no_recorded_usage_and_counts_none_twice(
    salt: int, seed: int, data: st.DataObject
) -> None:
    """After a crash, the sum is that of all records: those before it, and those that the resumed run has made."""
    spender = Spender(salt, random.Random(seed))
    graph = spender.graph()

    async def cut() -> tuple[Usage, Run[Tree]]:
        whole = await graph.run(Tree(), store=MemoryStore())
        left = list(whole.records)[: data.draw(st.integers(1, len(whole.records) - 1))]
        store = MemoryStore()
        lease = await store.create("r", graph.name, left[:1])
        await store.append(lease, left[1:])
        await store.release(lease)
        spender.spent.clear()
        before = (await graph.load("r", store=store)).usage
        return before, await graph.resume("r", store=store)

    before, run = asyncio.run(cut())
    assert run.usage == before + total(spender.spent) == total(run.usage_by_node())


@few(15)
@given(st.integers(0, 2**20), st.integers(0, 2**20))
def test_an_exported_position_knows_what_was_spent_in_each_graph(salt: int, seed: int) -> None:
    """At every record: as JSON and back, all sums are there, and what follows is added to them."""
    spender = Spender(salt, random.Random(seed))
    graph = spender.graph()
    run = asyncio.run(graph.run(Tree(), store=MemoryStore()))
    straight = begun(graph.topology, "r", run.records)
    other = begun(graph.topology, "r", run.records)
    for record in run.records[1:]:
        replay(straight, "r", [record])
        replay(other, "r", [record])
        other = restored(graph.topology, json.loads(json.dumps(export(other))))
        mine = {name: task.child.spent for name, task in straight.tasks.items() if task.child is not None}
        theirs = {name: task.child.spent for name, task in other.tasks.items() if task.child is not None}
        assert (other.root.spent, theirs) == (straight.root.spent, mine)
    assert straight.root.spent == run.usage


async def test_a_step_that_spent_nothing_costs_not_a_byte(store: Store) -> None:
    """Records of other steps are as they were before there was anything to spend."""
    graph = Graph("g", Trail)

    @graph.node
    async def frugal(state: Trail, ctx: Ctx) -> Update:
        ctx.spend(NO_USAGE)
        return {}

    graph.chain(START, frugal, END)
    run = await graph.run(store=store)
    assert [b"usage" in record.data for record in run.records] == [False, False, False]
    assert (run.usage, run.usage_by_node()) == (NO_USAGE, {})


async def test_each_step_of_the_history_tells_what_it_spent(caller: Caller, store: Store) -> None:
    """What the attempt that failed spent stands with its failure; a question holds what was spent before it."""
    graph = Graph("g", Trail)

    @graph.node(retry=Retry(backoff=0))
    async def work(state: Trail, ctx: Ctx) -> Update:
        ctx.spend(ONE)
        if ctx.attempt == 1:
            raise ValueError("not yet")
        await ctx.ask("sure", "Sure?", bool)
        ctx.spend(ONE + ONE)
        return {}

    graph.chain(START, work, END)
    waiting = await caller.run(graph, run_id="r", store=store)
    run = await caller.resume(graph, "r", answers={"work?sure": True}, store=store)
    assert [(step.kind, step.usage.requests) for step in run.history] == [
        ("failed", 1),
        ("asked", 1),
        ("answered", 0),
        ("done", 3),
    ]
    assert (waiting.usage.requests, run.usage.requests) == (2, 5)


async def test_a_node_knows_what_its_graph_has_spent(caller: Caller, store: Store) -> None:
    """The graphs inside it, its own failed attempts and memos are in it; what its parent spent is not."""
    seen: list[int] = []
    child, graph = Graph("child", Trail), Graph("parent", Trail)

    @child.node(retry=Retry(backoff=0))
    async def inner(state: Trail, ctx: Ctx) -> Update:
        seen.append(ctx.spent.requests)
        ctx.spend(ONE)
        await ctx.step("noted", lambda: 1)
        ctx.spend(ONE)
        seen.append(ctx.spent.requests)
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return {}

    @graph.node
    def outer(state: Trail, ctx: Ctx) -> Update:
        ctx.spend(ONE)
        return {}

    @graph.node
    def after(state: Trail, ctx: Ctx) -> Update:
        seen.append(ctx.spent.requests)
        return {}

    child.chain(START, inner, END)
    graph.node(child)
    graph.chain(START, outer, child, after, END)
    run = await caller.run(graph, store=store)
    assert (seen, run.usage.requests) == ([0, 2, 2, 4, 5], 5)
    assert run.usage_by_node() == {("outer",): ONE, ("child", "inner"): ONE + ONE + ONE + ONE}


async def test_what_a_cancelled_attempt_spent_is_recorded(store: Store) -> None:
    """The call is called off while its node waits: what the node had spent until then is not forgotten."""
    graph = Graph("g", Trail)
    begun = asyncio.Event()

    @graph.node
    async def work(state: Trail, ctx: Ctx) -> Update:
        ctx.spend(ONE)
        begun.set()
        await asyncio.Event().wait()
        return {}

    graph.chain(START, work, END)
    call = asyncio.create_task(graph.run(store=store, run_id="r"))
    await begun.wait()
    call.cancel()
    await asyncio.wait([call])
    run = await graph.load("r", store=store)
    assert (run.status, run.usage, run.usage_by_node()) == ("cancelled", ONE, {("work",): ONE})


async def test_what_is_spent_in_threads_beside_one_another_is_all_there() -> None:
    """Sync nodes spend from threads of their own, many at a time."""
    graph = Graph("g", Tree)

    def item(one: int, ctx: Context[object, Any]) -> str:
        for _ in range(50):
            ctx.spend(ONE)
        return str(one)

    graph.map(item, over="items", into="seen")
    graph.chain(START, item, END)
    run = await BY_AWAIT.run(graph, Tree(items=list(range(20))))
    assert run.usage == Usage(requests=1000, input=10_000, output=5000, cost=Decimal(1))


async def test_a_spending_that_is_damaged_is_told(store: Store) -> None:
    """A record whose usage is no usage is damaged like any other."""
    graph = Graph("g", Trail)
    graph.node(lambda _: {}, name="n")  # pyright: ignore[reportUnknownLambdaType]
    graph.chain(START, "n", END)
    run = await graph.run(store=store)
    first, done, *_ = run.records
    odd = Record(done.seq, done.kind, done.data[:-1] + b',"usage":{"requests":-1}}')
    machine = begun(graph.topology, "r", [first])
    with pytest.raises(StoreError, match=r"record 1 of run `r` \(done\) is damaged: usage.requests"):
        replay(machine, "r", [odd])


async def test_what_a_later_version_knows_of_a_spending_is_left_aside() -> None:
    """Only that which this version knows is read."""
    graph = Graph("g", Trail)
    graph.node(lambda _: {}, name="n")  # pyright: ignore[reportUnknownLambdaType]
    graph.chain(START, "n", END)
    run = await graph.run(store=MemoryStore())
    first, done, *_ = run.records
    more = Record(done.seq, done.kind, done.data[:-1] + b',"usage":{"requests":2,"images":3}}')
    machine = begun(graph.topology, "r", [first])
    replay(machine, "r", [more])
    assert machine.root.spent == Usage(requests=2)
