"""Bad input of every kind gets a clear error of ours, and the stored run is as it was."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, field_validator

from flowagent import END, START, Context, Graph, Limits, Retry, Send, State, Update, append
from flowagent.core.records import Past, Record
from flowagent.errors import (
    AnswerError,
    FlowAgentError,
    GraphChanged,
    GraphError,
    RunExists,
    RunFailed,
    RunNotFound,
    StateError,
    StoreError,
)
from flowagent.stores import Lease, MemoryStore, SQLiteStore, Store
from tests.scenarios import Caller, Trail, Walk, problems, tasks

HOSTILE = {
    "unicode": "Überprüfung 北京 🤖",
    "quotes": 'it\'s "quoted" `so`',
    "sql": "'); DROP TABLE runs; --",
    "slashes": "../../etc/passwd",
    "backslash": "C:\\runs\\x",
    "nul": "a\x00b",
    "newline": "a\nb\r\tc",
    "ids": "a@1/b[2]~(c)%41",
    "format": "{name} %s {0}",
    "long": "n" * 5000,
    "spaces": " a  b ",
    "json": '{"task": 1}',
    "rtl": "\u202eevil\u200b",
    "surrogate pair": "\U0001f469\u200d\U0001f4bb",
}
hostile = pytest.mark.parametrize("name", list(HOSTILE.values()), ids=list(HOSTILE))


class S(State):
    """What most tests here run on."""

    text: str = ""
    number: int = 0
    items: list[int] = []
    results: list[int] = []
    seen: Annotated[list[str], append] = []


def asking(**options: Any) -> Graph[S, object]:
    """START, work, ask, END: waits for a yes or a no."""
    g: Graph[S, object] = Graph("asking", S)
    g.node(lambda state: {"text": "worked"}, name="work")
    g.gate("ask", question="sure?", into="text", schema=Literal["yes", "no"], **options)
    g.chain(START, "work", "ask", END)
    return g


async def kept(store: Store, run_id: str = "r") -> tuple[object, list[Record]]:
    """All that a store knows of a run, but for how often it was held."""
    info = await store.info(run_id)
    return dataclasses.replace(info, epoch=0, updated=0, lease_until=0), await store.read(run_id)


# -- names and ids -------------------------------------------------------------------------------------------------


@hostile
async def test_any_text_is_a_name(caller: Caller, store: Store, name: str) -> None:
    """A graph, a node, a router's label, a gate, a map, a nested graph and a run may be called anything."""
    inner: Graph[S, object] = Graph(name, S)
    inner.node(lambda state: {"seen": [name]}, name=f"{name}!")
    inner.chain(START, f"{name}!", END)
    g: Graph[S, object] = Graph(name, S)
    g.node(inner, name=name)
    g.router(lambda state: name, name=f"{name}?", to={name: f"{name}#"})
    g.map(lambda item: item * 2, name=f"{name}#", over="items", into="results")
    g.gate(f"{name}.", question="?", into="text")
    g.chain(START, name, f"{name}?")
    g.chain(f"{name}#", f"{name}.", END)
    run = await caller.run(g, S(items=[1, 2]), store=store, run_id=name)
    assert (run.status, run.run_id, run.questions[0].node) == ("waiting", name, f"{name}.")
    run = await caller.resume(g, name, store=store, answers={run.questions[0].id: name})
    assert run.state == S(text=name, items=[1, 2], results=[2, 4], seen=[name])
    assert [step.node for step in run.history if step.kind == "done"] == [
        f"{name}!",
        name,
        f"{name}?",
        f"{name}#",
        f"{name}.",
    ]
    assert len(set(tasks(run))) == 7
    assert (await g.load(name, store=store)).state == run.state
    assert [info.run_id for info in await store.runs(graph=name)] == [name]


@hostile
async def test_names_never_collide(store: Store, name: str) -> None:
    """Runs whose ids look alike are two runs."""
    walk = Walk("START a END")
    others = {f"{name} ", f"{name}'", f"{name}%", name.replace("a", "%61"), f"{name}\x00"} - {name}
    for run_id in (name, *others):
        await walk.graph.run(Trail(seen=[run_id]), store=store, run_id=run_id)
    for run_id in (name, *others):
        assert (await walk.graph.load(run_id, store=store)).state.seen == [run_id, "a"]


