"""An agent that is watched while it works: text as it comes, the tools that it calls, and what it cost.

    python -m examples.agents.streaming                              a pretty printer
    python -m examples.agents.streaming --plain                      a `match` over events, in a dozen lines
    python -m examples.agents.streaming "What is in settings.json?"

It looks into what customers attached: the tools are the files of one folder, to read and to search, and no way leads
out of it. Events are for watching and decide nothing: what counts is the result. Who stops reading early stops the run,
which can be resumed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Sequence
from typing import Final

from examples.agents.model import MODEL, real_or
from examples.triage.desk import HERE
from flowagent.agents import Agent, AgentResult
from flowagent.agents.printing import cost_line, print_stream
from flowagent.events import ModelCalled, TextDelta, ToolEnded, ToolStarted
from flowagent.models import Model, ModelRequest
from flowagent.testing import Scripted, call, calls
from flowagent.tools.builtin import Files

files = Files(HERE / "attachments")
agent = Agent(
    MODEL,
    name="analyst",
    instructions="Answer from the files alone. List the folder first, and search before you read.",
    guard_invention=True,
    tools=[files.list_files, files.search_files, files.read_file],
)
QUESTION: Final = "Why did the application of the customer crash who sent a log?"


def script() -> Model:
    """Lists, searches and reads; the answer quotes what the file really says."""

    def answer(request: ModelRequest) -> str:
        log: str = request.tool_results["read_file"]
        cause = re.findall(r"^[a-z.]+\.[A-Z]\w+: .*$", log, re.MULTILINE)[-1]
        warning = re.findall(r"WARN +\S+ +(.*)$", log, re.MULTILINE)[-1]
        return f"It ran out of its cache of images: the error is `{cause}`, and just before it warned: {warning}."

    return Scripted(
        calls("I look at what there is.", call("list_files")),
        calls("A log: I look for errors in it.", call("search_files", text="error", pattern="*.log")),
        calls("An export failed. What led to it?", call("read_file", path="crash.log")),
        answer,
        chunk=12,
    )


async def plain(question: str) -> AgentResult[str]:
    """Prints events by hand."""
    async with agent.stream(question) as events:
        async for event in events:
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case ToolStarted(tool=name, arguments=arguments):
                    print(f"\n  -> {name}({arguments})")
                case ToolEnded(tool=name, is_error=failed, text=text):
                    print(f"  <- {name}: {'error: ' if failed else ''}{text[:60]} ...")
                case ModelCalled(finish="stop"):
                    print()
                case _:
                    pass
    return events.result


async def pretty(question: str) -> AgentResult[str]:
    """The same by the printer that comes with flowagent."""
    async with agent.stream(question) as events:
        await print_stream(events)
    return events.result


def main(argv: Sequence[str] | None = None) -> int:
    """Asks, and prints what happens as it happens."""
    parser = argparse.ArgumentParser(prog="python -m examples.agents.streaming", description="An agent, watched.")
    parser.add_argument("question", nargs="?", default=QUESTION, help="the script answers the default one only")
    parser.add_argument("--plain", action="store_true", help="print events by hand")
    args = parser.parse_args(argv)
    with real_or(script()):
        result = asyncio.run((plain if args.plain else pretty)(args.question))
    print(cost_line(result.usage))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
