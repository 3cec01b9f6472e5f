"""Case bank, groups E and L: things at once, cancelling, and databases. `tests/SCENARIOS.md` lists all cases."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from flowagent import END, START, Context, Graph, ItemError, Retry, State, Update, append
from flowagent.core.events import TaskFailed, TaskStarted
from flowagent.errors import RunConflict, RunExists, RunFailed, StoreError
from flowagent.stores import MemoryStore, SQLiteStore, Store
from tests.patience import PATIENCE
from tests.scenarios import Caller, Trail, problems, tasks
from tests.stores.children import Child

# -- FA-045: one of three fails ------------------------------------------------------------------------------------


class Calls(State):
    calls: list[str] = ["t1", "t2", "t3"]
    collected: list[str | ItemError] = []
    strict: list[str] = []


def tools(counts: dict[str, int], *, into: str, broken: set[str], **options: Any) -> Graph[Calls, object]:
    g: Graph[Calls, object] = Graph("tools", Calls)
    all_there = asyncio.Barrier(3)

    @g.map(over="calls", into=into, **options)
    async def tool(name: str) -> str:
        counts[name] = counts.get(name, 0) + 1
        if counts[name] == 1:
            await all_there.wait()
        if name in broken:
            raise ValueError(f"{name} is broken")
        return f"{name} ok"

    g.chain(START, tool, END)
    return g


async def test_fa_045_good_results_are_kept_beside_a_bad_one(store: Store) -> None:
    """FA-045: three results in the order of the calls, the bad one marked; each was called once."""
    counts: dict[str, int] = {}
    run = await tools(counts, into="collected", broken={"t2"}, on_item_error="collect").run(Calls(), store=store)
    assert run.state.collected == ["t1 ok", ItemError(index=1, kind="ValueError", message="t2 is broken"), "t3 ok"]
    assert counts == {"t1": 1, "t2": 1, "t3": 1}


async def test_fa_045_only_the_bad_one_is_paid_for_again(store: Store) -> None:
    """FA-045: where a failed item fails its map, resuming calls that item alone."""
    counts: dict[str, int] = {}
    broken = {"t2"}
    graph = tools(counts, into="strict", broken=broken)
    with pytest.raises(RunFailed) as caught:
        await graph.run(Calls(), store=store, run_id="r")
    assert problems(caught.value.run) == {"tool[1]": "ValueError: t2 is broken"}
    broken.clear()
    run = await graph.resume("r", store=store)
    assert (run.state.strict, counts) == (["t1 ok", "t2 ok", "t3 ok"], {"t1": 1, "t2": 2, "t3": 1})


# -- FA-046, FA-047: cancelling ------------------------------------------------------------------------------------


class Ticker:
    """An async node that goes on until it is cancelled, and notes that it was."""

    def __init__(self) -> None:
        self.count = 0
        self.started = asyncio.Event()
        self.noted: list[str] = []
        self.graph: Graph[Trail, object] = Graph("ticker", Trail)
        self.graph.node(self.tick, name="tick")
        self.graph.chain(START, "tick", END)

    async def tick(self, state: Trail) -> Update:
        try:
            while True:
                self.count += 1
                self.started.set()
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.noted.append("cancelled")
            raise
        finally:
            self.noted.append("cleaned up")


@pytest.mark.parametrize("how", ["task", "verb"])
async def test_fa_046_cancelling_a_run_cancels_what_runs(store: Store, how: str) -> None:
    """FA-046: the node saw the cancellation and has cleaned up before the caller goes on; it does nothing more."""
    ticker = Ticker()
    call = asyncio.create_task(ticker.graph.run(Trail(), store=store, run_id="r"))
    await ticker.started.wait()
    if how == "task":
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    else:
        assert (await ticker.graph.cancel("r", store=store)).status == "cancelled"
        assert (await call).status == "cancelled"
    assert ticker.noted == ["cancelled", "cleaned up"]
    count = ticker.count
    await asyncio.sleep(0.05)
    assert ticker.count == count
    assert (await ticker.graph.load("r", store=store)).status == "cancelled"


class SlowStore(MemoryStore):
    """A store whose next append waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False
        self.is_waiting = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def append(self, *args: Any, **options: Any) -> None:
        if self.waits:
            self.waits = False
            self.is_waiting.set()
            await self.may_go_on.wait()
        await super().append(*args, **options)


