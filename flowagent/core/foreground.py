"""Async calls that are awaited right where the engine stands, as any coroutine awaits another.

What goes on alone needs no task of the event loop: making one, and being woken by it, costs more than all else that a
step does. Such a call keeps what a task would give it, context variables of its own, and can still be called off.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from types import coroutine
from typing import Any, NamedTuple


class Waiting(NamedTuple):
    """A call that has come to where it waits first, and what it waits for."""

    work: Coroutine[Any, Any, Any]
    first: Any


def begun(call: Callable[[Any], Coroutine[Any, Any, Any]], given: Any) -> Any:
    """Call an async function: what it returns, if it need not wait for anything."""
    work = call(given)
    try:
        return Waiting(work, work.send(None))
    except StopIteration as done:
        return done.value


@coroutine
def rest_of(waiting: Waiting, context: contextvars.Context) -> Generator[Any, Any, Any]:
    """Await the rest of a call, each stretch of it in the context that it began in."""
    work, awaited = waiting
    try:
        while True:
            try:
                value = yield awaited
            except GeneratorExit:
                context.run(work.close)
                raise
            except BaseException as error:  # noqa: BLE001  # cancellation, and what it waited for may raise anything
                awaited = context.run(work.throw, error)
            else:
                awaited = context.run(work.send, value)
    except StopIteration as done:
        return done.value


@dataclass(slots=True)
class Ended:
    """How such a call ended.

    Attributes:
        returned: what it returned, if it did.
        error: what it raised, if it did.
        cut_off: whether it was cancelled, by us or by somebody else, and ended because of that.
        is_leaving: whether the caller of the run was cancelled meanwhile, and so has to be told.
    """

    returned: Any = None
    error: BaseException | None = None
    cut_off: bool = False
    is_leaving: bool = False


class Foreground:
    """The call that the engine awaits itself, if there is one.

    Cancelling the task that all this runs in cancels the call, since that is what the task waits for. Who asked for
    it is told by counting, as `asyncio.timeout` does: what we have asked for we take back when the call has ended.
    """

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._is_waiting = False
        self._asked = 0

    def call_off(self) -> None:
        """Cancel the call that is awaited, if there is one; called on the loop."""
        if self._is_waiting and not self._asked and self._task is not None:
            self._asked += 1
            self._task.cancel()

    async def rest(self, waiting: Waiting, context: contextvars.Context, beside: Awaitable[None] | None) -> Ended:
        """Await the rest of a call.

        Args:
            waiting: the call, begun.
            context: the one that it began in.
            beside: what else is going on, and has to be over when this returns.
        """
        task = self._task
        assert task is not None, "only a call that a task awaits may wait here; this is a bug in flowagent"
        before, ended = task.cancelling(), Ended()
        self._is_waiting, self._asked = True, 0
        try:
            ended.returned = await rest_of(waiting, context)
        except BaseException as error:  # noqa: BLE001  # a node may raise anything; it becomes the task's failure
            ended.error = error
        finally:
            self._is_waiting = False
        asked = task.cancelling() > before
        for _ in range(self._asked):
            task.uncancel()
        ended.cut_off = asked and isinstance(ended.error, asyncio.CancelledError)
        ended.is_leaving = task.cancelling() > before
        if beside is not None:
            await beside
        return ended
