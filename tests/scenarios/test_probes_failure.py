"""Probes 34 to 52: what a failure, a kill or a cancellation leaves behind, and what a resume runs again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pytest

from flowagent import END, START, Context, Graph, Limits, Retry, Send, State, Update, add, append
from flowagent.core.events import TaskDone
from flowagent.core.policies import Durability
from flowagent.errors import FlowAgentError, GraphChanged, RunConflict, RunFailed
from flowagent.stores import SQLiteStore, Store
from tests.patience import PATIENCE
from tests.scenarios import BY_AWAIT, Caller, Trail, Walk, problems, tasks

ROOT = Path(__file__).parents[2]


class Pair:
    """Two nodes side by side, `first` done before `second` is, whatever they are made of."""

    def __init__(self, caller: Caller, first: Callable[[], Any], second: Callable[[], Any]) -> None:
        self.calls: list[str] = []
        self.graph = Graph("pair", Trail)
        going: Any = asyncio.Event() if caller.is_async else threading.Event()

        def one() -> Update:
            self.calls.append("first")
            try:
                return {"seen": [first() or "first"]}
            finally:
                going.set()

        def two() -> Update:
            self.calls.append("second")
            return {"seen": [second() or "second"]}

        async def first_async(state: Trail) -> Update:
            return one()

        async def second_async(state: Trail) -> Update:
            await going.wait()
            await asyncio.sleep(0)  # so that the other has ended too
            return two()

        def first_sync(state: Trail) -> Update:
            return one()

        def second_sync(state: Trail) -> Update:
            assert going.wait(PATIENCE)
            return two()

        self.graph.node(first_async if caller.is_async else first_sync, name="first")
        self.graph.node(second_async if caller.is_async else second_sync, name="second")
        self.graph.chain(START, "first", END)
        self.graph.chain(START, "second", END)


def raising(*errors: BaseException) -> Callable[[], None]:
    """A function that raises these errors, one a call, and then does nothing."""
    left = list(errors)

    def work() -> None:
        if left:
            raise left.pop(0)

    return work


def nothing() -> None:
    return None


# -- parallel failures ---------------------------------------------------------------------------------------------


async def test_probe_34_a_sibling_of_a_failure_is_kept_and_not_run_again(caller: Caller, store: Store) -> None:
    """One raises at once, the other finishes later: it is recorded, and resume runs the failed one alone."""
    pair = Pair(caller, raising(ValueError("boom")), nothing)
    run = await caller.fails(pair.graph, run_id="r", store=store)
    assert (problems(run), run.state.seen) == ({"first": "ValueError: boom"}, ["second"])
    run = await caller.resume(pair.graph, "r", store=store)
    assert (run.status, run.state.seen, pair.calls) == (
        "completed",
        ["first", "second"],
        ["first", "second", "first"],
    )


class Many(State):
    items: list[int] = []
    results: list[int] = []
    seen: Annotated[list[int], append] = []


def mapping(work: Callable[[int], int]) -> Graph[Many]:
    graph = Graph("many", Many)
    graph.map(work, over="items", into="results", name="work")
    graph.chain(START, "work", END)
    return graph


def sending(work: Callable[[int], int]) -> Graph[Many]:
    graph = Graph("many", Many)

    @graph.router(to=["each"])
    def deal(state: Many) -> list[Send]:
        return [Send("each", item) for item in state.items]

    @graph.node(item=True)
    def each(item: int) -> Update:
        return {"seen": [work(item)]}

    graph.chain(START, deal)
    graph.chain(each, END)
    return graph


def forking(work: Callable[[int], int]) -> Graph[Many]:
    graph = Graph("many", Many)

    def branch(item: int) -> None:
        def run(state: Many) -> Update:
            return {"seen": [work(item)]}

        graph.node(run, name=f"b{item}")
        graph.chain(START, f"b{item}", END)

    for item in range(40):
        branch(item)
    return graph


@pytest.mark.parametrize("durability", ["step", "fast", "exit"])
@pytest.mark.parametrize("make", [mapping, sending, forking])
async def test_probe_35_of_forty_side_by_side_only_the_failed_one_is_run_again(
    make: Callable[[Any], Graph[Many]], durability: Durability, caller: Caller, store: Store
) -> None:
    """Items of a map, items sent by a router and branches of a fork: 39 kept, 1 rerun, at every durability."""
    calls: list[int] = []

    def work(item: int) -> int:
        calls.append(item)
        if item == 17 and calls.count(17) == 1:
            raise ValueError("17")
        return item * item

    graph = make(work)
    await caller.fails(graph, Many(items=list(range(40))), run_id="r", store=store, durability=durability)
    run = await caller.resume(graph, "r", store=store, durability=durability)
    assert [*run.state.results, *run.state.seen] == [item * item for item in range(40)]
    assert Counter(calls) == Counter([*range(40), 17])


async def test_probe_36_all_failures_are_reported(caller: Caller, store: Store) -> None:
    """Two parallel nodes raise: one `RunFailed` with both errors in the order of task ids, each with its cause."""
    causes = ValueError("one"), KeyError("two")
    pair = Pair(caller, raising(causes[0]), raising(causes[1]))
    failure = await caller.failure(pair.graph, store=store)
    assert [(error.task, error.kind, error.attempt) for error in failure.errors] == [
        ("first", "ValueError", 1),
        ("second", "KeyError", 1),
    ]
    assert tuple(error.__cause__ for error in failure.errors) == causes
    assert all(text in str(failure) for text in ("`first`", "ValueError: one", "`second`", "KeyError: 'two'"))


async def test_probe_37_what_follows_a_sibling_of_a_failure_waits_or_goes_on_as_was_asked(
    caller: Caller, store: Store
) -> None:
    """By default nothing new starts after a failure; with "continue" all that does not depend on it runs."""
    walk = Walk("START bad after END", "START ok next last END")
    walk.broken = {"bad"}
    run = await caller.fails(walk.graph, run_id="finish", store=store)
    assert set(run.state.seen) <= {"ok"}
    run = await caller.fails(walk.graph, run_id="continue", store=store, on_failure="continue")
    assert (run.state.seen, list(problems(run))) == (["ok", "next", "last"], ["bad"])
    walk.broken.clear()
    walk.calls.clear()
    run = await caller.resume(walk.graph, "continue", store=store)
    assert (run.state.seen, walk.calls) == (["bad", "after", "ok", "next", "last"], ["bad", "after"])
    run = await caller.resume(walk.graph, "finish", store=store)
    assert run.state.seen == ["bad", "after", "ok", "next", "last"]


# -- routers -------------------------------------------------------------------------------------------------------


async def test_probe_38_a_router_that_raised_is_asked_again_and_its_node_is_not(caller: Caller, store: Store) -> None:
    """The node before it is recorded; resume asks the router and completes."""
    walk = Walk("START a ?pick", "b END")
    walk.broken = {"pick"}

    @walk.graph.router
    def pick(state: Trail) -> Literal["b"]:
        walk.visit("pick")
        return "b"

    run = await caller.fails(walk.graph, run_id="r", store=store)
    assert (problems(run), run.state.seen) == ({"pick": "ValueError: pick is broken"}, ["a"])
    walk.broken.clear()
    run = await caller.resume(walk.graph, "r", store=store)
    assert (run.status, run.state.seen, walk.calls) == ("completed", ["a", "b"], ["a", "pick", "pick", "b"])


async def test_probe_39_a_router_behind_the_start_that_raised_is_asked_again(caller: Caller, store: Store) -> None:
    """The very first thing of a run failed; the run exists, and goes on."""
    walk = Walk("b END")
    walk.broken = {"enter"}

    @walk.graph.router
    def enter(state: Trail) -> Literal["b"]:
        walk.visit("enter")
        return "b"

    walk.graph.chain(START, enter)
    run = await caller.fails(walk.graph, run_id="r", store=store)
    assert (run.status, tasks(run)) == ("failed", [])
    walk.broken.clear()
    run = await caller.resume(walk.graph, "r", store=store)
    assert (run.state.seen, walk.calls) == (["b"], ["enter", "enter", "b"])


async def test_probe_40_a_router_is_retried_alone(caller: Caller) -> None:
    """It has a `retry` of its own; its node runs once, however often the router fails."""
    walk = Walk("a ?pick", "b END")
    walk.graph.chain(START, "a")
    fail = raising(ValueError("1"), ValueError("2"))

    @walk.graph.router(retry=Retry(attempts=3, backoff=0))
    def pick(state: Trail) -> Literal["b"]:
        walk.visit("pick")
        fail()
        return "b"

    run = await caller.run(walk.graph)
    assert (run.state.seen, walk.calls) == (["a", "b"], ["a", "pick", "pick", "pick", "b"])


async def test_probe_40_a_retry_of_a_node_is_not_one_of_its_router(caller: Caller) -> None:
    """What a node's `retry` says holds for the node alone."""
    walk = Walk()
    walk.node("a", retry=Retry(attempts=3, backoff=0))
    walk.follow(["START", "a", "?pick"])
    walk.follow(["b", "END"])
    walk.broken = {"pick"}

    @walk.graph.router
    def pick(state: Trail) -> Literal["b"]:
        walk.visit("pick")
        return "b"

    await caller.fails(walk.graph)
    assert walk.calls == ["a", "pick"]


# -- what stops a run ----------------------------------------------------------------------------------------------


class Anything(State):
    value: Any = None
    seen: Annotated[list[str], append] = []


@pytest.mark.parametrize(
    "value",
    [object(), lambda: 0, {1, 2}, b"\xff", (1, 2), {1: "a"}, "\ud800"],
    ids=["object", "function", "set", "bytes", "tuple", "number as key", "surrogate"],
)
async def test_probe_41_a_value_that_a_store_would_not_give_back_is_refused_where_it_is_written(
    value: Any, caller: Caller, store: Store
) -> None:
    """The error names node and field, at once, even where records wait for the exit; the node behind does not run."""
    graph = Graph("unstorable", Anything)
    calls: list[str] = []

    @graph.node
    def bad(state: Anything) -> Update:
        calls.append("bad")
        return {"value": value, "seen": ["bad"]}

    @graph.node
    def after(state: Anything) -> Update:
        calls.append("after")
        return None

    graph.chain(START, bad, after, END)
    run = await caller.fails(graph, run_id="r", store=store, durability="exit")
    assert [(error.task, error.kind) for error in run.errors] == [("bad", "UnstorableError")]
    assert "`value`" in run.errors[0].message
    assert (calls, (await graph.load("r", store=store)).state) == (["bad"], Anything())


