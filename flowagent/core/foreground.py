"""Async calls that are awaited right where the engine stands, as any coroutine awaits another.

What goes on alone needs no task of the event loop: to make one, and to be woken by it, costs more than all else that a
step does. Such a call keeps what a task would give it, context variables of its own, and can still be called off.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType, coroutine
from typing import Any, Final, NamedTuple

_GROUPS_FORGET: Final = sys.version_info < (3, 13)
"""Whether an `asyncio.TaskGroup` does not take back that it cancelled the task that waits for it at its end.

Nobody can tell that from somebody else's cancellation later, so we take it back for it. (CPython's issue 116720.)
"""

_ASKED: Final = "_parent_cancel_requested"
"""Where such a group notes that it has cancelled its task."""


class Waiting(NamedTuple):
    """A call that has come to where it first waits, and what it waits for."""

    work: Coroutine[Any, Any, Any]
    first: Any


def begun(call: Callable[[Any], Coroutine[Any, Any, Any]], given: Any) -> Any:
    """Call an async function: what it returns, if it need not wait for anything, else a `Waiting`."""
    work: Any = call(given)
    if not isinstance(work, CoroutineType):
        work = _awaited(work)  # what is only marked as async may give anything that can be awaited
    try:
        return Waiting(work, work.send(None))  # pyright: ignore[reportUnknownMemberType]
    except StopIteration as done:
        return done.value


async def _awaited(work: Any) -> Any:
    return await work


class Foreground:
    """The call that the engine awaits itself, if there is one.

    To cancel the task that all this runs in is to cancel the call, as that is what the task waits for. Who asked for it
    is told by counting, as `asyncio.timeout` does: what we asked for is taken back when the call has ended.

    Attributes:
        is_cut_off: whether the last call was cancelled, by us or by somebody else, and ended because of that.
        leaving: what the last call was cancelled with, if somebody else cancelled the task and so waits for it to end.
            It is to be raised as it is: some who cancel know their own by its message.
    """

    def __init__(self) -> None:
        self.is_cut_off = False
        self.leaving: asyncio.CancelledError | None = None
        self._task: asyncio.Task[Any] | None = None
        self._before = 0
        self._asked = 0
        self._thrown: asyncio.CancelledError | None = None

    def enter(self) -> None:
        """Note how often the task has been asked to end by now, before any call of ours has begun."""
        task = asyncio.current_task()
        self._before = 0 if task is None else task.cancelling()

    def call_off(self) -> None:
        """Cancel the call that is awaited, if there is one; called on the loop."""
        if self._task is not None and not self._asked:
            self._asked += 1
            self._task.cancel()

    async def rest(self, waiting: Waiting, context: contextvars.Context) -> tuple[Any, BaseException | None]:
        """Await the rest of a call: what it returns, or what it raises."""
        self._task = task = asyncio.current_task()
        assert task is not None, "a coroutine that waits is in a task; this is a bug in flowagent"
        ended_so = False
        try:
            return await self._rest_of(waiting, context), None
        except BaseException as error:  # noqa: BLE001  # a node may raise anything; it becomes the task's failure
            ended_so = isinstance(error, asyncio.CancelledError)
            return None, error
        finally:
            asked, self._asked, self._task = self._asked, 0, None
            self.is_cut_off = ended_so and task.cancelling() > self._before
            for _ in range(asked):
                task.uncancel()
            is_leaving = task.cancelling() > self._before
            self.leaving = (self._thrown or asyncio.CancelledError()) if is_leaving else None
            self._thrown = None

    @coroutine
    def _rest_of(self, waiting: Waiting, context: contextvars.Context) -> Generator[Any, Any, Any]:
        """Await the rest of a call, each stretch of it in the context that it began in."""
        work, awaited = waiting
        while True:
            try:
                value = yield awaited
            except GeneratorExit:
                context.run(work.close)
                raise
            except BaseException as error:  # noqa: BLE001  # cancellation, or what the thing that it waited for raised
                step, value = work.throw, error
            else:
                step = work.send
            try:  # not while the error is being handled: whatever the call raises later has nothing to do with it
                awaited = context.run(step, value)
            except StopIteration as done:
                return done.value
            finally:
                if isinstance(value, asyncio.CancelledError):
                    self._note_thrown(value)
                del step, value  # an error refers to this frame

    def _note_thrown(self, error: asyncio.CancelledError) -> None:
        """Remember what the task was cancelled with, unless a group of tasks did it to wake it at the group's end."""
        place = error.__traceback__
        if _GROUPS_FORGET and self._task is not None and place is not None:
            frame = place.tb_frame  # the last that it came through: who has caught it
            group = frame.f_locals.get("self") if frame.f_code is asyncio.TaskGroup.__aexit__.__code__ else None
            if getattr(group, _ASKED, False):
                setattr(group, _ASKED, False)
                self._task.uncancel()
                return
        self._thrown = error