async def test_fa_047_cancelled_during_a_call() -> None:
    """FA-047 (a): the task is cancelled, not failed, though the node has a retry on everything."""
    store, starts, started = MemoryStore(), [0], asyncio.Event()
    g: Graph[Trail, object] = Graph("call", Trail)

    @g.node(retry=Retry(attempts=5, backoff=0))
    async def call(state: Trail) -> Update:
        starts[0] += 1
        started.set()
        await asyncio.Event().wait()
        return None

    g.chain(START, call, END)
    task = asyncio.create_task(g.run(Trail(), store=store, run_id="r"))
    await started.wait()
    task.cancel()
    await asyncio.wait([task], timeout=PATIENCE)
    assert (task.cancelled(), starts) == (True, [1])
    loaded = await g.load("r", store=store)
    assert (loaded.status, loaded.errors) == ("cancelled", ())


async def test_fa_047_cancelled_during_a_write() -> None:
    """FA-047 (b): the record that is being written is written; the next task is not started."""
    store = SlowStore()
    g: Graph[Trail, object] = Graph("write", Trail)
    started: list[str] = []

    def node(name: str) -> None:
        async def note(state: Trail) -> Update:
            started.append(name)
            store.waits = name == "a"
            return {"seen": [name]}

        g.node(note, name=name)

    node("a")
    node("b")
    g.chain(START, "a", "b", END)
    task = asyncio.create_task(g.run(Trail(), store=store, run_id="r"))
    await store.is_waiting.wait()
    task.cancel()
    await asyncio.sleep(0)
    store.may_go_on.set()
    await asyncio.wait([task], timeout=PATIENCE)
    loaded = await g.load("r", store=store)
    assert (task.cancelled(), started) == (True, ["a"])
    assert (loaded.status, loaded.state.seen) == ("cancelled", ["a"])
    run = await g.resume("r", store=store)
    assert (run.state.seen, started) == (["a", "b"], ["a", "b"])


async def test_fa_047_cancelled_during_a_backoff() -> None:
    """FA-047 (c): no further attempt is made, however long the wait would have been."""
    store, attempts = MemoryStore(), [0]
    g: Graph[Trail, object] = Graph("backoff", Trail)

    @g.node(retry=Retry(attempts=3, backoff=60, jitter=0))
    async def flaky(state: Trail) -> Update:
        attempts[0] += 1
        raise ConnectionError("down")

    g.chain(START, flaky, END)
    failed = asyncio.Event()

    async def watch() -> None:
        async with g.stream(Trail(), store=store, run_id="r") as events:
            async for event in events:
                if isinstance(event, TaskFailed):
                    assert event.retry_in == 60
                    failed.set()

    task = asyncio.create_task(g.run(Trail(), store=store, run_id="called"))
    watched = asyncio.create_task(watch())
    await failed.wait()
    for one in (task, watched):
        one.cancel()
    await asyncio.wait([task, watched], timeout=PATIENCE)
    assert (task.cancelled(), watched.cancelled(), attempts) == (True, True, [2])
    assert (await g.load("called", store=store)).status == "cancelled"


async def test_fa_047_a_node_that_swallows_its_cancellation_does_not_go_on() -> None:
    """FA-047: a node that catches CancelledError and returns is settled; nothing after it starts."""
    store, started = MemoryStore(), asyncio.Event()
    g: Graph[Trail, object] = Graph("stubborn", Trail)

    @g.node
    async def stubborn(state: Trail) -> Update:
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return {"seen": ["stubborn"]}

    g.node(lambda state: {"seen": ["after"]}, name="after")
    g.chain(START, stubborn, "after", END)
    task = asyncio.create_task(g.run(Trail(), store=store, run_id="r"))
    await started.wait()
    task.cancel()
    await asyncio.wait([task], timeout=PATIENCE)
    loaded = await g.load("r", store=store)
    assert (task.cancelled(), loaded.status, loaded.state.seen) == (True, "cancelled", ["stubborn"])


