"""An agent with a tool, in eight lines, on a real invoice that a customer complains about.

    python -m examples.agents.first

A plain function with types and a docstring is a tool. The model cannot name a file, only a number, so it cannot name
another file. It gets a calculator, as models cannot add.
"""

from __future__ import annotations

from examples.agents.model import MODEL, real_or
from examples.triage.desk import HERE
from flowagent.agents import Agent
from flowagent.models import Model, ModelRequest
from flowagent.testing import Scripted, call
from flowagent.tools.builtin import calculate


def invoice_lines(number: int) -> list[str]:
    """Read an invoice: its lines as CSV, the last one its total."""
    return (HERE / "attachments" / f"invoice-{number}.csv").read_text(encoding="utf-8").splitlines()


agent = Agent(MODEL, name="accountant", tools=[invoice_lines, calculate])
QUESTION = "Anna Berg says that invoice 2041 does not add up. Is she right? By how much is it wrong?"


def script() -> Model:
    """The answers of a good model; the last one is made of what the tools really returned."""

    def answer(request: ModelRequest) -> str:
        total = request.tool_results["calculate"]
        return f"She is right: the lines add up to {total:.2f}, and the total says 412.50, which is 25.00 too much."

    return Scripted(
        call("invoice_lines", number=2041), call("calculate", expression="249.00 + 50.00 + 37.50 + 51.00"), answer
    )


def main() -> int:
    """Asks, and prints the answer and the way to it."""
    with real_or(script()):
        result = agent.run_sync(QUESTION)
    print(result.output)
    print(f"\n{result.explain()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
