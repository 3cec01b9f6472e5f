"""A call that a person must approve: the run waits in a file, and goes on when there is an answer.

    python flow.py "Write to ann@example.org that we meet on Friday at ten." --run-id ann

The same command again goes on with the run: it asks again, or says what was done.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

from flowagent.agents import Agent, AgentResult
from flowagent.tools import Approve, Deny, ToolContext, tool

MODEL = os.environ.get("FLOWAGENT_MODEL", "anthropic:claude-haiku-4-5")
OUTBOX = Path("outbox")


@tool(approval=True, once=True)
def send_mail(to: str, subject: str, body: str, ctx: ToolContext) -> str:
    """Send an e-mail.

    Args:
        to: the address.
        subject: a few words.
        body: plain text.
    """
    message = EmailMessage()
    message["To"], message["Subject"] = to, subject
    message.set_content(body)
    OUTBOX.mkdir(exist_ok=True)
    # The key is the same whenever this call is made again: whoever really sends can refuse a second one by it.
    file = OUTBOX / f"{ctx.key.replace('/', '_')}.eml"
    file.write_bytes(bytes(message))
    return f"sent to {to}"


clerk = Agent(
    MODEL,
    name="clerk",
    instructions="Do what you are asked. Say in one sentence what was done, or why it was not.",
    tools=[send_mail],
)
graph = clerk.graph


def work(prompt: str, run_id: str, *, store: str | Path = "runs.db", ask: Callable[[str], str] = input) -> str:
    """Starts a run or goes on with it, and asks about the calls that wait.

    Raises:
        EOFError: nobody answered; the run waits in its store.
    """
    result: AgentResult[str] = clerk.run_sync(prompt, store=store, run_id=run_id)
    while result.pending:
        decisions = {
            one.call_id: Approve() if ask(f"{one.text} [y/n] ").strip().lower() == "y" else Deny("a person said no")
            for one in result.pending
        }
        result = clerk.resume_sync(result, decisions)
    return result.output


def main() -> None:
    """Does what it is asked, with approval."""
    parser = argparse.ArgumentParser(description="Does what it is asked, with approval.")
    parser.add_argument("prompt")
    parser.add_argument("--run-id", required=True, help="a name for this run")
    args = parser.parse_args()
    print(work(args.prompt, args.run_id))


if __name__ == "__main__":
    main()