# -- FA-049: two starts of one run ---------------------------------------------------------------------------------


class Message(State):
    text: str
    seen: Annotated[list[str], append] = []


def echo(calls: list[str]) -> Graph[Message, object]:
    g: Graph[Message, object] = Graph("echo", Message)

    @g.node
    def note(state: Message) -> Update:
        calls.append(state.text)
        return {"seen": [state.text]}

    g.chain(START, note, END)
    return g


async def test_fa_049_two_starts_of_one_run_make_one(store: Store) -> None:
    """FA-049, threads: one input is taken; the other start is told busy or taken, and nothing forks or is lost."""
    for turn in range(25):
        calls: list[str] = []
        graph, run_id = echo(calls), f"r{turn}"
        at_once = threading.Barrier(2)

        def start(text: str, graph: Any = graph, run_id: str = run_id, at_once: Any = at_once) -> str:
            at_once.wait(PATIENCE)
            try:
                return "ok" if graph.run_sync(Message(text=text), store=store, run_id=run_id) else ""
            except (RunConflict, RunExists) as error:
                return type(error).__name__

        outcomes = await asyncio.gather(asyncio.to_thread(start, "one"), asyncio.to_thread(start, "two"))
        run = await graph.load(run_id, store=store)
        assert sorted(outcomes)[1] == "ok"
        assert (run.status, run.state.seen, calls) == ("completed", [run.state.text], [run.state.text])
        assert run.state.text == ("one" if outcomes[0] == "ok" else "two")
        assert [record.seq for record in await store.read(run_id)] == [0, 1, 2]


_TWO_STARTS = """
from flowagent import END, START, Graph, State
from flowagent.errors import RunConflict, RunExists

class Message(State):
    text: str
    seen: list[str] = []

graph = Graph("echo", Message)
graph.node(lambda state: {"seen": [state.text]}, name="note")
graph.chain(START, "note", END)
graph.check()
store = SQLiteStore(path)
say("ready")
while (word := heard().strip()) != "end":
    try:
        graph.run_sync(Message(text=arguments[0]), store=store, run_id=word)
        say("ok")
    except (RunConflict, RunExists) as error:
        say(type(error).__name__)
"""


async def test_fa_049_two_processes_that_start_one_run(tmp_path: Path) -> None:
    """FA-049, processes: the same, decided in the file."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    async with Child(_TWO_STARTS, path, "one") as one, Child(_TWO_STARTS, path, "two") as two:
        assert (await one.line(), await two.line()) == ("ready", "ready")
        for turn in range(10):
            one.tell(f"r{turn}")
            two.tell(f"r{turn}")
            outcomes = {"one": await one.line(), "two": await two.line()}
            run = await echo([]).load(f"r{turn}", store=store)
            assert sorted(outcomes.values())[1] == "ok"
            assert set(outcomes.values()) <= {"ok", "RunConflict", "RunExists"}
            assert (outcomes[run.state.text], run.state.seen) == ("ok", [run.state.text])
            assert [record.seq for record in await store.read(f"r{turn}")] == [0, 1, 2]
        one.tell("end")
        two.tell("end")
        assert (await one.end(), await two.end()) == (0, 0)
    await store.close()


_TWO_RESUMES = """
from pathlib import Path
from flowagent import END, START, Graph, State
from flowagent.errors import AnswerError, RunConflict

class Order(State):
    answer: str = ""

def pay(state):
    with open(arguments[0], "a") as file:
        file.write("paid\\n")

graph = Graph("pay", Order)
graph.gate("approve", question="pay?", into="answer")
graph.node(pay)
graph.chain(START, "approve", pay, END)
graph.check()
store = SQLiteStore(path)
say("ready")
while (word := heard().strip()) != "end":
    try:
        graph.resume_sync(word, store=store, answers={"approve": "yes"})
        say("paid")
    except (RunConflict, AnswerError) as error:
        say(type(error).__name__)
