"""The workloads, run by LlamaIndex Workflows as its documentation shows it; ../README.md tells what each one measures.

    python -m venv .venvs/llamaindex
    .venvs/llamaindex/bin/pip install "llama-index-workflows[server]"

A `Workflow` with typed events; the state is a pydantic model behind `ctx.store`, a step that returns the event which it
takes leads back, and lists of events make the branches and the join. `num_workers` is raised to the number of branches,
for its default lets four of them overlap. What lasts is kept by its `WorkflowServer` with a `SqliteWorkflowStore`; its
own client calls it in this process, without a socket, once for each run. There are no variants, and `--sync` has
nothing to change, as the store opens and closes a connection for nearly everything it does.
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: ARG002
# (A step takes its event, whether it reads it or not.)
# No `from __future__ import annotations` here: steps are told apart by the types of their events, some of them local.
# (LlamaIndex lives in an environment of its own.)
import asyncio
import contextlib
import datetime as dt
import itertools
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import httpx
from llama_agents.client import WorkflowClient
from llama_agents.server import HandlerQuery, SqliteWorkflowStore, WorkflowServer
from pydantic import VERSION, BaseModel
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `_kit` is
from _kit import WARM_UP, Bench, UnsupportedError, main, text_of

BEGIN = """
from pydantic import BaseModel
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent
"""


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


class Go(StartEvent):
    limit: int


class Again(Event):
    pass


class Item(Event):
    value: int


class Result(Event):
    value: int


Run: TypeAlias = Callable[[int], Awaitable[int]]  # a run with a limit, and what it gives


class Count(Workflow):
    """Counts; `begins` is told before each step."""

    def __init__(self, begins: Callable[[int], None] = lambda _: None) -> None:
        super().__init__(timeout=None)
        self.begins = begins

    @step
    async def begin(self, ctx: Context[CounterState], ev: Go) -> Again:
        async with ctx.store.edit_state() as state:
            state.limit = ev.limit
        return Again()

    @step
    async def act(self, ctx: Context[CounterState], ev: Again) -> Again | StopEvent:
        async with ctx.store.edit_state() as state:
            self.begins(state.count)
            state.count += 1
            return Again() if state.count < state.limit else StopEvent(result=state.count)


class Talk(Workflow):
    @step
    async def begin(self, ctx: Context[ChatState], ev: Go) -> Again:
        async with ctx.store.edit_state() as state:
            state.limit = ev.limit
        return Again()

    @step
    async def act(self, ctx: Context[ChatState], ev: Again) -> Again | StopEvent:
        async with ctx.store.edit_state() as state:
            state.messages.append(Message(role="user", content=text_of(state.count)))
            state.count += 1
            return Again() if state.count < state.limit else StopEvent(result=len(state.messages))


def map_of(work: Run, workers: int) -> Workflow:
    """A branch for each item, between a step that splits and one that joins."""

    class Map(Workflow):
        @step
        async def split(self, ctx: Context[MapState], ev: Go) -> list[Item]:
            async with ctx.store.edit_state() as state:
                state.items = list(range(ev.limit))
                return [Item(value=item) for item in state.items]

        @step(num_workers=workers)
        async def branch(self, ev: Item) -> Result:
            return Result(value=await work(ev.value))

        @step
        async def join(self, ctx: Context[MapState], evs: list[Result]) -> StopEvent:
            async with ctx.store.edit_state() as state:
                state.results = [ev.value for ev in evs]
                return StopEvent(result=sum(state.results))

    return Map(timeout=None)


@contextlib.asynccontextmanager
async def serving(store: SqliteWorkflowStore, workflow: Workflow) -> AsyncGenerator[WorkflowClient]:
    """A client of a server that runs in this process; starting it resumes what had not ended."""
    server = WorkflowServer(workflow_store=store)
    server.add_workflow("bench", workflow)
    async with server.contextmanager():
        transport = httpx.ASGITransport(app=server.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://bench") as http:
            yield WorkflowClient(httpx_client=http)


@contextlib.asynccontextmanager
async def running(bench: Bench, workflow: Workflow) -> AsyncGenerator[Run]:
    """What runs the workflow with a limit, in the way that was asked for; a database is weighed afterwards."""
    if bench.options.sync != "native":
        raise UnsupportedError("its connections come and go")
    if bench.options.store == "none":

        async def in_memory(limit: int) -> int:
            return await workflow.run(start_event=Go(limit=limit))

        yield in_memory
        return
    path = bench.database()
    async with serving(SqliteWorkflowStore(str(path)), workflow) as client:

        async def stored(limit: int) -> int:
            return result_of(await client.run_workflow("bench", start_event=Go(limit=limit)))

        yield stored
    bench.weigh(path)


def result_of(handler: Any) -> int:
    assert handler.result is not None, handler.error
    return handler.result.value["result"]


async def measured(bench: Bench, workflow: Callable[[], Workflow], warm_up: int, sums: bool = False) -> int:
    """A run to warm up, then the measured one on a database of its own."""
    for limit, clock in bench.rounds(warm_up):
        async with running(bench, workflow()) as run:
            with clock():
                result = await run(limit)
            assert result == (limit * (limit + 1) // 2 if sums else limit)
    return bench.n


def w1(bench: Bench) -> int:
    bench.need("none")
    return asyncio.run(measured(bench, Count, bench.n))


def w2(bench: Bench) -> int:
    bench.need("sqlite")
    return asyncio.run(measured(bench, Count, WARM_UP))


def w3(bench: Bench) -> int:
    bench.need("sqlite", "none")
    return asyncio.run(measured(bench, lambda: Talk(timeout=None), WARM_UP))


def w4(bench: Bench) -> int:
    bench.need("none", "sqlite")

    async def add_one(item: int) -> int:
        return item + 1

    return asyncio.run(measured(bench, lambda: map_of(add_one, bench.n), WARM_UP, sums=True)) + 2


def w8(bench: Bench) -> int:
    bench.need("none")
    bench.extra["ideal_s"] = 0.05

    async def nap(item: int) -> int:
        await asyncio.sleep(0.05)
        return item + 1

    return asyncio.run(measured(bench, lambda: map_of(nap, bench.n), WARM_UP, sums=True)) + 2


async def all_at_once(bench: Bench) -> list[int]:
    async with running(bench, Count()) as run:
        await run(WARM_UP)
        with bench.clock():
            return await asyncio.gather(*(run(bench.options.steps) for _ in range(bench.n)))


def w5(bench: Bench) -> int:
    """Many runs at once: one process, one loop, one server."""
    bench.need("sqlite")
    assert asyncio.run(all_at_once(bench)) == [bench.options.steps] * bench.n
    return bench.n * bench.options.steps


async def resumed(bench: Bench) -> int:
    """W6: from before the store is opened until step n+1 begins, in a process that did not run the first n."""
    path = bench.crashed_database()
    if bench.options.crash_at is not None:
        async with serving(SqliteWorkflowStore(str(path)), Count(bench.begins)) as client:
            await client.run_workflow("bench", start_event=Go(limit=bench.n + 1))
        raise AssertionError("the run was to die inside its last step")
    async with running(bench, Count()) as run:
        await run(WARM_UP)
    handler_id = await aged(SqliteWorkflowStore(str(path)))
    async with contextlib.AsyncExitStack() as opened:  # the clock stops before the server does
        with bench.resuming():
            client = await opened.enter_async_context(serving(SqliteWorkflowStore(str(path)), Count(bench.begins)))
            handler = await client.wait_for_handler(handler_id, poll_interval=0.01, backoff="constant")
        assert result_of(handler) == bench.n + 1
    bench.weigh(path)
    return 1


async def aged(store: SqliteWorkflowStore) -> str:
    """Make the run an hour older, for a server does not resume one that began in the last 30 seconds."""
    await store.start()
    (handler,) = await store.query(HandlerQuery())
    assert handler.started_at is not None
    handler.started_at -= dt.timedelta(hours=1)
    await store.update(handler)
    return handler.handler_id


def w6(bench: Bench) -> int:
    bench.need("sqlite")
    return asyncio.run(resumed(bench))


def node_of(name: str, takes: type[Event], gives: type[Event]) -> Any:
    """A step of a line; edges are types of events here, so each has its own."""

    async def act(self: Workflow, ctx: Context[CounterState], ev: takes) -> gives:  # pyright: ignore[reportInvalidTypeForm]
        async with ctx.store.edit_state() as state:
            state.count += 1
            return StopEvent(result=state.count) if gives is StopEvent else gives()

    act.__name__, act.__qualname__ = name, f"Line.{name}"
    return step(act)


async def line(bench: Bench) -> int:
    with bench.clock():
        start = time.perf_counter()
        events = [Go, *(type(f"E{i}", (Event,), {"__module__": __name__}) for i in range(1, bench.n)), StopEvent]
        nodes = {f"n{i}": node_of(f"n{i}", *edge) for i, edge in enumerate(itertools.pairwise(events))}
        workflow = type("Line", (Workflow,), nodes)(timeout=None)
        workflow.validate()
        built = time.perf_counter()
        result = await workflow.run(start_event=Go(limit=bench.n))
        done = time.perf_counter()
    bench.extra |= {"build_s": round(built - start, 6), "run_s": round(done - built, 6)}
    assert result == bench.n
    return bench.n


def w9(bench: Bench) -> int:
    bench.need("none")
    return asyncio.run(line(bench))


if __name__ == "__main__":
    main(
        "llamaindex",
        f"{version('llama-index-workflows')}, server {version('llama-agents-server')}, pydantic {VERSION}",
        {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W8": w8, "W9": w9},
        begin=BEGIN,
    )
