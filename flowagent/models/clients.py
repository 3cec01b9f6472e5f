"""One client of a provider's package for each event loop that a model is used from, opened late and closed in time."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from types import AsyncGeneratorType
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary


class Closable(Protocol):
    """What every client of a package can do."""

    async def close(self) -> Any:
        """Close its connections."""
        ...


Client = TypeVar("Client", bound=Closable)


class _Open(Generic[Client]):
    """A client that is open in an event loop, closed once by whoever comes first: the loop's end or its model's.

    An async generator holds it open. A loop closes its async generators before it ends (`asyncio.run` and
    `asyncio.Runner` see to that), and so the connections, without anybody having to remember it.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._closing = asyncio.Lock()
        self._is_closed = False
        self._holder = self._hold()

    async def hold(self) -> None:
        """Let the running loop close the client when it ends."""
        await anext(self._holder)

    async def close(self) -> None:
        """Close the client, or wait until it is closed by somebody else."""
        async with self._closing:
            if not self._is_closed:
                await self.client.close()
                self._is_closed = True
        _OPEN.discard(self)
        if isinstance(self._holder, AsyncGeneratorType) and not self._holder.ag_running:
            await self._holder.aclose()

    async def _hold(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.close()


_OPEN: Final[set[_Open[Any]]] = set()
"""All that are open. They live until they are closed, also if their model is gone.

A generator that is collected is forgotten by its loop at once, and closed in a task of which a loop that ends right
then knows nothing.
"""

_CLOSING: Final[set[asyncio.Task[None]]] = set()
"""Tasks that close clients; a loop itself holds its tasks only weakly."""


class Clients(Generic[Client]):
    """Keeps a client for each event loop; connections cannot be shared between loops.

    A client is closed when its loop ends, when `close` is called in its loop, or when this object is gone.

    Args:
        build: makes a client.
    """

    def __init__(self, build: Callable[[], Client]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, _Open[Client]] = WeakKeyDictionary()
        weakref.finalize(self, _let_go, self._open).atexit = False

    async def get(self) -> Client:
        """The client of the running loop, made when it is first asked for."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._open:
                return self._open[loop].client
            made = _Open(self._build())
            self._open[loop] = made
            _OPEN.add(made)
        await made.hold()
        return made.client

    async def close(self) -> None:
        """Close the client of the running loop, if there is one; the next request makes another."""
        with self._lock:
            made = self._open.pop(asyncio.get_running_loop(), None)
        if made is not None:
            await made.close()


def _let_go(left: Mapping[asyncio.AbstractEventLoop, _Open[Any]]) -> None:
    """Close what a model left open, each in its own loop; a loop that has ended has closed its own."""
    for loop, one in list(left.items()):
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_close_soon, loop, one)


def _close_soon(loop: asyncio.AbstractEventLoop, left: _Open[Any]) -> None:
    task = loop.create_task(left.close())
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)
