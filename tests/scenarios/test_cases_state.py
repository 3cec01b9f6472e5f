"""Case bank, group B: typed state. Each test names its case; `tests/SCENARIOS.md` lists them all."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, ConfigDict, Field

from flowagent import END, START, Graph, State, Update, add, append, merge
from flowagent.errors import GraphError, RunFailed, StateError, UnstorableError
from flowagent.stores import Store
from tests.scenarios import Caller, problems, tasks


def returning(state: type[Any], returned: list[Any]) -> Graph[Any, Any]:
    """START, good, bad, END; what `bad` returns can be changed between runs."""
    g: Graph[Any, Any] = Graph("returning", state)
    g.node(lambda state: None, name="good")
    g.node(lambda state: returned[0], name="bad")
    g.chain(START, "good", "bad", END)
    return g


# -- FA-015 ------------------------------------------------------------------------------------------------------------


class Typed(State):
    a: float = 0.5
    names: list[str] = ["x"]


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"a": "foo"}, "a"),
        ({"names": None}, "names"),
        ({"names": "abc"}, "names"),
        ({"names": [1]}, "names"),
        ({"a": 1.0, "names": {"x": 1}}, "names"),
        (Typed().model_copy(update={"a": "foo"}), "a"),
        (Typed.model_construct(a=None, names=["x"]), "a"),
    ],
    ids=["word", "none", "text", "numbers", "dict", "copy", "constructed"],
)
async def test_fa_015_a_wrong_type_is_stopped_before_the_disk(
    caller: Caller, store: Store, bad: Any, field: str
) -> None:
    """FA-015: the error names node and field, nothing of the step is stored, and a mended node goes on from there."""
    returned = [bad]
    graph = returning(Typed, returned)
    failure = await caller.failure(graph, Typed(), store=store, run_id="r")
    assert (failure.errors[0].node, failure.errors[0].kind) == ("bad", "StateError")
    assert f"`{field}`: " in failure.errors[0].message
    assert "Input should be a valid " in failure.errors[0].message
    assert (failure.run.state, tasks(failure.run)) == (Typed(), ["good"])
    loaded = await graph.load("r", store=store)
    assert (loaded.state, loaded.status, problems(loaded)) == (Typed(), "failed", problems(failure.run))
    returned[0] = {"a": 2, "names": ["y"]}
    run = await caller.resume(graph, "r", store=store)
    assert (run.state, tasks(run)) == (Typed(a=2.0, names=["y"]), ["good", "bad"])


# -- FA-017 ------------------------------------------------------------------------------------------------------------


class Counted(State):
    x: int = 0
    result: str = ""


async def test_fa_017_a_misspelt_key_is_told_with_the_nearest_name(caller: Caller, store: Store) -> None:
    """FA-017: node and key are named; nothing of that update is kept."""
    failure = await caller.failure(returning(Counted, [{"x": 1, "resutl": "..."}]), Counted(), store=store)
    assert problems(failure.run) == {
        "bad": "StateError: its update was refused: `resutl` is no field of `Counted`; did you mean `result`?"
    }
    assert failure.run.state == Counted()


def test_fa_017_a_literal_misspelt_key_is_found_by_check() -> None:
    """FA-017: where the key stands in the source, nothing has to run."""
    g = Graph("typo", Counted)

    @g.node
    def work(state: Counted) -> Update:
        return {"x": 1, "resutl": "..."}

    g.chain(START, work, END)
    with pytest.raises(GraphError, match=r"node `work` \(line \d+\) returns `resutl`.*did you mean `result`"):
        g.check()


async def test_fa_017_only_a_model_that_says_so_may_drop_a_key(caller: Caller, store: Store) -> None:
    """FA-017: `extra="ignore"`, said explicitly, drops it; pydantic's silent default does not."""

    class Loose(BaseModel):
        model_config = ConfigDict(extra="ignore")
        x: int = 0

    class Silent(BaseModel):
        x: int = 0

    run = await caller.run(returning(Loose, [{"x": 1, "typo": 2}]), Loose(), store=store)
    assert run.state == Loose(x=1)
    assert (await caller.failure(returning(Silent, [{"x": 1, "typo": 2}]), Silent(), store=store)).run.state == Silent()


# -- FA-018 ------------------------------------------------------------------------------------------------------------


class Item(BaseModel):
    id: int


class Book(Item):
    isbn: str


class Shelf(State):
    item: Item | None = None
    items: list[Item] = []


class Novel(BaseModel):
    kind: Literal["novel"] = "novel"
    isbn: str


class Record(BaseModel):
    kind: Literal["record"] = "record"
    tracks: int


class TaggedShelf(State):
    item: Annotated[Novel | Record, Field(discriminator="kind")] | None = None
    items: list[Annotated[Novel | Record, Field(discriminator="kind")]] = []


