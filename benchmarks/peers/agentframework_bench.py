"""The workloads, run by Microsoft Agent Framework as it is documented; ../README.md tells what each one measures.

    python -m venv .venvs/agentframework
    .venvs/agentframework/bin/pip install agent-framework-core

Executors with a handler, joined by a `WorkflowBuilder`; the state is the message that travels between them, an edge
with a condition leads back, and fan-out and fan-in edges make the branches, each an executor of its own. It brings no
database: `--store sqlite` is its own durable storage, `FileCheckpointStorage`, a JSON file with pickled values for each
superstep, which outlives a killed process. It is never flushed, so it may not outlive a power cut, as the others do,
and `--sync` has nothing to change.

There are no variants.
"""

# pyright: basic, reportMissingImports=false
# (Agent Framework lives in an environment of its own.)
from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Never, TypeAlias

from agent_framework import (
    CheckpointStorage,
    Executor,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
)
from pydantic import VERSION, BaseModel

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `_kit` is
from _kit import WARM_UP, Bench, UnsupportedError, main, text_of

BEGIN = """
from agent_framework import Executor, WorkflowBuilder, WorkflowContext, handler
from pydantic import BaseModel
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


Work: TypeAlias = Callable[[int], Awaitable[int]]
STORED = [f"{model.__module__}:{model.__qualname__}" for model in (CounterState, Message, ChatState, MapState)]


async def passed_on(state: CounterState, ctx: WorkflowContext[Any, Any]) -> None:
    """Hand the state on while it is below its limit, and out of the workflow then."""
    if state.count < state.limit:
        await ctx.send_message(state)
    else:
        await ctx.yield_output(state)


class Step(Executor):
    """Counts; `begins` is told before each step."""

    def __init__(self, name: str = "step", begins: Callable[[int], None] = lambda _: None) -> None:
        super().__init__(id=name)
        self.begins = begins

    @handler
    async def act(self, state: CounterState, ctx: WorkflowContext[CounterState, CounterState]) -> None:
        self.begins(state.count)
        await passed_on(state.model_copy(update={"count": state.count + 1}), ctx)


class Talk(Executor):
    def __init__(self) -> None:
        super().__init__(id="step")

    @handler
    async def act(self, state: ChatState, ctx: WorkflowContext[ChatState, ChatState]) -> None:
        messages = [*state.messages, Message(role="user", content=text_of(state.count))]
        await passed_on(state.model_copy(update={"count": state.count + 1, "messages": messages}), ctx)


class Split(Executor):
    @handler
    async def act(self, state: MapState, ctx: WorkflowContext[MapState]) -> None:
        await ctx.send_message(state)


class Branch(Executor):
    def __init__(self, number: int, work: Work) -> None:
        super().__init__(id=f"branch{number}")
        self.number, self.work = number, work

    @handler
    async def act(self, state: MapState, ctx: WorkflowContext[int]) -> None:
        await ctx.send_message(await self.work(state.items[self.number]))


class Join(Executor):
    @handler
    async def act(self, results: list[int], ctx: WorkflowContext[Never, MapState]) -> None:
        await ctx.yield_output(MapState(results=results))


def loop_of(node: Executor, limit: int, storage: CheckpointStorage | None, name: str = "loop") -> Workflow:
    """One executor, and an edge that leads back to it until the limit is reached; the bound of rounds must not bind."""
    builder = WorkflowBuilder(name=name, start_executor=node, max_iterations=limit + 10, checkpoint_storage=storage)
    return builder.add_edge(node, node, condition=lambda state: state.count < state.limit).build()


def map_of(work: Work, items: int, storage: CheckpointStorage | None) -> Workflow:
    """A branch for each item, between an executor that splits and one that joins."""
    split, join = Split(id="split"), Join(id="join")
    branches = [Branch(number, work) for number in range(items)]
    builder = WorkflowBuilder(name="map", start_executor=split, checkpoint_storage=storage)
    return builder.add_fan_out_edges(split, branches).add_fan_in_edges(branches, join).build()


def files_in(bench: Bench, folder: Path) -> FileCheckpointStorage:
    if bench.options.sync != "native":
        raise UnsupportedError("its files are never flushed")
    return FileCheckpointStorage(folder, allowed_checkpoint_types=STORED)


@contextlib.contextmanager
def storing(bench: Bench) -> Generator[CheckpointStorage | None]:
    """The storage that was asked for; a folder of files is weighed afterwards."""
    if bench.options.store != "sqlite":
        yield InMemoryCheckpointStorage() if bench.options.store == "memory" else None
        return
    folder = bench.database()
    yield files_in(bench, folder)
    bench.weigh(folder)


async def result_of(workflow: Workflow, state: BaseModel) -> Any:
    (output,) = (await workflow.run(state)).get_outputs()
    return output


async def looped(bench: Bench, node: type[Executor], model: type[CounterState], warm_up: int) -> int:
    """W1, W2, W3: a run to warm up, then the measured one on a storage of its own."""
    state = model()
    for limit, clock in bench.rounds(warm_up):
        with storing(bench) as storage:
            workflow = loop_of(node(), limit, storage)
            with clock():
                state = await result_of(workflow, model(limit=limit))
    assert state.count == bench.n
    assert not isinstance(state, ChatState) or len(state.messages) == bench.n
    return bench.n


def w1(bench: Bench) -> int:
    bench.need("none")
    return asyncio.run(looped(bench, Step, CounterState, bench.n))


def w2(bench: Bench) -> int:
    bench.need("sqlite", "memory")
    return asyncio.run(looped(bench, Step, CounterState, WARM_UP))


def w3(bench: Bench) -> int:
    bench.need("sqlite", "memory", "none")
    return asyncio.run(looped(bench, Talk, ChatState, WARM_UP))


async def mapped(bench: Bench, work: Work) -> int:
    """W4, W8: one run whose branches overlap; the workflow is built before."""
    state = MapState()
    for items, clock in bench.rounds(WARM_UP):
        with storing(bench) as storage:
            workflow = map_of(work, items, storage)
            with clock():
                state = await result_of(workflow, MapState(items=list(range(items))))
    assert sum(state.results) == bench.n * (bench.n + 1) // 2
    return bench.n + 2


def w4(bench: Bench) -> int:
    bench.need("none", "memory", "sqlite")

    async def add_one(item: int) -> int:
        return item + 1

    return asyncio.run(mapped(bench, add_one))


def w8(bench: Bench) -> int:
    bench.need("none")
    bench.extra["ideal_s"] = 0.05

    async def nap(item: int) -> int:
        await asyncio.sleep(0.05)
        return item + 1

    return asyncio.run(mapped(bench, nap))


def w5(bench: Bench) -> int:
    """Many runs at once: one process, one loop, one storage; a workflow refuses a second run, so each has its own."""
    bench.need("sqlite")
    steps = bench.options.steps

    async def all_at_once() -> list[int]:
        with storing(bench) as storage:
            await result_of(loop_of(Step(), WARM_UP, storage, "warm-up"), CounterState(limit=WARM_UP))
            workflows = [loop_of(Step(), steps, storage, f"r{i}") for i in range(bench.n)]
            given = CounterState(limit=steps)
            with bench.clock():
                states = await asyncio.gather(*(result_of(workflow, given) for workflow in workflows))
        return [state.count for state in states]

    assert asyncio.run(all_at_once()) == [steps] * bench.n
    return bench.n * steps


async def resumed(bench: Bench) -> int:
    """W6: from before the storage is opened until step n+1 begins, in a process that did not run the first n."""
    folder, limit = bench.crashed_database(), bench.n + 1
    if bench.options.crash_at is not None:
        workflow = loop_of(Step(begins=bench.begins), limit, files_in(bench, folder))
        await result_of(workflow, CounterState(limit=limit))
        raise AssertionError("the run was to die inside its last step")
    with storing(bench) as storage:
        await result_of(loop_of(Step(), WARM_UP, storage), CounterState(limit=WARM_UP))
    with bench.resuming():
        storage = files_in(bench, folder)
        workflow = loop_of(Step(begins=bench.begins), limit, storage)
        last = await storage.get_latest(workflow_name="loop")
        assert last is not None
        (state,) = (await workflow.run(checkpoint_id=last.checkpoint_id)).get_outputs()
    bench.weigh(folder)
    assert state.count == limit
    return 1


def w6(bench: Bench) -> int:
    bench.need("sqlite")
    return asyncio.run(resumed(bench))


async def line(bench: Bench) -> int:
    with bench.clock():
        start = time.perf_counter()
        nodes = [Step(f"n{i}") for i in range(bench.n)]
        builder = WorkflowBuilder(name="line", start_executor=nodes[0], max_iterations=bench.n + 10)
        workflow = builder.add_chain(nodes).build()
        built = time.perf_counter()
        state = await result_of(workflow, CounterState(limit=bench.n))
        done = time.perf_counter()
    bench.extra |= {"build_s": round(built - start, 6), "run_s": round(done - built, 6)}
    assert state.count == bench.n
    return bench.n


def w9(bench: Bench) -> int:
    bench.need("none")
    return asyncio.run(line(bench))


if __name__ == "__main__":
    main(
        "agentframework",
        f"core {version('agent-framework-core')}, pydantic {VERSION}",
        {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W8": w8, "W9": w9},
        begin=BEGIN,
    )
