"""One client of a provider's package for each event loop that a model is used from, opened late and closed in time."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary


class Closable(Protocol):
    """What every client of a package can do."""

    async def close(self) -> Any:
        """Close its connections."""
        ...


Client = TypeVar("Client", bound=Closable)


@dataclass(frozen=True, slots=True)
class _Held(Generic[Client]):
    """A client, and the async generator that holds it open."""

    client: Client
    holder: AsyncGenerator[None]


_Loops = MutableMapping[asyncio.AbstractEventLoop, _Held[Any]]

_OPEN: Final[dict[int, AsyncGenerator[None]]] = {}
"""All holders whose client is open, by the client's `id`.

They live until their client is closed, also if their model is gone: a generator that is collected is forgotten by its
loop at once, and closed in a task of which a loop that ends right then knows nothing.
"""


class Clients(Generic[Client]):
    """Keeps a client for each event loop; connections cannot be shared between loops.

    Each is held open by an async generator. A loop closes its async generators before it ends (`asyncio.run` and
    `asyncio.Runner` see to that), and so the connections, without anybody having to remember it. When this object is
    gone, they are closed too.

    Args:
        build: makes a client.
    """

    def __init__(self, build: Callable[[], Client]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held[Client]] = WeakKeyDictionary()
        weakref.finalize(self, _let_go, self._held).atexit = False

    async def get(self) -> Client:
        """The client of the running loop, made when it is first asked for."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._held:
                return self._held[loop].client
            client = self._build()
            holder = _hold(client, loop, self._held)
            self._held[loop] = _Held(client, holder)
            _OPEN[id(client)] = holder
        await anext(holder)
        return client

    async def close(self) -> None:
        """Close the client of the running loop, if there is one; the next request makes another."""
        held = self._held.get(asyncio.get_running_loop())
        if held is not None:
            await held.holder.aclose()


async def _hold(client: Closable, loop: asyncio.AbstractEventLoop, held: _Loops) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        held.pop(loop, None)
        try:
            await client.close()
        finally:
            del _OPEN[id(client)]


def _let_go(held: _Loops) -> None:
    """Close what is still open, each in its own loop."""
    for loop, one in list(held.items()):
        if not loop.is_closed():
            loop.call_soon_threadsafe(_close_soon, loop, one.holder)


def _close_soon(loop: asyncio.AbstractEventLoop, holder: AsyncGenerator[None]) -> None:
    task = loop.create_task(holder.aclose())  # pyright: ignore[reportArgumentType] - a coroutine, whatever its stub says
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)


_CLOSING: Final[set[asyncio.Task[None]]] = set()
"""A loop itself holds its tasks only weakly."""
