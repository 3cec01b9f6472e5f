"""A real server of the Model Context Protocol: an object for tests, and a program over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel


class Weather(BaseModel):
    """A forecast."""

    city: str
    degrees: float


def made(name: str = "weather") -> MCPServer:
    """The server."""
    server: MCPServer = MCPServer(name)
    counted = {"calls": 0}

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def forecast(city: str, unit: Literal["c", "f"] = "c") -> Weather:
        """Tell tomorrow's weather."""
        return Weather(city=city, degrees=21.5 if unit == "c" else 70.7)

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def count() -> int:
        """Count the calls of this server."""
        counted["calls"] += 1
        return counted["calls"]

    @server.tool(structured_output=False)
    def say(text: str) -> str:
        """Say a text."""
        return text

    @server.tool(structured_output=False)
    def paint() -> list[TextContent | ImageContent]:
        """Paint a picture."""
        return [TextContent(type="text", text="a dot"), Image(data=b"\x89PNG", format="png").to_image_content()]

    @server.tool(structured_output=False)
    def everything() -> list[AudioContent | ResourceLink | EmbeddedResource]:
        """Return one of each other kind."""
        return [
            AudioContent(type="audio", data="AAE=", mime_type="audio/wav"),
            ResourceLink(type="resource_link", name="report", uri="file:///r.txt", description="of the year"),
            EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a.txt", text="inside")),
            EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///b.bin", blob="AAI=")),
        ]

    @server.tool(structured_output=False)
    def nothing() -> list[TextContent]:
        """Return nothing."""
        return []

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("the detail is hidden by servers")

    @server.tool()
    async def work(ctx: Context) -> str:
        """Work, and say how far it is."""
        await ctx.report_progress(1, 2, "half")
        await ctx.report_progress(2, 2, "whole")
        return "done"

    @server.tool()
    async def sleep() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    def die() -> str:
        """End the server's process in the middle of the call."""
        os._exit(3)

    @server.tool()
    def environment(name: str) -> str:
        """Tell a variable of the server's environment."""
        return os.environ.get(name, "(unset)")

    return server


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            made().run("stdio")
        case ["http", port]:
            made().run("streamable-http", port=int(port), host="127.0.0.1")
        case _:
            sys.exit("say stdio or http PORT")
