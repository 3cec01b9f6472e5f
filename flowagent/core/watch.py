"""Watching a run: its events, one after another, while it is under way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, TypeAlias

from flowagent.core import loops
from flowagent.core.events import Event
from flowagent.core.run import Run
from flowagent.errors import FlowAgentError

Work: TypeAlias = Callable[[Callable[[Event], None]], Coroutine[Any, Any, Run[Any]]]
"""A verb that takes a listener."""


class Watch:
    """The events of a run that is under way, for `async for`; `run` is the run, once they are over."""

    def __init__(self, work: Work) -> None:
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._work = work
        self._task: asyncio.Task[Run[Any]] | None = None

    def tell(self, event: Event) -> None:
        """Take an event from the engine."""
        self._events.put_nowait(event)

    def begin(self) -> None:
        """Start the run beside the caller."""
        self._task = asyncio.get_running_loop().create_task(self._work(self.tell))
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))

    async def leave(self) -> None:
        """Stop the run if it is still going; it stays resumable."""
        assert self._task is not None, "a watch that is left has begun"
        if not self._task.done():
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # whoever leaves does not ask how it ended, and asyncio need not complain of that

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Event]:
        while (event := await self._events.get()) is not None:
            yield event
        assert self._task is not None, "a watch that ends has begun"
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error

    @property
    def run(self) -> Run[Any]:
        """The run.

        Raises:
            FlowAgentError: it is still going, or was left early.
        """
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise FlowAgentError("the run is not over: iterate its events to the end first")
        return self._task.result()


@contextlib.asynccontextmanager
async def watched(work: Work) -> AsyncGenerator[Watch]:
    """Run something that takes a listener, and watch it."""
    watch = Watch(work)
    left = asyncio.Event()
    token = loops.interrupted.set(left)  # to leave is no cancellation: the run stays as it is, resumable
    try:
        watch.begin()
    finally:
        loops.interrupted.reset(token)
    try:
        yield watch
    finally:
        left.set()
        await watch.leave()
