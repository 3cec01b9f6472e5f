"""The floor: the same work as a plain loop, without any engine.

It has no scheduler, no checks, no retries and no history to look at. What it costs is what typed state and a commit
after every step cost on this machine; an engine is measured by how far above it stands.

Variants
  (none)  a commit of its own for each step; in W3 only what the step added is validated and stored.
  group   W5: one thread commits for all runs; what is ready while it commits goes into its next transaction.
  beside  W2, in each step of which a page of a plain file is flushed as well; the clock leaves that out, and tells it.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import VERSION, BaseModel

from _kit import PRAGMAS, WARM_UP, Bench, main, text_of

INSERT = "INSERT INTO step(run, node, state) VALUES(?, ?, ?)"

Row: TypeAlias = tuple[str, str, str]  # run, node, state as JSON
Save: TypeAlias = Callable[[str, str, Any], None]


class CounterState(BaseModel):
    count: int = 0
    limit: int = 0


class Message(BaseModel):
    role: str
    content: str


class ChatState(CounterState):
    messages: list[Message] = []


class MapState(BaseModel):
    items: list[int] = []
    results: list[int] = []


def step(state: CounterState) -> CounterState:
    """The state after a step, validated."""
    return CounterState.model_validate({**state.__dict__, "count": state.count + 1})


def connect(bench: Bench, path: Path) -> sqlite3.Connection:
    """A connection as durable as it was asked for; a second thread may have it."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if bench.options.sync == 'native' else bench.options.sync}")
    connection.execute("CREATE TABLE IF NOT EXISTS step(id INTEGER PRIMARY KEY, run TEXT, node TEXT, state TEXT)")
    return connection


def closed(bench: Bench, connection: sqlite3.Connection, path: Path) -> None:
    """Close a connection, with its settings noted before and its database weighed afterwards."""
    bench.extra["pragmas"] = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
    connection.close()
    bench.weigh(path)


@contextlib.contextmanager
def saving(bench: Bench, path: Path | None = None) -> Generator[Save]:
    """A function that commits a row for each step, or does nothing without a store."""
    if bench.options.store == "none":
        yield lambda _run, _node, _state: None
        return
    path = path or bench.database()
    connection = connect(bench, path)

    def save(run: str, node: str, state: BaseModel) -> None:
        with connection:
            connection.execute(INSERT, (run, node, state.model_dump_json()))

    yield save
    closed(bench, connection, path)


def count(limit: int, save: Save) -> CounterState:
    """Count to the limit; the state is validated after each step and handed to `save` whole."""
    state = CounterState(limit=limit)
    while state.count < limit:
        state = step(state)
        save("r", "step", state)
    return state


def w1(bench: Bench) -> int:
    bench.need("none")
    for limit, clock in bench.rounds(bench.n):
        with saving(bench) as save, clock():
            assert count(limit, save).count == limit
    return bench.n


def w2(bench: Bench) -> int:
    bench.need("sqlite")
    for limit, clock in bench.rounds(WARM_UP):
        with saving(bench) as save, clock():
            given = with_flushes(save, bench) if bench.options.variant == "beside" else save
            assert count(limit, given).count == limit
    return bench.n


def with_flushes(save: Save, bench: Bench) -> Save:
    """The same, with a bare flush before each."""

    def save_too(run: str, node: str, state: BaseModel) -> None:
        bench.flush_beside()
        save(run, node, state)

    return save_too


def talk(limit: int, save: Save) -> ChatState:
    """Let a history grow; no step looks at the messages before its own again."""
    state = ChatState(limit=limit)
    while state.count < limit:
        update = {"count": state.count + 1, "messages": [Message(role="user", content=text_of(state.count))]}
        added = ChatState.model_validate(update)
        state.messages += added.messages
        state.count = added.count
        save("r", "step", added)
    return state


def w3(bench: Bench) -> int:
    bench.need("none", "sqlite")
    for limit, clock in bench.rounds(WARM_UP):
        with saving(bench) as save, clock():
            assert len(talk(limit, save).messages) == limit
    return bench.n


async def add_one(item: int) -> int:
    return item + 1


async def nap(item: int) -> int:
    await asyncio.sleep(0.05)
    return item + 1


async def spread(items: int, work: Callable[[int], Awaitable[int]], save: Save) -> MapState:
    """Run one branch for each item and join their results; each branch saves its own."""
    state = MapState(items=list(range(items)))
    save("r", "split", state)

    async def branch(item: int) -> int:
        result = await work(item)
        save("r", "branch", MapState(results=[result]))
        return result

    results = await asyncio.gather(*map(branch, state.items))
    state = MapState.model_validate({**state.__dict__, "results": results})
    save("r", "join", state)
    return state


