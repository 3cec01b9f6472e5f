"""Ctrl-C ends a call from sync code, whatever runs in it just then."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from flowagent import END, START, Graph, State
from flowagent.stores import MemoryStore


class Nothing(State):
    """Nodes that only run have nothing to say."""

    note: str = ""


def test_it_is_not_lost_when_the_run_comes_to_its_end_before_anything_waits() -> None:
    """What is done is stored; but whoever asked to stop is not told that all went on as if nothing had been asked."""
    store, graph = MemoryStore(), Graph("last", Nothing)

    @graph.node
    async def last(state: Nothing) -> None:
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)

    graph.chain(START, last, END)
    with pytest.raises(KeyboardInterrupt):
        graph.run_sync(store=store, run_id="r")
    assert asyncio.run(graph.load("r", store=store)).status == "completed"


def test_it_reaches_a_sync_node_that_has_run_a_graph() -> None:
    """The functions of that graph, on a thread of its own or in this one, are over; the node is not."""
    store, inner, outer = MemoryStore(), Graph("inner", Nothing), Graph("outer", Nothing)

    @inner.node
    async def quick(state: Nothing) -> None:
        await asyncio.sleep(0)

    inner.chain(START, quick, END)

    @outer.node
    def holds(state: Nothing) -> None:
        inner.run_sync()
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it was not interrupted")

    outer.chain(START, holds, END)
    with pytest.raises(KeyboardInterrupt):
        outer.run_sync(store=store, run_id="r")
    run = asyncio.run(outer.load("r", store=store))
    assert (run.status, run.errors) == ("interrupted", ())


def test_these_tests_run_where_signals_arrive() -> None:
    """Only the main thread has signals, and only Python's own handler is replaced."""
    assert threading.current_thread() is threading.main_thread()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
