"""What the simulation found, each as a test of its own."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any, Literal, TypeVar

import pytest

from flowagent import Context, Graph, Retry, State, Update, append
from flowagent.core.events import RunEnded
from flowagent.core.records import Past, Record, Snapshot, Status
from flowagent.errors import FlowAgentError, RunFailed, StoreError
from flowagent.stores import MemoryStore
from flowagent.stores.base import Lease
from tests.simulation.loop import Clock
from tests.simulation.world import simulated

T = TypeVar("T")


class Log(State):
    lines: Annotated[list[str], append] = []


class Failing(MemoryStore):
    """Fails the next appends that store where a run stands.

    Args:
        failures: how many of them.
    """

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def append(
        self,
        lease: Lease,
        records: Sequence[Record],
        *,
        status: Status | None = None,
        snapshot: Snapshot | None = None,
        durable: bool = True,
    ) -> None:
        if status is not None and self.failures:
            self.failures -= 1
            raise StoreError("the disk is full")
        await super().append(lease, records, status=status, snapshot=snapshot, durable=durable)


async def test_a_run_whose_end_cannot_be_stored_is_let_go_of() -> None:
    """Whoever still looks at the error can go on with the run, and nothing is done again."""
    g = Graph("g", Log)

    @g.node
    async def work(log: Log) -> Update:
        return {"lines": ["worked"]}

    g.chain("START", work, "END")
    store = Failing(1)
    with pytest.raises(StoreError, match="the disk is full") as caught:
        await g.run(run_id="r-1", store=store)
    assert (await g.load("r-1", store=store)).status == "interrupted"
    run = await g.resume("r-1", store=store)
    assert (run.status, run.state.lines, run.replayed) == ("completed", ["worked"], True)
    assert caught.value.__traceback__ is not None, "as long as it is kept, so is all that it refers to"


async def test_a_resume_that_cannot_store_where_the_run_stands_lets_go_of_it() -> None:
    """The error is the store's own, and the next call goes on."""
    g = Graph("g", Log)
    g.gate("ask", question="?", schema=Literal["yes"])
    g.chain("START", "ask", "END")
    store = Failing(0)
    await g.run(run_id="r-1", store=store)
    store.failures = 1
    with pytest.raises(StoreError, match="the disk is full") as caught:
        await g.resume("r-1", store=store)
    run = await g.resume("r-1", answers={"ask": "yes"}, store=store)
    assert run.status == "completed"
    assert caught.value.__traceback__ is not None


async def test_a_cancelled_call_makes_no_further_attempt() -> None:
    """An attempt that fails because it is cancelled is not tried again by a call that is over."""
    g = Graph("g", Log)
    attempts: list[int] = []
    begun = asyncio.Event()

    @g.node(retry=Retry(attempts=5, backoff=0.0))
    async def fragile(log: Log, ctx: Context[object, Log]) -> Update:
        attempts.append(ctx.attempt)
        begun.set()
        if ctx.attempt > 1:
            return {"lines": [f"attempt {ctx.attempt}"]}
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("the line is dead") from None

    g.chain("START", fragile, "END")
    store = MemoryStore()
    call = asyncio.create_task(g.run(run_id="r-1", store=store))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    for _ in range(20):
        await asyncio.sleep(0)
    assert attempts == [1]
    assert (await g.load("r-1", store=store)).status == "cancelled"
    assert (await g.resume("r-1", store=store)).state.lines == ["attempt 2"]


async def test_a_call_that_is_cancelled_twice_lets_go_of_its_run() -> None:
    """The second time says not to wait for a node that takes long to stop."""
    g = Graph("g", Log)
    begun, end = asyncio.Event(), asyncio.Event()
    attempts: list[int] = []

    @g.node
    async def stubborn(log: Log) -> Update:
        attempts.append(len(attempts) + 1)
        if attempts != [1]:
            return {"lines": ["worked"]}
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await end.wait()
        raise AssertionError

    g.chain("START", stubborn, "END")
    store = MemoryStore()
    call = asyncio.create_task(g.run(run_id="r-1", store=store))
    await begun.wait()
    call.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await call
    run = await g.resume("r-1", store=store)
    end.set()
    assert (run.status, run.state.lines) == ("completed", ["worked"])
    assert caught.value.__traceback__ is not None


