"""What stays in memory: nothing of the steps that are done, little of a run that waits, nothing of one that is over.

Counted in blocks of Python's allocator after a collection. `benchmarks/memory.py` measures the same at full size.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from flowagent import END, START, Context, Graph, Run, Update
from flowagent.stores import SQLiteStore
from tests.cost.cases import NO_LIMITS, Counter, again, again_async

Body = Callable[[Counter, Context], Awaitable[Update]]

EARLY, LATE = 1000, 3000
"""Laps of a node and a router: after 2,000 steps and after 6,000."""

GROWTH: Final = 500
"""Blocks that may come and go whatever happens; if each lap left but one behind, there were 2,000 more."""

RUNS: Final = 200

LEFT: Final = 2 * RUNS
"""Blocks that may differ after as many runs; if a run stayed, there were more than a hundred for each."""

PER_RUN: Final = 165
"""Blocks of one run that waits: some 15 kB."""


def blocks() -> int:
    """How many blocks are in use, what nobody refers to left aside."""
    gc.collect()
    return sys.getallocatedblocks()


async def blocks_later() -> int:
    """The same once the loop has let go of what woke it last, which refers to all that came of it."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return blocks()


class Laps:
    """The node of a long loop, which looks twice."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.over = asyncio.Event()

    def look(self, state: Counter) -> Update:
        if state.count in {EARLY, LATE}:
            self.seen.append(blocks())
        if state.count == LATE:
            self.over.set()
        return {"count": state.count + 1}

    async def look_async(self, state: Counter) -> Update:
        return self.look(state)


async def until_over(laps: Laps, ctx: Context) -> None:
    await laps.over.wait()


async def sleeping(laps: Laps, ctx: Context) -> None:
    await ctx.sleep(1e6)


async def asking(laps: Laps, ctx: Context) -> None:
    await ctx.ask("go", "Go on?")


def test_a_long_run_keeps_nothing_of_its_steps(quick_path: Path) -> None:
    """A loop of sync nodes: after 6,000 steps it holds what it held after 2,000."""
    laps = Laps()
    graph = Graph("long", Counter)
    graph.node(laps.look, name="step")
    graph.chain(START, "step", graph.router(again))
    store = SQLiteStore(quick_path / "runs.db")
    graph.run_sync(Counter(limit=LATE + 1), store=store, run_id="r", limits=NO_LIMITS)
    asyncio.run(store.close())
    early, late = laps.seen
    assert late - early <= GROWTH


@pytest.mark.parametrize("waits", [until_over, sleeping, asking])
async def test_a_long_run_keeps_nothing_of_its_steps_while_a_branch_waits_beside_it(
    waits: Callable[[Laps, Context], Awaitable[None]], quick_path: Path
) -> None:
    """The branch waits for what the loop does at its end, sleeps, or asks: it may join what is long past."""
    laps = Laps()
    graph = Graph("long", Counter)

    @graph.node
    def split(state: Counter) -> Update:
        return {}

    @graph.node
    async def wait(state: Counter, ctx: Context) -> Update:
        await waits(laps, ctx)
        return {}

    graph.node(laps.look_async, name="step")
    graph.router(again_async, to=["step", "END"])
    graph.chain(START, split, "step", "again_async")
    graph.chain(split, wait, END)
    store = SQLiteStore(quick_path / "runs.db")
    given = Counter(limit=LATE + 1)
    call = asyncio.create_task(graph.run(given, store=store, run_id="r", limits=NO_LIMITS, durability="fast"))
    await asyncio.wait([call, asyncio.create_task(laps.over.wait())], return_when="FIRST_COMPLETED")
    call.cancel()
    await asyncio.wait([call])
    await store.close()
    early, late = laps.seen
    assert late - early <= GROWTH


def test_a_long_run_of_sync_nodes_keeps_nothing_of_its_steps_while_a_question_waits_beside_it(quick_path: Path) -> None:
    """On a loop of our own such steps are one stretch, though the history has a branch."""
    laps = Laps()
    graph = Graph("long", Counter)

    @graph.node
    def split(state: Counter) -> Update:
        return {}

    graph.node(laps.look, name="step")
    graph.gate("wait", question="Go on?", schema=bool)
    graph.chain(START, split, "step", graph.router(again))
    graph.chain(split, "wait", END)
    store = SQLiteStore(quick_path / "runs.db")
    run = graph.run_sync(Counter(limit=LATE + 1), store=store, run_id="r", limits=NO_LIMITS, durability="fast")
    asyncio.run(store.close())
    early, late = laps.seen
    assert (run.status, late - early <= GROWTH) == ("waiting", True)


class Waiting:
    """Runs of one node, all at once in one store."""

    def __init__(self, path: Path, body: Body) -> None:
        self.store = SQLiteStore(path / "runs.db")
        self.graph = Graph("waiting", Counter)
        self.graph.node(body, name="wait")
        self.graph.chain(START, "wait", END)

    def start(self, *run_ids: str) -> list[asyncio.Task[Run[Any]]]:
        return [asyncio.create_task(self.graph.run(store=self.store, run_id=run_id)) for run_id in run_ids]


async def stop(calls: list[asyncio.Task[Run[Any]]]) -> None:
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    calls.clear()


async def test_a_run_that_waits_in_flight_is_small_and_leaves_nothing(quick_path: Path) -> None:
    """Two hundred runs stand in a node that awaits something; then they are cancelled, and as many more, twice."""
    arrived = asyncio.Semaphore(0)

    async def stand(state: Counter, ctx: Context) -> Update:
        arrived.release()
        await asyncio.Event().wait()
        return {}

    waiting = Waiting(quick_path, stand)

    async def stood(name: str) -> tuple[int, int]:
        calls = waiting.start(*(f"{name}{number}" for number in range(RUNS)))
        for _ in calls:
            await arrived.acquire()
        standing = await blocks_later()
        await stop(calls)
        return standing, await blocks_later()

    # Some 13,000 blocks come and go with something of the libraries below us. What a run left would stay each time.
    rounds = [await stood(name) for name in "abc"]
    await waiting.store.close()
    held = [standing - before for (_, before), (standing, _) in itertools.pairwise(rounds)]
    kept = [left - before for (_, before), (_, left) in itertools.pairwise(rounds)]
    assert min(held) / RUNS <= PER_RUN
    assert min(kept) <= LEFT


async def test_a_run_that_waits_for_an_answer_takes_no_memory(quick_path: Path) -> None:
    """Its call is over: all there is of it is in the store."""

    async def ask(state: Counter, ctx: Context) -> Update:
        await ctx.ask("go", "Go on?")
        return {}

    waiting = Waiting(quick_path, ask)

    async def asked(name: str) -> int:
        runs = await asyncio.gather(*waiting.start(*(f"{name}{number}" for number in range(RUNS))))
        assert {run.status for run in runs} == {"waiting"}
        runs.clear()
        return await blocks_later()

    rounds = [await asked(name) for name in "abc"]
    await waiting.store.close()
    assert min(after - before for before, after in itertools.pairwise(rounds)) <= LEFT
