"""Case bank, group C and the part of D that is built: what is stored, and going on with it.

Each test names its case; `tests/SCENARIOS.md` lists them all.
"""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import asyncio
import datetime as dt
import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import apsw
import pytest
from pydantic import BaseModel, create_model

from flowagent import (
    END,
    START,
    Context,
    Graph,
    Limits,
    Remove,
    State,
    Update,
    add,
    append,
    last,
    maximum,
    merge,
    messages,
    reducer,
    union,
)
from flowagent.core.frozen import same
from flowagent.core.records import Past
from flowagent.errors import AnswerError, FlowAgentError, GraphChanged, RunConflict, StateError
from flowagent.stores import Lease, MemoryStore, SQLiteStore, Store
from tests.scenarios import Caller, Trail, Walk, problems


def simple(state: type[Any], update: Any, name: str = "simple") -> Graph[Any, Any]:
    """START, work, ask, END: writes an update, then waits for an answer."""
    g: Graph[Any, Any] = Graph(name, state)
    g.node(lambda state: update, name="work")
    g.gate("ask", question="go on?", schema=bool)
    g.chain(START, "work", "ask", END)
    return g


# -- FA-023 to FA-026: what comes back -----------------------------------------------------------------------------


class Shape(BaseModel):
    sides: int


@dataclass
class Half:
    x: int
    y: int = field(init=False, default=0)


async def test_fa_023_what_can_no_longer_be_built_is_told_and_kept(caller: Caller, store: Store) -> None:
    """FA-023: with the class gone, loading names field and problem, the data can be had raw, and nothing is changed."""
    old = create_model("Drawn", __base__=State, shape=(Shape | None, None))
    await caller.run(simple(old, {"shape": Shape(sides=3)}), old(), store=store, run_id="r")
    before = await store.read("r")
    new = create_model("Drawn", __base__=State, shape=(int | None, None))
    with pytest.raises(StateError, match="`shape`: Input should be a valid integer") as caught:
        await simple(new, None).load("r", store=store)
    assert caught.value.raw == {"shape": ["set", [{"sides": 3}]]}
    with pytest.raises(StateError, match="`shape`"):
        await caller.resume(simple(new, None), "r", store=store, answers={"ask": True}, accept_changes=True)
    assert await store.read("r") == before
    run = await caller.resume(simple(old, None), "r", store=store, answers={"ask": True})
    assert run.state == old.model_validate({"shape": Shape(sides=3)})


async def test_fa_023_what_a_constructor_cannot_take_is_refused_at_once(caller: Caller, store: Store) -> None:
    """FA-023, variant: a dataclass field outside the constructor comes back, or is refused; it is never lost."""

    class Halves(State):
        half: Half | None = None

    changed = Half(1)
    run = await caller.run(simple(Halves, {"half": changed}), Halves(), store=store)
    assert run.state == Halves(half=Half(1))
    changed.y = 5
    failure = await caller.failure(simple(Halves, {"half": changed}), Halves(), store=store)
    assert failure.errors[0].kind == "UnstorableError"
    assert "`half` would come back from the store as" in failure.errors[0].message


class Inner(BaseModel):
    label: str = "x"


class Ordinary(State):
    when: dt.datetime | None = None
    key: uuid.UUID | None = None
    tags: set[str] = set()
    amount: Decimal = Decimal(0)
    path: PurePosixPath = PurePosixPath()
    inner: Inner = Inner()
    most: float = 0.0
    raw: bytes = b""


async def test_fa_025_ordinary_types_come_back_equal(caller: Caller, store: Store) -> None:
    """FA-025: date with its zone, UUID, set, Decimal, path, nested model, infinity and bytes that are no UTF-8."""
    values: dict[str, Any] = {
        "when": dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
        "key": uuid.UUID(int=7),
        "tags": {"a", "b"},
        "amount": Decimal("1.10"),
        "path": PurePosixPath("/a/b"),
        "inner": Inner(label="y"),
        "most": float("inf"),
        "raw": b"\xff\xfe",
    }
    graph = simple(Ordinary, values)
    run = await caller.run(graph, Ordinary(), store=store, run_id="r")
    loaded = (await graph.load("r", store=store)).state
    assert run.state == loaded == Ordinary(**values)
    assert loaded.when is not None
    assert loaded.when.utcoffset() == dt.timedelta(hours=5, minutes=30)
    assert str(loaded.amount) == "1.10"
    assert {name: type(getattr(loaded, name)) for name in ("tags", "inner", "raw")} == {
        "tags": type(run.state.tags),
        "inner": Inner,
        "raw": bytes,
    }


