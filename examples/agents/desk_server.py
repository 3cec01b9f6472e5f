"""A server of the Model Context Protocol over the tickets of the triage example; `with_mcp` starts it.

    python -m examples.agents.desk_server    speaks over its standard input and output

It is a program of its own, written with the official package alone, as any server that somebody else wrote.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel

from examples.triage import checks
from examples.triage.desk import Desk


class Listed(BaseModel):
    """A ticket in a list."""

    number: int
    sender: str
    subject: str


def server(desk: Desk) -> MCPServer:
    """The server."""
    made: MCPServer = MCPServer("desk")
    reading = ToolAnnotations(read_only_hint=True)

    @made.tool(annotations=reading)
    def list_tickets() -> list[Listed]:
        """List the tickets: number, address of the sender, subject."""
        messages = {int(file[:2]): desk.read(file) for file in desk.names()}
        return [Listed(number=number, sender=one.address, subject=one.subject) for number, one in messages.items()]

    @made.tool(annotations=reading)
    def read_ticket(number: int) -> str:
        """Read what a customer wrote."""
        found = [file for file in desk.names() if int(file[:2]) == number]
        if not found:
            raise ValueError(f"there is no ticket {number}; list_tickets tells which there are")
        return desk.read(found[0]).text

    @made.tool(annotations=reading)
    def find_customer(address: str) -> dict[str, str]:
        """Look up who has an e-mail address: name, company, plan and whether the contract is covered."""
        found: dict[str, str] = checks.entitlement_of(address, desk.customer_list, desk.today).model_dump()
        return {"address": address, **found}

    @made.tool(annotations=ToolAnnotations(destructive_hint=True))
    def delete_ticket(number: int) -> str:
        """Delete a ticket."""
        raise ValueError(f"ticket {number} stays: this server only plays")

    return made


if __name__ == "__main__":
    server(Desk()).run("stdio")
