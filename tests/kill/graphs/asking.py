"""Graphs that wait for somebody or for a time: a nested graph with gates, and questions and sleeps inside nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from flowagent import Context, Graph, State, Update, append
from tests.kill.effects import Effects, Subject

# -- nested: a graph in a graph, a gate in the loop of the inner one, another gate after it --------------------------


class Search(State):
    topic: str
    tries: int = 0
    verdict: str = ""
    hits: Annotated[list[str], append] = []


class Paper(State):
    topic: str
    signed: bool = False
    hits: Annotated[list[str], append] = []
    notes: Annotated[list[str], append] = []


def nested() -> Subject:
    """The inner graph is asked twice, as its first answer sends it back; an audit goes on beside it meanwhile."""
    inner = Graph("search", Search, deps=Effects)

    @inner.node
    async def look(s: Search, ctx: Context[Effects, Search]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"tries": s.tries + 1, "hits": [f"{s.topic} {s.tries + 1}"]}

    @inner.node
    def sift(s: Search, ctx: Context[Effects, Search]) -> Update:
        ctx.deps.work(ctx)
        return {"hits": [f"sifted {len(s.hits)}"]}

    approve = inner.gate(
        "approve",
        question="Is {tries} enough?",
        into="verdict",
        schema=Literal["yes", "no"],
        to={"yes": "wrap", "no": look},
    )

    @inner.node
    def wrap(s: Search, ctx: Context[Effects, Search]) -> Update:
        ctx.deps.work(ctx)
        return {"hits": [f"wrapped after {s.verdict}"]}

    inner.chain("START", look, sift, approve)
    inner.chain(wrap, "END")

    g = Graph("nested", Paper, deps=Effects)

    @g.node
    def prepare(p: Paper, ctx: Context[Effects, Paper]) -> Update:
        ctx.deps.work(ctx)
        return {"topic": p.topic.title()}

    g.node(inner, name="search")

    @g.node
    async def audit(p: Paper, ctx: Context[Effects, Paper]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"notes": ["audited"]}

    @g.node
    def recheck(p: Paper, ctx: Context[Effects, Paper]) -> Update:
        ctx.deps.work(ctx)
        return {"notes": ["rechecked"]}

    @g.node
    async def write(p: Paper, ctx: Context[Effects, Paper]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"notes": [f"written from {p.hits}"]}

    sign = g.gate("sign", question="Sign {topic}?", into="signed", schema=bool)

    @g.node
    def file(p: Paper, ctx: Context[Effects, Paper]) -> Update:
        ctx.deps.work(ctx)
        return {"notes": [f"filed, signed: {p.signed}"]}

    g.chain("START", prepare, "search", write, sign, file, "END")
    g.chain(prepare, audit, recheck, write)
    answers = {"search/approve@1": "no", "search/approve@2": "yes", "sign": True}
    return Subject(graph=g, input=Paper(topic="kills"), answers=answers)


# -- waiting: questions, sleeps and steps inside nodes, sync and async, beside a gate ---------------------------------


class Visit(State):
    guest: str
    diet: str = ""
    agreed: bool = False
    log: Annotated[list[str], append] = []


def waiting() -> Subject:
    """A host asks by a gate, a cook from an async node and a porter from a sync one; all of them also sleep."""
    g = Graph("waiting", Visit, deps=Effects)

    @g.node
    def invite(v: Visit, ctx: Context[Effects, Visit]) -> Update:
        ctx.deps.work(ctx)
        return {"log": [f"invited {v.guest}"]}

    agree = g.gate("agree", question="Does {guest} come?", into="agreed", schema=bool)

    @g.node
    async def host(v: Visit, ctx: Context[Effects, Visit]) -> Update:
        await ctx.deps.work_beside(ctx)
        await ctx.sleep(0.01)
        return {"log": [f"host knows: {v.agreed}"]}

    async def menu(ctx: Context[Effects, Visit], course: str) -> str:
        await ctx.deps.work_beside(ctx, course)
        return course.upper()

    @g.node
    async def cook(v: Visit, ctx: Context[Effects, Visit]) -> Update:
        courses = [await ctx.step("soup", menu, ctx, "soup")]
        diet = await ctx.ask("diet", "What is not eaten?", str)
        await ctx.sleep(0.008)
        courses.append(await ctx.step("cake", menu, ctx, "cake"))
        await ctx.deps.work_beside(ctx)
        return {"diet": diet, "log": [f"{' and '.join(courses)} without {diet}"]}

    def air(ctx: Context[Effects, Visit]) -> int:
        ctx.deps.work(ctx, "air")
        return 21

    @g.node
    def porter(v: Visit, ctx: Context[Effects, Visit]) -> Update:
        warmth = ctx.step_sync("air", air, ctx)
        ctx.sleep_sync(0.005)
        bags = ctx.ask_sync("bags", "How many bags?", int)
        ctx.deps.work(ctx)
        return {"log": [f"{bags} bags at {warmth} degrees"]}

    @g.node
    def receive(v: Visit, ctx: Context[Effects, Visit]) -> Update:
        ctx.deps.work(ctx)
        return {"log": [f"received {v.guest}, who eats no {v.diet}"]}

    g.chain("START", invite, agree, host, receive, "END")
    g.chain(invite, cook, receive)
    g.chain(invite, porter, receive)
    return Subject(graph=g, input=Visit(guest="Bob"), answers={"agree": True, "cook": "nuts", "porter": 3})
