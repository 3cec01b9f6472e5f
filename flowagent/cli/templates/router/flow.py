"""A model as a router: messages go to the agent that they are for, and to a person if the model cannot tell.

python flow.py "The app closes whenever I export."
flowagent run flow.py:graph '{"text": "I was charged twice"}'
flowagent draw flow.py:graph -o flow.svg
"""

from __future__ import annotations

import os
import sys

from flowagent import END, START, Graph, State, Update
from flowagent.agents import Agent, choose

MODEL = os.environ.get("FLOWAGENT_MODEL", "anthropic:claude-haiku-4-5")

DESKS = {
    "billing": "invoices, payments, refunds",
    "technical": "things that do not work",
}


class Message(State):
    """A message and the draft of a reply."""

    text: str
    reply: str = ""


graph = Graph("desks", Message)
graph.router(choose(MODEL, name="desk", prompt="{text}", choices=DESKS, otherwise="person"))
graph.chain(START, "desk")

for name, what in DESKS.items():
    clerk = Agent(
        MODEL,
        name=name,
        role=f"a clerk for {what}",
        instructions="Draft a short reply in the language of the message. Promise nothing.",
    )
    graph.node(clerk, prompt="{text}", into="reply")
    graph.chain(name, END)


@graph.node
def person(message: Message) -> Update:
    """For what belongs to no desk."""
    return {"reply": "(a person must look at this)"}


graph.chain(person, END)


def main() -> None:
    """Sends one message through the graph."""
    run = graph.run_sync(Message(text=" ".join(sys.argv[1:]) or sys.stdin.read()))
    desk = next(step.to[0] for step in run.history if step.task == "desk")
    print(f"{desk}: {run.state.reply}")


if __name__ == "__main__":
    main()
