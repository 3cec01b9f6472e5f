"""What stops an async function that is awaited where the engine stands, in every combination."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Generator
from typing import Any, Literal

import anyio
import pytest

from flowagent import END, START, Graph, Limits, Retry, State, Update
from flowagent.core.foreground import Foreground, begun
from flowagent.errors import RunFailed
from flowagent.stores import MemoryStore


class Seen(State):
    """What nodes have to say."""

    seen: list[str] = []


def line(*nodes: Callable[[Seen], object]) -> Graph[Seen]:
    """A graph that runs some nodes one after the other."""
    graph = Graph("line", Seen)
    for node in nodes:
        graph.node(node)
    graph.chain(START, *[node.__name__ for node in nodes], END)
    return graph


def waiting(entered: asyncio.Event, left: list[str], *, stubborn: bool = False) -> Graph[Seen]:
    """A node that waits for ever; a stubborn one returns when it is cancelled."""

    async def waits(state: Seen) -> Update:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.append("cancelled")
            if not stubborn:
                raise
        return {"seen": ["waits"]}

    return line(waits)


async def test_whoever_cancels_by_a_message_gets_the_same_cancellation_back() -> None:
    """The scopes of anyio know their own by it; another one would pass through them as somebody else's."""
    entered, left = asyncio.Event(), list[str]()
    running = asyncio.ensure_future(waiting(entered, left).run())
    await entered.wait()
    running.cancel("by scope 7")
    with pytest.raises(asyncio.CancelledError, match="by scope 7"):
        await running


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_scope_of_anyio_around_the_call_ends_it_and_goes_on(stubborn: bool) -> None:
    """As `httpx`, Starlette and many others use them."""
    entered, left = asyncio.Event(), list[str]()
    with anyio.move_on_after(0.01) as scope:
        await waiting(entered, left, stubborn=stubborn).run()
    me = asyncio.current_task()
    assert (scope.cancelled_caught, left, me and me.cancelling()) == (True, ["cancelled"], 0)


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_node_that_cancels_its_own_task_cancels_the_caller(turns: int) -> None:
    """It is the same task, whether the node has waited before or not."""
    store = MemoryStore()

    async def desperate(state: Seen) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        me = asyncio.current_task()
        assert me is not None
        me.cancel()
        await asyncio.sleep(0)

    running = asyncio.ensure_future(line(desperate).run(store=store, run_id="r"))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await line(desperate).load("r", store=store)).status == "cancelled"


async def bad() -> None:
    """A member of a group that fails."""
    await asyncio.sleep(0)
    raise ValueError("bad")


async def test_a_group_whose_member_fails_at_its_end_cancels_nobody() -> None:
    """It cancels its task, to wake it, and before Python 3.13 never takes that back: the next node is called, too."""

    async def catches(state: Seen) -> Update:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(bad())
        except ExceptionGroup as errors:
            return {"seen": [str(error) for error in errors.exceptions]}
        raise AssertionError("it did not fail")

    async def after(state: Seen) -> Update:
        await asyncio.sleep(0)
        return {"seen": [*state.seen, "after"]}

    run = await line(catches, after).run()
    me = asyncio.current_task()
    assert (run.state.seen, me and me.cancelling()) == (["bad", "after"], 0)


async def test_a_group_that_fails_in_a_node_makes_it_fail() -> None:
    """What comes of it is the node's failure, whether the group is in a node of this run or of one inside it."""

    async def fails(state: Seen) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(bad())

    async def holds(state: Seen) -> None:
        await line(fails).run()

    for node in (fails, holds):
        with pytest.raises(RunFailed) as failed:
            await line(node).run()
        assert failed.value.run.status == "failed"
    me = asyncio.current_task()
    assert me is not None
    assert me.cancelling() == 0


async def test_a_caller_that_is_cancelled_while_a_group_ends_is_told() -> None:
    """Though the group's members fail because of it, which asyncio holds for the more important."""
    entered, store = asyncio.Event(), MemoryStore()

    async def unclean() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("bad")

    async def groups(state: Seen) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(unclean())
            entered.set()

    running = asyncio.ensure_future(line(groups).run(store=store, run_id="r"))
    await entered.wait()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await line(groups).load("r", store=store)).status == "cancelled"


async def test_what_was_cancelled_and_failed_of_it_is_not_tried_again() -> None:
    """A client that cannot be closed makes an error of the cancellation, which its `retry` would allow."""
    entered, store = asyncio.Event(), MemoryStore()
    graph = Graph("unclean", Seen)

    @graph.node(retry=Retry(attempts=3, backoff=0.001))
    async def waits(state: Seen) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionError("it cannot be closed")

    graph.chain(START, waits, END)
    running = asyncio.ensure_future(graph.run(store=store, run_id="r"))
    await entered.wait()
    stopped = await graph.cancel("r", store=store)
    history = [(step.task, step.attempt) for step in stopped.history]
    assert (stopped.status, (await running).status, history) == ("cancelled", "cancelled", [("waits", 1)])