"""


def lines_of(path: Path) -> list[str]:
    """The lines of a text file, none if it is not there."""
    return path.read_text().splitlines() if path.exists() else []


async def test_fa_043_two_processes_that_resume_pay_once(tmp_path: Path) -> None:
    """FA-043, processes: claimed in the file first; one pays, the other is told."""
    path, effects = tmp_path / "runs.db", tmp_path / "effects"
    store = SQLiteStore(path)

    class Order(State):
        answer: str = ""

    graph: Graph[Order, object] = Graph("pay", Order)
    graph.gate("approve", question="pay?", into="answer")
    graph.node(lambda state: None, name="pay")
    graph.chain(START, "approve", "pay", END)
    async with (
        Child(_TWO_RESUMES, path, str(effects)) as one,
        Child(_TWO_RESUMES, path, str(effects)) as two,
    ):
        assert (await one.line(), await two.line()) == ("ready", "ready")
        for turn in range(10):
            await graph.run(Order(), store=store, run_id=f"r{turn}")
            one.tell(f"r{turn}")
            two.tell(f"r{turn}")
            outcomes = [await one.line(), await two.line()]
            assert outcomes.count("paid") == 1
            assert set(outcomes) <= {"paid", "RunConflict", "AnswerError"}
            assert lines_of(effects) == ["paid"] * (turn + 1)
        one.tell("end")
        two.tell("end")
        assert (await one.end(), await two.end()) == (0, 0)
    await store.close()


# -- FA-050: finishing order is not recorded order -----------------------------------------------------------------

_BRANCHES = """
from typing import Annotated
from flowagent import END, START, Graph, State, append, merge

class Group(State):
    outputs: Annotated[dict[str, str], merge] = {}
    order: Annotated[list[str], append] = []

missing, order = arguments[0], arguments[1:]
gates = {name: asyncio.Event() for name in order}
graph = Graph("branches", Group)

def branch(name):
    async def work(state):
        before = order[: order.index(name)]
        if name == missing:
            await asyncio.Event().wait()
        for other in before:
            if other != missing:
                await gates[other].wait()
        gates[name].set()
        return {"outputs": {name: name * 3}, "order": [name]}
    graph.node(work, name=name)

for name in "abc":
    branch(name)
    graph.chain(START, name, "join")
graph.node(lambda state: None, name="join")
graph.chain("join", END)
"""

_STARTS_BRANCHES = (
    _BRANCHES
    + """
store = SQLiteStore(path)

async def main():
    task = asyncio.create_task(graph.run(store=store, run_id="r"))
    while len(await store.read("r") if task.get_loop() and (await store.runs()) else []) < 3:
        await asyncio.sleep(0.005)
    say("two are done")
    await task

asyncio.run(main())
"""
)

_RESUMES_BRANCHES = (
    _BRANCHES
    + """
run = graph.resume_sync("r", store=path)
say(",".join(step.task for step in run.history if step.kind == "done"))
say(",".join(f"{name}={text}" for name, text in run.state.outputs.items()))
say(",".join(run.state.order))
"""
)


@pytest.mark.parametrize("order", ["abc", "cba"])
async def test_fa_050_a_result_belongs_to_what_it_is_not_to_when_it_came(tmp_path: Path, order: str) -> None:
    """FA-050: killed after two of three, gone on with in another process and another order: one call each."""
    path, missing = tmp_path / "runs.db", order[2]
    async with Child(_STARTS_BRANCHES, path, missing, *order) as child:
        assert await child.line() == "two are done"
        child.signal(signal.SIGKILL)
    async with Child(_RESUMES_BRANCHES, path, "", *reversed(order)) as child:
        assert await child.line() == f"{order[0]},{order[1]},{missing},join"
        assert await child.line() == "a=aaa,b=bbb,c=ccc"
        assert await child.line() == "a,b,c"
        assert await child.end() == 0


# -- FA-051: one way to execute a node -----------------------------------------------------------------------------


class Flaky:
    """A node that fails a number of times, wherever it is put."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    def __call__(self, state: Trail) -> Update:
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError(f"down {self.calls}")
        return {"seen": ["f"]}