@pytest.mark.parametrize("run_id", ["", 5, b"r", ["r"], "\ud800"], ids=["empty", "int", "bytes", "list", "surrogate"])
async def test_what_is_no_run_id_is_refused(caller: Caller, store: Store, run_id: Any) -> None:
    """An empty id, one that is no text, or text that no store can write: refused before anything runs."""
    walk = Walk("START a END")
    with pytest.raises(FlowAgentError, match="run id"):
        await caller.run(walk.graph, Trail(), store=store, run_id=run_id)
    assert (walk.calls, await store.runs()) == ([], [])
    with pytest.raises(FlowAgentError):
        await caller.resume(walk.graph, run_id, store=store)
    with pytest.raises(FlowAgentError):
        await walk.graph.load(run_id, store=store)


@hostile
async def test_a_run_that_is_not_there(caller: Caller, store: Store, name: str) -> None:
    """Every verb says so, and names the store that was searched."""
    graph = asking()
    await graph.run(store=store, run_id="r")
    before = await kept(store)
    for verb in (
        graph.load(name, store=store),
        graph.resume(name, store=store, answers={"ask": "yes"}),
        graph.cancel(name, store=store),
    ):
        with pytest.raises(RunNotFound) as caught:
            await verb
        assert store.name in str(caught.value)
    assert await kept(store) == before
    assert len(await store.runs()) == 1


async def test_a_run_without_a_store_to_look_in() -> None:
    """An id alone is not enough when neither the call nor the graph names a store."""
    with pytest.raises(FlowAgentError, match="where is run `r`\\? Pass store="):
        await asking().load("r")


async def test_an_id_of_another_graph_or_input(caller: Caller, store: Store) -> None:
    """A known id with another graph or another input is refused; an input that was not given does not count."""
    graph = asking()
    await caller.run(graph, S(number=1), store=store, run_id="r")
    before = await kept(store)
    with pytest.raises(RunExists, match="is one of graph `asking`, not of `walk`"):
        await caller.run(Walk("START a END").graph, Trail(), store=store, run_id="r")
    with pytest.raises(RunExists, match=r"was started with another input \(`number` differ\)"):
        await caller.run(graph, S(number=2), store=store, run_id="r")
    with pytest.raises(StateError, match="the input does not fit"):
        await caller.run(graph, {"number": "x"}, store=store, run_id="r")  # type: ignore[arg-type]
    with pytest.raises(RunExists):
        await graph.run({"number": 1, "text": "x"}, store=store, run_id="r")
    assert (await caller.run(graph, store=store, run_id="r")).status == "waiting"
    assert (await caller.run(graph, S(number=1), store=store, run_id="r")).status == "waiting"
    assert await kept(store) == before


# -- inputs and updates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        "text",
        5,
        [],
        S,
        Trail(),
        {"txt": 1},
        {"number": "x"},
        {"number": None},
        {"items": "abc"},
        {"text": "\ud800"},
        {5: 1},
        {"seen": [None]},
    ],
    ids=itertools.count(),
)
async def test_bad_inputs_start_nothing(caller: Caller, store: Store, given: Any) -> None:
    """A wrong input is a `StateError`, and no run is made."""
    walk = asking()
    with pytest.raises(StateError):
        await caller.run(walk, given, store=store, run_id="r")
    assert await store.runs() == []


