"""The world of one simulation: time, threads and store threads are replaced while a simulated process runs."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Generator, Sequence
from typing import Any
from unittest import mock

from flowagent.core import threads
from flowagent.core.engine import Engine
from flowagent.stores import threads as store_threads
from flowagent.stores.threads import Job
from tests.simulation.hands import Hands
from tests.simulation.loop import Clock, Order, SimulatedLoop


class StoreThreads:
    """Stands in for the threads of a SQLite store: what they do is done on the loop, some time later.

    Args:
        loop: the loop.
        chance: draws how long it takes, and how long until somebody is told.
    """

    def __init__(self, loop: SimulatedLoop, chance: random.Random) -> None:
        self._loop = loop
        self._chance = chance
        self._queues: dict[int, list[Job[Any]]] = {}

    def do(self) -> Any:
        """What takes the place of `Threads.do`."""

        async def do(threads: store_threads.Threads, job: Job[Any], *, gathers: bool = False) -> Any:
            job.expect()
            queue = self._queues.setdefault(id(threads), [])
            queue.append(job)
            if len(queue) == 1:
                self._loop.call_later(self._chance.random() * 0.004, self._serve, threads)
            return await job.outcome()

        return do

    def _serve(self, threads: store_threads.Threads) -> None:
        jobs = self._queues.pop(id(threads))
        together: Any = threads._together
        if together is not None:
            together(jobs)
        else:
            for job in jobs:
                job()
        self._loop.call_later(self._chance.random() * 0.002, self._tell, jobs)

    def _tell(self, jobs: Sequence[Job[Any]]) -> None:
        for job in jobs:
            job.tell()


@contextlib.contextmanager
def simulated(clock: Clock, chance: random.Random, order: Order) -> Generator[SimulatedLoop]:
    """A simulated process: a loop, and everything replaced that would make two of them differ.

    On leaving, whatever is still under way is dropped, as when a process dies.
    """
    loop = SimulatedLoop(chance, order, clock)
    hands = Hands(loop, clock, chance)
    defaults = Engine.__init__.__kwdefaults__
    drawn = random.getstate()
    random.seed(chance.random())  # the jitter of retries
    with contextlib.ExitStack() as stack:
        for place, name, value in (
            (threads, "_workers", hands),
            (asyncio, "run_coroutine_threadsafe", hands.run_coroutine_threadsafe),
            (time, "time", clock.read),
            (time, "monotonic", clock.read),
            (time, "perf_counter", clock.read),
            (time, "sleep", hands.sleep),
            (store_threads.Threads, "do", StoreThreads(loop, chance).do()),
        ):
            stack.enter_context(mock.patch.object(place, name, value))
        stack.enter_context(mock.patch.dict(defaults, {"clock": clock.read}))
        try:
            yield loop
        finally:
            random.setstate(drawn)
            hands.end()
            _drop(loop)


def _drop(loop: SimulatedLoop) -> None:
    """Close a loop whatever is left on it.

    What is left is unwound, which a dead process's would not be: the store that it uses must do nothing any more.
    """
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        work: Any = task.get_coro()
        for _ in range(100):
            try:
                work.close()
            except BaseException:
                continue  # it began to clean up, and awaited something
            break
    loop.close()
