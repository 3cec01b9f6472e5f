"""One agent with tools: answers questions about the files of a folder.

python flow.py "What is this project about?"
python flow.py --folder ~/notes "What did I decide about the invoices?"
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from flowagent.agents import Agent
from flowagent.tools.builtin import Files, calculate

MODEL = os.environ.get("FLOWAGENT_MODEL", "anthropic:claude-haiku-4-5")


def reader(folder: Path) -> Agent[str]:
    """The agent for one folder: it reads there and nowhere else, and writes nothing."""
    return Agent(
        MODEL,
        name="reader",
        instructions=(
            "Answer from the files alone; search before you read.",
            "Name the file of each statement.",
        ),
        guard_invention=True,
        tools=[Files(folder), calculate],
        at_limit="answer",
    )


def main() -> None:
    """Asks, and prints the answer and what it cost."""
    parser = argparse.ArgumentParser(description="Answers questions about the files of a folder.")
    parser.add_argument("question")
    parser.add_argument("--folder", type=Path, default=Path())
    args = parser.parse_args()
    result = reader(args.folder).run_sync(args.question)
    print(result.output)
    print(f"({result.usage.requests} requests, {result.usage.tool_calls} tool calls, {result.usage.tokens} tokens)")


if __name__ == "__main__":
    main()
