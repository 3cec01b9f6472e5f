"""`MCPTools`: the tools of a server that speaks the Model Context Protocol, by the official package.

The package is the extra `mcp`, and is imported when tools are first loaded.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import importlib
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self, cast

from typing_extensions import Unpack

from flowagent.errors import ToolDefinitionError, ToolError
from flowagent.models.messages import Media
from flowagent.tools.connection import Connection
from flowagent.tools.context import ToolContext
from flowagent.tools.remote import reference_faults
from flowagent.tools.tool import RemoteOptions, Tool

if TYPE_CHECKING:
    import os

    from mcp import Client, MCPError
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as Declared

_MOST_PAGES: Final = 1_000
_INSTALL: Final = "MCPTools need the package `mcp`, which is not installed: pip install 'flowagent[mcp]'"
_LOST: Final = (
    "the connection was lost before it answered, so what was asked may have been done or not; "
    "the next call connects anew"
)


class MCPTools:
    """A toolset of what a server of the Model Context Protocol offers.

    Nothing is connected before the tools are loaded. One connection serves all runs on an event loop, and is held by
    one task of its own. One that breaks fails the calls that are under way, and the next call opens a new one; no call
    is ever made twice.

    Args:
        server: a URL; a command to start, which speaks over its standard input and output; a server object of the
            package, for tests; the package's own `StdioServerParameters`; or a function that makes a transport.
        args: the command's arguments.
        env: the command's further environment; it inherits only what is harmless, such as PATH.
        cwd: the command's folder.
        headers: further HTTP headers, such as `{"Authorization": "Bearer ..."}`; they are shown nowhere.
        name: what the server is called in messages; by default what can be told of it.
        prefix: put before the name of each tool, so that two servers do not clash.
        keep: which tools, by the names that the server uses: these names, or a function that says so.
        timeout: seconds that one call, or one page of the list of tools, may take.
        connect_timeout: seconds until it must be connected.
        options: of all its tools; see `ToolOptions`. A tool has the tag `mcp`, and `read-only` or `destructive` where
            the server says so, which it may say wrongly.

    Raises:
        ToolDefinitionError: the options do not go together.

    Example:
        ::

            async with MCPTools("uvx", args=["mcp-server-git"], prefix="git_", keep=["git_log", "git_diff"]) as git:
                tools = await git.load()
    """

    def __init__(
        self,
        server: str | object,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        headers: Mapping[str, str] | None = None,
        name: str = "",
        prefix: str = "",
        keep: Iterable[str] | Callable[[str], bool] | None = None,
        timeout: float = 60.0,
        connect_timeout: float = 30.0,
        **options: Unpack[RemoteOptions],
    ) -> None:
        self._name = name or _name_of(server)
        self._open = _opener(server, args, env, cwd, headers)
        self._prefix = prefix
        self._keep = keep if keep is None or callable(keep) else frozenset(keep)
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._options = options
        self._connections: dict[asyncio.AbstractEventLoop, Connection[Client]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MCPTools({self._name!r})"

    @property
    def name(self) -> str:
        """What the server is called in messages."""
        return self._name

    async def __aenter__(self) -> Self:
        """The toolset, to be closed at the end of the block."""
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close the connection."""
        await self.close()

    async def load(self) -> Sequence[Tool[..., Any]]:
        """The server's tools, in its order.

        Raises:
            ToolError: the server is not there, or does not answer.
            ToolDefinitionError: a tool that is to be kept is not there, or its declaration is wrong.
            ImportError: the package is not installed.
        """
        connection = self._connection()
        client = await connection.opened()
        try:
            declared = await self._pages(client)
        except Exception as error:
            raise ToolError(
                f"MCP server `{self._name}` does not list its tools: {self._failed(connection, error)}"
            ) from error
        return self._made(self._kept(declared))

    async def close(self) -> None:
        """Close the connection of this event loop, and have those of others closed by theirs."""
        here = asyncio.get_running_loop()
        with self._lock:
            connections, self._connections = self._connections, {}
        for loop, connection in connections.items():
            if loop is not here and not loop.is_closed():
                loop.call_soon_threadsafe(connection.stop)
        if here in connections:
            await connections[here].close()

    # -- the connection ----------------------------------------------------------------------------------------------

    def _connection(self) -> Connection[Client]:
        """The connection of this event loop; a new one if there is none, or it is broken."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for ended in [one for one in self._connections if one.is_closed()]:
                del self._connections[ended]
            connection = self._connections.get(loop)
            if connection is None or connection.is_over:
                connection = Connection(self._open, label=f"MCP server `{self._name}`", timeout=self._connect_timeout)
                self._connections[loop] = connection
        return connection

    def _failed(self, connection: Connection[Client], error: Exception) -> str:
        """What a failure is told as; a connection that is broken by it is used no more."""
        types = importlib.import_module("mcp_types")
        code = cast("MCPError", error).code if isinstance(error, importlib.import_module("mcp").MCPError) else None
        # A server that was started anew knows the session no more, which has no code of its own.
        lost = code == types.CONNECTION_CLOSED or (code == types.INVALID_REQUEST and "terminated" in str(error))
        ours = isinstance(error, (ValueError, RuntimeError, TimeoutError))  # an answer that is none, or none in time
        if lost or connection.is_over or (code is None and not ours):
            connection.stop()
            return _LOST
        if code == types.REQUEST_TIMEOUT or isinstance(error, TimeoutError):
            return f"it did not answer within {self._timeout:g} seconds"
        return str(error) or type(error).__name__

    # -- its tools ---------------------------------------------------------------------------------------------------

    async def _pages(self, client: Client) -> list[Declared]:
        found: list[Declared] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            async with asyncio.timeout(self._timeout):
                page = await client.list_tools(cursor=cursor)
            found += page.tools
            if not page.next_cursor:
                return found
            cursor = page.next_cursor
        raise ValueError(f"the list has more than {_MOST_PAGES} pages")

    def _kept(self, declared: list[Declared]) -> list[Declared]:
        if self._keep is None:
            return declared
        if callable(self._keep):
            return [one for one in declared if self._keep(one.name)]
        known = [one.name for one in declared]
        if missing := sorted(self._keep - set(known)):
            there = ", ".join(f"`{name}`" for name in known) or "none"
            faults = [f"keep= names `{name}`, and it has no such tool; it has {there}" for name in missing]
            raise ToolDefinitionError(f"MCP server `{self._name}`", faults)
        return [one for one in declared if one.name in self._keep]

    def _made(self, declared: list[Declared]) -> list[Tool[..., Any]]:
        tools: list[Tool[..., Any]] = []
        faults: list[str] = []
        for one in declared:
            faults += [f"tool `{one.name}`: {fault}" for fault in reference_faults(one.input_schema)]
            try:
                tools.append(self._tool(one))
            except ToolDefinitionError as error:
                faults += [f"tool `{one.name}`: {fault}" for fault in error.faults]
        if faults:
            faults.append("keep= leaves out what the server declares wrongly")
            raise ToolDefinitionError(f"MCP server `{self._name}`", faults)
        return tools

    def _tool(self, declared: Declared) -> Tool[..., Any]:
        options = dict(self._options)
        options["tags"] = (*self._options.get("tags", ()), *_tags(declared))
        return Tool.from_schema(
            name=f"{self._prefix}{declared.name}",
            description=declared.description or "",
            parameters=declared.input_schema,
            returns=declared.output_schema,
            call=functools.partial(self._call, declared.name),
            origin=f"MCP server `{self._name}`",
            **cast("RemoteOptions", options),
        )

    async def _call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            ctx.emit("progress", {"tool": ctx.tool, "progress": progress, "total": total, "message": message})

        connection = self._connection()
        client = await connection.opened()
        try:
            result = await client.call_tool(tool, arguments, self._timeout, tell)
        except Exception as error:
            raise ToolError(f"MCP server `{self._name}`: {self._failed(connection, error)}") from error
        return _returned(result)


# -- what comes back -------------------------------------------------------------------------------------------------


def _returned(result: CallToolResult) -> Any:
    """A result by our rule: data as it is, text as text, and media as media."""
    parts = [_part(block) for block in result.content]
    texts = [part for part in parts if isinstance(part, str)]
    if result.is_error:
        raise ToolError("\n\n".join(texts) or "the server says that the call failed, and not why")
    media = [part for part in parts if isinstance(part, Media)]
    if result.structured_content is not None:  # the text beside it says the same
        return [result.structured_content, *media] if media else result.structured_content
    if media:
        return parts
    return "\n\n".join(texts) if texts else None


def _part(block: ContentBlock) -> str | Media:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return Media(data=_bytes(block.data), media_type=block.mime_type)
        case "resource_link":
            about = [one for one in (block.title or block.name, block.description, block.mime_type) if one]
            return f"resource {block.uri} ({'; '.join(about)})"
        case "resource":
            held = block.resource
            text: str | None = getattr(held, "text", None)
            if text is not None:
                return text
            kind = held.mime_type or "application/octet-stream"
            return Media(data=_bytes(cast("Any", held).blob), media_type=kind, name=str(held.uri))


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ToolError(f"the server sent media that is no base64: {error}") from error


def _tags(declared: Declared) -> tuple[str, ...]:
    hints = declared.annotations
    if hints is None:
        return ("mcp",)
    said = {"read-only": hints.read_only_hint, "destructive": hints.destructive_hint}
    return ("mcp", *(tag for tag, holds in said.items() if holds))


# -- ways to a server ------------------------------------------------------------------------------------------------


def _is_url(server: object) -> bool:
    return isinstance(server, str) and server.lower().startswith(("http://", "https://"))


def _name_of(server: object) -> str:
    """What can be told of a server without telling a secret: a URL may hold one behind the host."""
    if isinstance(server, str):
        return server.split("?")[0].rpartition("@")[2] if _is_url(server) else server
    known = getattr(server, "name", None) or getattr(server, "command", None) or getattr(server, "__name__", None)
    return known if isinstance(known, str) else type(server).__name__


def _opener(
    server: object,
    args: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    headers: Mapping[str, str] | None,
) -> Callable[[], AbstractAsyncContextManager[Client]]:
    command = isinstance(server, str) and not _is_url(server)
    faults = [
        f"{option}= is for {what}, which {server!r:.80} is not"
        for option, given, fits, what in (
            ("args", args, command, "a command"),
            ("env", env, command, "a command"),
            ("cwd", cwd, command, "a command"),
            ("headers", headers, _is_url(server), "a URL"),
        )
        if given and not fits
    ]
    if isinstance(args, str):
        faults.append(f"args= takes a list of arguments, such as args={args.split()!r}")
    if faults:
        raise ToolDefinitionError("MCPTools", faults)

    def opened() -> AbstractAsyncContextManager[Client]:
        mcp = _package()
        if _is_url(server):
            return mcp.Client(_over_http(cast("str", server), dict(headers or {})))
        if command:
            given = {"env": dict(env)} if env is not None else {}
            return mcp.Client(_by_process(mcp.StdioServerParameters(command=server, args=list(args), cwd=cwd, **given)))
        if isinstance(server, mcp.StdioServerParameters):
            return mcp.Client(_by_process(server))
        return mcp.Client(server() if callable(server) else server)

    return opened


def _package() -> Any:
    try:
        return importlib.import_module("mcp")
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        raise ImportError(_INSTALL, name="mcp") from error


def _by_process(parameters: Any) -> Any:
    """A process and its streams. The package would have its errors written to what stderr was at the import."""
    return importlib.import_module("mcp.client.stdio").stdio_client(parameters, errlog=_errors())


def _errors() -> Any:
    """Where a process can write its errors: stderr, if it is a file; in a notebook it is none, and nothing is there."""
    streams: list[Any] = [sys.stderr, sys.__stderr__]  # either may be None
    for stream in streams:
        try:
            stream.fileno()
        except (AttributeError, OSError, ValueError):
            continue
        return stream
    return subprocess.DEVNULL


@asynccontextmanager
async def _over_http(url: str, headers: dict[str, str]) -> AsyncGenerator[Any]:
    httpx2 = importlib.import_module("httpx2")
    http = importlib.import_module("mcp.client.streamable_http")
    # As long as the package's own client waits: a server may keep a stream open. A call has its own bound.
    timeout = httpx2.Timeout(30.0, read=300.0)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as client,
        http.streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams
