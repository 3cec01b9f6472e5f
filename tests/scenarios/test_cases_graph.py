"""Case bank, group A: what a graph means. Each test names its case; `tests/SCENARIOS.md` lists them all."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import asyncio
import itertools
import random
from typing import Annotated, Any, Literal

import pytest

from flowagent import END, START, Goto, Graph, Limits, State, Update, append, merge, replace
from flowagent.errors import ConflictError, GraphError, RoutingError, RunFailed
from flowagent.stores import MemoryStore, Store
from tests.scenarios import BY_AWAIT, Caller, Trail, Walk, problems, tasks

# -- FA-001, FA-002: two branches and one field --------------------------------------------------------------------


class Merged(State):
    files: Annotated[dict[str, str], merge] = {}


class Unmerged(State):
    files: dict[str, str] = {}


def two_writers(state: type[Any]) -> Graph[Any, Any]:
    g: Graph[Any, Any] = Graph("files", state)
    g.node(lambda state: {"files": {"a.txt": "1"}}, name="w1", writes=["files"])
    g.node(lambda state: {"files": {"b.txt": "2"}}, name="w2", writes=["files"])
    g.chain(START, "w1", END)
    g.chain(START, "w2", END)
    return g


async def test_fa_001_disjoint_keys_under_a_merge_rule_are_no_conflict(caller: Caller, store: Store) -> None:
    """FA-001, variant 1: both entries are there at the end."""
    run = await caller.run(two_writers(Merged), store=store)
    assert (run.state, run.warnings) == (Merged(files={"a.txt": "1", "b.txt": "2"}), ())


async def test_fa_001_without_a_merge_rule_it_is_told_who_wrote(caller: Caller, store: Store) -> None:
    """FA-001, variant 2: warned of by `check`, refused where the branches meet, and settled without running again."""
    graph = two_writers(Unmerged)
    assert [warning.split(",")[0] for warning in graph.check()] == [
        "`w1` and `w2` may run beside one another and both write `files`"
    ]
    failure = await caller.failure(graph, Unmerged(), store=store, run_id="r")
    conflict = failure.errors[0].__cause__
    assert isinstance(conflict, ConflictError)
    assert (conflict.field, conflict.tasks) == ("files", ("w1", "w2"))
    assert (failure.run.state, failure.run.unmerged) == (Unmerged(), ("files",))
    run = await caller.resume(graph, "r", store=store, resolve={"files": {"a.txt": "1", "b.txt": "2"}})
    assert (run.state, tasks(run)) == (Unmerged(files={"a.txt": "1", "b.txt": "2"}), ["w1", "w2"])


class Four(State):
    a: int = 0
    b: int = 0
    s1: str = ""
    s2: str = ""


def child(name: str, **changes: object) -> Graph[Four, object]:
    g = Graph(name, Four)

    def work(state: Four) -> Four:
        return replace(state, **changes)

    g.node(work, name="work")
    g.chain(START, "work", END)
    return g


@pytest.mark.parametrize("nested", [True, False], ids=["nested", "plain"])
async def test_fa_002_giving_back_what_one_was_given_is_no_update(caller: Caller, store: Store, nested: bool) -> None:
    """FA-002: branches that return their whole state wrote only what they changed; a true conflict is named."""

    def both(p: dict[str, object], q: dict[str, object]) -> Graph[Four, object]:
        g = Graph("both", Four)
        for name, changes in (("p", p), ("q", q)):
            if nested:
                g.node(child(name, **changes))
            else:
                g.node(lambda state, changes=changes: replace(state, **changes), name=name)
            g.chain(START, name, END)
        return g

    run = await caller.run(both({"s1": "x"}, {"s2": "y"}), Four(a=1, b=2), store=store)
    assert run.state == Four(a=1, b=2, s1="x", s2="y")
    failure = await caller.failure(both({"a": 5}, {"a": 6}), Four(a=1), store=store)
    assert "field `a` was written by `p` and `q`" in str(failure)
    run = await caller.run(both({"a": 5, "s1": "x"}, {"a": 5}), Four(a=1), store=store)
    assert run.state == Four(a=5, s1="x")


# -- FA-003: joins -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", ["t2", "t5"])
async def test_fa_003_a_join_of_unequal_branches_runs_once(store: Store, slow: str) -> None:
    """FA-003: J runs exactly once, after t2 and t5, and sees both, whichever branch is slower."""
    other_is_there = asyncio.Event()
    g = Graph("join", Trail)

    def node(name: str) -> None:
        async def note(state: Trail) -> Update:
            if name == slow:
                await other_is_there.wait()
            elif name in ("t2", "t5"):
                other_is_there.set()
            return {"seen": [name]}

        g.node(note, name=name)

    for name in ("t1", "t2", "t3", "t4", "t5"):
        node(name)
    seen: list[list[str]] = []

    @g.node
    def j(state: Trail) -> Update:
        seen.append(list(state.seen))
        return {"seen": ["j"]}

    g.chain(START, "t1", "t2", j, END)
    g.chain("t1", "t3", "t4", "t5", j)
    run = await g.run(store=store)
    assert seen == [["t1", "t2", "t3", "t4", "t5"]]
    assert run.state.seen == ["t1", "t2", "t3", "t4", "t5", "j"]


async def test_fa_003_once_for_each_arrival_is_spelled_differently(caller: Caller) -> None:
    """FA-003: "once for each arrival" is said aloud by `join="each"`; nothing else means it."""
    walk = Walk()
    walk.node("j", join="each")
    walk.follow(["START", "t1", "t2", "j", "END"])
    walk.follow(["t1", "t3", "t4", "t5", "j"])
    await caller.run(walk.graph)
    assert walk.calls.count("j") == 2


# -- FA-005 to FA-007: what is next --------------------------------------------------------------------------------


def test_fa_005_a_jump_beside_a_fixed_edge_is_refused() -> None:
    """FA-005: one node, one rule for what is next; with the edge gone, exactly A, C and D run."""

    def built(*, with_edge: bool) -> Graph[Trail, object]:
        g = Graph("jump", Trail)

        @g.node
        def a(state: Trail) -> Goto[Literal["c", "b"]]:
            return Goto("c", {"seen": ["a"]})

        for name in "bcd":
            g.node(lambda state, name=name: {"seen": [name]}, name=name)
        g.chain(START, a)
        g.chain("b", "c", "d", END)
        if with_edge:
            g.edge("a", "b")
        return g

    with pytest.raises(GraphError, match="node `a` chooses its targets itself and also has a fixed edge to `b`"):
        built(with_edge=True).check()
    assert built(with_edge=False).run_sync().state.seen == ["a", "c", "d"]


def test_fa_006_a_label_that_the_table_lacks_is_found_by_check() -> None:
    """FA-006: a router that says it may return END, and a table that has no END, do not fit."""
    g = Graph("loop", Trail)
    g.node(lambda state: None, name="w")
    g.gate("ask", question="?")
    g.chain("w", "ask", END)

    @g.router(to={"a": "w"})
    def f(state: Trail) -> Literal["a", "END"]:
        return "END"

    g.chain(START, f)
    with pytest.raises(GraphError, match=r"`f` may return 'END', which its to= does not list"):
        g.check()


def limited(*, mended: bool) -> Graph[Any, Any]:
    g: Graph[Any, Any] = Graph("loop", Trail)
    g.node(lambda state: {"seen": ["w"]}, name="w")
    g.node(lambda state: None, name="out")
    g.chain("out", END)

    def f(state: Trail) -> Any:
        return "stop" if len(state.seen) >= 5 else "a"

    g.router(f, to={"a": "w", "b": "out", "stop": END} if mended else {"a": "w", "b": "out"})
    g.chain(START, "w", "f")
    return g


async def test_fa_006_a_label_that_the_table_lacks_is_told_and_can_be_mended(caller: Caller, store: Store) -> None:
    """FA-006: node, label and allowed labels are named; what was recorded stands, and the mended graph goes on."""
    failure = await caller.failure(limited(mended=False), Trail(), store=store, run_id="r")
    assert isinstance(failure.errors[0].__cause__, RoutingError)
    assert failure.errors[0].message == "router `f` returned 'stop', which its to= does not list: it lists 'a', 'b'"
    assert failure.run.state.seen == ["w"] * 5
    run = await caller.resume(limited(mended=True), "r", store=store, accept_changes=True)
    assert (run.status, run.state.seen, tasks(run).count("w@5")) == ("completed", ["w"] * 5, 1)


async def test_fa_007_a_router_that_raises_fails_the_run(caller: Caller, store: Store) -> None:
    """FA-007: the run ends as failed with the router's name and its exception, in the journal too."""
    g = Graph("routed", Trail)
    g.node(lambda state: {"seen": ["n"]}, name="n")
    g.node(lambda state: {"seen": ["m"]}, name="m")
    rules: list[Any] = [ValueError("no rule")]

    @g.router(to=["m", "END"])
    def f(state: Trail) -> Any:
        if rules and isinstance(rules[0], Exception):
            raise rules[0]
        return rules[0]

    g.chain(START, "n", f)
    g.chain("m", END)
    failure = await caller.failure(g, Trail(), store=store, run_id="r")
    assert failure.errors[0].__cause__ is rules[0]
    assert problems(failure.run) == {"f": "ValueError: no rule"}
    assert [(step.kind, step.task, step.errors) for step in failure.run.history] == [
        ("done", "n", ()),
        ("failed", "f", ("ValueError: no rule",)),
    ]
    rules[0] = "m"
    run = await caller.resume(g, "r", store=store)
    assert (run.state.seen, tasks(run)) == (["n", "m"], ["n", "f", "m"])


