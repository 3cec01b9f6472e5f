"""`Connection`: something that is open as long as it is wanted, and is entered and left by one task of its own.

Libraries that are built on task groups want to be left by the task that entered them. Those who use a connection come
and go, and may be cancelled; so none of them holds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Generic, TypeVar

from flowagent.errors import ToolError

T = TypeVar("T")


class Connection(Generic[T]):
    """One thing that is held open on the running event loop; make a new one when it is over.

    Args:
        enter: makes what is entered and left.
        label: what it leads to, for messages.
        timeout: seconds until it must be open.
    """

    def __init__(self, enter: Callable[[], AbstractAsyncContextManager[T]], *, label: str, timeout: float) -> None:
        self._enter = enter
        self._label = label
        self._timeout = timeout
        self._stopping = asyncio.Event()
        self._ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(_looked_at)
        self._owner = asyncio.create_task(self._own(), name=f"connection to {label}")

    @property
    def is_over(self) -> bool:
        """Whether it is closed, closing, broken or was never opened, so that it is no good any more."""
        return self._stopping.is_set() or self._owner.done()

    async def opened(self) -> T:
        """What is open, as soon as it is.

        Raises:
            ToolError: it cannot be opened.
        """
        await asyncio.wait([self._ready])  # which leaves it alone when a waiter is cancelled
        return self._ready.result()

    def stop(self) -> None:
        """Have it closed, without waiting."""
        self._stopping.set()

    async def close(self) -> None:
        """Close it and wait until it is closed. Of one that broke, or never opened, nothing more is told."""
        self.stop()
        await asyncio.wait([self._owner])

    async def _own(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._timeout):
                    opened = await stack.enter_async_context(self._enter())
                self._ready.set_result(opened)
                await self._stopping.wait()
        except ImportError as error:
            self._fail(error)
        except TimeoutError:
            self._fail(ToolError(f"{self._label} is not there: no connection within {self._timeout:g} seconds"))
        except Exception as error:  # noqa: BLE001  # whoever waits is told; of one that broke, its calls have told
            reason = _innermost(error)
            self._fail(ToolError(f"{self._label} is not there: {str(reason) or type(reason).__name__}"), error)
        finally:
            self._fail(ToolError(f"{self._label} is not there: it was closed before it was open"))

    def _fail(self, error: Exception, cause: Exception | None = None) -> None:
        if not self._ready.done():
            error.__cause__ = cause
            self._ready.set_exception(error)


def _innermost(error: Exception) -> Exception:
    """The first error of groups within groups, which say nothing themselves."""
    inner: tuple[Exception, ...] = getattr(error, "exceptions", ())
    return _innermost(inner[0]) if inner else error


def _looked_at(future: asyncio.Future[T]) -> None:
    """An error that nobody waits for any more is no error."""
    if not future.cancelled():
        future.exception()
