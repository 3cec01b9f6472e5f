"""What is in flight: the attempts that go on beside the engine, each a task of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator
from typing import Any, Generic, TypeVar

from flowagent.core.loops import variables_beside
from flowagent.core.scope import Task

T = TypeVar("T")


class Flights(Generic[T]):
    """The attempts in flight, those that have landed, and the engine that waits until one does.

    All of it happens on one loop, and so in turn. Most runs that there are at one time wait for something: what they do
    not need meanwhile is not there.
    """

    __slots__ = ("_called_off", "_flying", "_landed", "_wake")

    def __init__(self) -> None:
        self._flying: dict[Task, asyncio.Task[T]] = {}
        self._called_off: set[Task] | None = None
        self._landed: deque[tuple[Task, asyncio.Task[T]]] | None = None
        self._wake: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        """Whether there are any that have not been settled."""
        return bool(self._flying)

    def start(self, task: Task, work: Coroutine[Any, Any, T]) -> None:
        """Let an attempt go on by itself."""
        flight = asyncio.get_running_loop().create_task(work, context=variables_beside())
        self._flying[task] = flight
        flight.add_done_callback(lambda landed: self._land(task, landed))

    def _land(self, task: Task, flight: asyncio.Task[T]) -> None:
        if self._landed is None:
            self._landed = deque()
        self._landed.append((task, flight))
        self.wake()

    def wake(self) -> None:
        """Let who waits for a landing look around, though there may be none."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def landing(self, seconds: float | None) -> None:
        """Wait until something has landed, or somebody calls `wake`.

        Args:
            seconds: for how long at most; None for as long as it takes.

        Raises:
            TimeoutError: it took longer.
        """
        if self._landed:
            return
        self._wake = asyncio.get_running_loop().create_future()
        try:
            if seconds is None:
                await self._wake  # a timer costs as much as all else here
            else:
                async with asyncio.timeout(seconds):
                    await self._wake
        finally:
            self._wake = None

    def landed(self) -> Iterator[tuple[Task, asyncio.Task[T]]]:
        """What has landed and is to be settled, in that order; each is given once."""
        while self._landed:
            task, flight = self._landed.popleft()
            self._flying.pop(task, None)
            if self._called_off is not None:
                self._called_off.discard(task)
            yield task, flight
        self._landed = None

    def call_off(self, *, again: bool) -> None:
        """Cancel what is in flight; what is being called off already only if it is to be done `again`."""
        before = self._called_off or set()
        self._called_off = {*before, *self._flying}
        for task, flight in self._flying.items():
            if again or task not in before:
                flight.cancel()

    def is_calling_off(self, task: Task) -> bool:
        """Whether an attempt is being cancelled by us."""
        return self._called_off is not None and task in self._called_off

    async def all_landed(self) -> None:
        """Wait until nothing is in flight."""
        if self._flying:
            await asyncio.wait(list(self._flying.values()))
            await asyncio.sleep(0)  # the callbacks of what has landed run before this returns
