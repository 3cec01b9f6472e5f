"""A process that runs an agent against a server: for tests that kill it. Arguments: address, folder."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from flowagent.agents import Agent
from flowagent.models import AnthropicModel
from flowagent.tools import ToolContext


def main(address: str, folder: Path) -> None:
    """Run, or go on with, the run `r`; the second tool waits to be killed the first time it is called."""

    def note(name: str, ctx: ToolContext) -> None:
        with (folder / "effects").open("a", encoding="utf-8") as file:
            file.write(f"{name} {ctx.key}\n")

    def first(ctx: ToolContext) -> str:
        """Do the first thing."""
        note("first", ctx)
        return "one"

    def second(ctx: ToolContext) -> str:
        """Do the second thing."""
        is_again = (folder / "effects").read_text(encoding="utf-8").count("second") > 0
        note("second", ctx)
        while not is_again:
            time.sleep(0.01)
        return "two"

    model = AnthropicModel("claude-haiku-4-5", base_url=address, api_key="sk-test-123456")
    agent = Agent(model, name="worker", tools=[first, second])
    result = agent.run_sync("Do both things.", store=folder / "runs.db", run_id="r")
    usage = result.usage
    print(f"{result.output}|{usage.requests}|{usage.tool_calls}|{usage.input}|{usage.output}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
