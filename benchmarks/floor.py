"""The floor: the same work as a plain loop, without any engine.

It has no scheduler, no checks, no retries and no resume. What it costs is what typed state and a commit after every
step cost on this machine; an engine is measured by how far above it stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Generator

from pydantic import VERSION, BaseModel

from _kit import PRAGMAS, WARM_UP, Bench, main

Save = Callable[[str, BaseModel], None]


class CounterState(BaseModel):
    count: int = 0
    limit: int = 0


class MapState(BaseModel):
    items: list[int] = []
    results: list[int] = []


def count(limit: int, save: Save) -> None:
    """Count to the limit; the state is validated after each step and handed to `save` whole."""
    state = CounterState(limit=limit)
    while state.count < limit:
        state = CounterState.model_validate({**state.__dict__, "count": state.count + 1})
        save("step", state)


async def add_one(item: int) -> int:
    return item + 1


async def nap(item: int) -> int:
    await asyncio.sleep(0.05)
    return item + 1


async def spread(items: int, work: Callable[[int], Awaitable[int]], save: Save) -> None:
    """Run one branch for each item and join their results; each branch saves its own."""
    state = MapState(items=list(range(items)))
    save("split", state)

    async def branch(item: int) -> int:
        result = await work(item)
        save("branch", MapState(results=[result]))
        return result

    results = await asyncio.gather(*map(branch, state.items))
    state = MapState.model_validate({**state.__dict__, "results": results})
    save("join", state)
    assert sum(state.results) == items * (items + 1) // 2


@contextlib.contextmanager
def saving(bench: Bench, *, final: bool) -> Generator[Save]:
    """A function that commits a row for each step, or does nothing without a store."""
    if bench.options.store == "none":
        yield lambda _node, _state: None
        return
    path = bench.database()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if bench.options.sync == 'native' else bench.options.sync}")
    connection.execute("CREATE TABLE step(id INTEGER PRIMARY KEY, node TEXT, state TEXT)")
    if final:
        bench.extra["pragmas"] = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}

    def save(node: str, state: BaseModel) -> None:
        with connection:
            connection.execute("INSERT INTO step(node, state) VALUES(?, ?)", (node, state.model_dump_json()))

    yield save
    connection.close()
    if final:
        bench.weigh(path)


def counting(bench: Bench, warm_up: int) -> int:
    with saving(bench, final=False) as save:
        count(warm_up, save)
    with saving(bench, final=True) as save, bench.clock():
        count(bench.n, save)
    return bench.n


def w1(bench: Bench) -> int:
    bench.need("none")
    return counting(bench, bench.n)


def w2(bench: Bench) -> int:
    bench.need("sqlite")
    return counting(bench, WARM_UP)


def spreading(bench: Bench, work: Callable[[int], Awaitable[int]]) -> int:
    async def both() -> None:
        with saving(bench, final=False) as save:
            await spread(WARM_UP, work, save)
        with saving(bench, final=True) as save, bench.clock():
            await spread(bench.n, work, save)

    asyncio.run(both())
    return bench.n + 2


def w4(bench: Bench) -> int:
    bench.need("none", "sqlite")
    return spreading(bench, add_one)


def w8(bench: Bench) -> int:
    bench.need("none")
    bench.extra["ideal_s"] = 0.05
    return spreading(bench, nap)


if __name__ == "__main__":
    versions = f"pydantic {VERSION}, sqlite {sqlite3.sqlite_version}"
    main("floor", versions, {"W1": w1, "W2": w2, "W4": w4, "W8": w8})