@pytest.mark.parametrize("returned", [lambda: None, 5, None, [], ["m", "nowhere"], {"m": 1}, object, "M", b"m", ""])
async def test_fa_007_a_router_that_returns_no_name(caller: Caller, returned: Any) -> None:
    """FA-007, variant: what is no declared target is a routing error that names router, value and targets."""
    g = Graph("routed", Trail)
    g.node(lambda state: None, name="m")
    g.router(lambda state: returned, name="f", to=["m", "END"])
    g.chain(START, "f")
    g.chain("m", END)
    failure = await caller.failure(g, Trail())
    error = failure.errors[0]
    assert isinstance(error.__cause__, RoutingError)
    assert "`f`" in error.message
    assert "`m`, `END`" in error.message


# -- FA-009 to FA-013: laps ----------------------------------------------------------------------------------------


def laps(counts: list[int]) -> Graph[Trail, object]:
    g = Graph("laps", Trail)

    @g.node
    def h(state: Trail) -> Update:
        counts.append(1)
        return {"seen": [f"h{len(state.seen) + 1}"]}

    @g.router
    def r(state: Trail) -> Literal["h", "END"]:
        return "h" if len(state.seen) % 3 else "END"

    g.chain(START, h, r)
    return g


async def test_fa_009_every_visit_is_new(caller: Caller, store: Store) -> None:
    """FA-009: three laps in a fresh run, and three in one that starts with what another has saved."""
    counts: list[int] = []
    graph = laps(counts)
    first = await caller.run(graph, store=store, run_id="a")
    second = await caller.run(graph, first.state, store=store, run_id="b")
    assert (first.state.seen, second.state.seen, len(counts)) == (
        ["h1", "h2", "h3"],
        ["h1", "h2", "h3", "h4", "h5", "h6"],
        6,
    )
    assert tasks(first) == tasks(second) == ["h@1", "r@1", "h@2", "r@2", "h@3", "r@3"]


