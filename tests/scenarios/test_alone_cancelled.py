"""What stops an async function that is awaited where the engine stands, in every combination."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flowagent import END, START, Graph, Limits, Retry, State, Update
from flowagent.stores import MemoryStore


class Seen(State):
    """What nodes have to say."""

    seen: list[str] = []


def line(*nodes: Callable[[Seen], object]) -> Graph[Seen]:
    """A graph that runs some nodes one after the other."""
    graph = Graph("line", Seen)
    for node in nodes:
        graph.node(node)
    graph.chain(START, *[node.__name__ for node in nodes], END)
    return graph


def waiting(entered: asyncio.Event, left: list[str], *, stubborn: bool = False) -> Graph[Seen]:
    """A node that waits for ever; a stubborn one returns when it is cancelled."""

    async def waits(state: Seen) -> Update:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.append("cancelled")
            if not stubborn:
                raise
        return {"seen": ["waits"]}

    return line(waits)


async def test_what_was_cancelled_and_failed_of_it_is_not_tried_again() -> None:
    """A client that cannot be closed makes an error of the cancellation, which its `retry` would allow."""
    entered, store = asyncio.Event(), MemoryStore()
    graph = Graph("unclean", Seen)

    @graph.node(retry=Retry(attempts=3, backoff=0.001))
    async def waits(state: Seen) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionError("it cannot be closed")

    graph.chain(START, waits, END)
    running = asyncio.ensure_future(graph.run(store=store, run_id="r"))
    await entered.wait()
    stopped = await graph.cancel("r", store=store)
    history = [(step.task, step.attempt) for step in stopped.history]
    assert (stopped.status, (await running).status, history) == ("cancelled", "cancelled", [("waits", 1)])


async def test_a_run_whose_steps_are_used_up_can_be_cancelled_while_something_is_in_flight() -> None:
    """It stops for two reasons then, and needs not wait for what may take for ever."""
    entered, passed, store = asyncio.Event(), asyncio.Event(), MemoryStore()
    graph = Graph("two ways", Seen)

    @graph.node
    async def fork(state: Seen) -> None: ...

    @graph.node
    async def slow(state: Seen) -> None:
        entered.set()
        await asyncio.Event().wait()

    @graph.node
    async def quick(state: Seen) -> None:
        passed.set()

    @graph.node
    async def too_many(state: Seen) -> None: ...

    graph.chain(START, fork, slow, END)
    graph.chain(fork, quick, too_many, END)
    running = asyncio.ensure_future(graph.run(store=store, run_id="r", limits=Limits(steps=3)))
    await entered.wait()
    await passed.wait()
    for _ in range(10):  # turns of the loop, in which it finds that there are no steps left
        await asyncio.sleep(0)
    await graph.cancel("r", store=store)
    run = await running
    assert (run.status, run.reason) == ("cancelled", "somebody asked to cancel it")
