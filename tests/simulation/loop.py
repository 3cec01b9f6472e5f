"""An event loop in which nothing really waits and everything follows from a seed."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal

MOST_AT_ONCE: Final = 20_000
"""So many callbacks at one moment are too many: whole runs have a tenth of it."""

Order = Literal["asked", "shuffled"]
"""Whether callbacks that are ready run in the order in which they were asked for, as asyncio promises, or in any."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set, so that the run would wait for ever."""


class Livelock(Exception):
    """Callbacks follow each other and no time passes, so that the run would be busy for ever."""


class Crash(BaseException):
    """The simulated process dies here: nothing of it is run any more."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs what is ready in seeded order, and jumps to the next timer when nothing is.

    Args:
        chance: draws the order.
        order: see `Order`.
        clock: the time, shared with loops that come later.

    Attributes:
        steps: how many callbacks have run.
        before_step: called with that number before each of them.
    """

    def __init__(self, chance: random.Random, order: Order, clock: Clock) -> None:
        super().__init__()
        base: Any = self  # what asyncio's stubs do not tell: its queues, which its other methods fill
        self._queue: deque[Any] = base._ready
        self._timers: list[Any] = base._scheduled
        self._chance = chance
        self._order: Order = order
        self._clock = clock
        self._clock_resolution = 1e-9
        self._moment = (clock.now, 0)
        self.steps = 0
        self.before_step: Callable[[int], None] = lambda _: None

    def time(self) -> float:
        """The virtual time."""
        return self._clock.now

    def _write_to_self(self) -> None:
        """Nobody sleeps who could be woken."""

    def _run_once(self) -> None:
        """What is ready, once; see `asyncio.BaseEventLoop`."""
        if not self._queue:
            self._jump()
        self._take_due()
        self._watch()
        batch = list(self._queue)
        self._queue.clear()
        if self._order == "shuffled":
            self._chance.shuffle(batch)
        for handle in batch:
            if not handle.cancelled():
                self.before_step(self.steps)
                self.steps += 1
                handle._run()

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False
        if not timers:
            raise Deadlock("nothing is ready and no timer is set: the run would wait for ever")
        self._clock.now = max(self._clock.now, timers[0].when())

    def _watch(self) -> None:
        now, began = self._moment
        if now != self._clock.now:
            self._moment = (self._clock.now, self.steps)
        elif self.steps - began > MOST_AT_ONCE:
            raise Livelock(f"{self.steps - began} callbacks ran at one moment: the run would be busy for ever")

    def _take_due(self) -> None:
        timers = self._timers
        while timers and timers[0].when() <= self._clock.now:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            if not handle.cancelled():
                self._queue.append(handle)


class Clock:
    """The virtual time, in seconds since 1970: the past never comes again, whatever loops come and go."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def read(self) -> float:
        """The time."""
        return self.now