def spreading(bench: Bench, work: Callable[[int], Awaitable[int]]) -> int:
    async def both() -> None:
        for items, clock in bench.rounds(WARM_UP):
            with saving(bench) as save, clock():
                state = await spread(items, work, save)
            assert sum(state.results) == items * (items + 1) // 2

    asyncio.run(both())
    return bench.n + 2


def w4(bench: Bench) -> int:
    bench.need("none", "sqlite")
    return spreading(bench, add_one)


def w8(bench: Bench) -> int:
    bench.need("none")
    bench.extra["ideal_s"] = 0.05
    return spreading(bench, nap)


class Writer:
    """A thread that commits for many runs; each waits until its own row is safe."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.commits = 0
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._ready: queue.SimpleQueue[tuple[Row, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    async def save(self, run: str, node: str, state: BaseModel) -> None:
        safe = self._loop.create_future()
        self._ready.put(((run, node, state.model_dump_json()), safe))
        await safe

    async def close(self) -> None:
        self._ready.put(None)
        await asyncio.to_thread(self._thread.join)

    def _write(self) -> None:
        while first := self._ready.get():
            batch = [first]
            with contextlib.suppress(queue.Empty):
                while more := self._ready.get_nowait():
                    batch.append(more)
                self._ready.put(None)  # the end was among them; it is read again after this batch
            with self._connection:
                self._connection.executemany(INSERT, [row for row, _ in batch])
            self.commits += 1
            self._loop.call_soon_threadsafe(self._tell, [safe for _, safe in batch])

    @staticmethod
    def _tell(all_safe: list[asyncio.Future[None]]) -> None:
        for safe in all_safe:
            safe.set_result(None)


async def count_among(run: str, limit: int, save: Callable[[str, str, BaseModel], Awaitable[None]]) -> int:
    """W5: one run of many; the others have their turn while it is saved."""
    state = CounterState(limit=limit)
    while state.count < limit:
        state = step(state)
        await save(run, "step", state)
    return state.count


def w5(bench: Bench) -> int:
    """Many runs at once: one process, one loop, one database."""
    bench.need("sqlite")
    steps, path = bench.options.steps, bench.database()

    async def all_at_once() -> list[int]:
        connection = connect(bench, path)
        writer = Writer(connection) if bench.options.variant == "group" else None

        async def save(run: str, node: str, state: BaseModel) -> None:
            with connection:
                connection.execute(INSERT, (run, node, state.model_dump_json()))
            await asyncio.sleep(0)

        async def one(run: str, limit: int) -> int:
            return await count_among(run, limit, writer.save if writer else save)

        await one("warm-up", WARM_UP)
        with bench.clock():
            counts = await asyncio.gather(*(one(f"r{i}", steps) for i in range(bench.n)))
        if writer:
            await writer.close()
            bench.extra["commits"] = writer.commits
        closed(bench, connection, path)
        return counts

    assert asyncio.run(all_at_once()) == [steps] * bench.n
    return bench.n * steps


def w6(bench: Bench) -> int:
    """Read the last row and validate it: from before the database is opened until step n+1 begins."""
    bench.need("sqlite")
    path = bench.crashed_database()
    if bench.options.crash_at is not None:
        with saving(bench, path) as save:

            def save_and_begin(run: str, node: str, state: CounterState) -> None:
                save(run, node, state)
                bench.begins(state.count)

            count(bench.n + 1, save_and_begin)
        raise AssertionError("the run was to die inside its last step")
    with saving(bench) as save:
        count(WARM_UP, save)
    with bench.resuming():
        connection = connect(bench, path)
        (last,) = connection.execute("SELECT state FROM step ORDER BY id DESC LIMIT 1").fetchone()
        state = CounterState.model_validate_json(last)
        bench.begins(state.count)
        state = step(state)
        with connection:
            connection.execute(INSERT, ("r", "step", state.model_dump_json()))
    closed(bench, connection, path)
    assert state.count == bench.n + 1
    return 1


def w9(bench: Bench) -> int:
    bench.need("none")
    with bench.clock():
        start = time.perf_counter()
        names = [f"n{i}" for i in range(bench.n)]
        nodes = dict.fromkeys(names, step)
        edges: dict[str, str | None] = dict(zip(names, [*names[1:], None], strict=True))
        built = time.perf_counter()
        state, name = CounterState(limit=bench.n), names[0] if names else None
        while name is not None:
            state = nodes[name](state)
            name = edges[name]
        done = time.perf_counter()
    bench.extra |= {"build_s": round(built - start, 6), "run_s": round(done - built, 6)}
    assert state.count == bench.n
    return bench.n


if __name__ == "__main__":
    main(
        "floor",
        f"pydantic {VERSION}, sqlite {sqlite3.sqlite_version}",
        {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W8": w8, "W9": w9},
        begin="from pydantic import BaseModel",
        variants={"group": ("W5",), "beside": ("W2",)},
    )
