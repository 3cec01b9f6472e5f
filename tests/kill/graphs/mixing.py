"""All of it in one graph: laps, branches, a map, a nested graph with a gate, retries, sleeps and `once` nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from flowagent import Context, Graph, Retry, State, Update, add, append
from tests.kill.effects import Effects, Subject


class Check(State):
    customer: str
    verdict: str = ""
    log: Annotated[list[str], append] = []


class Order(State):
    customer: str
    goods: list[str]
    prices: list[int] = []
    laps: int = 0
    total: Annotated[int, add] = 0
    receipt: str = ""
    log: Annotated[list[str], append] = []


def checking() -> Graph[Check, Effects]:
    """The nested graph: it looks, asks, and files the answer."""
    g = Graph("checking", Check, deps=Effects)

    @g.node
    async def look(c: Check, ctx: Context[Effects, Check]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"log": [f"looked at {c.customer}"]}

    allow = g.gate("allow", question="Serve {customer}?", into="verdict", schema=Literal["yes", "no"])

    @g.node
    def keep(c: Check, ctx: Context[Effects, Check]) -> Update:
        ctx.deps.work(ctx)
        return {"log": [f"may be served: {c.verdict}"]}

    g.chain("START", look, allow, keep, "END")
    return g


def mixed() -> Subject:
    """An order goes round twice, is paid for exactly once, and announced exactly once beside that."""
    g = Graph("mixed", Order, deps=Effects)

    @g.node
    def intake(o: Order, ctx: Context[Effects, Order]) -> Update:
        ctx.deps.work(ctx)
        return {"goods": sorted(o.goods)}

    @g.map(over="goods", into="prices", at_most=2)
    async def price(goods: str, ctx: Context[Effects, Order]) -> int:
        await ctx.deps.work_beside(ctx)
        return len(goods)

    @g.node
    def lap(o: Order, ctx: Context[Effects, Order]) -> Update:
        ctx.deps.work(ctx)
        return {"laps": o.laps + 1}

    g.node(checking(), name="check", input={"customer": "customer"}, output={"log": "log"})

    @g.node
    async def cool(o: Order, ctx: Context[Effects, Order]) -> Update:
        await ctx.sleep(0.01)
        await ctx.deps.work_beside(ctx)
        return {"total": o.laps, "log": ["cooled"]}

    @g.node(retry=Retry(attempts=2, backoff=0.004, jitter=0.0))
    def reserve(o: Order, ctx: Context[Effects, Order]) -> Update:
        ctx.deps.work(ctx, f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise ConnectionError("the warehouse does not answer")
        return {"total": sum(o.prices), "log": ["reserved"]}

    @g.node
    async def gather(o: Order, ctx: Context[Effects, Order]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"log": [f"lap {o.laps}: {o.total}"]}

    @g.router
    def enough(o: Order, ctx: Context[Effects, Order]) -> Literal["lap", "settle"]:
        ctx.deps.work(ctx)
        return "settle" if o.laps == 2 else "lap"

    @g.node
    def settle(o: Order, ctx: Context[Effects, Order]) -> Update:
        ctx.deps.work(ctx)
        return {"log": ["settled"]}

    @g.node(once=True)
    async def pay(o: Order, ctx: Context[Effects, Order]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"receipt": f"paid {o.total}"}

    @g.node(once=True)
    def announce(o: Order, ctx: Context[Effects, Order]) -> Update:
        ctx.deps.work(ctx)
        return {"log": ["announced"]}

    @g.node
    def close(o: Order, ctx: Context[Effects, Order]) -> Update:
        ctx.deps.work(ctx)
        return {"log": [f"closed: {o.receipt}"]}

    g.chain("START", intake, price, lap, "check", gather, enough)
    g.chain(lap, cool, gather)
    g.chain(lap, reserve, gather)
    g.chain(settle, pay, close, "END")
    g.chain(settle, announce, close)
    return Subject(
        graph=g,
        input=Order(customer="Eve", goods=["pear", "fig", "apple"]),
        answers={"check@1/allow": "yes", "check@2/allow": "no"},
        results={"pay@2": {"receipt": "paid 27"}, "announce@2": {"log": ["announced"]}},
    )
