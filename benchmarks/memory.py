"""What stays in memory: of a long run, and of each of many runs that wait. One line of JSON for each measurement.

    python benchmarks/memory.py steps --n 100000 --beside sleep      a run of so many steps, one branch waiting beside
    python benchmarks/memory.py waiting --n 10000 --in sleep         so many runs in flight at once, each waiting

`steps` looks at the process each tenth of the way. The store is a SQLite file; a run without one keeps its journal in
memory, which is then no working set but the only copy. `blocks` are objects of Python that are alive, `anon_mb` is the
memory of the process that no file backs. Of it, SQLite's cache of pages takes up to 16 MB, once for each file.

`waiting` divides what the process grew by when all runs wait. `--in end` is a run that has ended as waiting for an
answer: its call is over. `--traced` counts the bytes of Python's own objects with `tracemalloc`, which takes its time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import sys
import tempfile
import tracemalloc
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from _kit import peak_rss_mb
from flowagent import END, START, Context, Graph, Limits, Run, State, Update
from flowagent.stores import SQLiteStore

Waiting = Literal["none", "sleep", "await", "ask"]

LOOKS = 10
LONG = 1_000_000.0


class Counter(State):
    count: int = 0
    limit: int = 0
    answer: str = ""


class Watched:
    """The node that counts the laps of a run, looks at the process now and then, and lets a branch go at the end."""

    def __init__(self, laps: int) -> None:
        self.marks = {laps * part // LOOKS for part in range(1, LOOKS)} | {laps - 1}
        self.last = laps - 1
        self.over = asyncio.Event()
        self.seen: list[dict[str, float]] = []

    async def step(self, state: Counter) -> Update:
        if state.count in self.marks:
            self.seen.append({"lap": state.count, **in_memory()})
        if state.count == self.last:
            self.over.set()
        return {"count": state.count + 1}


async def again(state: Counter) -> Literal["step", "END"]:
    return "step" if state.count < state.limit else "END"


def waiter(how: Waiting, over: asyncio.Event) -> Callable[[Counter, Context], Awaitable[Update]]:
    """A node that waits in some way, and for ever unless it is told that all is over."""

    async def wait(state: Counter, ctx: Context) -> Update:
        if how == "sleep":
            await ctx.sleep(LONG)
        elif how == "ask":
            return {"answer": await ctx.ask("go", "Go on?")}
        else:
            await over.wait()
        return {}

    return wait


def long_run(watched: Watched, beside: Waiting) -> Graph[Counter]:
    """A loop, and perhaps a branch beside it that waits as long as the loop goes."""
    graph = Graph("long", Counter)
    graph.node(watched.step, name="step")
    graph.router(again, to=["step", "END"])
    if beside == "none":
        graph.chain(START, "step", again)
        return graph

    @graph.node
    async def split(state: Counter) -> Update:
        return {}

    graph.node(waiter(beside, watched.over), name="wait")
    graph.chain(START, split, "step", again)
    graph.chain(split, "wait", END)
    return graph


def in_memory() -> dict[str, float]:
    """What is alive now: blocks of Python's allocator, memory of the process, bytes that are traced."""
    gc.collect()
    now: dict[str, float] = {"blocks": sys.getallocatedblocks(), **process_mb()}
    if tracemalloc.is_tracing():
        now["traced_mb"] = round(tracemalloc.get_traced_memory()[0] / 2**20, 2)
    return now


async def settled() -> dict[str, float]:
    """The same a little later: what woke the loop last is still in its hands, with all that it refers to."""
    await asyncio.sleep(0.1)
    return in_memory()


def process_mb() -> dict[str, float]:
    """Resident memory, all of it and what no file backs; where the system does not tell, the peak."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {"peak_mb": peak_rss_mb()}
    sizes = {name: float(size.split()[0]) for name, _, size in (line.partition(":") for line in lines) if "kB" in size}
    return {"rss_mb": round(sizes["VmRSS"] / 1024, 2), "anon_mb": round(sizes["RssAnon"] / 1024, 2)}


@contextmanager
def stored() -> Generator[SQLiteStore]:
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        store = SQLiteStore(Path(folder) / "runs.db")
        yield store
        asyncio.run(store.close())


def steps(options: argparse.Namespace) -> dict[str, object]:
    """A run of so many recorded steps: half of them nodes, half routers."""

    async def go() -> list[dict[str, float]]:
        watched = Watched(options.n // 2)
        graph = long_run(watched, options.beside)
        given = Counter(limit=options.n // 2)
        call = asyncio.ensure_future(
            graph.run(given, store=store, run_id="r", limits=Limits(steps=None), durability="fast")
        )
        if options.beside == "sleep":
            await watched.over.wait()
            call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        if not call.cancelled():
            call.result()
        return watched.seen

    with stored() as store:
        return {"beside": options.beside, "looks": asyncio.run(go())}


def waiting(options: argparse.Namespace) -> dict[str, object]:
    """So many runs of one process that are in flight and wait, or have ended as waiting."""
    records = {"sleep": 2, "await": 1, "end": 0}[options.where]  # when they are stored, it waits

    async def go() -> dict[str, object]:
        graph = Graph("waiting", Counter)
        graph.node(waiter("ask" if options.where == "end" else options.where, asyncio.Event()), name="wait")
        graph.chain(START, "wait", END)

        async def start(run_ids: list[str]) -> list[asyncio.Task[Run[Counter]]]:
            calls = [asyncio.create_task(graph.run(store=store, run_id=run_id)) for run_id in run_ids]
            if options.where == "end":
                await asyncio.gather(*calls)
                return []
            # That they all stand is seen from outside, by what is stored of them.
            while len(known := await store.runs()) < len(calls) or any(info.next_seq < records for info in known):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            return calls

        calls = await start(["warm"])
        before = await settled()
        calls += await start([f"r{number}" for number in range(options.n)])
        after = await settled()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        calls.clear()
        left = await settled()
        return {"in": options.where, "each": each(before, after, options.n), "left": each(before, left, options.n)}

    with stored() as store:
        return asyncio.run(go())


def each(before: dict[str, float], after: dict[str, float], n: int) -> dict[str, float]:
    """What the process grew by, for each run: kilobytes and blocks."""
    grown = {name: after[name] - before[name] for name in before}
    return {
        name.replace("_mb", "_kb"): round(size * (1024 if name.endswith("_mb") else 1) / n, 2)
        for name, size in grown.items()
    }


def main() -> None:
    """Measure what the command line asks for and print a line."""
    parser = argparse.ArgumentParser(description="what stays in memory")
    parser.add_argument("what", choices=["steps", "waiting"])
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--beside", choices=["none", "sleep", "await", "ask"], default="none")
    parser.add_argument("--in", choices=["sleep", "await", "end"], default="sleep", dest="where")
    parser.add_argument("--traced", action="store_true")
    options = parser.parse_args()
    if options.traced:
        tracemalloc.start()
    logging.disable(logging.CRITICAL)
    measured = steps(options) if options.what == "steps" else waiting(options)
    print(json.dumps({"what": options.what, "n": options.n, **measured}))


if __name__ == "__main__":
    main()
