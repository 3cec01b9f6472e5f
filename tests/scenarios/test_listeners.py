"""Listeners of runs: several, harmless, told of things in the context in which they happen."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from flowagent import END, START, Graph, Retry, Run, State, Update
from flowagent.core.events import Event, RunStarted, TaskStarted
from flowagent.core.listening import Call, Observation, listening
from flowagent.errors import FlowAgentError, RunFailed
from flowagent.stores import MemoryStore, Store
from tests.scenarios import Caller


class Count(State):
    number: int = 0
    items: list[int] = []


def line(*nodes: Any, retry: Retry | None = None) -> Graph[Count, object]:
    g: Graph[Count, object] = Graph("line", Count)
    options: dict[str, Any] = {} if retry is None else {"retry": retry}
    g.chain(START, *[g.node(fn, **options) for fn in nodes], END)
    return g


def one(state: Count) -> Update:
    return {"number": state.number + 1}


def broken(state: Count) -> Update:
    raise ValueError("broken")


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


class Loud:
    """A listener that always raises."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __call__(self, event: Event) -> None:
        raise self._error

    def __repr__(self) -> str:
        return "Loud()"


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
async def test_a_listener_that_raises_changes_nothing_for_the_run_and_the_others(
    caller: Caller, store: Store, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """FA-119: the run ends as without it, the next listener hears all, and what was raised is logged once."""
    told: list[Event] = []
    loud = Loud(error)
    run: Run[Any] = await caller.run(line(one), Count(), run_id="well", store=store, listeners=[loud, told.append])
    assert (run.status, run.state.number, kinds(told)) == (
        "completed",
        1,
        ["RunStarted", "TaskStarted", "TaskDone", "RunEnded"],
    )
    told.clear()
    with pytest.raises(RunFailed, match="ValueError: broken"):
        await caller.run(line(broken), Count(), run_id="ill", store=store, listeners=[loud, told.append])
    assert kinds(told) == ["RunStarted", "TaskStarted", "TaskFailed", "RunEnded"]
    logged = [record for record in caplog.records if record.name == "flowagent"]
    assert [(record.levelno, record.exc_info[1] if record.exc_info else None) for record in logged] == [
        (logging.WARNING, error)
    ] * 2  # once for each run


async def test_a_listener_cannot_swallow_a_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    """FA-119: what cancels the call is no business of a listener's, whatever that raises."""
    begun = asyncio.Event()

    async def wait(state: Count) -> Update:
        begun.set()
        await asyncio.Event().wait()

    store = MemoryStore()
    work = asyncio.ensure_future(line(wait).run({}, run_id="r", store=store, listeners=[Loud(ValueError("no"))]))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (await store.info("r")).status == "cancelled"


async def test_a_block_has_all_its_runs_heard_with_those_that_nodes_start() -> None:
    """Outside it, and with `listeners=`, only what was asked for is heard."""
    inside: list[Event] = []
    own: list[Event] = []

    async def outer(state: Count) -> Update:
        await line(one).run({})
        return None

    with listening(inside.append):
        await line(outer).run({}, listeners=[own.append])
    await line(one).run({})
    assert kinds(own) == ["RunStarted", "TaskStarted", "TaskDone", "RunEnded"]
    assert kinds(inside) == [*kinds(own)[:2], *kinds(own), *kinds(own)[2:]]


async def test_a_stream_has_its_listeners_beside_it(store: Store) -> None:
    """Both hear the same."""
    told: list[Event] = []
    async with line(one).stream({}, store=store, listeners=[told.append]) as events:
        assert [event async for event in events] == told


def test_what_cannot_listen_is_refused() -> None:
    """Before anything runs."""
    nothing: Any = 7
    for work in (lambda: line(one).run_sync({}, listeners=[nothing]), lambda: listening(nothing).__enter__()):
        with pytest.raises(FlowAgentError, match="7 cannot listen: a listener is called with every event"):
            work()


_mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="nobody's")