async def test_fa_026_the_declared_model_is_what_is_built(caller: Caller, store: Store) -> None:
    """FA-026: after a pause a node reads an attribute of the user's own model; there is no list to forget it in."""

    class UserState(State):
        user: Inner = Inner()
        read: str = ""

    g: Graph[UserState, object] = Graph("user", UserState)
    g.node(lambda state: {"user": Inner(label="ada")}, name="work")
    g.gate("ask", question="?", schema=bool)
    g.node(lambda state: {"read": state.user.label}, name="reads")
    g.chain(START, "work", "ask", "reads", END)
    await caller.run(g, UserState(), store=store, run_id="r")
    run = await caller.resume(g, "r", store=store, answers={"ask": True})
    assert run.state == UserState(user=Inner(label="ada"), read="ada")


# -- FA-027, FA-039: the program has changed -----------------------------------------------------------------------


class V1(State):
    a: int = 0
    b: str = "old"


class V2(State):
    a: int = 0
    b: str = "old"
    retries: int = 3


class WithoutB(State):
    a: int = 0


class Renamed(State):
    a: int = 0
    c: str = ""


async def test_fa_027_a_new_field_has_its_default(caller: Caller, store: Store) -> None:
    """FA-027: a paused run of the old program goes on in the new one, and the new field has its default."""
    await caller.run(simple(V1, {"a": 1}), V1(), store=store, run_id="r")
    run = await caller.resume(simple(V2, None), "r", store=store, answers={"ask": True})
    assert run.state == V2(a=1, b="old", retries=3)


@pytest.mark.parametrize(
    ("model", "differences"),
    [
        (WithoutB, ("field `b` was removed",)),
        (Renamed, ("field `b` was removed (renamed to one of `c`?)",)),
    ],
)
async def test_fa_027_a_field_that_is_gone_is_told(caller: Caller, store: Store, model: Any, differences: Any) -> None:
    """FA-027, variants: a removed or renamed field is an error that names it; never an empty value in silence."""
    await caller.run(simple(V1, {"a": 1, "b": "new"}), V1(), store=store, run_id="r")
    before = await store.read("r")
    with pytest.raises(GraphChanged) as caught:
        await caller.resume(simple(model, None), "r", store=store, answers={"ask": True})
    assert caught.value.differences == differences
    with pytest.raises(StateError, match="`b` was stored but is no field"):
        await caller.resume(simple(model, None), "r", store=store, answers={"ask": True}, accept_changes=True)
    assert await store.read("r") == before


def analysts(name: str, *, doc: str = "", fails: list[bool]) -> Graph[Trail, object]:
    g = Graph("desk", Trail)

    def trader(state: Trail) -> Update:
        if fails[0]:
            raise ConnectionError("down")
        return {"seen": ["trader"]}

    g.node(lambda state: {"seen": [name]}, name=name, doc=doc)
    g.node(trader, doc=doc)
    g.chain(START, name, trader, END)
    return g


async def test_fa_039_another_graph_is_refused_with_the_difference(caller: Caller, store: Store) -> None:
    """FA-039: nodes that came and went are named; a changed docstring, retry or label is no change."""
    fails = [True]
    await caller.failure(analysts("old_analyst", fails=fails), Trail(), store=store, run_id="r")
    fails[0] = False
    with pytest.raises(GraphChanged) as caught:
        await caller.resume(analysts("new_analyst", fails=fails), "r", store=store)
    assert set(caught.value.differences) >= {"node `old_analyst` was removed", "node `new_analyst` was added"}
    run = await caller.resume(analysts("old_analyst", doc="reworded", fails=fails), "r", store=store)
    assert run.state.seen == ["old_analyst", "trader"]


