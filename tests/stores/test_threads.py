"""Threads that serve event loops."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import cast

import pytest

from flowagent.stores.threads import Call, Job, Threads
from tests.patience import PATIENCE


def refuse(jobs: Sequence[Job[object]]) -> None:
    raise MemoryError("no room for the batch")


def call_each(jobs: Sequence[Job[object]]) -> None:
    for job in jobs:
        job()


async def test_a_call_gives_its_value_or_its_error() -> None:
    """What a function returns or raises on a thread is what its caller gets."""
    threads = Threads("test", most=2)
    assert await threads.do(Call(lambda: threading.current_thread().name)) == "test"
    with pytest.raises(ZeroDivisionError):
        await threads.do(Call(lambda: 1 / 0))
    for thread in threads.stop():
        thread.join(PATIENCE)
        assert thread.daemon
    assert await threads.do(Call(lambda: "again")) == "again"


async def test_a_batch_that_cannot_be_done_is_told() -> None:
    """When doing several jobs at once raises, each of their callers is told, and the thread goes on."""
    threads = Threads("test", most=1, together=refuse)
    outcomes = await asyncio.gather(*(threads.do(Call(lambda: 1)) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [MemoryError] * 3
    assert len(threads._threads) == 1
    assert threads._threads[0].is_alive()


async def test_what_is_queued_is_done_before_the_end() -> None:
    """Threads that are stopped finish what is queued; what comes later is done by new ones."""
    threads = Threads("test", most=1, together=call_each)
    gate = threading.Event()
    done: list[int] = []

    def note(number: int) -> Callable[[], None]:
        return lambda: done.append(number)

    first = asyncio.ensure_future(threads.do(Call(lambda: gate.wait(PATIENCE))))
    await asyncio.sleep(0)
    tasks = [asyncio.ensure_future(threads.do(Call(note(number)))) for number in range(5)]
    await asyncio.sleep(0)
    (old,) = threads.stop()
    tasks.append(asyncio.ensure_future(threads.do(Call(note(5)))))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *tasks)
    await asyncio.to_thread(old.join, PATIENCE)
    assert not old.is_alive()
    assert sorted(done) == [0, 1, 2, 3, 4, 5]


async def test_what_a_loop_gathered_that_closed_in_its_turn_is_forgotten() -> None:
    """Nobody waits for it, and neither the loop nor its jobs are kept."""
    threads = Threads("test", most=1, together=call_each)
    called: list[str] = []

    def leave() -> weakref.ref[object]:
        loop = asyncio.new_event_loop()
        asked: list[Awaitable[None]] = []
        loop.call_soon(lambda: asked.append(threads.do(Call(lambda: called.append("lost")), gathers=True)))
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        cast("Coroutine[None, None, None]", asked[0]).close()
        return weakref.ref(loop)

    gone = await asyncio.to_thread(leave)
    await threads.do(Call(lambda: called.append("done")), gathers=True)
    gc.collect()
    assert (called, gone()) == (["done"], None)


class Large(Call[None]):
    """A call that writes more than half of what one batch may."""

    @property
    def size(self) -> int:
        """Its bytes."""
        return 600_000


async def test_what_may_gather_is_handed_over_at_the_end_of_the_turn() -> None:
    """So the thread begins with all of it; jobs of other loops and turns are not waited for."""
    sizes: list[int] = []

    def together(jobs: Sequence[Job[object]]) -> None:
        sizes.append(len(jobs))
        call_each(jobs)

    threads = Threads("test", most=1, together=together)
    for _ in range(2):
        await asyncio.gather(*(threads.do(Call(lambda: None), gathers=True) for _ in range(50)))
    assert sizes == [50, 50]


async def test_a_batch_has_a_size() -> None:
    """A batch ends at 512 jobs or a megabyte, whichever comes first."""
    sizes: list[int] = []
    gate = threading.Event()

    def together(jobs: Sequence[Job[object]]) -> None:
        gate.wait(PATIENCE)
        sizes.append(len(jobs))
        call_each(jobs)

    threads = Threads("test", most=1, together=together)
    first = asyncio.ensure_future(threads.do(Call(lambda: None)))
    await asyncio.sleep(0.01)
    small = [asyncio.ensure_future(threads.do(Call(lambda: None))) for _ in range(600)]
    await asyncio.sleep(0)
    large = [asyncio.ensure_future(threads.do(Large(lambda: None))) for _ in range(4)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *small, *large)
    assert sizes == [1, 512, 90, 2]
