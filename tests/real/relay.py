"""A wire with weaknesses: it hands on what a server writes in tiny pieces, or breaks in the middle of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Wire:
    """What stands between.

    Args:
        url: the address to use in place of the server's.
        handed: how many bytes were handed to clients.
    """

    url: str = ""
    handed: int = 0
    _open: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, opened: int) -> None:
        """A connection was opened (1) or has ended (-1)."""
        self._open += opened
        self._changed.set()

    async def idle(self) -> None:
        """Wait until no connection is open."""
        while self._open:
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def relay(url: str, *, piece: int = 65536, cut_after: int | None = None) -> AsyncGenerator[Wire]:
    """Stand between a client and a server.

    Args:
        url: the server.
        piece: how many bytes each packet to the client has.
        cut_after: how many bytes each connection to the client lives; None: to its end.
    """
    server = urlsplit(url)
    wire = Wire()
    open_ends: list[asyncio.StreamWriter] = []
    ways: list[asyncio.Future[tuple[int, int]]] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(server.hostname, server.port)
        open_ends.extend((writer, to_server))
        wire.count(1)
        both = asyncio.gather(
            _hand_on(reader, to_server, writer), _hand_on(from_server, writer, to_server, piece, cut_after)
        )
        ways.append(both)
        wire.handed += (await both)[1]
        wire.count(-1)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        listener.close()
        for end in open_ends:
            end.transport.abort()
        await asyncio.gather(*ways)


async def _hand_on(
    source: asyncio.StreamReader,
    target: asyncio.StreamWriter,
    other: asyncio.StreamWriter,
    piece: int = 65536,
    most: int | None = None,
) -> int:
    """Copy until the source ends, a side breaks off or `most` bytes are through; then the connection is over."""
    handed = 0
    target.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(ConnectionError):
        while handed != most and (data := await source.read(65536)):
            data = data if most is None else data[: most - handed]
            handed += len(data)
            for start in range(0, len(data), piece):
                target.write(data[start : start + piece])
                await target.drain()
                await asyncio.sleep(0)  # the client, in this same loop, reads it before the next is there
    for end in (target, other):
        end.close()
    return handed
