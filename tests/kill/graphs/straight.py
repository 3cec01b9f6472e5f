"""Graphs that do one thing after another: a sequence, and routers in a row."""

from __future__ import annotations

from typing import Annotated, Literal

from flowagent import Context, Goto, Graph, State, Update, append
from tests.kill.effects import Effects, Subject

# -- sequence: sync and async nodes one after another, with recorded steps in some of them ----------------------------


class Letter(State):
    to: str
    body: str = ""
    stamps: int = 0
    log: Annotated[list[str], append] = []


def sequence() -> Subject:
    """A letter is written, translated in recorded steps, stamped and posted."""
    g = Graph("sequence", Letter, deps=Effects)

    @g.node
    def draft(x: Letter, ctx: Context[Effects, Letter]) -> Update:
        ctx.deps.work(ctx)
        return {"body": f"dear {x.to}", "log": ["draft"]}

    def weigh(ctx: Context[Effects, Letter], page: int) -> int:
        ctx.deps.work(ctx, f"page {page}")
        return 20 * page

    @g.node
    def stamp(x: Letter, ctx: Context[Effects, Letter]) -> Update:
        grams = sum(ctx.step_sync(f"page {page}", weigh, ctx, page) for page in (1, 2))
        ctx.deps.work(ctx)
        return {"stamps": grams // 20, "log": [f"{grams} g"]}

    async def translated(ctx: Context[Effects, Letter], text: str, into: str) -> str:
        await ctx.deps.work_beside(ctx, into)
        return f"{text} ({into})"

    @g.node
    async def translate(x: Letter, ctx: Context[Effects, Letter]) -> Update:
        text = x.body
        for into in ("fr", "de"):
            text = await ctx.step(into, translated, ctx, text, into)
        return {"body": text, "log": ["translated"]}

    @g.node
    async def proof(x: Letter, ctx: Context[Effects, Letter]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"body": x.body.replace("dear", "Dear"), "log": ["read again"]}

    @g.node
    def post(x: Letter, ctx: Context[Effects, Letter]) -> Update:
        ctx.deps.work(ctx)
        return {"log": [f"posted with {x.stamps} stamps"]}

    g.chain("START", draft, stamp, translate, proof, post, "END")
    return Subject(graph=g, input=Letter(to="Ada"))


# -- router: sync and async nodes in a row, three routers and a Goto -------------------------------------------------


class Ticket(State):
    text: str
    amount: int = 0
    queue: str = ""
    log: Annotated[list[str], append] = []


def router() -> Subject:
    """A ticket is read, routed twice, and paid."""
    g = Graph("router", Ticket, deps=Effects)

    @g.node
    def read(t: Ticket, ctx: Context[Effects, Ticket]) -> Update:
        ctx.deps.work(ctx)
        return {"queue": "billing" if "invoice" in t.text else "technical", "log": ["read"]}

    @g.router
    def by_queue(t: Ticket, ctx: Context[Effects, Ticket]) -> Literal["billing", "technical"]:
        ctx.deps.work(ctx)
        return "billing" if t.queue == "billing" else "technical"

    @g.node
    async def billing(t: Ticket, ctx: Context[Effects, Ticket]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"amount": len(t.text) * 10, "log": ["billing"]}

    @g.node
    def technical(t: Ticket, ctx: Context[Effects, Ticket]) -> Update:
        ctx.deps.work(ctx)
        return {"log": ["technical"]}

    @g.router
    async def by_amount(t: Ticket, ctx: Context[Effects, Ticket]) -> Literal["escalate", "pay", "END"]:
        await ctx.deps.work_beside(ctx)
        return "escalate" if t.amount > 100 else "pay"

    @g.node
    async def escalate(t: Ticket, ctx: Context[Effects, Ticket]) -> Goto[Literal["pay", "technical"]]:
        await ctx.deps.work_beside(ctx)
        return Goto("pay", {"log": [f"escalated {t.amount}"]})

    @g.node
    def pay(t: Ticket, ctx: Context[Effects, Ticket]) -> Update:
        ctx.deps.work(ctx)
        return {"log": [f"paid {t.amount}"]}

    @g.node
    def close(t: Ticket, ctx: Context[Effects, Ticket]) -> Update:
        ctx.deps.work(ctx)
        return {"text": t.text.upper(), "log": ["closed"]}

    g.chain("START", read, by_queue)
    g.chain(billing, by_amount)
    g.chain(pay, close, "END")
    g.chain(technical, "END")
    return Subject(graph=g, input=Ticket(text="my invoice is wrong"))