def in_sequence(f: Flaky, after: list[str]) -> Graph[Trail, object]:
    g: Graph[Trail, object] = Graph("sequence", Trail)
    g.node(f, name="f", retry=Retry(attempts=3, backoff=0))
    g.node(lambda state: after.append("after"), name="after")
    g.chain(START, "f", "after", END)
    return g


def in_parallel(f: Flaky, after: list[str]) -> Graph[Trail, object]:
    g = in_sequence(f, after)
    g.node(lambda state: {"seen": ["beside"]}, name="beside")
    g.chain(START, "beside", "after")
    return g


def in_loop(f: Flaky, after: list[str]) -> Graph[Trail, object]:
    g: Graph[Trail, object] = Graph("loop", Trail)
    g.node(f, name="f", retry=Retry(attempts=3, backoff=0))
    g.node(lambda state: after.append("after"), name="after")

    @g.router
    def again(state: Trail) -> Literal["f", "after"]:
        return "after"

    g.chain(START, "f", again)
    g.chain("after", END)
    return g


def in_graph(f: Flaky, after: list[str]) -> Graph[Trail, object]:
    inner: Graph[Trail, object] = Graph("inner", Trail)
    inner.node(f, name="f", retry=Retry(attempts=3, backoff=0))
    inner.chain(START, "f", END)
    g: Graph[Trail, object] = Graph("outer", Trail)
    g.node(inner)
    g.node(lambda state: after.append("after"), name="after")
    g.chain(START, inner, "after", END)
    return g


@pytest.mark.parametrize("place", [in_sequence, in_parallel, in_loop, in_graph])
async def test_fa_051_policies_hold_wherever_a_node_sits(caller: Caller, store: Store, place: Any) -> None:
    """FA-051: three attempts and success, or failure with the node's own exception; nobody gets an error as data."""
    f, after = Flaky(2), list[str]()
    run = await caller.run(place(f, after), Trail(), store=store)
    assert (run.status, f.calls, "f" in run.state.seen, after) == ("completed", 3, True, ["after"])
    f, after = Flaky(99), list[str]()
    failure = await caller.failure(place(f, after), Trail(), store=store)
    error = failure.errors[0]
    assert (error.node, error.kind, error.message, error.attempt) == ("f", "ConnectionError", "down 3", 3)
    assert isinstance(error.__cause__, ConnectionError)
    assert (f.calls, after, "f" in failure.run.state.seen) == (3, [], False)


# -- FA-102, FA-103: many at one file ------------------------------------------------------------------------------

_WRITER = """
from flowagent import Graph, Limits, State, START

class Count(State):
    n: int = 0

graph = Graph("count", Count)
graph.node(lambda state: {"n": state.n + 1}, name="add")
graph.router(lambda state: "add" if state.n < 50 else "END", name="again", to=["add", "END"])
graph.chain(START, "add", "again")
graph.check()
store = SQLiteStore(path)
say("ready")
heard()
for turn in range(4):
    run = graph.run_sync(Count(), store=store, run_id=f"{arguments[0]}{turn}", limits=Limits(steps=500))
    say(run.status, run.state.n)
"""


async def four_lines(child: Child) -> list[str]:
    """What a child says next."""
    return [await child.line() for _ in range(4)]


