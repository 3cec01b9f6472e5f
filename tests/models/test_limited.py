"""`Limited`: so many at once, so often in a minute, in order of arrival. Time is simulated."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowagent.core.usage import Usage
from flowagent.errors import ModelError
from flowagent.models.base import ModelRequest, Profile, Reply, StreamPart, drained
from flowagent.models.limited import Limited, _Waiter
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import Step, fail, say
from tests.models.asking import asked, said
from tests.simulation.loop import Clock, SimulatedLoop

T = TypeVar("T")


def simulated(work: Callable[[Callable[[], float]], Awaitable[T]]) -> T:
    """What the work comes to in an event loop whose time is not waited for; it gets the clock."""
    clock = Clock()
    start = clock.now

    async def run() -> T:
        return await work(lambda: clock.now - start)

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(random.Random(0), "asked", clock)) as runner:
        return runner.run(run())


class Watched:
    """Answers after some seconds, and notes when each request started and how many ran at once."""

    def __init__(self, clock: Callable[[], float], seconds: float = 1.0, usage: Usage | None = None) -> None:
        self.starts: list[tuple[float, str]] = []
        self.running = 0
        self.most = 0

        async def answer(request: ModelRequest) -> Step:
            self.running += 1
            self.most = max(self.most, self.running)
            self.starts.append((clock(), request.messages[0].text if request.messages[0].role == "user" else ""))
            try:
                await asyncio.sleep(seconds)
            finally:
                self.running -= 1
            return say("ok", usage=usage)

        self.model = FunctionModel(answer)


async def ask_all(model: Limited, count: int) -> None:
    await asyncio.gather(*(model.request(asked(f"{number:03}")) for number in range(count)))


def tokens(count: int, requests: int = 1) -> Usage:
    return Usage(requests=requests, input=count, output=0)


# -------------------------------------------------------------------------------------------------- how many at once


@pytest.mark.parametrize("most", [1, 3])
def test_so_many_run_at_once_in_order_of_arrival(most: int):
    """Never more than `concurrent` requests run, and they start in the order in which they were made."""

    async def work(clock: Callable[[], float]) -> Watched:
        watched = Watched(clock)
        await ask_all(Limited(watched.model, concurrent=most, clock=clock), 9)
        return watched

    watched = simulated(work)
    assert watched.most == most
    assert watched.starts == [(float(number // most), f"{number:03}") for number in range(9)]


def test_a_failure_frees_its_place():
    """A request that fails, and one whose stream is left alone, let the next ones go on."""

    async def work(clock: Callable[[], float]) -> str:
        model = Limited(Scripted(fail("server"), "left alone", OSError("x"), "fine"), concurrent=1, clock=clock)
        with pytest.raises(ModelError):
            await model.request(asked())
        stream = model.stream(asked())
        await anext(stream)
        await stream.aclose()
        with pytest.raises(OSError, match="x"):
            await model.request(asked())
        return (await said(model)).text

    assert simulated(work) == "fine"


def test_who_is_cancelled_in_the_queue_holds_nobody_up():
    """A cancelled request leaves the queue, wherever it stands, and one that runs frees its place."""

    async def work(clock: Callable[[], float]) -> tuple[Watched, int]:
        watched = Watched(clock, seconds=10.0)
        model = Limited(watched.model, concurrent=1, clock=clock)
        tasks = [asyncio.ensure_future(model.request(asked(f"{number:03}"))) for number in range(5)]
        await asyncio.sleep(1)
        waiting = model.waiting
        for number in (0, 1, 3):
            tasks[number].cancel()
        await asyncio.wait(tasks)
        return watched, waiting

    watched, waiting = simulated(work)
    assert waiting == 4
    assert watched.starts == [(0.0, "000"), (1.0, "002"), (11.0, "004")]


def test_a_cancellation_just_when_it_is_its_turn_wakes_the_next():
    """A request that is cancelled in the moment in which it is woken does not take the place with it."""

    async def work(clock: Callable[[], float]) -> Watched:
        watched = Watched(clock)
        model = Limited(watched.model, concurrent=1, clock=clock)
        first, second, third = (asyncio.ensure_future(model.request(asked(f"{n:03}"))) for n in range(3))
        await first
        second.cancel()
        await asyncio.wait_for(third, timeout=10)
        return watched

    assert simulated(work).starts == [(0.0, "000"), (1.0, "002")]


async def test_threads_and_event_loops_share_the_limit():
    """Requests from event loops of several threads are limited together, and all are answered."""
    lock = threading.Lock()
    running = most = 0

    async def answer(request: ModelRequest) -> Step:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        await asyncio.sleep(0.001)
        with lock:
            running -= 1
        return "ok"

    model = Limited(FunctionModel(answer), concurrent=2)

    def work() -> list[str]:
        async def ask() -> list[str]:
            replies = await asyncio.gather(*(said(model) for _ in range(10)))
            return [reply.text for reply in replies]

        return asyncio.run(ask())

    assert await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4))) == [["ok"] * 10] * 4
    assert (most, model.waiting) == (2, 0)


async def test_an_event_loop_that_died_holds_nobody_up():
    """One who waits in an event loop that was closed under it is left out when it is its turn."""
    gate = asyncio.Event()

    async def answer(request: ModelRequest) -> Step:
        await gate.wait()
        return "ok"

    model = Limited(FunctionModel(answer), concurrent=1)
    first = asyncio.ensure_future(said(model))
    await asyncio.sleep(0)
    dead = asyncio.new_event_loop()
    model._queue._waiters.append(_Waiter(dead))
    dead.close()
    last = asyncio.ensure_future(said(model))
    await asyncio.sleep(0)
    assert model.waiting == 2
    gate.set()
    assert [message.text for message in await asyncio.wait_for(asyncio.gather(first, last), 10)] == ["ok", "ok"]


# --------------------------------------------------------------------------------------------------- how many a minute


def test_so_many_start_in_a_minute():
    """The fourth request waits until the first one is a minute old, and so on."""

    async def work(clock: Callable[[], float]) -> Watched:
        watched = Watched(clock)
        model = Limited(watched.model, per_minute=3, clock=clock)
        await ask_all(model, 2)
        await asyncio.sleep(9)
        await ask_all(model, 5)
        return watched

    assert [start for start, _ in simulated(work).starts] == [0.0, 0.0, 10.0, 60.0, 60.0, 70.0, 120.0]


def test_retries_count_as_requests():
    """A reply that took three requests counts as three in its minute."""

    async def work(clock: Callable[[], float]) -> Watched:
        watched = Watched(clock, usage=tokens(1, requests=3))
        model = Limited(watched.model, per_minute=4, clock=clock)
        for _ in range(3):
            await model.request(asked())
        return watched

    assert [start for start, _ in simulated(work).starts] == [0.0, 1.0, 60.0]


def test_tokens_of_a_minute_are_those_that_were_reported():
    """A request waits until enough of the tokens that replies reported are a minute old."""

    async def work(clock: Callable[[], float]) -> Watched:
        watched = Watched(clock, usage=tokens(400))
        model = Limited(watched.model, tokens_per_minute=1_000, clock=clock)
        for _ in range(4):
            await model.request(asked())
        return watched

    assert [start for start, _ in simulated(work).starts] == [0.0, 1.0, 2.0, 60.0]


def test_tokens_of_a_failed_request_count_too():
    """A failure that reports its tokens uses up the minute's."""

    async def work(clock: Callable[[], float]) -> float:
        model = Limited(Scripted(fail("cut_off", usage=tokens(5_000)), "ok"), tokens_per_minute=1_000, clock=clock)
        with pytest.raises(ModelError):
            await model.request(asked())
        await model.request(asked())
        return clock()

    assert simulated(work) == 60.0


