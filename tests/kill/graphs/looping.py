"""A graph that goes round: laps with an inner loop beside a branch, heavy enough for snapshots."""

from __future__ import annotations

from typing import Annotated, Literal

from flowagent import Context, Graph, State, Update, append, union
from tests.kill.effects import PADDING, Effects, Subject

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
    return Subject(graph=g, input=Essay(topic="loops"))