async def test_fa_102_two_writers_and_a_reader(tmp_path: Path) -> None:
    """FA-102: two processes store 200 steps each while a third reads all the time: no errors, and nobody waits long."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    slowest = 0.0
    async with Child(_WRITER, path, "one") as one, Child(_WRITER, path, "two") as two:
        assert (await one.line(), await two.line()) == ("ready", "ready")
        one.tell()
        two.tell()
        done = asyncio.gather(four_lines(one), four_lines(two))
        while not done.done():
            began = time.monotonic()
            for info in await store.runs():
                await store.read(info.run_id, after=info.next_seq - 20)
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0)
        assert await done == [["completed 50"] * 4] * 2
    records = [record for info in await store.runs() for record in await store.read(info.run_id)]
    assert sum(record.kind == "done" and b'"task":"add@' in record.data for record in records) == 400
    assert slowest < 10  # what a process waits for a lock, at most
    await store.close()


async def test_fa_103_a_write_never_begins_with_a_read(tmp_path: Path) -> None:
    """FA-103: twenty at once read what is newest and append; a reader with an old view holds nobody up."""
    path = tmp_path / "runs.db"
    calls: list[str] = []
    graph = echo(calls)
    graph.run_sync(Message(text="first"), store=path, run_id="first")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    stores = [SQLiteStore(path) for _ in range(20)]
    at_once = threading.Barrier(20)

    def write(number: int) -> str:
        at_once.wait(PATIENCE)
        return graph.run_sync(Message(text=str(number)), store=stores[number], run_id=f"r{number}").status

    with ThreadPoolExecutor(20) as pool:
        outcomes = list(pool.map(write, range(20)))
    assert outcomes == ["completed"] * 20
    assert reader.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    reader.close()
    assert len(await stores[0].runs()) == 21
    for store in stores:
        await store.close()


# -- FA-105: the store goes away -----------------------------------------------------------------------------------


class AbsentStore(MemoryStore):
    """A store that cannot save for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False

    async def append(self, *args: Any, **options: Any) -> None:
        if self.is_away:
            raise StoreError("the store is away")
        await super().append(*args, **options)


async def test_fa_105_a_store_that_stays_away_is_told_and_nothing_is_lost(caller: Caller) -> None:
    """FA-105: an error, no further step; back again, only the step whose record was not stored is repeated."""
    store, keys = AbsentStore(), list[str]()
    g: Graph[Trail, object] = Graph("away", Trail)

    def node(name: str) -> None:
        def note(state: Trail, ctx: Context[object, Trail]) -> Update:
            keys.append(ctx.key)
            store.is_away = name == "b" and keys.count(ctx.key) == 1
            return {"seen": [name]}

        g.node(note, name=name)

    for name in "abc":
        node(name)
    g.chain(START, "a", "b", "c", END)
    with pytest.raises(StoreError, match="the store is away"):
        await caller.run(g, Trail(), store=store, run_id="r")
    assert keys == ["r/a", "r/b"]
    store.is_away = False
    run = await caller.resume(g, "r", store=store)
    assert (run.state.seen, keys) == (["a", "b", "c"], ["r/a", "r/b", "r/b", "r/c"])
    assert tasks(run) == ["a", "b", "c"]


# -- FA-106: the end of a program ----------------------------------------------------------------------------------

_FORGETFUL = """
from flowagent import END, START, Graph, State

class Count(State):
    n: int = 0

def add(state):
    if arguments[0] == "interrupted":
        say("started")
        time.sleep(600)
    return {"n": state.n + 1}

graph = Graph("count", Count)
graph.node(add)
graph.chain(START, add, END)

def main():
    store = SQLiteStore(path)
    if arguments[0] == "start-up":
        asyncio.run(store.runs())
        raise SystemExit(3)
    graph.run_sync(Count(), store=store, run_id="r")
    if arguments[0] == "raises":
        raise ValueError("after the run")
    if arguments[0] == "async":
        asyncio.run(graph.run(Count(), store=store, run_id="second"))

main()
"""


@pytest.mark.parametrize(("how", "code"), [("returns", 0), ("async", 0), ("raises", 1), ("start-up", 3)])
async def test_fa_106_a_program_ends_by_itself(tmp_path: Path, how: str, code: int) -> None:
    """FA-106: without closing the store the process ends, with its own exit code; what was stored is there."""
    path = tmp_path / "runs.db"
    async with Child(_FORGETFUL, path, how) as child:
        assert await child.end() == code
    store = SQLiteStore(path)
    assert [info.status for info in await store.runs()] == {"async": ["completed"] * 2, "start-up": []}.get(
        how, ["completed"]
    )
    await store.close()