async def test_fa_010_a_limit_of_ten_allows_ten(caller: Caller, store: Store) -> None:
    """FA-010 (a): a chain of ten nodes fits in ten steps."""
    names = [f"n{number}" for number in range(10)]
    walk = Walk(f"START {' '.join(names)} END")
    run = await caller.run(walk.graph, store=store, limits=Limits(steps=10))
    assert (run.status, run.state.seen) == ("completed", names)


async def test_fa_010_a_limit_stops_after_exactly_that_many(caller: Caller, store: Store) -> None:
    """FA-010 (b): an endless loop stops after ten, tells the cycle, adds nothing to the state, and can go on."""
    g = Graph("endless", Trail)
    for name in "ab":
        g.node(lambda state, name=name: {"seen": [name]}, name=name)

    @g.router
    def r(state: Trail) -> Literal["a", "END"]:
        return "END" if len(state.seen) >= 24 else "a"

    g.chain(START, "a", "b", r)
    run = await caller.run(g, store=store, run_id="r", limits=Limits(steps=10))
    assert (run.status, run.state.seen) == ("limit", ["a", "b"] * 5)
    assert run.reason == "reached the limit of 10 steps in the cycle of `a`, `b`, `r`"
    run = await caller.resume(g, "r", store=store, limits=Limits(steps=15))
    assert (run.status, run.state.seen) == ("limit", ["a", "b"] * 7 + ["a"])
    run = await caller.resume(g, "r", store=store, limits=Limits(steps=24))
    assert (run.status, run.state.seen, len(set(tasks(run)))) == ("completed", ["a", "b"] * 12, len(tasks(run)))


