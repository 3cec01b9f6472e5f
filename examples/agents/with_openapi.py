"""The operations of a web service as tools, read from its OpenAPI document.

    python -m examples.agents.with_openapi

The service is real and listens on this machine, which a tool may not reach unless it is allowed by name: `allow=`. Its
key is the program's: the model is not told of it, and it goes to the service alone. `keep=` leaves out the operation
that deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from examples.agents.billing_service import KEY, serving
from examples.agents.model import MODEL, real_or
from flowagent.agents import Agent
from flowagent.models import Model, ModelRequest
from flowagent.testing import FunctionModel, Step, call
from flowagent.tools.builtin import calculate
from flowagent.tools.openapi import OpenAPITools

QUESTION: Final = "Does invoice 2041 add up? If not: by how much is it wrong, and which line costs just that?"


def auditor(url: str) -> Agent[str]:
    """The agent that has the service of this URL."""
    billing = OpenAPITools(
        f"{url}/openapi.json", auth={"key": KEY}, keep=["getInvoice", "findCustomer"], allow=["127.0.0.1"]
    )
    return Agent(MODEL, name="auditor", instructions="Never add up by yourself.", tools=[billing, calculate])


def script() -> Model:
    """Gets the invoice, has its lines added up, and looks for the line that costs what is too much."""
    invoice: dict[str, Any] = {}

    def answer(request: ModelRequest) -> Step:
        match request.tool_results:
            case {"getInvoice": {"lines": lines} as got}:
                invoice.update(got)
                return call("calculate", expression=" + ".join(line["amount"] for line in lines))
            case {"calculate": added}:
                wrong = Decimal(invoice["total"]) - Decimal(str(added))
                lines = [line for line in invoice["lines"] if Decimal(line["unit_price"]) == wrong]
                return f"No: its total is {wrong} too high, which is the price of one `{lines[0]['item']}`."
            case _:
                return call("getInvoice", number=2041)

    return FunctionModel(answer)


def main(argv: Sequence[str] | None = None) -> int:
    """Starts the service, asks, and stops it."""
    with serving() as url, real_or(script()):
        result = auditor(url).run_sync(QUESTION)
    print(result.output)
    called = [one.name for message in result.messages if message.role == "assistant" for one in message.calls]
    print(f"called: {', '.join(called) or 'nothing'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