# -- FA-029: snapshots are copies ----------------------------------------------------------------------------------


async def test_fa_029_a_change_in_place_is_refused(caller: Caller, store: Store) -> None:
    """FA-029: a node that appends to the state's list fails and is told what to return, in every store."""
    g = Graph("in place", Trail)
    for number in range(3):
        g.node(lambda state, number=number: state.seen.append(str(number)), name=f"n{number}")
    g.chain(START, "n0", "n1", "n2", END)
    failure = await caller.failure(g, Trail(seen=["given"]), store=store)
    assert (failure.errors[0].kind, failure.run.state.seen) == ("StateError", ["given"])
    assert "the state is read-only, so `append` on this list was refused: return an update" in failure.errors[0].message


class Nested(BaseModel):
    items: list[int] = []
    name: str = ""


class Holder(BaseModel):
    """A state that is no `State`, with a model inside that anybody may change."""

    part: Nested = Nested()
    log: Annotated[list[str], append] = []


async def test_fa_029_two_loads_are_independent_and_history_stays(caller: Caller, store: Store) -> None:
    """FA-029: what a caller does to a loaded state changes neither the next load nor the stored past."""
    g: Graph[Holder, object] = Graph("holder", Holder)
    for number in range(3):
        g.node(
            lambda state, n=number: {"part": Nested(items=[*state.part.items, n], name=str(n))},
            name=f"n{number}",
        )
    g.chain(START, "n0", "n1", "n2", END)
    run = await caller.run(g, Holder(), store=store, run_id="r")
    first, second = await g.load("r", store=store), await g.load("r", store=store)
    first.state.part.name = "changed"
    assert second.state == Holder(part=Nested(items=[0, 1, 2], name="2"))
    assert (await g.load("r", store=store)).state == second.state
    after_n0 = next(step.seq for step in run.history if step.task == "n0")
    for _ in range(2):
        past = run.state_at(after_n0)
        assert past == Holder(part=Nested(items=[0], name="0"))
        past.part.name = "changed"


async def test_fa_029_a_nested_change_that_is_not_returned_is_told(caller: Caller, store: Store) -> None:
    """FA-029: a part that can be changed is the node's own copy, and a change that is not returned is an error."""
    g: Graph[Holder, object] = Graph("holder", Holder)
    seen: list[str] = []

    @g.node
    def changes(state: Holder) -> Update:
        state.part.name = "changed"
        return {"log": ["x"]}

    g.node(lambda state: seen.append(state.part.name), name="sibling")
    g.chain(START, changes, END)
    g.chain(START, "sibling", END)
    failure = await caller.failure(g, Holder(part=Nested(name="given")), store=store)
    assert problems(failure.run) == {
        "changes": "StateError: changed `part` of its input in place and did not return it: return the changed value"
    }
    assert seen == ["given"]


# -- P7: what you resume is what you had -------------------------------------------------------------------------------


class Message(BaseModel):
    id: str = ""
    text: str = ""


def best_five(old: list[int], delta: list[int]) -> list[int]:
    return sorted([*old, *delta])[-5:]


class Everything(State):
    """A field for each reducer, and for each container that looks different after JSON."""

    notes: Annotated[list[str], append] = []
    line: Annotated[tuple[str, ...], append] = ()
    numbers: Annotated[Sequence[int], append] = []
    maybe: Annotated[list[int] | None, append] = None
    table: Annotated[dict[str, int], merge] = {}
    seen: Annotated[set[int], union] = set()
    firm: Annotated[frozenset[int], union] = frozenset()
    total: Annotated[float, add] = 0
    exact: Annotated[Decimal, add] = Decimal(0)
    most: Annotated[int | None, maximum] = None
    posts: Annotated[list[Message], messages] = []
    best: Annotated[list[int], reducer(best_five)] = []
    latest: Annotated[str, last] = ""
    plain: dict[str, list[Message]] = {}
    filler: str = ""


