"""One client of a provider's package for each event loop that a model is used from, opened late and closed in time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary


class Closable(Protocol):
    """What every client of a package can do."""

    async def close(self) -> Any:
        """Close its connections."""
        ...


Client = TypeVar("Client", bound=Closable)
_Held: TypeAlias = WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None]]]


class Clients(Generic[Client]):
    """Keeps a client for each event loop; connections cannot be shared between loops.

    Each is held open by an async generator. A loop closes its async generators before it ends (`asyncio.run` and
    `asyncio.Runner` see to that), and so the connections, without anybody having to remember it. When this object
    itself is gone before, the connections are closed then.

    Args:
        build: makes a client.
    """

    def __init__(self, build: Callable[[], Client]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._held: _Held[Client] = WeakKeyDictionary()
        # It keeps what is held, and nothing that is held knows this object. So when that is gone, the clients are not
        # yet, and can be closed: the collector would drop connections that are open.
        weakref.finalize(self, _let_go, self._held).atexit = False

    async def get(self) -> Client:
        """The client of the running loop, made when it is first asked for."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._held:
                return self._held[loop][0]
            client = self._build()
            holder = _holding(client, self._held, self._lock)
            self._held[loop] = client, holder
        await anext(holder)
        return client

    async def close(self) -> None:
        """Close the client of the running loop, if there is one; the next request makes another."""
        with self._lock:
            held = self._held.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held[1].aclose()


_closing: Final[set[asyncio.Task[None]]] = set()
"""A loop knows its tasks only weakly."""


async def _holding(client: Client, held: _Held[Client], lock: threading.Lock) -> AsyncGenerator[None]:
    loop = asyncio.get_running_loop()
    try:
        yield
    finally:
        with lock:
            if loop in held and held[loop][0] is client:
                del held[loop]
        await client.close()


def _let_go(held: _Held[Any]) -> None:
    """Close clients in the loops that they belong to; this may be any thread."""
    for loop, (_, holder) in [*held.items()]:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and so it has closed its generators
            loop.call_soon_threadsafe(_start_closing, holder)


def _start_closing(holder: AsyncGenerator[None]) -> None:
    async def close() -> None:
        await holder.aclose()

    task = asyncio.get_running_loop().create_task(close())
    _closing.add(task)
    task.add_done_callback(_closing.discard)