class Slow(MemoryStore):
    """Takes a second for each append."""

    async def append(self, lease: Lease, records: Sequence[Record], **options: Any) -> None:
        await asyncio.sleep(1.0)
        await super().append(lease, records, **options)


def test_a_node_that_times_out_while_it_waits_to_be_stored_cancels_nobody_else() -> None:
    """Several wait for one commit under way; one that gives up does not make the whole call be cancelled."""
    g = Graph("g", Log)

    @g.node
    async def begin(log: Log) -> Update:
        return {}

    @g.node
    async def first(log: Log, ctx: Context[object, Log]) -> Update:
        return {"lines": [await ctx.step("say", lambda: "first")]}

    @g.node(timeout=0.5)
    async def hasty(log: Log, ctx: Context[object, Log]) -> Update:
        await asyncio.sleep(0.1)
        return {"lines": [await ctx.step("say", lambda: "hasty")]}

    @g.node
    async def quick(log: Log) -> Update:
        await asyncio.sleep(0.2)
        return {"lines": ["quick"]}

    g.chain("START", begin, first, "END")
    g.chain(begin, hasty, "END")
    g.chain(begin, quick, "END")
    clock = Clock()
    with simulated(clock, random.Random(0), "asked") as loop, pytest.raises(RunFailed) as caught:
        loop.run_until_complete(g.run(run_id="r-1", store=Slow()))
    assert [(error.task, error.kind) for error in caught.value.errors] == [("hasty", "NodeTimeoutError")]
    assert caught.value.run.state.lines == ["first", "quick"]