class Unprintable:
    """Nothing about it can be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


BAD_UPDATES: dict[str, Any] = {
    "text": "text",
    "number": 5,
    "list": [("number", 1)],
    "set": {"number"},
    "class": S,
    "other model": Trail(),
    "send": Send("work", 1),
    "unknown": {"nubmer": 1},
    "type": {"number": "x"},
    "none": {"number": None},
    "surrogate": {"text": "\ud800"},
    "key": {5: 1},
    "delta": {"seen": "abc"},
    "unprintable": {"number": Unprintable()},
    "generator": (number for number in range(3)),
    "coroutine": asyncio.sleep,
    "exception": ValueError("returned"),
    "bytes": b"{}",
    "bool": True,
}


@pytest.mark.parametrize("returned", BAD_UPDATES.values(), ids=BAD_UPDATES)
async def test_bad_updates_change_nothing(caller: Caller, store: Store, returned: Any) -> None:
    """What a node returns and may not is its failure; the state before it stands, and it can be run again."""
    broken = [True]
    g: Graph[S, object] = Graph("updates", S)
    g.node(lambda state: {"number": 1}, name="before")
    g.node(lambda state: returned if broken[0] else {"text": "fine"}, name="bad")
    g.chain(START, "before", "bad", END)
    failure = await caller.failure(g, S(), store=store, run_id="r")
    assert (failure.run.state, tasks(failure.run)) == (S(number=1), ["before"])
    assert (failure.errors[0].node, failure.errors[0].kind in ("StateError", "UnstorableError")) == ("bad", True)
    broken[0] = False
    assert (await caller.resume(g, "r", store=store)).state == S(number=1, text="fine")


@pytest.mark.parametrize(
    "raised",
    [
        Exception(),
        KeyError("k"),
        ValueError("\ud800"),
        RuntimeError(Unprintable()),
        SystemExit(3),
        GeneratorExit(),
        asyncio.CancelledError(),
    ],
)
async def test_whatever_a_node_raises_is_its_failure(caller: Caller, store: Store, raised: BaseException) -> None:
    """An exception of any class is recorded as the failure of that node, and the run can go on."""
    g: Graph[S, object] = Graph("raises", S)
    broken = [True]

    @g.node
    def bad(state: S) -> Update:
        if broken[0]:
            raise raised
        return {"text": "fine"}

    g.chain(START, bad, END)
    failure = await caller.failure(g, S(), store=store, run_id="r")
    assert (failure.errors[0].node, failure.errors[0].kind) == ("bad", type(raised).__name__)
    assert (await g.load("r", store=store)).status == "failed"
    broken[0] = False
    assert (await caller.resume(g, "r", store=store)).state == S(text="fine")


class Picky(BaseModel):
    """Its validator breaks in place of refusing."""

    x: int

    @field_validator("x")
    @classmethod
    def _x(cls, value: int) -> int:
        if value == 2:
            raise KeyError("two")
        return value


class Picked(State):
    items: list[int] = [1, 2]
    results: list[Picky] = []
    one: Picky | None = None


def picky_map(g: Graph[Picked, object]) -> None:
    g.map(lambda item: {"x": item}, name="bad", over="items", into="results")
    g.chain(START, "bad", END)


def picky_send(g: Graph[Picked, object]) -> None:
    @g.node(item=True)
    def one(item: Picky) -> Update:
        return None

    g.router(lambda state: [Send("one", {"x": 2})], name="bad", to=["one"])
    g.chain(START, "bad")
    g.chain("one", END)


def picky_node(g: Graph[Picked, object]) -> None:
    g.node(lambda state: {"one": Picky.model_construct(x=2)}, name="bad")
    g.chain(START, "bad", END)


def picky_graph(g: Graph[Picked, object]) -> None:
    inner: Graph[Picked, object] = Graph("bad", Picked)
    inner.node(lambda state: None, name="n")
    inner.chain(START, "n", END)
    g.node(inner, input=lambda state: {"one": {"x": 2}})
    g.chain(START, inner, END)


@pytest.mark.parametrize("build", [picky_map, picky_send, picky_node, picky_graph])
async def test_a_validator_that_breaks_fails_its_node(caller: Caller, store: Store, build: Any) -> None:
    """Wherever user code is called to judge a value, what it raises is the failure of that node."""
    g: Graph[Picked, object] = Graph("picky", Picked)
    build(g)
    failure = await caller.failure(g, Picked(), store=store, run_id="r")
    assert [error.node for error in failure.errors] == ["bad"]
    assert "KeyError: 'two'" in failure.errors[0].message
    assert (await g.load("r", store=store)).status == "failed"


async def test_a_validator_that_breaks_refuses_an_answer(caller: Caller, store: Store) -> None:
    """The same of a gate's schema: the answer is refused, and the question stays open."""
    g: Graph[Picked, object] = Graph("picky", Picked)
    g.gate("ask", question="?", schema=Picky, into="one")
    g.chain(START, "ask", END)
    await caller.run(g, Picked(), store=store, run_id="r")
    before = await kept(store)
    with pytest.raises(AnswerError, match="the answer to `ask` does not fit: KeyError: 'two'"):
        await caller.resume(g, "r", store=store, answers={"ask": {"x": 2}})
    assert await kept(store) == before
    assert (await caller.resume(g, "r", store=store, answers={"ask": {"x": 3}})).state.one == Picky(x=3)


