"""`Limited`: a model that is asked by so many at once, and so often in a minute, and no more."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from flowagent.errors import ModelError
from flowagent.models.around import Around
from flowagent.models.base import Model, ModelRequest, Reply, StreamPart
from flowagent.models.estimating import request_about

MINUTE = 60.0


class Limited(Around):
    """A model with limits; requests beyond them wait in a queue, first come, first served.

    A minute is any span of 60 seconds. A request counts for its time of start, with the requests and tokens that its
    reply reports, retries included; until then, and if it reports none, as one request and a token for each four
    characters. A request of more tokens than a minute has starts when no other counts any more. All who ask through one
    `Limited` share its limits, whatever their event loop and thread; processes do not.

    Args:
        model: who is asked.
        concurrent: how many requests may run at once; None for any number.
        per_minute: how many may start in a minute; None for any number.
        tokens_per_minute: how many tokens, read and written, they may have in a minute; None for any number.
        clock: seconds that only grow.

    Raises:
        ValueError: a limit is below 1, or none is given.

    Example:
        >>> from flowagent.models.scripted import Scripted
        >>> Limited(Scripted("hello"), concurrent=4, per_minute=60).name
        'scripted:model'
    """

    def __init__(
        self,
        model: Model,
        *,
        concurrent: int | None = None,
        per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = {"concurrent": concurrent, "per_minute": per_minute, "tokens_per_minute": tokens_per_minute}
        wrong = [f"{name}={value}" for name, value in limits.items() if value is not None and value < 1]
        if wrong:
            raise ValueError(f"Limited({', '.join(wrong)}) would let no request through; a limit is 1 or more")
        if not any(limits.values()):
            raise ValueError("Limited(model) limits nothing; give concurrent=, per_minute= or tokens_per_minute=")
        super().__init__(model)
        self._queue = _Queue(
            _Limits(concurrent or math.inf, per_minute or math.inf, tokens_per_minute or math.inf), clock
        )

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn now."""
        return self._queue.length

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer when it is this request's turn, telling parts as they come; the last one is the `Reply`."""
        async with self._queue.place(request_about(request)) as place:
            try:
                async with aclosing(self._model.stream(request)) as parts:
                    async for part in parts:
                        if isinstance(part, Reply):
                            place.counted(part.usage.requests, part.usage.tokens)
                        yield part
            except ModelError as error:
                if error.usage is not None:
                    place.counted(error.usage.requests, error.usage.tokens)
                raise


@dataclass(frozen=True, slots=True)
class _Limits:
    concurrent: float
    requests: float
    tokens: float


@dataclass(slots=True)
class _Place:
    """One request in the minute: what it counts for."""

    tokens: int
    start: float = 0.0
    requests: int = 1

    def counted(self, requests: int, tokens: int | None) -> None:
        """What the provider has reported of it."""
        self.requests = requests
        self.tokens = self.tokens if tokens is None else tokens


class _Minute:
    """What has started in the last minute, and when there is room for more. Pure: the time is given."""

    def __init__(self, limits: _Limits) -> None:
        self._limits = limits
        self._places: deque[_Place] = deque()

    def enter(self, place: _Place, now: float) -> None:
        place.start = now
        self._places.append(place)

    def wait(self, place: _Place, now: float) -> float:
        """Seconds until there is room for one more."""
        while self._places and self._places[0].start + MINUTE <= now:
            self._places.popleft()
        requests = sum(one.requests for one in self._places) + place.requests
        tokens = sum(one.tokens for one in self._places) + place.tokens
        room_at = now
        for one in self._places:
            if requests <= self._limits.requests and tokens <= self._limits.tokens:
                break
            requests -= one.requests
            tokens -= one.tokens
            room_at = one.start + MINUTE
        return max(room_at - now, 0.0)


@dataclass(slots=True, eq=False)
class _Waiter:
    """One who stands in the queue, and how it is woken in its own event loop."""

    loop: asyncio.AbstractEventLoop
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> bool:
        """Whether it is there to be woken."""
        try:
            self.loop.call_soon_threadsafe(self.woken.set)
        except RuntimeError:  # Its event loop was closed while it waited.
            return False
        return True


class _Queue:
    """Who waits, in order, and how many run. Only the first one in the queue may start."""

    def __init__(self, limits: _Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._minute = _Minute(limits)
        self._lock = threading.Lock()
        self._waiters: deque[_Waiter] = deque()
        self._running = 0

    @property
    def length(self) -> int:
        with self._lock:
            return len(self._waiters)

    @asynccontextmanager
    async def place(self, tokens: int) -> AsyncGenerator[_Place]:
        """A place for a request, waited for; it is free again at the end, whatever that is."""
        place = _Place(tokens)
        waiter = _Waiter(asyncio.get_running_loop())
        with self._lock:
            self._waiters.append(waiter)
        try:
            await self._turn(waiter, place)
        finally:
            with self._lock:
                if waiter in self._waiters:  # It was cancelled; whoever is first now may start.
                    self._waiters.remove(waiter)
                    self._wake_first()
        try:
            yield place
        finally:
            with self._lock:
                self._running -= 1
                self._wake_first()

    async def _turn(self, waiter: _Waiter, place: _Place) -> None:
        while True:
            with self._lock:
                wait = self._attempt(waiter, place)
            if wait == 0:
                return
            try:
                async with asyncio.timeout(None if math.isinf(wait) else wait):
                    await waiter.woken.wait()
            except TimeoutError:
                pass  # Time has passed, which is what it waited for.
            waiter.woken.clear()

    def _attempt(self, waiter: _Waiter, place: _Place) -> float:
        """Starts the request if it may; else the seconds to wait unless woken, which may be for ever."""
        if self._waiters[0] is not waiter or self._running >= self._limits.concurrent:
            return math.inf
        now = self._clock()
        wait = self._minute.wait(place, now)
        if wait > 0:
            return wait
        self._minute.enter(place, now)
        self._running += 1
        self._waiters.popleft()
        self._wake_first()
        return 0

    def _wake_first(self) -> None:
        while self._waiters and not self._waiters[0].wake():
            self._waiters.popleft()
