"""Async calls that are awaited right where the engine stands, as any coroutine awaits another.

What goes on alone needs no task of the event loop: to make one, and to be woken by it, costs more than all else that a
step does. Such a call keeps what a task would give it, context variables of its own, and can still be called off.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, NamedTuple


class Waiting(NamedTuple):
    """A call that has come to where it first waits, and what it waits for."""

    work: Coroutine[Any, Any, Any]
    first: Any


def begun(call: Callable[[Any], Coroutine[Any, Any, Any]], given: Any) -> Any:
    """Call an async function: what it returns, if it need not wait for anything, else a `Waiting`."""
    work = call(given)
    try:
        return Waiting(work, work.send(None))
    except StopIteration as done:
        return done.value


@coroutine
def _rest_of(waiting: Waiting, context: contextvars.Context) -> Generator[Any, Any, Any]:
    """Await the rest of a call, each stretch of it in the context that it began in."""
    work, awaited = waiting
    try:
        while True:
            try:
                value = yield awaited
            except GeneratorExit:
                context.run(work.close)
                raise
            except BaseException as error:  # noqa: BLE001  # cancellation, or what the thing that it waited for raised
                awaited = context.run(work.throw, error)
            else:
                awaited = context.run(work.send, value)
    except StopIteration as done:
        return done.value


class Foreground:
    """The call that the engine awaits itself, if there is one.

    To cancel the task that all this runs in is to cancel the call, as that is what the task waits for. Who asked for it
    is told by counting, as `asyncio.timeout` does: what we asked for is taken back when the call has ended.

    Attributes:
        is_cut_off: whether the last call was cancelled, by us or by somebody else, and ended because of that.
        is_leaving: whether somebody else cancelled the task meanwhile, and so waits for it to end.
    """

    def __init__(self) -> None:
        self.is_cut_off = False
        self.is_leaving = False
        self._task: asyncio.Task[Any] | None = None
        self._asked = 0

    def call_off(self) -> None:
        """Cancel the call that is awaited, if there is one; called on the loop."""
        if self._task is not None and not self._asked:
            self._asked += 1
            self._task.cancel()

    async def rest(self, waiting: Waiting, context: contextvars.Context) -> tuple[Any, BaseException | None]:
        """Await the rest of a call: what it returns, or what it raises."""
        self._task = task = asyncio.current_task()
        assert task is not None, "a coroutine that waits is in a task; this is a bug in flowagent"
        before, error = task.cancelling(), None
        try:
            return await _rest_of(waiting, context), None
        except BaseException as raised:  # noqa: BLE001  # a node may raise anything; it becomes the task's failure
            error = raised
            return None, raised
        finally:
            asked, self._asked, self._task = self._asked, 0, None
            self.is_cut_off = task.cancelling() > before and isinstance(error, asyncio.CancelledError)
            for _ in range(asked):
                task.uncancel()
            self.is_leaving = task.cancelling() > before