async def test_a_loaded_state_is_the_live_one(caller: Caller, store: Store) -> None:
    """After 200 laps with snapshots in between, stored and live state are alike to the last type."""
    g: Graph[Everything, object] = Graph("everything", Everything)

    @g.node
    def work(state: Everything) -> Update:
        n = len(state.notes)
        return {
            "notes": [f"note {n}"],
            "line": ["x"],
            "numbers": [n],
            "maybe": [n],
            "table": {f"k{n % 7}": n},
            "seen": {n % 5},
            "firm": {n % 3},
            "total": 0.1,
            "exact": Decimal("0.1"),
            "most": n * 37 % 101,
            "posts": [Message(text=str(n))] if n % 3 or not state.posts else [Remove(remove=state.posts[0].id)],
            "best": [n * 37 % 101],
            "latest": str(n),
            "plain": {"p": [Message(text=str(n))]},
            "filler": "y" * 300,
        }

    g.router(lambda state: "work" if len(state.notes) < 200 else "ask", name="again", to=["work", "ask"])
    g.gate("ask", question="?", schema=bool)
    g.chain(START, work, "again")
    g.edge("ask", END)
    run = await caller.run(g, Everything(), store=store, run_id="r")
    assert await store.snapshot("r") is not None
    loaded = await g.load("r", store=store)
    resumed = await caller.resume(g, "r", store=store, answers={"ask": True})
    assert (run.status, loaded.status, resumed.status) == ("waiting", "waiting", "completed")
    assert same(loaded.state, run.state)
    assert same(resumed.state, run.state)
    assert same(run.state_at(len(run.records) - 1), run.state)


# -- FA-030, FA-031: what is in the file ---------------------------------------------------------------------------


class Big(State):
    text: str = ""
    counter: int = 0


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.iterdir())


async def test_fa_030_unchanged_parts_are_not_stored_again(tmp_path: Path) -> None:
    """FA-030: a text of 1 MB and 200 laps make a file of a few MB, not of 200."""
    g = Graph("big", Big)
    g.node(lambda state: {"counter": state.counter + 1}, name="count")
    g.router(lambda state: "count" if state.counter < 200 else "END", name="again", to=["count", "END"])
    g.chain(START, "count", "again")
    store = SQLiteStore(tmp_path / "runs.db")
    run = await g.run(Big(text="x" * 1_000_000), store=store, run_id="r", limits=Limits(steps=500))
    await store.close()
    assert run.state.counter == 200
    assert size_of(tmp_path) < 10_000_000
    assert (await g.load("r", store=store)).state == run.state
    await store.close()


class Text(State):
    text: str = ""
    texts: Annotated[list[str], append] = []


@pytest.mark.parametrize("text", ["W\x00s\x00l\x00", "\\u0000", '"\\\x00\x1f\u2028\U0001f600', "\x00"])
async def test_fa_031_nul_characters_are_kept(caller: Caller, store: Store, text: str) -> None:
    """FA-031: NUL reads back unchanged, and six characters that only look like one are left alone."""
    graph = simple(Text, {"text": text, "texts": [text]})
    await caller.run(graph, Text(), store=store, run_id="r")
    run = await caller.resume(graph, "r", store=store, answers={"ask": True})
    assert run.state == (await graph.load("r", store=store)).state == Text(text=text, texts=[text])


# -- FA-033, FA-034: pauses ----------------------------------------------------------------------------------------


class Asked(State):
    answer: str = ""
    sent: int = 0


async def test_fa_033_work_before_a_pause_is_not_done_again(store: Store) -> None:
    """FA-033: through `ctx.step` it is done once; before a gate it is another node's, and done once."""
    counter = {"step": 0, "node": 0}

    def send() -> int:
        counter["step"] += 1
        return counter["step"]

    g: Graph[Asked, object] = Graph("asked", Asked)

    @g.node
    async def n(state: Asked, ctx: Context) -> Update:
        sent = await ctx.step("send", send)
        return {"answer": await ctx.ask("ok", "ok?"), "sent": sent}

    @g.node
    def m(state: Asked) -> Update:
        counter["node"] += 1
        return None

    g.gate("gate", question="sure?", into="answer")
    g.chain(START, n, m, "gate", END)
    run = await g.run(Asked(), store=store, run_id="r")
    run = await g.resume("r", store=store, answers={run.questions[0].id: "yes"})
    run = await g.resume("r", store=store, answers={"gate": "sure"})
    assert (run.state, counter) == (Asked(answer="sure", sent=1), {"step": 1, "node": 1})


