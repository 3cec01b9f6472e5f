"""One client of a provider's package for each event loop that a model is used from, opened late and closed in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary


class Closable(Protocol):
    """What every client of a package can do."""

    async def close(self) -> Any:
        """Close its connections."""
        ...


Client = TypeVar("Client", bound=Closable)


class Clients(Generic[Client]):
    """Keeps a client for each event loop; connections cannot be shared between loops.

    Each is held open by an async generator. A loop closes its async generators before it ends (`asyncio.run` and
    `asyncio.Runner` see to that), and so the connections, without anybody having to remember it.

    Args:
        build: makes a client.
    """

    def __init__(self, build: Callable[[], Client]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None]]] = (
            WeakKeyDictionary()
        )

    async def get(self) -> Client:
        """The client of the running loop, made when it is first asked for."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._held:
                return self._held[loop][0]
            client = self._build()
            holder = self._hold(client, loop)
            self._held[loop] = client, holder
        await anext(holder)
        return client

    async def close(self) -> None:
        """Close the client of the running loop, if there is one; the next request makes another."""
        with self._lock:
            held = self._held.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held[1].aclose()

    async def _hold(self, client: Client, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            with self._lock:
                if loop in self._held and self._held[loop][0] is client:
                    del self._held[loop]
            await client.close()