def critic(order: tuple[int, ...]) -> Graph[Trail, object]:
    """A loop with a critic, declared in one of many orders."""
    g = Graph("critic", Trail)

    def check(state: Trail) -> Literal["prompt", "answer"]:
        return "answer" if state.seen.count("model") == 2 else "prompt"

    declarations = [
        lambda: g.node(lambda state: {"seen": ["prompt"]}, name="prompt"),
        lambda: g.node(lambda state: {"seen": ["model"]}, name="model"),
        lambda: g.node(lambda state: {"seen": ["answer"]}, name="answer"),
        lambda: g.router(check),
        lambda: g.edge(START, "prompt"),
        lambda: g.edge("prompt", "model"),
        lambda: g.edge("model", "check"),
        lambda: g.edge("answer", END),
    ]
    for place in order:
        declarations[place]()
    return g


def test_fa_011_the_order_of_declarations_changes_nothing() -> None:
    """FA-011: nodes and edges added in many orders give the same tasks and the same result."""
    chance = random.Random(11)
    orders = [tuple(range(8)), tuple(reversed(range(8))), *(tuple(chance.sample(range(8), 8)) for _ in range(50))]
    runs = [critic(order).run_sync() for order in orders]
    assert {tuple(run.state.seen) for run in runs} == {("prompt", "model", "prompt", "model", "answer")}
    assert {tuple(tasks(run)) for run in runs} == {
        ("prompt@1", "model@1", "check@1", "prompt@2", "model@2", "check@2", "answer@2")
    }


@pytest.mark.parametrize("first", ["z", "a"])
async def test_fa_011_what_meets_is_in_connection_order(store: Store, first: str) -> None:
    """FA-011: z was connected first, so [z, a]: not alphabetical, not by who was faster."""
    arrived = asyncio.Event()
    g = Graph("producers", Trail)

    def producer(name: str) -> None:
        async def produce(state: Trail) -> Update:
            if name == first:
                arrived.set()
            else:
                await arrived.wait()
            return {"seen": [name]}

        g.node(produce, name=name)

    for name in "az":
        producer(name)
    seen: list[list[str]] = []
    g.node(lambda state: seen.append(list(state.seen)), name="r")
    for name in "za":
        g.chain(START, name)
    for name in "za":
        g.chain(name, "r")
    g.chain("r", END)
    run = await g.run(store=store)
    assert (seen, run.state.seen) == ([["z", "a"]], ["z", "a"])


class Value(State):
    value: int
    laps: Annotated[list[int], append] = []


async def test_fa_013_a_lap_gets_what_the_lap_before_gave(caller: Caller, store: Store) -> None:
    """FA-013: 5, 15, 25, and 35 in the end."""
    g = Graph("add ten", Value)

    @g.node
    def body(state: Value) -> Update:
        return {"value": state.value + 10, "laps": [state.value]}

    @g.router
    def again(state: Value) -> Literal["body", "END"]:
        return "END" if len(state.laps) == 3 else "body"

    g.chain(START, body, again)
    run = await caller.run(g, Value(value=5), store=store)
    assert run.state == Value(value=35, laps=[5, 15, 25])


# -- FA-014: approval ----------------------------------------------------------------------------------------------


class Payment(State):
    approved: str = ""
    seen: Annotated[list[str], append] = []
    orders: list[int] = []
    paid: list[str] = []


def approving(paid: list[str]) -> Graph[Payment, object]:
    """Asks, and pays only if the answer is yes."""
    g = Graph("pay", Payment)
    g.gate("approve", question="pay?", into="approved", schema=Literal["yes", "no"], to={"yes": "pay", "no": END})

    @g.node
    def pay(state: Payment) -> Update:
        paid.append("pay")
        return {"seen": ["pay"]}

    g.chain(START, "approve")
    g.chain(pay, END)
    return g


