"""The workloads, run by DBOS Transact as its documentation shows it; ../README.md tells what each one measures.

    python -m venv .venvs/dbos
    .venvs/dbos/bin/pip install dbos pydantic

A workflow is a function, and each call of a step inside it is stored with its result; the state is a local variable of
the workflow, a pydantic model. The system database is SQLite. There is no graph, so there is no W9, and nothing runs
without a database, so there are no W1 and W8. `--sync` is asked of each connection when SQLAlchemy opens it.

W2, W3 and W6 by plain functions; W4 and W5 by async ones, since they overlap.

Variant
  whole  W3 with steps that take and return the whole state, as the nodes of a graph do.
"""

# pyright: basic, reportMissingImports=false
# (DBOS lives in an environment of its own.)
from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Generator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy
from dbos import DBOS, SetWorkflowID
from pydantic import VERSION, BaseModel

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `_kit` is
from _kit import PRAGMAS, WARM_UP, Bench, main, text_of

BEGIN = """
from dbos import DBOS
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


@DBOS.step()
def step(state: CounterState) -> CounterState:
    return state.model_copy(update={"count": state.count + 1})


@DBOS.step()
async def async_step(state: CounterState) -> CounterState:
    return state.model_copy(update={"count": state.count + 1})


@DBOS.workflow()
def count(limit: int) -> int:
    state = CounterState(limit=limit)
    while state.count < state.limit:
        state = step(state)
    return state.count


@DBOS.workflow()
async def async_count(limit: int) -> int:
    state = CounterState(limit=limit)
    while state.count < state.limit:
        state = await async_step(state)
    return state.count


@DBOS.step()
def say(number: int) -> Message:
    return Message(role="user", content=text_of(number))


@DBOS.workflow()
def talk(limit: int) -> int:
    state = ChatState(limit=limit)
    while state.count < state.limit:
        state.messages.append(say(state.count))
        state.count += 1
    return len(state.messages)


@DBOS.step()
def say_in(state: ChatState) -> ChatState:
    messages = [*state.messages, Message(role="user", content=text_of(state.count))]
    return state.model_copy(update={"count": state.count + 1, "messages": messages})


@DBOS.workflow()
def talk_whole(limit: int) -> int:
    state = ChatState(limit=limit)
    while state.count < state.limit:
        state = say_in(state)
    return len(state.messages)


@DBOS.step()
async def add_one(item: int) -> int:
    return item + 1


@DBOS.workflow()
async def spread(items: int) -> int:
    return sum(await asyncio.gather(*map(add_one, range(items))))


@contextlib.contextmanager
def launched(bench: Bench, path: Path) -> Generator[None]:
    """DBOS on a database, which is weighed when DBOS is gone."""
    opened: list[Any] = []

    def on_connect(connection: Any, record: Any) -> None:
        for statement in bench.sync_statements():
            connection.execute(statement)
        opened.append(connection)

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", on_connect)
    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{path}"})
    DBOS.launch()
    yield
    bench.extra["pragmas"] = {name: opened[-1].execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
    DBOS.destroy()
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", on_connect)
    bench.weigh(path)


def looped(bench: Bench, run: Callable[[int], int]) -> int:
    """W2, W3: a run to warm up, then the measured one on a database of its own."""
    bench.need("sqlite")
    for limit, clock in bench.rounds(WARM_UP):
        with launched(bench, bench.database()):
            with clock():
                result = run(limit)
            assert result == limit
    return bench.n


def w2(bench: Bench) -> int:
    return looped(bench, count)


def w3(bench: Bench) -> int:
    return looped(bench, talk_whole if bench.options.variant == "whole" else talk)


async def mapped(bench: Bench) -> int:
    """W4: one workflow whose steps overlap."""
    for items, clock in bench.rounds(WARM_UP):
        with launched(bench, bench.database()):
            with clock():
                total = await spread(items)
            assert total == items * (items + 1) // 2
    return bench.n + 2


def w4(bench: Bench) -> int:
    bench.need("sqlite")
    return asyncio.run(mapped(bench))


async def all_at_once(bench: Bench) -> list[int]:
    async def one(limit: int) -> int:
        handle = await DBOS.start_workflow_async(async_count, limit)
        return await handle.get_result()

    with launched(bench, bench.database()):
        await one(WARM_UP)
        with bench.clock():
            return await asyncio.gather(*(one(bench.options.steps) for _ in range(bench.n)))


def w5(bench: Bench) -> int:
    """Many runs at once: one process, one loop, one database."""
    bench.need("sqlite")
    assert asyncio.run(all_at_once(bench)) == [bench.options.steps] * bench.n
    return bench.n * bench.options.steps


def w6(bench: Bench) -> int:
    """From before the database is opened until step n+1 begins; the launch runs what had not ended again.

    The workflow starts anew, and each of its steps that has a result is given it instead of being executed.
    """
    bench.need("sqlite")

    @DBOS.step()
    def watched(state: CounterState) -> CounterState:
        bench.begins(state.count)
        return state.model_copy(update={"count": state.count + 1})

    @DBOS.workflow()
    def count_on(limit: int) -> int:
        state = CounterState(limit=limit)
        while state.count < state.limit:
            state = watched(state)
        return state.count

    path = bench.crashed_database()
    if bench.options.crash_at is not None:
        with launched(bench, path), SetWorkflowID("r"):
            count_on(bench.n + 1)
        raise AssertionError("the run was to die inside its last step")
    with launched(bench, bench.database()):
        count_on(WARM_UP)
    with contextlib.ExitStack() as opened, bench.resuming():  # the clock stops before the database is closed
        opened.enter_context(launched(bench, path))
        result = DBOS.retrieve_workflow("r").get_result()
    assert result == bench.n + 1
    return 1


if __name__ == "__main__":
    main(
        "dbos",
        f"{version('dbos')}, SQLAlchemy {version('sqlalchemy')}, pydantic {VERSION}",
        {"W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6},
        begin=BEGIN,
        variants={"whole": ("W3",)},
        lacks=dict.fromkeys(("W1", "W8"), "nothing runs without a database") | {"W9": "there is no graph to build"},
    )