async def test_probe_42_a_run_stops_at_a_limit_and_goes_on_with_a_higher_one(caller: Caller, store: Store) -> None:
    """Status `limit`, the state kept, the cycle named; nothing is run twice."""
    walk = Walk("START a b ?again")

    @walk.graph.router
    def again(state: Trail) -> Literal["a", "END"]:
        return "a" if len(state.seen) < 8 else "END"

    run = await caller.run(walk.graph, run_id="r", store=store, limits=Limits(steps=5))
    assert (run.status, run.state.seen) == ("limit", ["a", "b", "a", "b", "a"])
    assert run.reason == "reached the limit of 5 steps in the cycle of `a`, `b`, `again`"
    run = await caller.resume(walk.graph, "r", store=store, limits=Limits(steps=5))
    assert (run.status, len(walk.calls)) == ("limit", 5)
    run = await caller.resume(walk.graph, "r", store=store, limits=Limits(steps=8))
    assert (run.status, run.state.seen, walk.calls) == ("completed", ["a", "b"] * 4, ["a", "b"] * 4)


# -- kill -9 -------------------------------------------------------------------------------------------------------


def killed_beside_a_finished_sibling(effects: str, *, deadly: bool) -> Graph[Trail]:
    """`fast`, then `after`, which kills while `slow` is under way beside it; each effect is a line in a file."""
    graph = Graph("kill", Trail)

    def note(name: str, ctx: Context[object, Trail]) -> None:
        with Path(effects).open("a", encoding="utf-8") as file:
            file.write(f"{name} {ctx.key}\n")

    slow_is_going = asyncio.Event()

    @graph.node
    async def fast(state: Trail, ctx: Context[object, Trail]) -> Update:
        note("fast", ctx)
        return {"seen": ["fast"]}

    @graph.node
    async def slow(state: Trail, ctx: Context[object, Trail]) -> Update:
        note("slow", ctx)
        slow_is_going.set()
        if deadly:
            await asyncio.Event().wait()
        return {"seen": ["slow"]}

    @graph.node
    async def after(state: Trail, ctx: Context[object, Trail]) -> Update:
        note("after", ctx)
        await slow_is_going.wait()
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"seen": ["after"]}

    graph.chain(START, slow, END)
    graph.chain(START, fast, after, END)
    return graph


