"""Ticket triage with a model router, over the tickets of the triage example, beside what its rules say.

    python -m examples.agents.triage                 all 28 tickets
    python -m examples.agents.triage --tickets 06 19 only these
    python -m examples.agents.triage --draw inbox.svg

`choose` makes a router of a model: its answer is held to the names of the desks, its choice is a recorded step of the
run, and what is none of the desks goes to a person. The desks are agents, with one tool: the customer list. A ticket is
text from outside: it is filled into prompts as data and never read as a template. A ticket may still talk a model into
looking up somebody else, so a reply is only a draft, which a person reads before it is sent.

inbox:   START -> [ticket, once for each file] -> END
ticket:  START -> desk (the router) -> billing | technical | sales      agents, which draft a reply
                                    -> security | closed | person       no model is asked again
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Final

from examples.agents.model import MODEL, real_or
from examples.triage import checks
from examples.triage.desk import Desk
from examples.triage.model import Message
from flowagent import END, START, Graph, ItemError, Run, State, Update
from flowagent.agents import Agent, choose
from flowagent.models import ModelRequest
from flowagent.testing import FunctionModel, Scripted, Step, call, say
from flowagent.tools import ToolContext

DESKS: Final = {
    "billing": "invoices, payments, refunds, changes of the plan or of the address",
    "technical": "printers and software that do not work",
    "sales": "questions before buying, offers, price lists",
    "security": "reports of vulnerabilities in our products",
    "closed": "nothing to answer: thanks, empty, advertisements",
}


class Ticket(State):
    """One ticket; `reply` is a draft for a person to send."""

    file: str
    text: str
    reply: str = ""


def customer(address: str, ctx: ToolContext[Desk]) -> dict[str, str]:
    """Look a sender up in the customer list.

    Args:
        address: the e-mail address that the ticket came from.
    """
    return checks.entitlement_of(address, ctx.deps.customer_list, ctx.deps.today).model_dump()


clerk = Agent(
    MODEL,
    deps=Desk,
    instructions=(
        "Draft a reply to the ticket, in the language of the ticket, in at most five sentences.",
        "Look the sender up first. Promise no date and no money.",
    ),
    guard_invention=True,
    tools=[customer],
    settings={"max_tokens": 600},
)

ticket = Graph("ticket", Ticket, deps=Desk)
ticket.router(
    choose(MODEL, name="desk", prompt="Ticket {file}:\n{text}", choices=DESKS, otherwise="person"),
    doc="Asks a model which desk a ticket is for.",
)
ticket.chain(START, "desk")
for name in ("billing", "technical", "sales"):
    ticket.node(
        clerk.replace(name=name, role=f"a clerk of the {name} desk: {DESKS[name]}"),
        prompt="Ticket {file}:\n{text}",
        into="reply",
    )
    ticket.chain(name, END)


@ticket.node
def security(t: Ticket) -> Update:
    """Wakes whoever is on call; no model writes to the one who reported it."""
    return {"reply": f"(paged the security desk about {t.file})"}


@ticket.node
def closed(t: Ticket) -> Update:
    """Needs no reply."""


@ticket.node
def person(t: Ticket) -> Update:
    """For tickets that the model would not place."""
    return {"reply": "(a person must look at this)"}


for name in ("security", "closed", "person"):
    ticket.chain(name, END)


class Inbox(State):
    """All tickets."""

    tickets: list[Ticket]
    replies: list[str | ItemError] = []


def one(t: Ticket) -> Ticket:
    """A ticket as the state that it starts with."""
    return t


inbox = Graph("inbox", Inbox, deps=Desk)
inbox.map(
    ticket,
    name="ticket",
    over="tickets",
    into="replies",
    input=one,
    output="reply",
    at_most=6,
    on_item_error="collect",  # a model that talks for ever about one ticket is no reason to leave the others
)
inbox.chain(START, "ticket", END)


# -- without a model -------------------------------------------------------------------------------------------------

CHOSEN: Final[Mapping[str, Sequence[str]]] = {
    "billing": ("01", "06", "07", "08", "10", "13", "17", "18", "22", "25"),
    "technical": ("02", "03", "04", "05", "09", "11", "12", "16", "23", "24", "26", "27"),
    "sales": ("21",),
    "security": ("19",),
    "closed": ("14", "15", "20", "28"),
}
"""Where a person put the tickets, by the numbers of their files."""


def chosen(request: ModelRequest) -> Step:
    """The desk that a person chose for the ticket in the prompt."""
    number = re.findall(r"^Ticket (\d\d)-", request.messages[0].text)[0]
    return say({"answer": next(desk for desk, numbers in CHOSEN.items() if number in numbers)})


def drafted(request: ModelRequest) -> Step:
    """First the tool, then a reply of what it found."""
    if "customer" not in request.tool_results:
        found = re.search(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", request.messages[0].text)
        return call("customer", address=found[0] if found else "unknown")
    known = request.tool_results["customer"]
    name = known["name"] or "customer"
    contract = f"Your {known['plan']} contract is {known['standing']}." if known["plan"] else "Which contract is it?"
    return f"Dear {name}, thank you for your message, we are looking into it. {contract}"


def script() -> dict[str, FunctionModel | Scripted]:
    """What takes the place of each model."""
    drafts = FunctionModel(drafted)
    return {"desk": FunctionModel(chosen), "billing": drafts, "technical": drafts, "sales": drafts}


# -- the command -----------------------------------------------------------------------------------------------------


def by_rules(message: Message) -> str:
    """Where the rules of the triage example put a ticket."""
    return "closed" if checks.kind_of(message) != "request" else checks.queue_of(message)


def desks_of(run: Run[Inbox]) -> dict[int, str]:
    """What the router chose for each ticket: its choices are steps of the run."""
    found = {re.fullmatch(r"ticket\[(\d+)\]/desk", step.task): step.to[0] for step in run.history if step.to}
    return {int(match[1]): desk for match, desk in found.items() if match}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the graph and prints a line for each ticket."""
    parser = argparse.ArgumentParser(prog="python -m examples.agents.triage", description="Tickets by a model router.")
    parser.add_argument("--tickets", nargs="+", default=[], metavar="NN", help="the numbers of the tickets")
    parser.add_argument("--draw", metavar="FILE", help="draw what happened")
    args = parser.parse_args(argv)
    desk = Desk()
    files = [file for file in desk.names() if not args.tickets or file[:2] in args.tickets]
    messages = [desk.read(file) for file in files]
    tickets = [
        Ticket(file=file, text=f"From: {message.name} <{message.address}>\n{message.text}")
        for file, message in zip(files, messages, strict=True)
    ]
    with real_or(**script()):
        run = inbox.run_sync(Inbox(tickets=tickets), deps=desk)
    desks = desks_of(run)
    for index, (file, message, reply) in enumerate(zip(files, messages, run.state.replies, strict=True)):
        rule, chosen_desk = by_rules(message), desks.get(index, "none")
        other = "" if rule == chosen_desk else f" (rules: {rule})"
        said = f"(failed: {reply.message})" if isinstance(reply, ItemError) else reply
        print(f"{file[:-4]:27} {chosen_desk + other:26} {' '.join(said.split())[:70]}")
    usage = run.usage
    print(f"{usage.requests} requests, {usage.tool_calls} calls of tools, {usage.tokens} tokens")
    if args.draw:
        run.draw().save(args.draw)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
