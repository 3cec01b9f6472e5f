"""Tools of a server that others wrote, by the Model Context Protocol over HTTP, called by models that others play."""

from __future__ import annotations

from flowagent.agents import Agent
from flowagent.models.messages import ToolMessage
from flowagent.tools.mcp import MCPTools
from tests.real.mock import MockServer
from tests.real.providers import Make, each_provider


async def test_the_tools_of_a_server_are_read(mock: MockServer) -> None:
    """Name, description and parameters are those that the server tells."""
    async with MCPTools(f"{mock.url}/mcp") as stock:
        tools = await stock.load()
    assert [(tool.name, tool.description, tool.parameters["required"]) for tool in tools] == [
        ("count", "Counts what is in stock.", ["item"])
    ]


@each_provider
async def test_a_model_calls_a_tool_of_a_server(mock: MockServer, make: Make) -> None:
    """The model's call goes to the one server and its result to the other, and the answer comes of it."""
    mock.plays({"toolCalls": [{"name": "stock_count", "arguments": {"item": "cans"}}]}, match={"hasToolResult": False})
    mock.plays({"content": "There are 42."}, match={"hasToolResult": True, "toolResultContains": "42 cans"})
    async with MCPTools(f"{mock.url}/mcp", prefix="stock_") as stock:
        result = await Agent(make(mock.url), name="clerk", tools=[stock]).run("How many cans are there?")
    results = [one for message in result.messages if isinstance(message, ToolMessage) for one in message.results]
    assert (result.output, [(one.name, one.text) for one in results]) == ("There are 42.", [("stock_count", "42 cans")])
    assert (result.usage.requests, result.usage.tool_calls) == (2, 1)