# -- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"ask": "maybe"}, "the answer to `ask` does not fit: Input should be 'yes' or 'no'"),
        ({"ask": None}, "the answer to `ask` does not fit"),
        ({"ask": ["yes"]}, "the answer to `ask` does not fit"),
        ({"ask": {"value": "yes"}}, "the answer to `ask` does not fit"),
        ({"ask": Unprintable()}, "the answer to `ask` does not fit"),
        ({"aks": "yes"}, "there is no open question `aks`; open are: `ask`"),
        ({"work": "yes"}, "there is no open question `work`; open are: `ask`"),
        ({"": "yes"}, "there is no open question ``"),
        ({"ask": "yes", "aks": "no"}, "there is no open question `aks`"),
        ({"'); DROP TABLE runs; --": "yes"}, "there is no open question `'); DROP TABLE"),
        ({5: "yes"}, "there is no open question `5`"),
        ("yes", "answers"),
        (["ask"], "answers"),
    ],
    ids=itertools.count(),
)
async def test_bad_answers_change_nothing(caller: Caller, store: Store, answers: Any, why: str) -> None:
    """An answer to nothing, or one that does not fit, is refused whole; the question stays open."""
    graph = asking()
    run = await caller.run(graph, S(), store=store, run_id="r")
    before = await kept(store)
    with pytest.raises(AnswerError) as caught:
        await caller.resume(graph, "r", store=store, answers=answers)
    assert why in str(caught.value)
    assert await kept(store) == before
    assert (await graph.load("r", store=store)).questions == run.questions
    run = await caller.resume(graph, "r", store=store, answers={"ask": "yes"})
    assert run.state == S(text="yes")
    finished = await kept(store)
    with pytest.raises(AnswerError, match="is completed; it asks nothing any more"):
        await caller.resume(graph, "r", store=store, answers={"ask": "yes"})
    assert await kept(store) == finished


class Size(State):
    """An answer with a shape."""

    width: int
    height: int = 1


@pytest.mark.parametrize(
    "answer", [None, 5, "x", [], {}, {"width": "x"}, {"width": 1, "depth": 2}, {"width": {}}], ids=str
)
async def test_bad_answers_to_a_nodes_question(store: Store, answer: Any) -> None:
    """What `ctx.ask` asked with a schema is held to that schema before the node sees it."""
    g: Graph[S, object] = Graph("node asks", S)
    attempts: list[int] = []

    @g.node
    async def n(state: S, ctx: Context[object, S]) -> Update:
        attempts.append(1)
        size = await ctx.ask("size", "how big?", Size)
        return {"number": size.width * size.height}

    g.chain(START, n, END)
    await g.run(S(), store=store, run_id="r")
    before = await kept(store)
    with pytest.raises(AnswerError, match=r"the answer to `n\?size` does not fit"):
        await g.resume("r", store=store, answers={"n?size": answer})
    assert (await kept(store), attempts) == (before, [1])
    run = await g.resume("r", store=store, answers={"n?size": {"width": 3}})
    assert (run.state.number, attempts) == (3, [1, 1])


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"retry": {"ask": "again"}}, FlowAgentError, "the only way to say is 'fresh'"),
        ({"retry": {"nobody": "fresh"}}, FlowAgentError, "has no unfinished task `nobody`; unfinished are: `ask`"),
        ({"resolve": {"text": "x"}}, StateError, "resolve= names `text`, and no failed merge is about that"),
        ({"resolve": {"nothing": 1}}, StateError, "resolve= names `nothing`"),
    ],
    ids=itertools.count(),
)
async def test_bad_words_to_resume_change_nothing(
    caller: Caller, store: Store, options: Any, error: type[Exception], why: str
) -> None:
    """`retry=` and `resolve=` about what is not there are refused, and the run is as it was."""
    graph = asking()
    await caller.run(graph, S(), store=store, run_id="r")
    before = await kept(store)
    with pytest.raises(error, match=why):
        await caller.resume(graph, "r", store=store, **options)
    assert await kept(store) == before
    assert (await graph.load("r", store=store)).status == "waiting"


async def test_a_bad_resolution_changes_nothing(caller: Caller, store: Store) -> None:
    """A value for a failed merge that does not fit the field is refused; the merge waits for a better one."""
    g: Graph[S, object] = Graph("conflict", S)
    for name in "ab":
        g.node(lambda state, name=name: {"text": name}, name=name)
        g.chain(START, name, END)
    await caller.fails(g, S(), store=store, run_id="r")
    before = await kept(store)
    for resolve in ({"text": 5}, {"END": {"text": None}}, {"text": "x", "nubmer": 1}, {"END": {"txet": "x"}}):
        with pytest.raises(StateError):
            await caller.resume(g, "r", store=store, resolve=resolve)
        assert await kept(store) == before
    run = await caller.resume(g, "r", store=store, resolve={"text": "settled"})
    assert run.state == S(text="settled")


