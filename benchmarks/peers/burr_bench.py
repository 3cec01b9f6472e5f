"""The workloads, run by Apache Burr as its documentation shows it; ../README.md tells what each one measures.

    python -m venv .venvs/burr
    .venvs/burr/bin/pip install apache-burr pydantic aiosqlite

A pydantic model is the state, by `PydanticTypingSystem` and `@action.pydantic`; transitions with conditions lead on;
`SQLitePersister` or `AsyncSQLitePersister` stores the state after every action. W4 and W8 are a `MapStates`, whose
branches are applications of their own. No tracker is attached.

W1, W2, W3, W6 and W9 by `run`; W4, W5 and W8 by `arun`, since they overlap. There are no variants.
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: ARG002
# (Burr lives in an environment of its own, and says what its methods are given.)
from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import burr.integrations.serde.pydantic  # noqa: F401  # registers how models in the state are stored
from burr.core import ApplicationBuilder, State, action, default, expr
from burr.core.parallelism import MapStates
from burr.core.persistence import SQLitePersister
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister
from burr.integrations.pydantic import PydanticTypingSystem
from pydantic import VERSION, BaseModel

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `_kit` is
from _kit import PRAGMAS, WARM_UP, Bench, main, text_of

BEGIN = """
from burr.core import ApplicationBuilder, action, default, expr
from burr.integrations.pydantic import PydanticTypingSystem
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


Model: TypeAlias = type[CounterState]


def counts(model: Model, *more: str) -> Callable[[Any], Any]:
    """The decorator of an action that reads and writes `count`, and further fields."""
    return action.pydantic(
        reads=["count", "limit", *more],
        writes=["count", *more],
        state_input_type=model,
        state_output_type=model,
    )


@counts(CounterState)
def step(state: CounterState) -> CounterState:
    state.count += 1
    return state


@counts(CounterState)
async def async_step(state: CounterState) -> CounterState:
    state.count += 1
    return state


@counts(ChatState, "messages")
def talk(state: ChatState) -> ChatState:
    message = Message(role="user", content=text_of(state.count))
    state.messages = [*state.messages, message]
    state.count += 1
    return state


@action(reads=[], writes=[])
def done(state: State) -> State:
    return state


def loop_of(model: Model, node: Any, run_id: str = "r") -> ApplicationBuilder:
    """One action, and a transition that leads back to it until the limit is reached; it says not yet where to start."""
    return (
        ApplicationBuilder()
        .with_actions(step=node, done=done)
        .with_transitions(("step", "step", expr("count < limit")), ("step", "done", default))
        .with_typing(PydanticTypingSystem(model))
        .with_identifiers(app_id=run_id)
    )


def started(builder: ApplicationBuilder, state: CounterState, persister: Any) -> ApplicationBuilder:
    """A new run, with what stores it."""
    builder = builder.with_entrypoint("step").with_state(state)
    return builder if persister is None else builder.with_state_persister(persister)


def map_of(work: Callable[[int], Any], items: int, persister: Any) -> ApplicationBuilder:
    """A branch for each item, in an action that joins their results."""

    @action(reads=["item"], writes=["result"])
    async def branch(state: State) -> State:
        return state.update(result=await work(state["item"]))

    class Spread(MapStates):
        def action(self, state: State, inputs: dict[str, Any]) -> Any:
            return branch

        async def states(self, state: State, context: Any, inputs: dict[str, Any]) -> AsyncGenerator[State]:
            for item in state["items"]:
                yield state.update(item=item)

        async def reduce(self, state: State, states: AsyncGenerator[State]) -> State:
            return state.update(results=[one["result"] async for one in states])

        def is_async(self) -> bool:
            return True

        @property
        def reads(self) -> list[str]:
            return ["items"]

        @property
        def writes(self) -> list[str]:
            return ["results"]

    builder = (
        ApplicationBuilder()
        .with_actions(spread=Spread(), done=done)
        .with_transitions(("spread", "done", default))
        .with_identifiers(app_id="r")
        .with_entrypoint("spread")
        .with_state(items=list(range(items)), results=[])
    )
    return builder if persister is None else builder.with_state_persister(persister)


