"""Graphs that do several things at a time: branches that meet, and maps."""

from __future__ import annotations

from typing import Annotated, Literal

from flowagent import Context, Graph, Send, State, Update, add, append, merge
from tests.kill.effects import PADDING, Effects, Subject

# -- parallel: branches of unlike length that meet, one that ends by itself, steps and a sleep inside a node ---------


class Plan(State):
    goal: str
    price: int = 0
    choice: str = ""
    found: Annotated[list[str], append] = []
    facts: Annotated[dict[str, int], merge] = {}
    cost: Annotated[int, add] = 0


def parallel() -> Subject:
    """Four branches: one short, one of two nodes, one with recorded steps, one that is routed elsewhere."""
    g = Graph("parallel", Plan, deps=Effects)

    @g.node
    def begin(p: Plan, ctx: Context[Effects, Plan]) -> Update:
        ctx.deps.work(ctx)
        return {"found": [p.goal]}

    @g.node
    async def prices(p: Plan, ctx: Context[Effects, Plan]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"price": 7, "found": ["prices"], "cost": 1}

    @g.node
    def stock(p: Plan, ctx: Context[Effects, Plan]) -> Update:
        ctx.deps.work(ctx)
        return {"found": ["stock"], "cost": 2, "facts": {"stock": 3}}

    @g.node
    async def weigh(p: Plan, ctx: Context[Effects, Plan]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"found": [f"weighed {p.facts['stock']}"], "cost": 4}

    @g.node
    async def reviews(p: Plan, ctx: Context[Effects, Plan]) -> Update:
        stars = 0
        for shop in ("north", "south"):
            stars += await ctx.step(shop, ask_shop, ctx, shop)
            await ctx.sleep(0.005)
        await ctx.deps.work_beside(ctx)
        return {"found": ["reviews"], "cost": 8, "facts": {"stars": stars}}

    async def ask_shop(ctx: Context[Effects, Plan], shop: str) -> int:
        await ctx.deps.work_beside(ctx, shop)
        return len(shop)

    @g.router
    def maybe(p: Plan, ctx: Context[Effects, Plan]) -> Literal["news", "END"]:
        ctx.deps.work(ctx)
        return "news"

    @g.node
    async def news(p: Plan, ctx: Context[Effects, Plan]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"found": ["news"], "cost": 16}

    @g.node
    def decide(p: Plan, ctx: Context[Effects, Plan]) -> Update:
        ctx.deps.work(ctx)
        return {"choice": f"{p.price} at {p.cost} of {', '.join(p.found)}"}

    @g.node
    async def report(p: Plan, ctx: Context[Effects, Plan]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"found": [f"report on {p.choice}"]}

    g.chain("START", begin, prices, decide)
    g.chain(begin, stock, weigh, decide)
    g.chain(begin, reviews, decide)
    g.chain(begin, maybe)
    g.chain(news, "END")
    g.chain(decide, report, "END")
    return Subject(graph=g, input=Plan(goal="a chair"))


# -- map: items side by side, sync and async, then Sends -------------------------------------------------------------


class Folder(State):
    names: list[str]
    texts: list[str] = []
    sizes: list[int] = []
    grades: Annotated[dict[str, int], merge] = {}
    summary: str = ""


def mapped() -> Subject:
    """A map of async items, three at a time; one of sync items; and one made by a router."""
    g = Graph("map", Folder, deps=Effects)

    @g.node
    def collect(f: Folder, ctx: Context[Effects, Folder]) -> Update:
        ctx.deps.work(ctx)
        return {"names": sorted(f.names)}

    @g.map(over="names", into="texts", at_most=3)
    async def read(name: str, ctx: Context[Effects, Folder]) -> str:
        await ctx.deps.work_beside(ctx)
        return name * 3 + PADDING

    @g.map(over="texts", into="sizes")
    def measure(text: str, ctx: Context[Effects, Folder]) -> int:
        ctx.deps.work(ctx)
        return len(text)

    @g.router(to=["grade"])
    def hand_out(f: Folder, ctx: Context[Effects, Folder]) -> list[Send]:
        ctx.deps.work(ctx)
        return [Send("grade", name) for name in f.names[:3]]

    @g.node(item=True)
    async def grade(name: str, ctx: Context[Effects, Folder]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"grades": {name: len(name)}}

    @g.node
    def summarise(f: Folder, ctx: Context[Effects, Folder]) -> Update:
        ctx.deps.work(ctx)
        return {"summary": f"{f.sizes} {f.grades}"}

    g.chain("START", collect, read, measure, hand_out)
    g.chain(grade, summarise, "END")
    return Subject(graph=g, input=Folder(names=["pear", "fig", "apple", "plum", "lime"]))