# -- how things are run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"durability": "slow"}, "durability"),
        ({"on_failure": "ignore"}, "on_failure"),
        ({"limits": 5}, "limits"),
        ({"limits": {"steps": 5}}, "limits"),
        ({"stroe": "runs.db"}, "stroe"),
        ({"store": 5}, "store"),
        ({"store": MemoryStore}, "store"),
        ({"store": sqlite3}, "store"),
        ({"store": object()}, "store"),
    ],
    ids=itertools.count(),
)
async def test_bad_options_start_nothing(caller: Caller, store: Store, options: dict[str, Any], why: str) -> None:
    """An option that does not exist, or a value that it cannot have, is told and nothing runs."""
    walk = Walk("START a END")
    with pytest.raises((FlowAgentError, TypeError, ValueError), match=why):
        await caller.run(walk.graph, Trail(), **{"store": store, **options})
    assert (walk.calls, await store.runs()) == ([], [])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limits(steps=0),
        lambda: Limits(seconds=0),
        lambda: Limits(steps=-1),
        lambda: Limits(seconds=float("nan")),
        lambda: Retry(attempts=0),
        lambda: Retry(backoff=-1),
        lambda: Retry(jitter=2),
        lambda: Retry(backoff=float("nan")),
    ],
    ids=itertools.count(),
)
def test_bad_policies(make: Callable[[], object]) -> None:
    """A number out of its range is refused where it is written."""
    with pytest.raises(ValueError, match=r"Limits|Retry"):
        make()


async def test_a_definition_that_is_wrong_starts_nothing(caller: Caller, store: Store) -> None:
    """The faults are told, and no run is made; after mending the same id is free."""
    graph = asking()
    graph.node(lambda state: None, name="lost")
    with pytest.raises(GraphError, match="node `lost` cannot be reached"):
        await caller.run(graph, S(), store=store, run_id="r")
    assert await store.runs() == []


# -- store files ---------------------------------------------------------------------------------------------------


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (id INTEGER, run_id TEXT)")
        connection.execute("INSERT INTO runs VALUES (1, 'r')")
    connection.close()


FILES: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("not a database\n" * 200),
    "short text": lambda path: path.write_text("x"),
    "header only": lambda path: path.write_bytes(b"SQLite format 3\x00"),
    "random": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "directory": lambda path: path.mkdir(),
    "another application's": foreign_database,
}


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
async def test_a_file_that_is_no_store_of_ours(caller: Caller, tmp_path: Path, make: Callable[[Path], object]) -> None:
    """It is told as what it is, named, and left byte for byte as it was."""
    path = tmp_path / "runs.db"
    make(path)
    before = contents(path)
    walk = Walk("START a END")
    store = SQLiteStore(path)
    for verb in (
        lambda: caller.run(walk.graph, Trail(), store=store, run_id="r"),
        lambda: caller.resume(walk.graph, "r", store=store),
        lambda: walk.graph.load("r", store=store),
        store.runs,
    ):
        with pytest.raises(StoreError) as caught:
            await verb()
        assert "runs.db" in str(caught.value)
    await store.close()
    assert (walk.calls, contents(path)) == ([], before)


def contents(path: Path) -> Any:
    """What is in a file, or in a directory."""
    return sorted(path.iterdir()) if path.is_dir() else path.read_bytes()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
