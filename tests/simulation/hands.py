"""Threads that take turns with the event loop, so that one seed always gives one order.

Sync nodes run in real threads, of which exactly one is awake at a time: the loop's own, or one that the loop has
handed the turn to. A thread hands it back when it ends, sleeps, or waits for a coroutine.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.loop import Clock, SimulatedLoop

FOR_THREAD = "for a thread"
"""The name of a task that a thread waits for. It may outlive the call, as the thread may, which nothing can stop."""


class _Over(BaseException):
    """The simulation is over: whoever still waits need not go on."""


class _Hand:
    """One thread."""

    def __init__(self, job: Callable[[], None]) -> None:
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._is_over = False
        self.is_done = False
        self.thread = threading.Thread(target=self._work, args=(job,), name="simulated", daemon=True)
        self.thread.start()

    def _work(self, job: Callable[[], None]) -> None:
        self._go.acquire()
        try:
            if not self._is_over:
                job()
        except _Over:
            pass
        finally:
            self.is_done = True
            self._stopped.release()

    def go_on(self) -> None:
        """Called by the loop: the thread has the turn until it hands it back."""
        if not self.is_done:
            self._go.release()
            self._stopped.acquire()

    def wait(self) -> None:
        """Called by the thread: hand the turn back until it comes again."""
        self._stopped.release()
        self._go.acquire()
        if self._is_over:
            raise _Over

    def end(self) -> None:
        """Called when all is over."""
        self._is_over = True
        while not self.is_done:
            self.go_on()
        self.thread.join()


class _Result:
    """What `asyncio.run_coroutine_threadsafe` gives a thread."""

    def __init__(self, hand: _Hand, loop: SimulatedLoop, work: Coroutine[Any, Any, Any]) -> None:
        self._hand = hand
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work, name=FOR_THREAD)
        self._task.add_done_callback(lambda _: self._hand.go_on())

    def result(self) -> Any:
        """Wait for it."""
        try:
            while self._task is None or not self._task.done():
                self._hand.wait()
            return self._task.result()
        finally:
            if self._task is None:
                self._work.close()  # the process died before it began


class Hands:
    """Stands in for the threads of `flowagent.core.threads`, and for what such threads wait by.

    Args:
        loop: the loop to take turns with.
        clock: the time, which passes while somebody sleeps.
        chance: draws how long a thread takes to start.
    """

    def __init__(self, loop: SimulatedLoop, clock: Clock, chance: random.Random) -> None:
        self._loop = loop
        self._clock = clock
        self._chance = chance
        self._hands: dict[threading.Thread, _Hand] = {}

    def submit(self, job: Callable[[], None]) -> None:
        """Have a job done by a thread, soon."""
        self._loop.call_later(self._chance.random() * 0.002, self._begin, job)

    def _begin(self, job: Callable[[], None]) -> None:
        hand = _Hand(job)
        self._hands[hand.thread] = hand
        hand.go_on()

    def run_coroutine_threadsafe(self, work: Coroutine[Any, Any, Any], _: asyncio.AbstractEventLoop) -> _Result:
        """See `asyncio.run_coroutine_threadsafe`."""
        return _Result(self._hands[threading.current_thread()], self._loop, work)

    def sleep(self, seconds: float) -> None:
        """See `time.sleep`: the loop's own thread holds everything up, another lets the rest go on."""
        hand = self._hands.get(threading.current_thread())
        if hand is None:
            self._clock.now += seconds
            return
        self._loop.call_later(seconds, hand.go_on)
        hand.wait()

    def end(self) -> None:
        """Let no thread outlive the simulation."""
        for hand in self._hands.values():
            hand.end()