@contextlib.contextmanager
def saving(bench: Bench, path: Path) -> Generator[SQLitePersister | None]:
    """The persister that was asked for; a database is closed and weighed afterwards."""
    if bench.options.store == "none":
        yield None
        return
    with SQLitePersister.from_values(str(path)) as persister:
        for statement in bench.sync_statements():
            persister.connection.execute(statement)
        persister.initialize()
        yield persister
        execute = persister.connection.execute
        bench.extra["pragmas"] = {name: execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
    bench.weigh(path)


@contextlib.asynccontextmanager
async def saving_async(bench: Bench, path: Path) -> AsyncGenerator[AsyncSQLitePersister | None]:
    """Likewise, for a running loop."""
    if bench.options.store == "none":
        yield None
        return
    async with AsyncSQLitePersister.from_values(str(path)) as persister:
        for statement in bench.sync_statements():
            await persister.connection.execute(statement)
        await persister.initialize()
        yield persister
        execute = persister.connection.execute
        bench.extra["pragmas"] = {name: (await (await execute(f"PRAGMA {name}")).fetchone())[0] for name in PRAGMAS}
    bench.weigh(path)


def looped(bench: Bench, model: Model, node: Any, warm_up: int) -> State:
    """W1, W2, W3: a run to warm up, then the measured one on a database of its own; its last state."""
    state = State()
    for limit, clock in bench.rounds(warm_up):
        with saving(bench, bench.database()) as persister:
            app = started(loop_of(model, node), model(limit=limit), persister).build()
            with clock():
                _, _, state = app.run(halt_before=["done"])
    assert state["count"] == bench.n
    return state


def w1(bench: Bench) -> int:
    bench.need("none")
    looped(bench, CounterState, step, bench.n)
    return bench.n


def w2(bench: Bench) -> int:
    bench.need("sqlite")
    looped(bench, CounterState, step, WARM_UP)
    return bench.n


def w3(bench: Bench) -> int:
    bench.need("sqlite", "none")
    state = looped(bench, ChatState, talk, WARM_UP)
    assert len(state["messages"]) == bench.n
    return bench.n


async def mapped(bench: Bench, work: Callable[[int], Any]) -> int:
    """W4, W8: one run whose branches overlap; the application is built before."""
    state = State()
    for items, clock in bench.rounds(WARM_UP):
        async with saving_async(bench, bench.database()) as persister:
            app = await map_of(work, items, persister).abuild()
            with clock():
                _, _, state = await app.arun(halt_after=["spread"])
    assert sum(state["results"]) == bench.n * (bench.n + 1) // 2
    return bench.n + 2


def w4(bench: Bench) -> int:
    bench.need("none", "sqlite")

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
    """Many runs at once: one process, one loop, one persister, and an application for each run."""
    bench.need("sqlite")
    steps = bench.options.steps

    async def all_at_once() -> list[int]:
        async with saving_async(bench, bench.database()) as persister:

            async def one(run_id: str, limit: int) -> int:
                builder = loop_of(CounterState, async_step, run_id)
                app = await started(builder, CounterState(limit=limit), persister).abuild()
                _, _, state = await app.arun(halt_before=["done"])
                return state["count"]

            await one("warm-up", WARM_UP)
            with bench.clock():
                return await asyncio.gather(*(one(f"r{i}", steps) for i in range(bench.n)))

    assert asyncio.run(all_at_once()) == [steps] * bench.n
    return bench.n * steps


def w6(bench: Bench) -> int:
    """From before the database is opened until step n+1 begins, in a process that did not run the first n."""
    bench.need("sqlite")

    @counts(CounterState)
    def node(state: CounterState) -> CounterState:
        bench.begins(state.count)
        state.count += 1
        return state

    path = bench.crashed_database()
    if bench.options.crash_at is not None:
        with saving(bench, path) as persister:
            started(loop_of(CounterState, node), CounterState(limit=bench.n + 1), persister).build().run(
                halt_before=["done"]
            )
        raise AssertionError("the run was to die inside its last step")
    with saving(bench, bench.database()) as persister:
        started(loop_of(CounterState, node), CounterState(limit=WARM_UP), persister).build().run(halt_before=["done"])
    with contextlib.ExitStack() as opened, bench.resuming():  # the clock stops before the database is closed
        persister = opened.enter_context(saving(bench, path))
        builder = loop_of(CounterState, node).initialize_from(
            persister,
            resume_at_next_action=True,
            default_state=CounterState().model_dump(),
            default_entrypoint="step",
        )
        _, _, state = builder.with_state_persister(persister).build().run(halt_before=["done"])
    assert state["count"] == bench.n + 1
    return 1


def w9(bench: Bench) -> int:
    bench.need("none")
    names = [f"n{i}" for i in range(bench.n)]
    with bench.clock():
        start = time.perf_counter()
        app = (
            ApplicationBuilder()
            .with_actions(**dict.fromkeys(names, step))
            .with_transitions(*itertools.pairwise(names))
            .with_typing(PydanticTypingSystem(CounterState))
            .with_entrypoint(names[0])
            .with_state(CounterState(limit=bench.n))
            .build()
        )
        built = time.perf_counter()
        _, _, state = app.run(halt_after=[names[-1]])
        ended = time.perf_counter()
    bench.extra |= {"build_s": round(built - start, 6), "run_s": round(ended - built, 6)}
    assert state["count"] == bench.n
    return bench.n


if __name__ == "__main__":
    main(
        "burr",
        f"{version('apache-burr')}, pydantic {VERSION}",
        {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W8": w8, "W9": w9},
        begin=BEGIN,
    )