async def test_a_truncated_file(tmp_path: Path, share: float) -> None:
    """A file whose end is missing is told, or reads as exactly what is left whole; never as another history."""
    path = tmp_path / "runs.db"
    walk = Walk("START a b c END")
    store = SQLiteStore(path)
    for number in range(20):
        await walk.graph.run(Trail(seen=["x" * 500]), store=store, run_id=f"r{number}")
    await store.close()
    cut = path.stat().st_size
    os.truncate(path, int(cut * share) // 512 * 512)
    outcomes: list[str] = []
    for number in range(20):
        try:
            run = await walk.graph.load(f"r{number}", store=store)
        except (StoreError, RunNotFound) as error:
            outcomes.append(type(error).__name__)
        else:
            assert run.state.seen == ["x" * 500, "a", "b", "c"]
    assert "StoreError" in outcomes
    await store.close()


async def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    """A file of no bytes is what `mktemp` makes: it becomes a store."""
    path = tmp_path / "runs.db"
    path.touch()
    store = SQLiteStore(path)
    walk = Walk("START a END")
    assert (await walk.graph.run(Trail(), store=store, run_id="r")).status == "completed"
    await store.close()


@pytest.mark.parametrize("path", ["", ":memory:", "a\x00b"])
def test_paths_that_are_none(path: str) -> None:
    """What is no path of a file is refused where it is written."""
    with pytest.raises(StoreError, match="is no path of a file"):
        SQLiteStore(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_file_that_may_not_be_written(tmp_path: Path) -> None:
    """A read-only file can be read; starting a run in it is told."""
    path = tmp_path / "runs.db"
    walk = Walk("START a END")
    store = SQLiteStore(path)
    await walk.graph.run(Trail(), store=store, run_id="r")
    await store.close()
    path.chmod(0o400)
    with pytest.raises(StoreError):
        await walk.graph.run(Trail(), store=store, run_id="other")
    await store.close()


async def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A path below a file is told."""
    (tmp_path / "file").write_text("x")
    walk = Walk("START a END")
    with pytest.raises(StoreError, match=r"runs\.db"):
        await walk.graph.run(Trail(), store=SQLiteStore(tmp_path / "file" / "runs.db"), run_id="r")
    assert walk.calls == []


# -- journals that do not fit --------------------------------------------------------------------------------------


class Tampered(MemoryStore):
    """A store that gives other bytes than it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: dict[int, bytes] = {}

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        return [self._changed(record) for record in await super().read(run_id, after=after, upto=upto)]

    async def past(self, run_id: str) -> Past:
        info, first, snapshot, records = await super().past(run_id)
        return Past(info, self._changed(first), snapshot, [self._changed(record) for record in records])

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        lease, (info, first, snapshot, records) = await super().resume(run_id, blocking=blocking)
        return lease, Past(info, self._changed(first), snapshot, [self._changed(record) for record in records])

    def _changed(self, record: Record) -> Record:
        return record._replace(data=self.changes.get(record.seq, record.data))


@pytest.mark.parametrize(
    ("seq", "data"),
    [
        (0, b""),
        (0, b"[]"),
        (0, b"{}"),
        (0, b'{"graph":"asking"}'),
        (0, b"\x80\x04."),
        (1, b"null"),
        (1, b"{}"),
        (1, b"{"),
        (1, b"\xff\xfe"),
        (1, b'{"task":"nobody","node":"nobody","parents":[],"attempt":1,"writes":{},"to":["ask"]}'),
        (1, b'{"task":"work","node":"work","parents":[],"attempt":1,"writes":{"text":["set",[5]]},"to":["ask"]}'),
        (1, b'{"task":"work","node":"work","parents":[],"attempt":1,"writes":{"gone":["set",[5]]},"to":["ask"]}'),
        (1, b'{"task":"work","node":"work","parents":[],"attempt":1,"writes":{"text":["odd",["x"]]},"to":["ask"]}'),
        (1, b'{"task":"work","node":"work","parents":[],"attempt":1,"writes":{"text":5},"to":["ask"]}'),
        (1, b'{"task":5}'),
        (2, b'{"id":5}'),
        (2, b'{"id":"ask","task":"work","node":"ask","name":"","text":"?","schema":null,"purpose":"ask"}'),
    ],
    ids=itertools.count(),
)
async def test_a_record_that_does_not_fit_is_named(seq: int, data: bytes) -> None:
    """Whatever is in the journal: an error of ours that names record and run; nothing runs, nothing is written."""
    store, graph = Tampered(), asking()
    await graph.run(S(), store=store, run_id="r")
    before = await kept(store)
    store.changes[seq] = data
    for verb in (
        lambda: graph.load("r", store=store),
        lambda: graph.resume("r", store=store, answers={"ask": "yes"}),
        lambda: graph.run(S(), store=store, run_id="r"),
    ):
        with pytest.raises((StoreError, StateError, GraphChanged, RunExists)) as caught:
            await verb()
        assert "`r`" in str(caught.value)
    store.changes.clear()
    assert await kept(store) == before
    assert (await graph.resume("r", store=store, answers={"ask": "yes"})).state == S(text="yes")


async def test_a_failed_run_names_what_to_do() -> None:
    """The text of `RunFailed` has run, graph, node, task, exception and the way on."""
    walk = Walk("START a b END")
    walk.broken.add("b")
    with pytest.raises(RunFailed) as caught:
        await walk.graph.run(Trail(), run_id="r")
    assert str(caught.value).splitlines() == [
        "run `r` of graph `walk` failed in 1 task:",
        "  - node `b` of graph `walk` failed (task `b`): ValueError: b is broken",
        "mend the cause, then go on from here with resume('r')",
    ]
    assert problems(caught.value.run) == {"b": "ValueError: b is broken"}