async def test_what_is_set_when_an_attempt_begins_holds_in_it_alone(caller: Caller, store: Store) -> None:
    """Context variables that a listener sets at `TaskStarted` are the attempt's, wherever it runs."""
    seen: list[tuple[str, str]] = []

    def mark(event: Event) -> None:
        if isinstance(event, TaskStarted):
            _mark.set(f"{event.task_id}/{event.attempt}")

    def plain(state: Count) -> Update:
        seen.append(("plain", _mark.get()))
        return {"items": [1, 2]}

    async def later(state: Count) -> Update:
        await asyncio.sleep(0)
        seen.append(("later", _mark.get()))
        return None

    def again(state: Count) -> Update:
        seen.append(("again", _mark.get()))
        if len([one for one in seen if one[0] == "again"]) < 2:
            raise ValueError("once more")
        return None

    g: Graph[Count, object] = Graph("g", Count)

    @g.map(over="items", into="items")
    def item(number: int) -> int:
        seen.append(("item", _mark.get()))
        return number

    g.chain(START, g.node(plain), "item", g.node(later), g.node(again, retry=Retry(attempts=2, backoff=0)), END)
    await caller.run(g, Count(), run_id="r", store=store, listeners=[mark])
    assert sorted(seen) == [
        ("again", "again/1"),
        ("again", "again/2"),
        ("item", "item[0]/1"),
        ("item", "item[1]/1"),
        ("later", "later/1"),
        ("plain", "plain/1"),
    ]
    assert _mark.get() == "nobody's"


async def test_each_attempt_is_told_of(store: Store) -> None:
    """Not the first one only."""
    told: list[Event] = []
    with pytest.raises(RunFailed):
        await line(broken, retry=Retry(attempts=3, backoff=0)).run({}, store=store, listeners=[told.append])
    assert [event.attempt for event in told if isinstance(event, TaskStarted)] == [1, 2, 3]


class Watcher:
    """An observer that notes what it sees."""

    def __init__(self, carried: Mapping[str, str]) -> None:
        self.carried = carried
        self.seen: list[Any] = []

    def begin(self, call: Call) -> Observation:
        self.seen.append(call)
        return self

    def tell(self, event: Event) -> None:
        self.seen.append(event)

    def end(self, error: BaseException | None) -> None:
        self.seen.append(error)


async def test_an_observer_sees_a_call_from_beginning_to_end(caller: Caller, store: Store) -> None:
    """What it wants kept comes back to the calls that go on with the run, and to them only."""
    first, second = Watcher({"where": "here"}), Watcher({"where": "there"})
    fails = True

    def maybe(state: Count) -> Update:
        if fails:
            raise ValueError("not yet")
        return None

    g = line(maybe)
    with pytest.raises(RunFailed) as raised:
        await caller.run(g, Count(), run_id="r", store=store, listeners=[first])
    fails = False
    run = await caller.resume(g, "r", store=store, listeners=[second])
    last = Watcher({})
    assert (await caller.run(g, Count(), run_id="r", store=store, listeners=[last])).replayed
    call = Call(run_id="r", graph="line", is_agent=False)
    starts = [event for event in first.seen + second.seen if isinstance(event, RunStarted)]
    assert [(event.resumed, event.carried) for event in starts] == [(False, {}), (True, {"where": "here"})]
    assert (first.seen[0], first.seen[-1], second.seen[0], second.seen[-1]) == (call, raised.value, call, None)
    assert last.seen == [call, None]
    assert run.status == "completed"


async def test_an_observer_that_raises_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Neither when a call begins nor when it ends."""

    class Broken(Watcher):
        def end(self, error: BaseException | None) -> None:
            raise ValueError("at the end")

    class Refusing(Watcher):
        def begin(self, call: Call) -> Observation:
            raise ValueError("at the beginning")

    whole = Watcher({})
    run = await line(one).run({}, listeners=[Refusing({}), Broken({}), whole])
    assert (run.status, whole.seen[-1]) == ("completed", None)
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "at the beginning",
        "at the end",
    ]


async def test_a_graph_that_is_gone_on_with_is_told_of_before_what_is_in_it() -> None:
    """So that whoever watches a resumed run knows what the tasks stand in."""
    fails = True

    def maybe(state: Count) -> Update:
        if fails:
            raise ValueError("not yet")
        return None

    inner: Graph[Count, object] = Graph("inner", Count)
    inner.chain(START, inner.node(maybe), END)
    g: Graph[Count, object] = Graph("outer", Count)
    g.chain(START, g.node(inner, name="nested"), END)
    store = MemoryStore()
    with pytest.raises(RunFailed):
        await g.run({}, run_id="r", store=store)
    fails = False
    told: list[Event] = []
    await g.resume("r", store=store, listeners=[told.append])
    started = [(event.task_id, event.opens) for event in told if isinstance(event, TaskStarted)]
    assert started == [("nested", "inner"), ("nested/maybe", None)]