class Answers(State):
    answers: Annotated[list[str], append] = []
    items: list[str] = ["A", "B"]
    results: list[str] = []


async def test_fa_034_two_questions_at_once_have_two_ids(store: Store) -> None:
    """FA-034: each of two tools that ask at once gets its own answer, whoever asks first and is answered first."""
    for turn in range(25):
        run_id, first = f"r{turn}", "AB"[turn % 2]
        asked = asyncio.Event()
        g: Graph[Answers, object] = Graph("two", Answers)

        @g.map(over="items", into="results")
        async def tool(item: str, ctx: Context, asked: asyncio.Event = asked, first: str = first) -> str:
            if item != first:
                await asked.wait()
            asked.set()
            return item + await ctx.ask("question", f"{item}?")

        g.chain(START, tool, END)
        run = await g.run(Answers(), store=store, run_id=run_id)
        ids = {question.text: question.id for question in run.questions}
        assert ids == {"A?": "tool[0]?question", "B?": "tool[1]?question"}
        run = await g.resume(run_id, store=store, answers={ids["A?"]: "a"})
        assert [question.id for question in run.questions] == [ids["B?"]]
        with pytest.raises(AnswerError, match="there is no open question"):
            await g.resume(run_id, store=store, answers={ids["A?"]: "again"})
        run = await g.resume(run_id, store=store, answers={ids["B?"]: "b"})
        assert run.state.results == ["Aa", "Bb"]


async def test_fa_034_one_node_with_two_questions(store: Store) -> None:
    """FA-034: questions within one node are told apart by their names; a re-run asks none of them again."""
    g: Graph[Answers, object] = Graph("two", Answers)

    @g.node
    async def n(state: Answers, ctx: Context) -> Update:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ctx.ask("a", "A?"))
            second = group.create_task(ctx.ask("b", "B?"))
        return {"answers": [first.result(), second.result()]}

    g.chain(START, n, END)
    run = await g.run(Answers(), store=store, run_id="r")
    assert run.status == "waiting"
    while run.status == "waiting":
        run = await g.resume(
            "r", store=store, answers={question.id: question.text.lower() for question in run.questions}
        )
    assert run.state.answers == ["a?", "b?"]


# -- FA-035, FA-041, FA-042: what resume does ----------------------------------------------------------------------


async def test_fa_035_resume_runs_what_failed_and_what_follows(caller: Caller, store: Store) -> None:
    """FA-035: B is tried again, A and E are not, then C runs; never "completed" without C."""
    walk = Walk("START a b c END", "a e END")
    walk.broken.add("b")
    failed = await caller.fails(walk.graph, store=store, run_id="r", on_failure="continue")
    assert (failed.status, sorted(walk.calls)) == ("failed", ["a", "b", "e"])
    with pytest.raises(FlowAgentError, match="b is broken"):
        await caller.resume(walk.graph, "r", store=store)
    walk.broken.clear()
    run = await caller.resume(walk.graph, "r", store=store)
    assert (run.status, run.state.seen) == ("completed", ["a", "b", "c", "e"])
    assert sorted(walk.calls) == ["a", "b", "b", "b", "c", "e"]


class Killed(BaseException):
    """Stands for the end of a process: no code of ours gets to see more."""