async def test_a_run_whose_steps_are_used_up_can_be_cancelled_while_something_is_in_flight() -> None:
    """It stops for two reasons then, and needs not wait for what may take for ever."""
    entered, passed, store = asyncio.Event(), asyncio.Event(), MemoryStore()
    graph = Graph("two ways", Seen)

    @graph.node
    async def fork(state: Seen) -> None: ...

    @graph.node
    async def slow(state: Seen) -> None:
        entered.set()
        await asyncio.Event().wait()

    @graph.node
    async def quick(state: Seen) -> None:
        passed.set()

    @graph.node
    async def too_many(state: Seen) -> None: ...

    graph.chain(START, fork, slow, END)
    graph.chain(fork, quick, too_many, END)
    running = asyncio.ensure_future(graph.run(store=store, run_id="r", limits=Limits(steps=3)))
    await entered.wait()
    await passed.wait()
    for _ in range(10):  # turns of the loop, in which it finds that there are no steps left
        await asyncio.sleep(0)
    await graph.cancel("r", store=store)
    run = await running
    assert (run.status, run.reason) == ("cancelled", "somebody asked to cancel it")


class Coarse(asyncio.SelectorEventLoop):
    """A loop whose timers come early, as those of uvloop do, which counts whole milliseconds."""

    def call_at(self, when: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        """Call a little too soon."""
        return super().call_at(when - 0.01, *args, **kwargs)


def test_the_limit_of_seconds_stops_it_by_a_clock_that_is_coarse() -> None:
    """It is called once: a timer that comes early ends the run all the same."""
    entered, left = asyncio.Event(), list[str]()
    with asyncio.Runner(loop_factory=Coarse) as runner:
        run = runner.run(waiting(entered, left).run(limits=Limits(seconds=0.02)))
    assert (run.status, left) == ("limit", ["cancelled"])


async def test_an_error_that_was_handled_has_nothing_to_do_with_the_next() -> None:
    """Else a traceback would tell of two where only one was raised."""

    async def handles(state: Seen) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, KeyError("no"))
        with contextlib.suppress(KeyError):
            await future
        raise ValueError("something else")

    with pytest.raises(RunFailed) as failed:
        await line(handles).run()
    cause = failed.value.__cause__
    assert (type(cause), cause and cause.__context__) == (ValueError, None)


async def test_a_run_that_is_thrown_away_has_not_failed() -> None:
    """Nor has what it was awaiting: whoever goes on with it calls that anew."""
    store, entered = MemoryStore(), list[str]()

    async def waits(state: Seen) -> None:
        entered.append("waits")
        await asyncio.sleep(0)

    work = line(waits).run(store=store, run_id="r")
    while not entered:
        work.send(None)
    work.close()
    run = await line(waits).load("r", store=store)
    assert (run.status, run.errors, run.history) == ("interrupted", (), ())


async def test_what_is_only_marked_as_async_may_give_anything_that_can_be_awaited() -> None:
    """`inspect.markcoroutinefunction` promises no coroutine."""

    class Soon:
        """Something that can be awaited, and is no coroutine."""

        def __await__(self) -> Generator[None, None, str]:
            yield
            return "done"

    marked: Any = Soon
    assert await Foreground().rest(begun(lambda _: marked(), None), contextvars.copy_context()) == ("done", None)


async def test_an_answer_that_came_before_its_caller_was_cancelled_is_kept() -> None:
    """A router may answer while the node before it is still being stored; what was paid for is not asked for again."""
    store = SlowStore()
    graph = Graph("slow store", Seen)

    @graph.node
    async def work(state: Seen) -> None: ...

    @graph.router
    async def choose(state: Seen) -> Literal["END"]:
        store.gate = asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "END"

    graph.chain(START, work, choose)
    running = asyncio.ensure_future(graph.run(store=store, run_id="r"))
    await store.asked.wait()
    for _ in range(10):  # turns of the loop, in which it answers
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.sleep(0)
    store.open()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [step.task for step in (await graph.load("r", store=store)).history] == ["work", "choose"]


class SlowStore(MemoryStore):
    """Stores once its gate is open, and no sooner than that tells of a cancellation, as a store must."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.gate: asyncio.Future[None] | None = None

    def open(self) -> None:
        """Store what is waiting, and from now on everything at once."""
        gate, self.gate = self.gate, None
        assert gate is not None
        gate.set_result(None)

    async def append(self, *args: Any, **kwargs: Any) -> None:
        """Append when it may."""
        if self.gate is not None:
            self.asked.set()
            try:
                await asyncio.shield(self.gate)
            except asyncio.CancelledError:
                if self.gate is not None:
                    await self.gate
                await super().append(*args, **kwargs)
                raise
        await super().append(*args, **kwargs)