async def in_a_process(call: str) -> int:
    """Run a line of Python that may use this module in a process of its own; its exit code."""
    script = f"from tests.scenarios import test_probes_failure as probes; probes.{call}"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, cwd=ROOT)
    return await asyncio.wait_for(process.wait(), PATIENCE)


def run_and_be_killed(folder: str, durability: Durability, how: str) -> None:
    """What the child of the test below does."""
    graph = killed_beside_a_finished_sibling(f"{folder}/effects", deadly=True)
    if how == "sync":
        graph.run_sync(run_id="r", store=f"{folder}/runs.db", durability=durability)
    else:
        asyncio.run(graph.run(run_id="r", store=f"{folder}/runs.db", durability=durability))


@pytest.mark.parametrize(
    ("durability", "how"), [("step", "async"), ("step", "sync"), ("fast", "sync"), ("exit", "async")]
)
async def test_probe_43_a_killed_process_loses_no_finished_sibling(
    durability: Durability, how: str, tmp_path: Path
) -> None:
    """After kill -9 only what was under way runs again, with the same keys; `exit` says that it keeps nothing."""
    died = await in_a_process(f"run_and_be_killed({str(tmp_path)!r}, {durability!r}, {how!r})")
    assert died == -signal.SIGKILL
    store = SQLiteStore(tmp_path / "runs.db")
    graph = killed_beside_a_finished_sibling(f"{tmp_path}/effects", deadly=False)
    found = await graph.load("r", store=store)
    assert (found.status, found.state.seen) == ("interrupted", [] if durability == "exit" else ["fast"])
    run = await graph.run(run_id="r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["slow", "fast", "after"])
    effects = Counter((tmp_path / "effects").read_text(encoding="utf-8").splitlines())
    again = 2 if durability == "exit" else 1
    assert effects == {"fast r/fast": again, "slow r/slow": 2, "after r/after": 2}
    await store.close()


class Killing(SQLiteStore):
    """A store whose process dies right before or right after its n-th write."""

    def __init__(self, path: str, at: int, when: str) -> None:
        super().__init__(path)
        self._left = at
        self._when = when

    async def append(self, *args: Any, **options: Any) -> None:
        self._left -= 1
        if self._left == 0 and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await super().append(*args, **options)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def noted(effects: str) -> Graph[Trail]:
    """A fork, a join, a router and a last node; each effect is a line in a file."""
    walk = Walk("START a join ?pick", "START b b2 join", "last END", name="cut")

    @walk.graph.router
    def pick(state: Trail) -> Literal["last"]:
        walk.visit("pick")
        return "last"

    def visit(name: str) -> None:
        with Path(effects).open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")

    walk.visit = visit
    return walk.graph


def run_and_die_at(folder: str, at: int, when: str) -> None:
    """What the child of the test below does."""
    noted(f"{folder}/effects").run_sync(run_id="r", store=Killing(f"{folder}/runs.db", at, when))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_probe_44_a_step_has_one_record_so_a_kill_falls_before_or_after_it(
    at: int, when: str, tmp_path: Path
) -> None:
    """There is no moment between "result saved" and "step saved": whatever has a record is never run again."""
    assert await in_a_process(f"run_and_die_at({str(tmp_path)!r}, {at}, {when!r})") == -signal.SIGKILL
    store = SQLiteStore(tmp_path / "runs.db")
    graph, effects = noted(f"{tmp_path}/effects"), tmp_path / "effects"
    recorded = tasks(await graph.load("r", store=store))
    before = effects.read_text(encoding="utf-8").splitlines()
    run = await graph.resume("r", store=store)
    again = effects.read_text(encoding="utf-8").splitlines()[len(before) :]
    assert (run.status, run.state.seen) == ("completed", ["a", "b", "b2", "join", "last"])
    assert sorted([*recorded, *again]) == ["a", "b", "b2", "join", "last", "pick"]
    await store.close()


# -- cancellation --------------------------------------------------------------------------------------------------


def with_one_under_way() -> tuple[Graph[Trail], asyncio.Event, dict[str, Any]]:
    """`fast` and `then`, which sets the event, beside `slow`, which does not end while it is told to hang."""
    graph = Graph("cancelled", Trail)
    is_going = asyncio.Event()
    told: dict[str, Any] = {"calls": list[str](), "hang": True, "cancelled": list[str]()}

    @graph.node
    async def fast(state: Trail) -> Update:
        told["calls"].append("fast")
        return {"seen": ["fast"]}

    @graph.node
    async def then(state: Trail) -> Update:
        told["calls"].append("then")
        is_going.set()
        return {"seen": ["then"]}

    @graph.node
    async def slow(state: Trail) -> Update:
        told["calls"].append("slow")
        try:
            if told["hang"]:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            told["cancelled"].append("slow")
            raise
        return {"seen": ["slow"]}

    graph.chain(START, slow, END)
    graph.chain(START, fast, then, END)
    return graph, is_going, told


@pytest.mark.parametrize("verb", [False, True], ids=["task.cancel", "graph.cancel"])
async def test_probe_45_a_cancelled_run_keeps_what_was_finished(verb: bool, store: Store) -> None:
    """Cancelling reaches the node; `run` refuses to go on unasked, `resume` runs the cancelled node alone."""
    graph, is_going, told = with_one_under_way()
    call = asyncio.ensure_future(graph.run(run_id="r", store=store))
    await is_going.wait()
    if verb:
        assert (await graph.cancel("r", store=store)).status == "cancelled"
        assert (await call).status == "cancelled"
    else:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    stored = await graph.load("r", store=store)
    assert (stored.status, set(stored.state.seen) >= {"fast"}) == ("cancelled", True)
    assert told["cancelled"] == ["slow"]
    with pytest.raises(FlowAgentError, match=r"run `r` was cancelled; resume\('r'\) goes on with it"):
        await graph.run(run_id="r", store=store)
    told["hang"] = False
    recorded = tasks(stored)
    told["calls"].clear()
    run = await graph.resume("r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["slow", "fast", "then"])
    assert sorted([*recorded, *told["calls"]]) == ["fast", "slow", "then"]


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_probe_46_a_node_that_raises_what_is_no_exception_class_has_failed(
    error: type[BaseException], caller: Caller, store: Store
) -> None:
    """It is neither success nor the end of the caller: the run fails, its sibling is kept, and it can be resumed."""
    pair = Pair(caller, raising(error("mine")), nothing)
    run = await caller.fails(pair.graph, run_id="r", store=store)
    assert (problems(run), run.state.seen) == ({"first": f"{error.__name__}: mine"}, ["second"])
    run = await caller.resume(pair.graph, "r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["first", "second"])


# -- nested graphs and handlers ------------------------------------------------------------------------------------


async def test_probe_47_a_nested_graph_that_failed_goes_on_where_it_was(caller: Caller, store: Store) -> None:
    """Its second node failed: resuming the parent runs that node, and nothing before it."""
    child = Walk("START one two three END", name="child")
    child.broken = {"two"}
    graph = Graph("parent", Trail)
    parent = Walk("START before ?child after END", name="parent")
    parent.graph.node(child.graph, name="child")
    graph = parent.graph
    run = await caller.fails(graph, run_id="r", store=store)
    assert problems(run) == {"child/two": "ValueError: two is broken"}
    child.broken.clear()
    run = await caller.resume(graph, "r", store=store)
    assert run.state.seen == ["before", "one", "two", "three", "after"]
    assert (parent.calls, child.calls) == (["before", "after"], ["one", "two", "two", "three"])


async def test_probe_47_what_a_graph_is_given_and_gives_back_is_retried_like_any_node(caller: Caller) -> None:
    """`retry` on a nested graph also covers its `input=` and `output=`; a try of either repeats nothing inside."""
    child = Walk("START one END", name="child")
    graph = Graph("parent", Trail)
    fail_in, fail_out = raising(ValueError("in")), raising(ValueError("out"))

    def given(state: Trail) -> dict[str, object]:
        fail_in()
        return {"seen": ["given"]}

    def taken(inner: Trail) -> dict[str, object]:
        fail_out()
        return {"seen": inner.seen}

    graph.node(child.graph, name="child", input=given, output=taken, retry=Retry(attempts=3, backoff=0))
    graph.chain(START, "child", END)
    run = await caller.run(graph)
    assert (run.state.seen, child.calls) == (["given", "one"], ["one"])
    assert [step.errors for step in run.history if step.kind == "failed"] == [("ValueError: in",), ("ValueError: out",)]


async def test_probe_48_a_handler_that_fails_reports_both_causes_and_never_catches_itself(
    caller: Caller, store: Store
) -> None:
    """The run fails in the handler; its error tells what it was handling. Resume runs the handler alone."""
    graph = Graph("handled", Trail)
    calls: list[str] = []
    fail = raising(KeyError("in the handler"))

    @graph.node(on_error="helper")
    def bad(state: Trail) -> Update:
        calls.append("bad")
        raise ValueError("in the node")

    @graph.node
    def helper(state: Trail, ctx: Context[object, Trail]) -> Update:
        calls.append(f"helper: {', '.join(f'{one.task} {one.kind}' for one in ctx.error)}")
        fail()
        return {"seen": ["helper"]}

    graph.chain(START, bad, END)
    graph.chain(helper, END)
    failure = await caller.failure(graph, run_id="r", store=store)
    assert [(error.node, error.kind) for error in failure.errors] == [("helper", "KeyError")]
    assert all(text in str(failure) for text in ("KeyError: 'in the handler'", "ValueError: in the node"))
    run = await caller.resume(graph, "r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["helper"])
    assert calls == ["bad", "helper: bad ValueError", "helper: bad ValueError"]


async def test_probe_49_a_handled_failure_beside_a_question_and_a_plain_sibling(caller: Caller, store: Store) -> None:
    """The handler runs, the question stays open, the sibling is kept; the answer is all that is missing."""
    walk = Walk("START plain join END", "START ?ask join", "?helper join")
    walk.node("bad", on_error="helper")
    walk.follow(["START", "bad", "join"])
    walk.graph.gate("ask", question="Go on?", schema=bool)
    walk.broken = {"bad"}

    @walk.graph.node
    def helper(state: Trail, ctx: Context[object, Trail]) -> Update:
        return {"seen": [f"handled {ctx.error[0].message}"]}

    run = await caller.run(walk.graph, run_id="r", store=store)
    assert (run.status, [question.id for question in run.questions], run.errors) == ("waiting", ["ask"], ())
    run = await caller.resume(walk.graph, "r", answers={"ask": True}, store=store)
    assert (run.status, run.state.seen) == ("completed", ["plain", "handled bad is broken", "join"])
    assert sorted(walk.calls) == ["bad", "join", "plain"]


# -- other code, other processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("chain", "removed"), [("START a c END", "b"), ("START a renamed c END", "b")])
async def test_probe_50_a_graph_that_lost_the_node_a_run_waits_at_is_refused(
    chain: str, removed: str, caller: Caller, store: Store
) -> None:
    """The error names the missing node, nothing is run, and the run waits on; with the node back, it goes on."""
    walk = Walk("START a b c END")
    walk.broken = {"b"}
    await caller.fails(walk.graph, run_id="r", store=store)
    before = await store.read("r")
    changed = Walk(chain)
    with pytest.raises(GraphChanged, match=f"node `{removed}` was removed") as raised:
        await caller.resume(changed.graph, "r", store=store)
    assert f"node `{removed}` was removed" in raised.value.differences
    assert (changed.calls, await store.read("r")) == ([], before)
    walk.broken.clear()
    assert (await caller.resume(walk.graph, "r", store=store)).state.seen == ["a", "b", "c"]


def contested(name: str, inside: Callable[[], Awaitable[None]]) -> Graph[Trail]:
    """A graph whose second node takes as long as somebody wants; the first fails at the start."""
    graph = Graph("contested", Trail)

    @graph.node
    async def work(state: Trail) -> Update:
        await inside()
        return {"seen": [name]}

    graph.chain(START, work, END)
    return graph


def contest(path: str, name: str) -> None:
    """What each child of the test below does: wait for the start, resume, and say how it went."""

    async def inside() -> None:
        print("inside", flush=True)
        assert await asyncio.to_thread(sys.stdin.readline) == "end\n"

    async def resume() -> None:
        print("ready", flush=True)
        assert sys.stdin.readline() == "go\n"
        try:
            run = await contested(name, inside).resume("r", store=path)
            print(json.dumps(["done", run.state.seen]), flush=True)
        except RunConflict as error:
            print(json.dumps(["conflict", str(error)]), flush=True)

    asyncio.run(resume())


async def test_probe_51_of_two_processes_that_resume_one_run_exactly_one_wins(tmp_path: Path) -> None:
    """Both are let go at once; one works, the other is told so before it has done anything, and the run is whole."""
    store = SQLiteStore(tmp_path / "runs.db")

    async def fail() -> None:
        raise ValueError("to be resumed")

    with pytest.raises(RunFailed):
        await contested("first", fail).run(run_id="r", store=store)
    pipe = asyncio.subprocess.PIPE
    script = "from tests.scenarios.test_probes_failure import contest; import sys; contest(*sys.argv[1:])"
    children = {
        name: await asyncio.create_subprocess_exec(
            *[sys.executable, "-c", script, str(tmp_path / "runs.db"), name], cwd=ROOT, stdin=pipe, stdout=pipe
        )
        for name in ("one", "two")
    }

    async def said(child: asyncio.subprocess.Process) -> str:
        assert child.stdout is not None
        return (await asyncio.wait_for(child.stdout.readline(), PATIENCE)).decode().strip()

    def tell(child: asyncio.subprocess.Process, line: str) -> None:
        cast("asyncio.StreamWriter", child.stdin).write(line.encode())

    assert [await said(child) for child in children.values()] == ["ready", "ready"]
    for child in children.values():
        tell(child, "go\n")
    first_lines = {name: await said(child) for name, child in children.items()}
    (winner,) = [name for name, line in first_lines.items() if line == "inside"]
    (loser,) = [name for name in children if name != winner]
    verdict, text = json.loads(first_lines[loser])
    assert (verdict, "`r`" in text) == ("conflict", True)
    tell(children[winner], "end\n")
    assert json.loads(await said(children[winner])) == ["done", [winner]]
    assert [await child.wait() for child in children.values()] == [0, 0]
    run = await contested("reader", fail).load("r", store=store)
    assert (run.status, run.state.seen) == ("completed", [winner])
    await store.close()


async def test_probe_52_leaving_a_stream_early_leaves_a_resumable_run_and_nothing_running(store: Store) -> None:
    """After the first finished task the caller goes away: what was done is stored, and no task of ours is left."""
    graph, _, told = with_one_under_way()
    before = asyncio.all_tasks()
    async with graph.stream(run_id="r", store=store) as events:
        async for event in events:
            if isinstance(event, TaskDone):
                break
    assert asyncio.all_tasks() == before
    stored = await graph.load("r", store=store)
    assert (stored.status, set(stored.state.seen) >= {"fast"}) == ("interrupted", True)
    told["hang"] = False
    run = await graph.run(run_id="r", store=store)
    assert (run.status, run.state.seen, told["calls"].count("fast")) == ("completed", ["slow", "fast", "then"], 1)


class Counting(State):
    total: Annotated[int, add] = 0


async def test_probe_52_leaving_while_a_sync_node_runs_in_a_thread_discards_what_it_returns(store: Store) -> None:
    """A thread cannot be stopped: it ends by itself, writes nothing, and its node is run again on resume."""
    graph = Graph("threads", Counting)
    is_going, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    @graph.node
    def first(state: Counting) -> Update:
        return {"total": 1}

    @graph.node
    def slow(state: Counting) -> Update:
        is_going.set()
        may_end.wait(PATIENCE)
        has_ended.set()
        return {"total": 10}

    graph.chain(START, first, slow, END)
    async with graph.stream(run_id="r", store=store) as events:
        async for event in events:
            if isinstance(event, TaskDone):
                assert await asyncio.to_thread(is_going.wait, 10)
                break
    assert (await graph.load("r", store=store)).state == Counting(total=1)
    may_end.set()
    assert await asyncio.to_thread(has_ended.wait, 10)
    assert (await graph.load("r", store=store)).state == Counting(total=1)
    assert (await BY_AWAIT.run(graph, run_id="r", store=store)).state == Counting(total=11)