class CrashingStore(MemoryStore):
    """A store whose process "dies" at an append."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10**9

    async def append(self, *args: Any, **options: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed
        await super().append(*args, **options)


async def test_fa_041_a_finished_run_runs_nothing_again(caller: Caller, store: Store) -> None:
    """FA-041 (a): resume and run give the stored final state back, with no call."""
    walk = Walk("START a b c END")
    run = await caller.run(walk.graph, store=store, run_id="r")
    for again in (
        await caller.resume(walk.graph, "r", store=store),
        await caller.run(walk.graph, store=store, run_id="r"),
        await caller.run(walk.graph, Trail(), store=store, run_id="r"),
    ):
        assert (again.status, again.state, again.replayed) == ("completed", run.state, True)
    assert walk.calls == ["a", "b", "c"]


@pytest.mark.parametrize("watched", [False, True], ids=["called", "streamed"])
@pytest.mark.parametrize("kills", [1, 2, 3])
async def test_fa_041_a_recorded_step_is_not_run_again(watched: bool, kills: int) -> None:
    """FA-041 (b), (c): killed after some records and gone on with: what was recorded is not called again."""
    walk = Walk("START a b c END")
    store = CrashingStore()
    store.left = kills

    async def go() -> None:
        if not watched:
            await walk.graph.run(Trail(), store=store, run_id="r")
            return
        async with walk.graph.stream(Trail(), store=store, run_id="r") as events:
            async for _ in events:
                pass

    with pytest.raises(Killed):
        await go()
    recorded = ["a", "b", "c"][:kills]
    store.left = 10**9
    assert [record.kind for record in await store.read("r")] == ["started"] + ["done"] * kills
    before = list(walk.calls)
    run = await walk.graph.resume("r", store=store)
    assert run.state.seen == ["a", "b", "c"]
    assert not set(walk.calls[len(before) :]) & set(recorded)


class Mapped(State):
    items: list[int] = [1, 2, 3]
    results: list[int] = []
    all: Annotated[list[list[int]], append] = []


@pytest.mark.parametrize("crash_at", [None, 5])
async def test_fa_042_a_map_in_a_loop_is_new_in_each_lap(store: Store, crash_at: int | None) -> None:
    """FA-042: lap k yields k+1, k+2, k+3 with nine calls; a crash in lap 2 repeats only what was not recorded."""
    calls: list[str] = []
    crash = [crash_at]
    g: Graph[Mapped, object] = Graph("mapped", Mapped)

    @g.map(over="items", into="results")
    def add(item: int, ctx: Context[object, Mapped]) -> int:
        calls.append(ctx.task_id)
        if crash[0] is not None and len(calls) == crash[0]:
            crash[0] = None
            raise ConnectionError("crash")
        return item + len(ctx.state.all) + 1

    g.node(lambda state: {"all": [state.results]}, name="keep")
    g.router(lambda state: "add" if len(state.all) < 3 else "END", name="again", to=["add", "END"])
    g.chain(START, add, "keep", "again")
    try:
        run = await g.run(Mapped(), store=store, run_id="r")
    except FlowAgentError:
        run = await g.resume("r", store=store)
    assert run.state.all == [[2, 3, 4], [3, 4, 5], [4, 5, 6]]
    assert sorted(set(calls)) == [f"add@{lap}[{item}]" for lap in (1, 2, 3) for item in (0, 1, 2)]
    assert len(calls) == (9 if crash_at is None else 10)


# -- FA-043: two resumes at once -----------------------------------------------------------------------------------


async def test_fa_043_two_resumes_at_once_pay_once(store: Store) -> None:
    """FA-043, threads: of two that resume at the same moment one pays; the other is told, and has done no harm."""
    for turn in range(25):
        paid: list[int] = []
        g: Graph[Asked, object] = Graph("pay", Asked)
        g.gate("approve", question="pay?", into="answer")
        g.node(lambda state, paid=paid: paid.append(1), name="pay")
        g.chain(START, "approve", "pay", END)
        run_id = f"r{turn}"
        await g.run(Asked(), store=store, run_id=run_id)
        at_once = asyncio.Barrier(2)

        async def answer(graph: Any = g, run_id: str = run_id, at_once: asyncio.Barrier = at_once) -> str:
            await at_once.wait()
            try:
                await asyncio.to_thread(lambda: graph.resume_sync(run_id, store=store, answers={"approve": "yes"}))
            except (RunConflict, AnswerError) as error:
                return type(error).__name__
            return "paid"

        outcomes = await asyncio.gather(answer(), answer())
        assert (len(paid), outcomes.count("paid")) == (1, 1), outcomes
        assert (await g.load(run_id, store=store)).status == "completed"


class Overtaken(MemoryStore):
    """A store in which somebody else is faster, just before a run is claimed."""

    def __init__(self) -> None:
        super().__init__()
        self.faster: Any = None

    async def claim(self, run_id: str, *, blocking: bool = False) -> Lease:
        await self._let_the_other_go_first()
        return await super().claim(run_id, blocking=blocking)

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        await self._let_the_other_go_first()
        return await super().resume(run_id, blocking=blocking)

    async def _let_the_other_go_first(self) -> None:
        if self.faster is not None:
            faster, self.faster = self.faster, None
            await faster()


@pytest.mark.parametrize("verb", ["resume with an answer", "resume", "cancel"])
async def test_fa_043_who_comes_second_does_no_harm(verb: str) -> None:
    """FA-043: a run that somebody finishes between our look and our claim stays completed, record for record."""
    store, paid = Overtaken(), list[int]()
    g: Graph[Asked, object] = Graph("pay", Asked)
    g.gate("approve", question="pay?", into="answer")
    g.node(lambda state: paid.append(1), name="pay")
    g.chain(START, "approve", "pay", END)
    await g.run(Asked(), store=store, run_id="r")
    left: list[Any] = []

    async def faster() -> None:
        await g.resume("r", store=store, answers={"approve": "yes"})
        left.append(await store.read("r"))

    store.faster = faster
    if verb == "resume with an answer":
        with pytest.raises(AnswerError, match="is completed"):
            await g.resume("r", store=store, answers={"approve": "no"})
    elif verb == "resume":
        run = await g.resume("r", store=store)
        assert (run.status, run.replayed) == ("completed", True)
    else:
        assert (await g.cancel("r", store=store)).status == "completed"
    assert (await store.info("r")).status == "completed"
    assert ([await store.read("r")], paid) == (left, [1])


# -- FA-111: what is stored decides nothing about classes ----------------------------------------------------------


ENVELOPE = {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "touch marker"}}


class Free(State):
    value: Any = None
    user: Inner | None = None


async def test_fa_111_an_envelope_is_the_same_plain_dict(caller: Caller, store: Store) -> None:
    """FA-111 (c): data that looks like an instruction to build something is data."""
    graph = simple(Free, {"value": ENVELOPE})
    await caller.run(graph, Free(), store=store, run_id="r")
    assert (await graph.load("r", store=store)).state.value == ENVELOPE


def is_there(name: str) -> bool:
    """Whether there is such a file where we are."""
    return Path(name).exists()


@pytest.mark.parametrize("data", [b"\x80\x04cos\nsystem\n(S'touch marker'\ntR.", b'{"__reduce__":["os.system",["x"]]}'])
async def test_fa_111_a_changed_row_is_an_error(tmp_path: Path, data: bytes) -> None:
    """FA-111 (a), (b): pickle bytes or an envelope in a row: an error, nothing imported, nothing called."""
    path = tmp_path / "runs.db"
    graph = simple(Free, {"user": Inner()})
    store = SQLiteStore(path)
    await graph.run(Free(), store=store, run_id="r")
    await store.close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE records SET data = ? WHERE id = (SELECT max(id) - 1 FROM records)", (data,))
    connection.close()
    with pytest.raises(FlowAgentError, match="damaged"):
        await graph.load("r", store=store)
    await store.close()
    assert not is_there("marker")


def test_the_file_is_ordinary_sqlite(tmp_path: Path) -> None:
    """What is in the file can be looked at with any SQLite, and says what happened in plain JSON."""
    path = tmp_path / "runs.db"
    graph = simple(Text, {"text": "plain"})
    graph.run_sync(Text(), store=path, run_id="r")
    connection = sqlite3.connect(path)
    kinds = [kind for (kind,) in connection.execute("SELECT kind FROM records ORDER BY id")]
    connection.close()
    assert kinds == ["started", "done", "asked", "ended"]