@pytest.mark.parametrize(
    "update", [{"item": Book(id=1, isbn="x")}, {"items": [Item(id=1), Book(id=2, isbn="x")]}], ids=["one", "mixed"]
)
async def test_fa_018_a_subclass_is_refused_not_cut_down(caller: Caller, store: Store, update: Any) -> None:
    """FA-018: what would come back without its own fields is refused, with advice; as an input too."""
    failure = await caller.failure(returning(Shelf, [update]), Shelf(), store=store)
    error = failure.errors[0]
    assert (error.kind, failure.run.state) == ("UnstorableError", Shelf())
    assert "a tagged union for subclasses" in error.message
    with pytest.raises(UnstorableError, match="a tagged union for subclasses"):
        await caller.run(returning(Shelf, [None]), Shelf(**update), store=store)


async def test_fa_018_a_tagged_union_comes_back_as_it_was(caller: Caller, store: Store) -> None:
    """FA-018: the advice works: each value comes back as the class that it was."""
    update = {"item": Novel(isbn="x"), "items": [Novel(isbn="y"), Record(tracks=3)]}
    graph = returning(TaggedShelf, [update])
    await caller.run(graph, TaggedShelf(), store=store, run_id="r")
    loaded = (await graph.load("r", store=store)).state
    assert loaded == TaggedShelf(item=Novel(isbn="x"), items=[Novel(isbn="y"), Record(tracks=3)])
    assert [type(item) for item in loaded.items] == [Novel, Record]


# -- FA-019 ------------------------------------------------------------------------------------------------------------


class Accumulated(State):
    n1: Annotated[int, add] = 1
    n2: Annotated[Optional[int], add] = 1  # noqa: UP045  # the spelling is what is tested
    n3: Annotated[int | None, add] = 1
    n4: Annotated[int | None, add] = None


async def test_fa_019_the_declared_default_is_the_beginning(caller: Caller, store: Store) -> None:
    """FA-019: 2, 2, 2, however the type is spelled; None takes the first value."""
    graph = returning(Accumulated, [{"n1": 1, "n2": 1, "n3": 1, "n4": 1}])
    assert (await caller.run(graph, store=store)).state == Accumulated(n1=2, n2=2, n3=2, n4=1)


# -- FA-021 ------------------------------------------------------------------------------------------------------------


class Pair(State):
    x: int = 0
    path: str = "both"


async def test_fa_021_nothing_of_a_run_lives_on_the_graph(store: Store) -> None:
    """FA-021: what a branch of a failed run has written is that run's alone, and is there when it goes on."""
    broken, p_is_done = [True], asyncio.Event()
    g = Graph("pair", Pair)

    @g.router
    def which(state: Pair) -> list[Literal["p", "q", "other"]]:
        return ["p", "q"] if state.path == "both" else ["other"]

    @g.node
    async def p(state: Pair) -> Update:
        p_is_done.set()
        return {"x": 1}

    @g.node
    async def q(state: Pair) -> Update:
        await p_is_done.wait()
        if broken[0]:
            raise ValueError("q")
        return None

    g.node(lambda state: None, name="other")
    g.chain(START, which)
    for name in ("p", "q", "other"):
        g.chain(name, END)
    with pytest.raises(RunFailed) as caught:
        await g.run(Pair(), store=store, run_id="failed")
    second = await g.run(Pair(path="elsewhere"), store=store, run_id="second")
    assert second.state == Pair(x=0, path="elsewhere")
    assert caught.value.run.state == Pair(x=1)
    broken[0] = False
    run = await g.resume("failed", store=store)
    assert (run.state, sorted(tasks(run))) == (Pair(x=1), ["p", "q", "which"])


# -- FA-022 ------------------------------------------------------------------------------------------------------------


class Group(State):
    outputs: Annotated[dict[str, str], merge] = {}
    order: Annotated[list[str], append] = []


@pytest.mark.parametrize("last", ["a", "b", "c"])
async def test_fa_022_what_follows_a_group_sees_every_branch(store: Store, last: str) -> None:
    """FA-022: all three by name, in declaration order, whichever finished last."""
    others: list[str] = []
    two_done = asyncio.Event()
    g = Graph("group", Group)

    def branch(name: str) -> None:
        async def work(state: Group) -> Update:
            if name == last:
                await two_done.wait()
            else:
                others.append(name)
                if len(others) == 2:
                    two_done.set()
            return {"outputs": {name: name.upper() * 3}, "order": [name]}

        g.node(work, name=name)

    seen: list[Any] = []
    for name in "abc":
        branch(name)
    g.node(lambda state: seen.append((list(state.outputs.items()), list(state.order))), name="f")
    for name in "abc":
        g.chain(START, name)
        g.chain(name, "f")
    g.chain("f", END)
    await g.run(store=store)
    assert seen == [([("a", "AAA"), ("b", "BBB"), ("c", "CCC")], ["a", "b", "c"])]


async def test_a_state_that_no_longer_fits_is_told_with_its_data(store: Store) -> None:
    """FA-015, the other way round: stored state that today's model refuses is an error that shows the data."""
    graph = returning(Counted, [{"x": 1}])
    await graph.run(store=store, run_id="r")

    class Renamed(State):
        x: str = ""
        result: str = ""

    with pytest.raises(StateError, match="`x`: Input should be a valid string") as caught:
        await returning(Renamed, [None]).load("r", store=store)
    assert caught.value.raw is not None
