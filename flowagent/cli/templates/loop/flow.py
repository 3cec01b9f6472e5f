"""A writer and a critic go round: a typed verdict decides, and the number of rounds is bounded.

python flow.py "Explain to a customer why their parcel is late."
flowagent draw flow.py:graph -o flow.svg
"""

from __future__ import annotations

import os
import sys
from typing import Literal

from pydantic import BaseModel, Field

from flowagent import START, Graph, State, Update
from flowagent.agents import Agent

MODEL = os.environ.get("FLOWAGENT_MODEL", "anthropic:claude-haiku-4-5")
ROUNDS = 4


class Verdict(BaseModel):
    """What the critic thinks of a draft."""

    ok: bool = Field(description="whether it can be sent as it is")
    points: int = Field(ge=0, le=10, description="how good it is, 10 is best")
    advice: str = Field(description="what to change; empty if nothing")


class Text(State):
    """A text on its way."""

    task: str
    draft: str = ""
    verdict: Verdict = Verdict(ok=False, points=0, advice="")
    rounds: int = 0
    best: str = ""
    best_points: int = -1


writer = Agent(MODEL, name="write", instructions="Write what is asked for. Follow the advice, keep what was good.")
critic = Agent(
    MODEL,
    name="judge",
    instructions="Judge the text: is it true to the task, clear, and no longer than it must be?",
    output=Verdict,
)

graph = Graph("rounds", Text)
graph.node(writer, prompt="Task: {task}\n\nDraft:\n{draft}\n\nAdvice: {verdict.advice}", into="draft")
graph.node(critic, prompt="Task: {task}\n\nText:\n{draft}", into="verdict")


@graph.node
def count(text: Text) -> Update:
    """Counts the round and keeps the draft with the most points."""
    better = text.verdict.points >= text.best_points
    kept = {"best": text.draft, "best_points": text.verdict.points} if better else {}
    return {"rounds": text.rounds + 1, **kept}


@graph.router
def done(text: Text) -> Literal["write", "END"]:
    """Goes round until the critic is content, or the last round is over."""
    return "END" if text.verdict.ok or text.rounds >= ROUNDS else "write"


graph.chain(START, "write", "judge", count, done)


def main() -> None:
    """Writes a text and says how it ended."""
    state = graph.run_sync(Text(task=" ".join(sys.argv[1:]))).state
    print(state.best)
    print(f"({state.rounds} rounds, {state.best_points} points{'' if state.verdict.ok else ', not content'})")


if __name__ == "__main__":
    main()