def test_a_request_that_is_too_large_starts_alone():
    """A request of more tokens than a minute has is not refused: it starts when nothing else counts."""

    async def work(clock: Callable[[], float]) -> Watched:
        watched = Watched(clock, usage=tokens(10))
        model = Limited(watched.model, tokens_per_minute=100, clock=clock)
        await model.request(asked())
        await model.request(asked("x" * 5_000))
        return watched

    assert [start for start, _ in simulated(work).starts] == [0.0, 60.0]


class Silent:
    """A model that reports no usage."""

    name = "silent:model"
    profile = Profile()

    async def request(self, request: ModelRequest) -> Reply:
        return await drained(self.stream(request))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        yield Reply(message=say("ok"))


def test_without_a_report_tokens_are_estimated():
    """FA-117: a model that reports no tokens is not taken to use none."""

    async def work(clock: Callable[[], float]) -> float:
        model = Limited(Silent(), tokens_per_minute=1_000, clock=clock)
        for _ in range(3):
            await model.request(asked("x" * 2_400))
        return clock()

    assert simulated(work) == 120.0


@given(
    arrivals=st.lists(st.floats(0, 50), min_size=1, max_size=25),
    seconds=st.floats(0, 90),
    concurrent=st.one_of(st.none(), st.integers(1, 4)),
    per_minute=st.integers(1, 6),
)
def test_no_minute_ever_has_more_than_its_share(
    arrivals: list[float], seconds: float, concurrent: int | None, per_minute: int
):
    """Whatever the arrivals, all are answered in order, and no span of 60 seconds has more starts than allowed."""
    arrived: list[str] = []

    async def work(clock: Callable[[], float]) -> Watched:
        watched = Watched(clock, seconds)
        model = Limited(watched.model, concurrent=concurrent, per_minute=per_minute, clock=clock)

        async def come(number: int, at: float) -> None:
            await asyncio.sleep(at)
            arrived.append(f"{number:03}")
            await model.request(asked(arrived[-1]))

        await asyncio.gather(*(come(number, at) for number, at in enumerate(sorted(arrivals))))
        return watched

    watched = simulated(work)
    starts = [start for start, _ in watched.starts]
    assert [text for _, text in watched.starts] == arrived
    assert len(arrived) == len(arrivals)
    assert watched.most <= (concurrent or len(arrivals))
    assert all(later - first >= 60 - 1e-6 for first, later in zip(starts, starts[per_minute:], strict=False))


# ---------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({}, r"limits nothing; give concurrent="),
        ({"concurrent": 0}, r"Limited\(concurrent=0\) would let no request through"),
        ({"per_minute": -1, "tokens_per_minute": 0}, r"per_minute=-1, tokens_per_minute=0"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, int], error: str):
    """No limit at all, and limits that nothing could pass, are refused with all that is wrong."""
    with pytest.raises(ValueError, match=error):
        Limited(Scripted(), **cast("Any", limits))


def test_it_is_the_model_that_it_limits():
    """Name and profile are those of the model."""
    inner = Scripted(name="a:b", profile=Profile(window=5))
    assert (Limited(inner, concurrent=1).name, Limited(inner, concurrent=1).profile) == ("a:b", inner.profile)