async def test_fa_106_ctrl_c_ends_it_and_leaves_a_resumable_run(tmp_path: Path) -> None:
    """FA-106: Ctrl-C in the middle of a sync node ends the program; the run is there to be resumed."""
    path = tmp_path / "runs.db"
    async with Child(_FORGETFUL, path, "interrupted") as child:
        assert await child.line() == "started"
        child.signal(signal.SIGINT)
        code = await child.end()
    assert code in (-signal.SIGINT, 128 + signal.SIGINT, 1)
    store = SQLiteStore(path)
    assert [info.status for info in await store.runs()] == ["interrupted"]

    class Count(State):
        n: int = 0

    graph: Graph[Count, object] = Graph("count", Count)
    graph.node(lambda state: {"n": state.n + 1}, name="add")
    graph.chain(START, "add", END)
    assert (await graph.resume("r", store=store)).state == Count(n=1)
    await store.close()


# -- FA-107: killed at any moment ----------------------------------------------------------------------------------

_COUNTED = """
from typing import Annotated
from flowagent import END, START, Graph, State, append

class Trail(State):
    seen: Annotated[list[str], append] = []

graph = Graph("counted", Trail)

def node(name):
    def note(state, ctx):
        with open(arguments[0], "a") as file:
            file.write(f"{ctx.key}\\n")
        return {"seen": [name]}
    note.__annotations__ = {}
    graph.node(note, name=name)

names = [f"n{number}" for number in range(30)]
for name in names:
    node(name)
graph.chain(START, *names, END)
graph.check()
say("ready")
run = graph.run_sync(Trail(), store=path, run_id="r")
say(run.status, len(run.state.seen))
"""


def counted(effects: Path) -> Graph[Trail, object]:
    """The graph of those children, here."""
    g: Graph[Trail, object] = Graph("counted", Trail)
    names = [f"n{number}" for number in range(30)]
    for name in names:

        def note(state: Trail, ctx: Context[object, Trail], name: str = name) -> Update:
            with effects.open("a") as file:
                file.write(f"{ctx.key}\n")
            return {"seen": [name]}

        g.node(note, name=name)
    g.chain(START, *names, END)
    return g


@pytest.mark.parametrize("turn", range(4))
async def test_fa_107_killed_at_any_moment(tmp_path: Path, turn: int) -> None:
    """FA-107: the file opens, what was recorded is not run again, and at most the one step in flight is."""
    chance = random.Random(107 + turn)
    path, effects = tmp_path / "runs.db", tmp_path / "effects"
    async with Child(_COUNTED, path, str(effects)) as child:
        assert await child.line() == "ready"
        await reached(effects, chance.randrange(1, 29))
        await asyncio.sleep(chance.random() * 0.002)
        with contextlib.suppress(ProcessLookupError):
            child.signal(signal.SIGKILL)
    store = SQLiteStore(path)
    recorded = sum(record.kind == "done" for record in await store.read("r"))
    before = lines_of(effects)
    assert len(before) - recorded in (0, 1)
    run = await counted(effects).run(Trail(), store=store, run_id="r")
    assert run.state.seen == [f"n{number}" for number in range(30)]
    assert lines_of(effects) == [*before, *(f"r/n{number}" for number in range(recorded, 30))]
    await store.close()


async def reached(path: Path, count: int) -> None:
    """Wait until a file has so many lines; another process writes it, so there is nothing to be woken by."""
    for _ in range(20_000):
        if len(lines_of(path)) >= count:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{path} has {len(lines_of(path))} lines")


async def test_events_of_parallel_branches_tell_their_tasks() -> None:
    """What starts side by side is told apart by task id, whichever is first."""
    g: Graph[Trail, object] = Graph("beside", Trail)
    for name in "ab":
        g.node(lambda state: None, name=name)
        g.chain(START, name, END)
    async with g.stream(Trail()) as events:
        started = [event.task_id async for event in events if isinstance(event, TaskStarted)]
    assert sorted(started) == ["a", "b"]
    assert events.run.status == "completed"
