"""A team: a lead has other agents as tools, gives them tasks, and answers from what they bring.

python flow.py "Compare the two offers in this folder and recommend one."
flowagent draw flow.py:graph -o flow.svg
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flowagent import Limits
from flowagent.agents import Agent
from flowagent.tools.builtin import Files, calculate

MODEL = os.environ.get("FLOWAGENT_MODEL", "anthropic:claude-haiku-4-5")


def team(folder: Path) -> Agent[str]:
    """The lead of the team, which works on the files of one folder."""
    researcher = Agent(
        MODEL,
        name="researcher",
        description="Reads files and reports what they say, with file names. Cannot calculate.",
        instructions="Report what the files say about the task, each statement with its file.",
        guard_invention=True,
        tools=[Files(folder)],
    )
    analyst = Agent(
        MODEL,
        name="analyst",
        description="Calculates from figures that it is given. Sees no files.",
        instructions="Calculate with the tool and give each result with its formula.",
        tools=[calculate],
    )
    return Agent(
        MODEL,
        name="lead",
        role="the lead of a small team",
        instructions=(
            "Split the question into tasks and give each to the one who can do it, with all that must be known for it.",
            "Check what comes back. Ask again where it is incomplete, once.",
            "Answer from what they brought, and name the files.",
        ),
        tools=[researcher, analyst],
        limits=Limits(requests=40),
        at_limit="answer",
    )


lead = team(Path())
graph = lead.graph


def main() -> None:
    """Puts a question to the team."""
    result = lead.run_sync(" ".join(sys.argv[1:]))
    print(result.output)
    print(f"({result.usage.requests} requests of all agents, {result.usage.tokens} tokens)")


if __name__ == "__main__":
    main()
