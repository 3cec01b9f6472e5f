"""Tools of an MCP server: a process that this one starts and talks to, and that somebody else may have written.

    python -m examples.agents.with_mcp

`keep=` says which of its tools there are for the model; the one that deletes is none of them. `prefix=` keeps the names
of two servers apart. What the server says of its tools is a promise of the server's and no more: what must not happen
is left out here, or needs `approval=True`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Final

from examples.agents.model import MODEL, real_or
from examples.triage.desk import HERE
from flowagent.agents import Agent, AgentResult
from flowagent.models import Model, ModelRequest
from flowagent.testing import FunctionModel, Step, call, calls
from flowagent.tools.mcp import MCPTools

QUESTION: Final = "Which of our enterprise customers have written, and what about?"


def desk_tools() -> MCPTools:
    """The tools of the server, which is started when they are first needed."""
    return MCPTools(
        sys.executable,
        args=["-m", "examples.agents.desk_server"],
        cwd=HERE.parents[1],
        name="desk",
        prefix="desk_",
        keep=["list_tickets", "read_ticket", "find_customer"],
    )


async def asked(question: str) -> AgentResult[str]:
    """Starts the server, asks, and stops the server."""
    async with desk_tools() as tools:
        agent = Agent(
            MODEL,
            name="analyst",
            instructions="Answer from the tools alone. Look up all senders in one go.",
            tools=[tools],
        )
        return await agent.run(question)


def script() -> Model:
    """Lists the tickets, looks all senders up side by side, and answers from what the server said."""
    seen: dict[str, list[dict[str, Any]]] = {}

    def answer(request: ModelRequest) -> Step:
        match request.tool_results:
            case {"desk_find_customer": customers}:
                found = {one["address"]: one for one in customers if one["plan"] == "enterprise"}
                lines = [
                    f"- {found[one['sender']]['company']} (ticket {one['number']}): {one['subject']}"
                    for one in seen["tickets"]
                    if one["sender"] in found
                ]
                return "\n".join(lines)
            case {"desk_list_tickets": listed}:
                seen["tickets"] = listed["result"]
                senders = dict.fromkeys(one["sender"] for one in seen["tickets"] if one["sender"])
                return calls(*(call("desk_find_customer", address=sender) for sender in senders))
            case _:
                return call("desk_list_tickets")

    return FunctionModel(answer)


def main(argv: Sequence[str] | None = None) -> int:
    """Asks, and prints the answer."""
    with real_or(script()):
        result = asyncio.run(asked(QUESTION))
    print(result.output)
    print(f"{result.usage.requests} requests, {result.usage.tool_calls} calls of the server's tools")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
