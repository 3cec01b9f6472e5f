"""One agent after another: an outline, a text that follows it, and a text that was made shorter.

python flow.py "why we move our backups to another city"
python flow.py "the same subject" --run-id backups    # goes on where it stopped
"""

from __future__ import annotations

import argparse
import os

from pydantic import BaseModel, Field

from flowagent import END, START, Graph, State
from flowagent.agents import Agent

MODEL = os.environ.get("FLOWAGENT_MODEL", "anthropic:claude-haiku-4-5")


class Outline(BaseModel):
    """What the text will say."""

    title: str
    points: list[str] = Field(min_length=2, max_length=7)


class Article(State):
    """An article on its way; each step writes one field."""

    subject: str
    outline: Outline | None = None
    draft: str = ""
    text: str = ""


planner = Agent(
    MODEL, name="planner", instructions="Plan an article for colleagues: a title and points.", output=Outline
)
writer = Agent(MODEL, name="writer", instructions="Write the article. Keep to the outline and add no facts.")
editor = Agent(MODEL, name="editor", instructions="Cut it to half its length. Keep title, facts and names.")

graph = Graph("article", Article)
graph.node(planner, prompt="Subject: {subject}", into="outline")
graph.node(writer, prompt="Subject: {subject}\nOutline:\n{outline}", into="draft")
graph.node(editor, prompt="{draft}", into="text")
graph.chain(START, "planner", "writer", "editor", END)


def main() -> None:
    """Writes an article; every step is stored, so that nothing is paid for twice."""
    parser = argparse.ArgumentParser(description="Writes an article.")
    parser.add_argument("subject")
    parser.add_argument("--run-id", help="go on with the run of this name, or begin it")
    args = parser.parse_args()
    run = graph.run_sync(Article(subject=args.subject), store="runs.db", run_id=args.run_id)
    print(run.state.text)
    print(f"(run {run.run_id}, {run.usage.requests} requests, {run.usage.tokens} tokens)")


if __name__ == "__main__":
    main()
