"""Agents side by side: a text is reviewed from several sides at once, and an editor sums up what was found.

python flow.py README.md
flowagent draw flow.py:graph -o flow.svg
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from flowagent import END, START, Graph, State, append
from flowagent.agents import Agent

MODEL = os.environ.get("FLOWAGENT_MODEL", "anthropic:claude-haiku-4-5")

SIDES = {
    "facts": "statements that are wrong, contradict one another or cannot be checked",
    "clarity": "sentences that a reader new to the subject cannot follow",
    "safety": "secrets, personal data, and instructions that can do harm",
}


class Finding(BaseModel):
    """Something that should be changed."""

    passage: str = Field(description="the passage, character for character")
    problem: str = Field(description="what is wrong with it, in one sentence")


class Review(State):
    """A text and what was found in it; each side adds to the findings, in the order of the sides."""

    text: str
    findings: Annotated[list[Finding], append] = []
    summary: str = ""


graph = Graph("review", Review)
for name, what in SIDES.items():
    reviewer = Agent(
        MODEL, name=name, instructions=f"Look for {what}. Report at most five, nothing else.", output=list[Finding]
    )
    graph.node(reviewer, prompt="{text}", into="findings")
    graph.chain(START, name, "editor")

editor = Agent(MODEL, name="editor", instructions="Sum up the findings for the author, the gravest first.")
graph.node(editor, prompt="{findings}", into="summary")
graph.chain("editor", END)


def main() -> None:
    """Reviews a file."""
    run = graph.run_sync(Review(text=Path(sys.argv[1]).read_text(encoding="utf-8")))
    for finding in run.state.findings:
        print(f"- {finding.passage!r}: {finding.problem}")
    print(run.state.summary)


if __name__ == "__main__":
    main()