async def test_a_stream_of_a_run_that_fails_may_be_left(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody asks how the run ended, and nobody complains that nobody did."""
    g = Graph("g", Log)

    @g.node
    async def work(log: Log) -> Update:
        raise ValueError("broken")

    g.chain("START", work, "END")
    store = MemoryStore()
    async with g.stream(run_id="r-1", store=store) as events:
        async for event in events:
            if isinstance(event, RunEnded):
                break
    del events
    gc.collect()
    assert (await g.load("r-1", store=store)).status == "failed"
    assert caplog.text == ""


class Items(State):
    items: list[int] = [0, 1, 2]
    done: list[int] = []


async def test_items_that_are_called_off_are_not_called_again_by_the_same_call() -> None:
    """They stop one after the other, and none is started anew meanwhile, only to be called off again."""
    g = Graph("g", Items)
    calls: list[int] = []
    broken = [True]

    @g.map(over="items", into="done")
    async def work(item: int) -> int:
        calls.append(item)
        if not broken or calls.count(item) > 1:
            return item
        try:
            await asyncio.sleep(0)
            if item == 0:
                raise ValueError("broken")
            await asyncio.Event().wait()
        finally:
            for _ in range(item):
                await asyncio.sleep(0)
        raise AssertionError

    g.chain("START", work, "END")
    store = MemoryStore()
    with pytest.raises(RunFailed):
        await g.run(run_id="r-1", store=store, on_failure="cancel")
    assert calls == [0, 1, 2]
    broken.clear()
    run = await g.resume("r-1", store=store)
    assert (run.status, run.state.done, sorted(calls)) == ("completed", [0, 1, 2], [0, 0, 1, 1, 2, 2])


async def test_what_is_called_off_may_take_its_time_to_stop() -> None:
    """Others that stop earlier do not interrupt it: it is cancelled once."""
    g = Graph("g", Log)
    told: list[str] = []

    async def until_called_off(name: str, turns: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(turns):
                await asyncio.sleep(0)
            told.append(f"{name} has cleaned up")

    @g.node
    async def quick(log: Log) -> None:
        await until_called_off("quick", 0)

    @g.node
    async def slow(log: Log) -> None:
        await until_called_off("slow", 9)

    @g.node
    async def bad(log: Log) -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    for node in (quick, slow, bad):
        g.chain("START", node, "END")
    with pytest.raises(RunFailed) as caught:
        await g.run(run_id="r-1", store=MemoryStore(), on_failure="cancel")
    assert [error.task for error in caught.value.errors] == ["bad"]
    assert told == ["quick has cleaned up", "slow has cleaned up"]


class Asking(Log):
    answer: str = ""


def asking() -> Graph[Asking, object]:
    """A graph that asks one question."""
    g = Graph("g", Asking)
    g.gate("ask", question="?", into="answer")
    g.chain("START", "ask", "END")
    return g


class Meanwhile(MemoryStore):
    """A store in which something happens when it is asked for something, before or after it does that.

    Args:
        when: the method, once.
        after: whether it happens after what was asked for is done.
    """

    def __init__(self, when: str, *, after: bool = False) -> None:
        super().__init__()
        self.happens: Callable[[], Awaitable[object]] | None = None
        self._when = when
        self._after = after

    async def request_cancel(self, run_id: str) -> bool:
        return await self._around("request_cancel", super().request_cancel(run_id))

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        return await self._around("resume", super().resume(run_id, blocking=blocking))

    async def append(self, lease: Lease, records: Sequence[Record], **options: Any) -> None:
        await self._around("append", super().append(lease, records, **options))

    async def _around(self, what: str, work: Coroutine[Any, Any, T]) -> T:
        happens, self.happens = (None, self.happens) if what != self._when else (self.happens, None)
        if happens is not None and not self._after:
            await happens()
        done = await work
        if happens is not None and self._after:
            await happens()
        return done


async def test_a_run_that_is_completed_while_it_is_being_cancelled_is_not_touched() -> None:
    """So that it stays completed, whatever becomes of who wanted to cancel it."""
    g = asking()
    store = Meanwhile("request_cancel")
    await g.run(run_id="r-1", store=store)
    store.happens = lambda: g.resume("r-1", answers={"ask": "yes"}, store=store)
    assert (await g.cancel("r-1", store=store)).status == "completed"
    assert (await store.info("r-1")).epoch == 2, "nobody has taken hold of it to cancel it"


async def test_a_run_that_comes_to_wait_while_it_is_being_cancelled_is_cancelled() -> None:
    """Its owner was asked too late to see it, and says that it waits; then it is cancelled all the same."""
    g = asking()
    store = Meanwhile("append", after=True)
    calls: list[asyncio.Task[Any]] = []

    async def ask_to_cancel() -> None:
        calls.append(asyncio.create_task(g.cancel("r-1", store=store)))
        for _ in range(20):
            await asyncio.sleep(0)

    async def at_the_end() -> None:
        store.happens = ask_to_cancel

    store.happens = at_the_end  # the first append is that of the question, the second one that of the end
    assert (await g.run(run_id="r-1", store=store)).status == "waiting"
    assert (await calls[0]).status == "cancelled"
    assert (await g.load("r-1", store=store)).status == "cancelled"


async def test_a_run_that_cannot_be_cancelled_stands_as_it_stood() -> None:
    """What waits goes on waiting when the store cannot save that it is cancelled."""
    g = asking()
    store = Failing(0)
    await g.run(run_id="r-1", store=store)
    store.failures = 1
    with pytest.raises(StoreError, match="the disk is full"):
        await g.cancel("r-1", store=store)
    run = await g.load("r-1", store=store)
    assert (run.status, len(run.questions)) == ("waiting", 1)


async def test_a_run_that_is_cancelled_before_another_call_takes_hold_of_it_does_not_go_on() -> None:
    """Who starts it again has looked before that, and is told that it was cancelled."""
    g = asking()
    store = Meanwhile("resume")
    await g.run(run_id="r-1", store=store)
    await store.release(await store.claim("r-1"))  # somebody who died
    store.happens = lambda: g.cancel("r-1", store=store)
    with pytest.raises(FlowAgentError, match="was cancelled"):
        await g.run(run_id="r-1", store=store)
    assert (await g.load("r-1", store=store)).status == "cancelled"


async def test_a_run_does_not_wait_for_an_answer_that_is_stored() -> None:
    """A call that is cancelled while its answer is being stored leaves an interrupted run, not one that waits."""
    g = asking()
    store = Meanwhile("append", after=True)
    await g.run(run_id="r-1", store=store)

    async def be_cancelled() -> None:
        raise asyncio.CancelledError

    store.happens = be_cancelled
    with pytest.raises(asyncio.CancelledError):
        await g.resume("r-1", answers={"ask": "yes"}, store=store)
    assert (await g.load("r-1", store=store)).status == "interrupted"
    assert (await g.run(run_id="r-1", store=store)).state.answer == "yes"
