"""The work whose cost is counted: each case is a run, or many, of so many steps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal

from flowagent import END, START, Graph, Limits, State, Update, append
from flowagent.core.policies import Durability
from flowagent.stores import Store

MESSAGE: Final = 200
"""How many characters a step of the history appends."""


def _text() -> str:
    """A text that packs like one that somebody wrote: of a letter repeated, a snapshot would hold next to nothing."""
    chance = random.Random(7)
    words = ["".join(chance.choices("eeetaoinshrdlucmfwypgb", k=chance.randint(2, 10))) for _ in range(1500)]
    often = [1 / (rank + 10) for rank in range(len(words))]
    return " ".join(chance.choices(words, often, k=130_000))


_TEXT: Final = _text()

NO_LIMITS: Final = Limits(steps=None)


class Counter(State):
    count: int = 0
    limit: int = 0


class Chat(Counter):
    messages: Annotated[list[str], append] = []


class Items(State):
    items: list[int] = []
    results: list[int] = []


class Tally(State):
    names: Annotated[list[str], append] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Work that can be done in any size.

    Args:
        n: the size that is compared with twice that size.
        stored: whether there is a SQLite store; without one there is no store at all.
        work: does it in a size; None is no store.
    """

    n: int
    stored: bool
    work: Callable[[int, Store | None], None]


def count_up(state: Counter) -> Update:
    return {"count": state.count + 1}


async def count_up_async(state: Counter) -> Update:
    return count_up(state)


def again(state: Counter) -> Literal["step", "END"]:
    return "step" if state.count < state.limit else "END"


async def again_async(state: Counter) -> Literal["step", "END"]:
    return again(state)


def looped(node: Callable[..., Any], router: Callable[..., Any] = again, model: type[Any] = Counter) -> Graph[Any]:
    """A node, and a router that leads back to it."""
    graph = Graph("loop", model)
    graph.node(node, name="step")
    graph.router(router)
    graph.chain(START, "step", router)
    return graph


LOOP: Final = looped(count_up)
LOOP_ASYNC: Final = looped(count_up_async, again_async)


def loop(durability: Durability = "step") -> Callable[[int, Store | None], None]:
    """A node that counts and a router that leads back to it, both sync."""

    def work(n: int, store: Store | None) -> None:
        run = LOOP.run_sync(Counter(limit=n), store=store, run_id="r", limits=NO_LIMITS, durability=durability)
        assert run.state.count == n

    return work


def loop_async(n: int, store: Store | None) -> None:
    """The same, both async."""
    run = asyncio.run(LOOP_ASYNC.run(Counter(limit=n), store=store, run_id="r", limits=NO_LIMITS))
    assert run.state.count == n


def history(size: int) -> Callable[[int, Store | None], None]:
    """The loop, and each step appends a message of so many characters to a list that is never replaced."""

    def say(state: Chat) -> Update:
        return {"count": state.count + 1, "messages": [_TEXT[state.count * size :][:size]]}

    graph = looped(say, model=Chat)

    def work(n: int, store: Store | None) -> None:
        run = graph.run_sync(Chat(limit=n), store=store, run_id="r", limits=NO_LIMITS)
        assert len(run.state.messages) == n

    return work


@cache
def _line_of(n: int) -> Graph[Counter]:
    graph = Graph("line", Counter)
    for number in range(n):
        graph.node(count_up, name=f"n{number}")
    graph.chain(START, *(f"n{number}" for number in range(n)), END)
    graph.check()
    return graph


def line(n: int, store: Store | None) -> None:
    """As many nodes in a row, defined and checked before."""
    assert _line_of(n).run_sync(store=store, run_id="r", limits=NO_LIMITS).state.count == n


def _map() -> Graph[Items]:
    graph = Graph("map", Items)

    @graph.map(over="items", into="results")
    async def double(item: int) -> int:
        return 2 * item

    graph.chain(START, double, END)
    return graph


MAP: Final = _map()


def mapped(n: int, store: Store | None) -> None:
    """One node over as many items."""
    run = asyncio.run(MAP.run(Items(items=list(range(n))), store=store, run_id="r", limits=NO_LIMITS))
    assert run.state.results == [2 * item for item in range(n)]


@cache
def _fork_of(n: int) -> Graph[Tally]:
    graph = Graph("fork", Tally)

    def named(name: str) -> Callable[[Tally], Awaitable[Update]]:
        async def branch(state: Tally) -> Update:
            return {"names": [name]}

        return branch

    @graph.node
    def split(state: Tally) -> Update:
        return {}

    @graph.node
    def meet(state: Tally) -> Update:
        return {}

    names = [f"b{number}" for number in range(n)]
    graph.chain(START, split)
    for name in names:
        graph.node(named(name), name=name)
        graph.chain(split, name, meet)
    graph.chain(meet, END)
    graph.check()
    return graph


def forked(n: int, store: Store | None) -> None:
    """As many branches of one node, and a join; defined and checked before."""
    run = asyncio.run(_fork_of(n).run(store=store, run_id="r", limits=NO_LIMITS))
    assert run.state.names == [f"b{number}" for number in range(n)]


LAPS: Final = 10


def many(n: int, store: Store | None) -> None:
    """As many steps, of runs of ten laps each that are all in flight at once."""

    async def one(number: int) -> int:
        run = await LOOP_ASYNC.run(Counter(limit=LAPS), store=store, run_id=f"r{number}", limits=NO_LIMITS)
        return run.state.count

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(one(number) for number in range(n // LAPS)))

    assert asyncio.run(all_at_once()) == [LAPS] * (n // LAPS)


CASES: Final = {
    "loop": Case(n=200, stored=False, work=loop()),
    "loop, async": Case(n=200, stored=False, work=loop_async),
    "history": Case(n=200, stored=False, work=history(MESSAGE)),
    "line": Case(n=100, stored=False, work=line),
    "map": Case(n=200, stored=False, work=mapped),
    "fork": Case(n=50, stored=False, work=forked),
    "many runs": Case(n=200, stored=False, work=many),
    "loop, stored": Case(n=150, stored=True, work=loop()),
    "loop, stored, fast": Case(n=150, stored=True, work=loop("fast")),
    "loop, async, stored": Case(n=150, stored=True, work=loop_async),
    "history, stored": Case(n=150, stored=True, work=history(MESSAGE)),
    "map, stored": Case(n=200, stored=True, work=mapped),
    "fork, stored": Case(n=50, stored=True, work=forked),
    "many runs, stored": Case(n=200, stored=True, work=many),
}