def in_parallel(inner: Graph[Payment, object]) -> Graph[Payment, object]:
    g = Graph("outer", Payment)
    g.node(inner)
    g.node(lambda state: {"seen": ["log"]}, name="log")
    g.chain(START, inner, END)
    g.chain(START, "log", END)
    return g


def in_loop(inner: Graph[Payment, object]) -> Graph[Payment, object]:
    g = Graph("outer", Payment)
    g.node(lambda state: {"seen": ["log"]}, name="log")
    g.node(inner)

    @g.router
    def again(state: Payment) -> Literal["pay", "END"]:
        return "END"

    g.chain(START, "log", inner, again)
    return g


def in_map(inner: Graph[Payment, object]) -> Graph[Payment, object]:
    g = Graph("outer", Payment)
    g.node(lambda state: {"seen": ["log"]}, name="log")
    g.map(inner, over="orders", into="paid", input=lambda item: {"orders": [item]}, output="approved")
    g.chain(START, "log", inner, END)
    return g


def behind_router(inner: Graph[Payment, object]) -> Graph[Payment, object]:
    g = Graph("outer", Payment)
    g.node(lambda state: {"seen": ["log"]}, name="log")
    g.node(inner)
    g.router(lambda state: ["log", "pay"], name="both", to=["log", "pay"])
    g.chain(START, "both")
    g.chain("log", END)
    g.chain("pay", END)
    return g


@pytest.mark.parametrize("place", [in_parallel, in_loop, in_map, behind_router])
@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_fa_014_an_approval_holds_wherever_it_sits(caller: Caller, store: Store, place: Any, answer: str) -> None:
    """FA-014: in a parallel group, a loop, a map or behind a router: nothing is paid before the answer."""
    paid: list[str] = []
    graph = place(approving(paid))
    given = Payment(orders=[1, 2] if place is in_map else [1])
    run = await caller.run(graph, given, store=store, run_id="r")
    waiting = 2 if place is in_map else 1
    assert (run.status, paid, len(run.questions), "log" in run.state.seen) == ("waiting", [], waiting, True)
    again = await caller.run(graph, given, store=store, run_id="r")
    assert (again.status, again.questions, paid) == ("waiting", run.questions, [])
    run = await caller.resume(graph, "r", store=store, answers={question.id: answer for question in run.questions})
    assert (run.status, paid) == ("completed", ["pay"] * waiting if answer == "yes" else [])


async def test_fa_014_a_gate_without_a_place_to_be_answered_is_refused(caller: Caller) -> None:
    """FA-014: a question that nobody could ever answer is refused before anything runs."""
    with pytest.raises(GraphError, match="gate `approve` asks questions, so the run needs a store"):
        await caller.run(approving([]))
    assert (await caller.run(approving([]), store=MemoryStore())).status == "waiting"


# -- more on FA-011 ------------------------------------------------------------------------------------------------


def test_fa_011_many_orders_of_the_edges_of_a_diamond() -> None:
    """FA-011: only the order of the edges out of the fork is the merge order; that of all others is nothing."""
    edges = [("START", "f"), ("f", "z"), ("f", "a"), ("z", "j"), ("a", "j"), ("j", "END")]
    results: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
    for order in random.Random(11).sample(list(itertools.permutations(range(6))), 80):
        walk = Walk()
        for name in "fzaj":
            walk.node(name)
        for place in order:
            walk.graph.edge(*edges[place])
        z_first = order.index(1) < order.index(2)
        results[z_first].add(tuple(walk.graph.run_sync().state.seen))
    assert results == {True: {("f", "z", "a", "j")}, False: {("f", "a", "z", "j")}}


async def test_a_failed_run_is_raised_with_its_run() -> None:
    """`RunFailed` carries the run, so that what was done is at hand."""
    walk = Walk("START a b END")
    walk.broken.add("b")
    with pytest.raises(RunFailed) as caught:
        await walk.graph.run()
    assert caught.value.run.state.seen == ["a"]
    assert (await BY_AWAIT.failure(walk.graph)).run.status == "failed"
