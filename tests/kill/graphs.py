"""Five graphs with work that leaves a trace: what each call did outside stands in a file, a line for each."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from flowagent import Context, Goto, Graph, Send, State, Update, add, append, merge, union

LONGEST_PAUSE = 0.008
"""Before and after each line, in seconds: enough for a kill to hit anywhere, little enough for many kills."""

PADDING = "." * 5000
"""Makes the journals of some graphs heavy enough for snapshots."""


class Effects:
    """What nodes do to the world: lines `task key`, each written whole, in a file that outlives its writers.

    Args:
        path: the file.
        seed: the pauses around each line follow from it and the task, so that no two seeds have the same timing.
        longest: the longest pause.
    """

    def __init__(self, path: Path, seed: str, longest: float = LONGEST_PAUSE) -> None:
        self._path = path
        self._seed = seed
        self._longest = longest

    def work(self, ctx: Context[Effects, Any], part: str = "") -> None:
        """Do something: wait, leave a line, wait."""
        before, after = self._pauses(ctx, part)
        time.sleep(before)
        self.leave(ctx, part)
        time.sleep(after)

    async def work_beside(self, ctx: Context[Effects, Any], part: str = "") -> None:
        """`work` that lets others work meanwhile."""
        before, after = self._pauses(ctx, part)
        await asyncio.sleep(before)
        self.leave(ctx, part)
        await asyncio.sleep(after)

    def _pauses(self, ctx: Context[Effects, Any], part: str) -> tuple[float, float]:
        chance = random.Random(f"{self._seed} {ctx.task_id} {part}")
        return chance.random() * self._longest, chance.random() * self._longest

    def leave(self, ctx: Context[Effects, Any], part: str) -> None:
        """Leave the line of a call."""
        line = f"{ctx.task_id}{'#' if part else ''}{part} {ctx.key}\n".encode()
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            written = os.write(handle, line)
        finally:
            os.close(handle)
        assert written == len(line), "the disk is full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A graph to be killed.

    Args:
        graph: the graph.
        input: what it is started with.
        answers: what to answer the question of each task that asks.
    """

    graph: Graph[Any, Effects]
    input: State
    answers: Mapping[str, Any]


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
    return Subject(graph=g, input=Ticket(text="my invoice is wrong"), answers={})


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
    return Subject(graph=g, input=Plan(goal="a chair"), answers={})


# -- cycle: laps with an inner loop beside a branch, heavy enough for snapshots --------------------------------------


class Essay(State):
    topic: str
    laps: int = 0
    drafts: int = 0
    pages: Annotated[list[str], append] = []
    seen: Annotated[set[int], union] = set()


def cycle() -> Subject:
    """Three laps; in each, a draft is written over until it is good while something else goes on beside it."""
    g = Graph("cycle", Essay, deps=Effects)

    @g.node
    def head(e: Essay, ctx: Context[Effects, Essay]) -> Update:
        ctx.deps.work(ctx)
        return {"laps": e.laps + 1, "drafts": 0}

    @g.node
    async def draft(e: Essay, ctx: Context[Effects, Essay]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"drafts": e.drafts + 1, "pages": [f"{e.laps}.{e.drafts + 1}{PADDING}"]}

    @g.router
    def good(e: Essay, ctx: Context[Effects, Essay]) -> Literal["draft", "review"]:
        ctx.deps.work(ctx)
        return "review" if e.drafts > e.laps % 3 else "draft"

    @g.node
    async def side(e: Essay, ctx: Context[Effects, Essay]) -> Update:
        await ctx.deps.work_beside(ctx)
        return {"seen": {e.laps}}

    @g.node
    def review(e: Essay, ctx: Context[Effects, Essay]) -> Update:
        ctx.deps.work(ctx)
        return {"pages": [f"reviewed {len(e.pages)} pages of laps {sorted(e.seen)}"]}

    @g.router
    async def enough(e: Essay, ctx: Context[Effects, Essay]) -> Literal["head", "END"]:
        await ctx.deps.work_beside(ctx)
        return "END" if e.laps == 3 else "head"

    g.chain("START", head, draft, good)
    g.chain(head, side, review, enough)
    return Subject(graph=g, input=Essay(topic="loops"), answers={})


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
    return Subject(graph=g, input=Folder(names=["pear", "fig", "apple", "plum", "lime"]), answers={})


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


SUBJECTS = {"router": router(), "parallel": parallel(), "cycle": cycle(), "map": mapped(), "nested": nested()}
