"""The workflow: `ticket` deals with one ticket; `inbox` maps it over a folder and writes a report.

inbox:   START -> open_inbox -> [ticket, once for each file] -> write_report -> END

ticket:  START -> read_ticket -> what_to_check
             |-> set_aside -> END                                     nothing to answer
             `-> judge_urgency, look_up_customer, find_duplicate,     side by side
                 and, if there are attachments, read_attachment       once for each
                     -> decide -> what_next                           the join
                          |-> link_duplicate -> END
                          |-> page_security ------------.
                          |-> approve -> refund --------|             the gate, above the limit
                          |          `-> decline -------|
                          |-> refund -------------------|
                          `-> draft <-------------------'
                                -> check_style -> is_good -> draft    again, at most four times
                                                         `-> send -> END
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Final, Literal

from examples.triage import checks, drafting
from examples.triage.desk import Desk, work
from examples.triage.model import (
    Decision,
    Entitlement,
    Fault,
    Kind,
    Language,
    Message,
    Outcome,
    Priority,
    Queue,
    Reading,
)
from examples.triage.report import markdown
from flowagent import END, START, Context, Graph, ItemError, State, Update, append, union

MOST_DRAFTS: Final = 4


class Ticket(State):
    """What is known of one ticket, filled in as the graph goes along."""

    file: str
    message: Message = Message()
    language: Language = "en"
    kind: Kind = "request"
    attachments: list[str] = []
    readings: list[Reading | ItemError] = []
    priority: Priority = "normal"
    entitlement: Entitlement = Entitlement(standing="unknown")
    duplicate_of: str | None = None
    queue: Queue = "technical"
    customer: str = ""
    amount: Decimal | None = None
    above_limit: bool = False
    decision: Decision | None = None
    draft: str = ""
    drafts: int = 0
    faults: list[Fault] = []
    avoid: Annotated[frozenset[Fault], union] = frozenset()
    notes: Annotated[list[str], append] = []


ticket = Graph("ticket", Ticket, deps=Desk)


@ticket.node
async def read_ticket(t: Ticket, ctx: Context[Desk]) -> Update:
    """Reads the file and frees the message of headers, quotes, HTML and the other side of a chat."""
    await work(ctx)
    message = ctx.deps.read(t.file)
    return {
        "message": message,
        "language": checks.language_of(message.text),
        "kind": checks.kind_of(message),
        "attachments": list(message.attachments),
        "customer": message.name or message.address or "an unknown sender",
        "notes": list(message.repairs),
    }


@ticket.router
def what_to_check(
    t: Ticket,
) -> Literal["set_aside"] | list[Literal["judge_urgency", "look_up_customer", "find_duplicate", "read_attachment"]]:
    """Spam, thanks and empty mail are set aside; everything else is looked at from several sides at once."""
    if t.kind != "request":
        return "set_aside"
    if not t.attachments:
        return ["judge_urgency", "look_up_customer", "find_duplicate"]
    return ["judge_urgency", "look_up_customer", "find_duplicate", "read_attachment"]


@ticket.node
async def set_aside(t: Ticket, ctx: Context[Desk]) -> Update:
    """Closes what needs no reply."""
    await work(ctx)
    return {"queue": "spam" if t.kind == "spam" else "closed", "priority": "low", "notes": [t.kind]}


@ticket.node
async def judge_urgency(t: Ticket, ctx: Context[Desk]) -> Update:
    """Looks for urgent words, anger and shouting."""
    await work(ctx)
    return {"priority": checks.priority_of(t.message)}


@ticket.node
async def look_up_customer(t: Ticket, ctx: Context[Desk]) -> Update:
    """Looks the sender up in the customer list."""
    await work(ctx)
    found = checks.entitlement_of(t.message.address, ctx.deps.customer_list, ctx.deps.today)
    return {"entitlement": found, "notes": [] if found.standing == "covered" else [f"contract {found.standing}"]}


@ticket.node
async def find_duplicate(t: Ticket, ctx: Context[Desk]) -> Update:
    """Compares the ticket with those that came before it."""
    await work(ctx)
    return {"duplicate_of": checks.duplicate_among(t.message, ctx.deps.read_before(t.file))}


@ticket.map(over="attachments", into="readings", on_item_error="collect", at_most=2)
async def read_attachment(name: str, ctx: Context[Desk]) -> Reading:
    """Says what is in one attachment. One that cannot be read is an `ItemError` in its place, not the end."""
    await work(ctx)
    return Reading(name=name, summary=ctx.deps.summarise(name))


@ticket.node
async def decide(t: Ticket, ctx: Context[Desk]) -> Update:
    """Draws the conclusions: which desk, and whether money is to go back."""
    await work(ctx)
    amount = checks.refund_wanted(t.message)
    queue = "duplicates" if t.duplicate_of else checks.queue_of(t.message) if amount is None else "billing"
    return {"queue": queue, "amount": amount, "above_limit": amount is not None and amount > ctx.deps.limit}


@ticket.router
def what_next(t: Ticket) -> Literal["link_duplicate", "page_security", "approve", "refund", "draft"]:
    """A refund above the limit is put to a person; a smaller one is made."""
    if t.duplicate_of:
        return "link_duplicate"
    if t.queue == "security":
        return "page_security"
    if t.amount is None:
        return "draft"
    return "approve" if t.above_limit else "refund"


@ticket.node
async def link_duplicate(t: Ticket, ctx: Context[Desk]) -> Update:
    """Notes which ticket this one repeats; that one gets the reply."""
    await work(ctx)
    return {"notes": [f"same as {t.duplicate_of}"]}


@ticket.node
async def page_security(t: Ticket, ctx: Context[Desk]) -> Update:
    """Wakes the security desk, whatever the priority was."""
    await work(ctx)
    return {"priority": "urgent", "notes": [ctx.deps.page(t.file)]}


ticket.gate(
    "approve",
    question="Refund {amount} EUR to {customer} ({file})?",
    into="decision",
    schema=Literal["approve", "deny"],
    to={"approve": "refund", "deny": "decline"},
)


def amount_in(question: str) -> Decimal:
    """The amount that a question of the gate `approve` is about."""
    found = re.search(r"Refund ([\d.]+) EUR", question)
    assert found, f"no amount in `{question}`"
    return Decimal(found[1])


@ticket.node
async def refund(t: Ticket, ctx: Context[Desk]) -> Update:
    """Pays. The key makes it safe to do it again if the process dies before the payment is recorded."""
    await work(ctx)
    assert t.amount is not None, "what_next sends nobody here without an amount"
    ctx.deps.refund(t.amount, t.customer, ctx.key)
    return {"decision": "approve", "notes": [f"refunded {t.amount} EUR"]}


@ticket.node
async def decline(t: Ticket, ctx: Context[Desk]) -> Update:
    """Notes that a person said no."""
    await work(ctx)
    return {"notes": [f"refund of {t.amount} EUR denied"]}


@ticket.node
async def draft(t: Ticket, ctx: Context[Desk]) -> Update:
    """Writes a reply without the faults that were found in the ones before."""
    await work(ctx)
    facts = drafting.Facts(
        message=t.message,
        language=t.language,
        urgent=t.priority == "urgent",
        name_on_file=t.entitlement.name,
        readings=tuple(f"{reading.name}: {reading.summary}" for reading in read_ones(t.readings)),
        refund=t.amount,
        decision=t.decision,
    )
    return {"draft": drafting.draft_reply(facts, t.avoid), "drafts": t.drafts + 1}


@ticket.node
async def check_style(t: Ticket, ctx: Context[Desk]) -> Update:
    """Holds the draft against the style guide; the worst fault is what the next draft must avoid."""
    await work(ctx)
    faults = drafting.faults_in(t.draft, t.language)
    return {"faults": faults, "avoid": frozenset(faults[:1])}


@ticket.router(to={"again": "draft", "good": "send"})
def is_good(t: Ticket) -> Literal["again", "good"]:
    """Good enough, or no better after four drafts: then a person reads it before the customer does."""
    return "again" if t.faults and t.drafts < MOST_DRAFTS else "good"


@ticket.node
async def send(t: Ticket, ctx: Context[Desk]) -> Update:
    """Puts the reply into the outbox."""
    await work(ctx)
    ctx.deps.send(t.file, t.draft)
    return {"notes": [f"a person must read the reply: {', '.join(t.faults)}"] if t.faults else []}


ticket.chain(START, read_ticket, what_to_check)
ticket.chain(set_aside, END)
for check in (judge_urgency, look_up_customer, find_duplicate, read_attachment):
    ticket.edge(check, decide)
ticket.chain(decide, what_next)
ticket.chain(link_duplicate, END)
for step in (page_security, refund, decline):
    ticket.edge(step, draft)
ticket.chain(draft, check_style, is_good)
ticket.chain(send, END)


def read_ones(readings: Sequence[Reading | ItemError]) -> list[Reading]:
    """The attachments that could be read."""
    return [reading for reading in readings if isinstance(reading, Reading)]


class Inbox(State):
    """The whole folder."""

    files: list[str] = []
    outcomes: list[Outcome] = []
    report: str = ""


inbox = Graph("inbox", Inbox, deps=Desk)


def take_up(file: str) -> Ticket:
    """The state that a ticket starts with."""
    return Ticket(file=file)


def close(t: Ticket) -> Outcome:
    """What is left of a ticket when it is done."""
    broken = {index: reading for index, reading in enumerate(t.readings) if isinstance(reading, ItemError)}
    return Outcome(
        file=t.file,
        channel=t.message.channel,
        language=t.language,
        queue=t.queue,
        priority=t.priority,
        customer=t.customer,
        refund=t.amount,
        decision=t.decision,
        drafts=t.drafts,
        duplicate_of=t.duplicate_of,
        readings=tuple(reading.name for reading in read_ones(t.readings)),
        unreadable=tuple(t.attachments[index] for index in broken),
        notes=tuple(t.notes),
    )


@inbox.node
async def open_inbox(_: Inbox, ctx: Context[Desk]) -> Update:
    """Lists the tickets."""
    await work(ctx)
    return {"files": ctx.deps.names()}


inbox.map(ticket, name="ticket", over="files", into="outcomes", input=take_up, output=close, at_most=6)


@inbox.node
async def write_report(i: Inbox, ctx: Context[Desk]) -> Update:
    """Counts and lists what became of every ticket."""
    await work(ctx)
    return {"report": markdown(i.outcomes)}


inbox.chain(START, open_inbox, "ticket", write_report, END)
