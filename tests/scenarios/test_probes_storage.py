"""Probes 62 to 72, as far as they speak of drawing and storage; time travel is a later issue's."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import fractions
import ipaddress
import json
import math
import pathlib
import re
import uuid
import zoneinfo
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, cast

import pytest
from pydantic import BaseModel, Field, create_model
from typing_extensions import TypedDict

from flowagent import END, START, Goto, Graph, Limits, State, Update, append, union
from flowagent.errors import GraphError, RunFailed, RunNotFound
from flowagent.stores import MemoryStore, SQLiteStore, Store
from tests.scenarios import BY_AWAIT, Caller, Trail, Walk

# -- reading -------------------------------------------------------------------------------------------------------


async def test_probe_63_a_finished_run_is_a_no_op(caller: Caller, store: Store) -> None:
    """Run or resumed again, it is read: nothing is called, nothing is written, the state is the same."""
    walk = Walk("START a b END")
    first = await caller.run(walk.graph, run_id="r", store=store)
    before = await store.info("r"), await store.read("r")
    for again in (
        await caller.run(walk.graph, run_id="r", store=store),
        await caller.resume(walk.graph, "r", store=store),
        await walk.graph.load("r", store=store),
    ):
        assert (again.status, again.state, again.replayed) == ("completed", first.state, True)
    assert (walk.calls, await store.info("r"), await store.read("r")) == (["a", "b"], *before)


async def test_probe_68_the_head_has_one_state_however_it_is_asked_for(caller: Caller, store: Store) -> None:
    """Whatever the status: the run's own state, a loaded one, and the state at the last record are the same."""
    waiting, limited, failed, done = (
        Walk("START a ?gate END"),
        Walk("START a b END"),
        Walk("START a b END"),
        Walk("START a b END"),
    )
    waiting.graph.gate("gate", question="?", schema=bool)
    failed.broken = {"b"}
    runs = {
        "waiting": (waiting, await caller.run(waiting.graph, run_id="w", store=store)),
        "limit": (limited, await caller.run(limited.graph, run_id="l", store=store, limits=Limits(steps=1))),
        "failed": (failed, await caller.fails(failed.graph, run_id="f", store=store)),
        "completed": (done, await caller.run(done.graph, run_id="d", store=store)),
    }
    for status, (walk, run) in runs.items():
        loaded = await walk.graph.load(run.run_id, store=store)
        records = await store.read(run.run_id)
        assert (run.status, loaded.status) == (status, status)
        assert run.state == loaded.state == loaded.state_at(len(records) - 1)
        assert run.state.seen == (["a", "b"] if status == "completed" else ["a"])


async def test_probe_68_an_unknown_run_is_not_an_empty_one(store: Store) -> None:
    """The error names the run and the store that was searched."""
    with pytest.raises(RunNotFound) as raised:
        await Walk("START a END").graph.load("nobody", store=store)
    assert ("`nobody`" in str(raised.value), store.name in str(raised.value)) == (True, True)


# -- drawing -------------------------------------------------------------------------------------------------------


def by_router(graph: Graph[Trail]) -> None:
    @graph.router(name="jump")
    def route(state: Trail) -> str:
        return "b"


def by_goto(graph: Graph[Trail]) -> None:
    @graph.node(name="jump")
    def jump(state: Trail) -> Goto:
        return Goto("b")


@pytest.mark.parametrize(("declare", "what"), [(by_router, "router `jump`"), (by_goto, "node `jump`")])
def test_probe_69_undeclared_targets_are_refused_and_never_drawn(
    declare: Callable[[Graph[Trail]], None], what: str
) -> None:
    """Neither check nor draw guesses: both raise, name the node, and say how to declare its targets."""
    walk = Walk("START a ?jump", "b END")
    declare(walk.graph)
    for verb in (walk.graph.check, walk.graph.draw, walk.graph.run_sync):
        with pytest.raises(GraphError) as raised:
            verb()
        assert any(what in fault and "targets" in fault and "to=[...]" in fault for fault in raised.value.faults)


def test_probe_69_declared_targets_are_the_edges_that_are_drawn() -> None:
    """Those of a router, of a jump and of an error edge, and no others."""
    walk = Walk("START a ?pick", "b END", "?helper END")

    @walk.graph.router
    def pick(state: Trail) -> Literal["b", "jump"]:
        return "b"

    @walk.graph.node(on_error="helper")
    def jump(state: Trail) -> Goto[Literal["b", "END"]]:
        return Goto("b")

    @walk.graph.node
    def helper(state: Trail) -> Update:
        return None

    drawn = {(tail, head): kind for tail, head, kind in walk.graph.to_networkx().edges(data="kind")}
    assert drawn == {
        ("START", "a"): "fixed",
        ("a", "pick"): "fixed",
        ("pick", "b"): "choice",
        ("pick", "jump"): "choice",
        ("jump", "b"): "choice",
        ("jump", "END"): "choice",
        ("jump", "helper"): "error",
        ("b", "END"): "fixed",
        ("helper", "END"): "fixed",
    }
    assert walk.graph.draw().dot().count(" -> ") == len(drawn)


# -- bytes ---------------------------------------------------------------------------------------------------------


class Log(State):
    lines: Annotated[list[str], append] = []


def logging(steps: int) -> Graph[Log]:
    """A loop that appends 1 KB a step."""
    graph = Graph("log", Log)

    @graph.node
    def write(state: Log) -> Update:
        return {"lines": [f"{len(state.lines):04}" + "x" * 1020]}

    @graph.router
    def again(state: Log) -> Literal["write", "END"]:
        return "write" if len(state.lines) < steps else "END"

    graph.chain(START, write, again)
    return graph


async def test_probe_70_a_hundred_steps_that_append_a_kilobyte_store_about_a_hundred_kilobytes(
    tmp_path: pathlib.Path,
) -> None:
    """Records hold what was changed, and snapshots stay within a constant factor of them; so does the file."""
    sizes: dict[int, int] = {}
    for steps in (100, 200):
        store = SQLiteStore(tmp_path / f"{steps}.db")
        run = await BY_AWAIT.run(logging(steps), run_id="r", store=store, durability="fast")
        records = sum(len(record.data) for record in await store.read("r"))
        assert records < steps * 1024 * 1.5
        assert len(run.state.lines) == steps
        await store.close()
        sizes[steps] = (tmp_path / f"{steps}.db").stat().st_size
    assert sizes[100] < 100 * 1024 * 4
    assert sizes[200] < sizes[100] * 2.5


# -- types ---------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Outer:
    class Inner(enum.Enum):
        DEEP = 1


class Flags(enum.Flag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: int
    y: int


class Typed(TypedDict):
    a: int
    b: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Data:
    when: dt.date
    parts: tuple[int, ...] = ()


@dataclasses.dataclass
class Open:
    items: list[int]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Loud(Dog):
    volume: int = 11


ZONED = dt.datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))

KEPT: list[tuple[Any, Any]] = [
    (int, 2**200),
    (int, -(10**30)),
    (float, 0.1),
    (float, math.inf),
    (float, -0.0),
    (bool, True),
    (str, "naïve ☃ \U0001f600 \x00"),
    (bytes, b"\x00\xff"),
    (None, None),
    (int | str, "1"),
    (int | str, 1),
    (Decimal, Decimal("1.10")),
    (fractions.Fraction, fractions.Fraction(1, 3)),
    (uuid.UUID, uuid.UUID(int=7)),
    (pathlib.Path, pathlib.Path("/a/b")),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
    (re.Pattern, re.compile("a+")),
    (complex, 1 + 2j),
    (dt.datetime, dt.datetime(2024, 1, 1)),  # noqa: DTZ001  # a naive one must stay naive
    (dt.datetime, ZONED),
    (dt.datetime, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    (dt.date, dt.date(2024, 2, 29)),
    (dt.time, dt.time(1, 2, 3)),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=3)),
    (list[int], [1, 2]),
    (Sequence[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2)),
    (set[str], {"a", "b"}),
    (frozenset[int], frozenset({1, 2})),
    (dict[str, list[int]], {"a": [1]}),
    (dict[int, str], {1: "a"}),
    (dict[Colour, dt.date], {Colour.RED: dt.date(2024, 1, 1)}),
    (OrderedDict[str, int], OrderedDict(b=1, a=2)),
    (deque[int], deque([1, 2])),
    (Colour, Colour.RED),
    (Level, Level.LOW),
    (Outer.Inner, Outer.Inner.DEEP),
    (Flags, Flags.A),
    (Literal["x", 3], 3),
    (Point, Point(1, 2)),
    (Typed, {"a": 1, "b": (1, 2)}),
    (Data, Data(dt.date(2024, 1, 1), (1, 2))),
    (Open, Open([1])),
    (Cat | Dog, Dog(name="Rex")),
    (list[Annotated[Cat | Dog, Field(discriminator="kind")]], [Cat(), Dog(name="Rex")]),
    (Any, {"a": [1, None, {"b": 2.5}]}),
]


def typed_graph(kind: Any, value: Any) -> tuple[Graph[Any], list[Any]]:
    """A node that writes a value of a type, and one that looks at it."""
    state = create_model("Typed", __base__=State, value=(cast("Any", kind | None if kind is not None else None), None))
    graph, seen = Graph[Any, Any]("typed", state), list[Any]()

    def write(given: Any) -> Update:
        return {"value": value}

    def look(given: Any) -> Update:
        seen.append(given.value)
        return None

    graph.node(write)
    graph.node(look)
    graph.chain(START, "write", "look", END)
    return graph, seen


@pytest.mark.parametrize(
    ("kind", "value"), KEPT, ids=[f"{at}-{type(value).__name__}" for at, (_, value) in enumerate(KEPT)]
)
async def test_probe_71_a_value_comes_back_as_it_was(kind: Any, value: Any) -> None:
    """The next node, the result and a later load have an equal value of the same type."""
    store = MemoryStore()
    graph, seen = typed_graph(kind, value)
    run = await graph.run(run_id="r", store=store)
    loaded = await graph.load("r", store=store)
    for back in (seen[0], run.state.value, loaded.state.value):
        assert (back, _kind(back)) == (value, _kind(value))


def _kind(value: Any) -> Any:
    """What else has to be the same of equal values: the type (a frozen list is a list), a sign, an offset."""
    match value:
        case float():
            return math.copysign(1, value)
        case dt.datetime():
            return value.utcoffset()
        case OrderedDict():
            return OrderedDict
        case list() | dict() | set():
            return next(plain for plain in (list, dict, set) if isinstance(value, plain))
        case _:
            return type(value)


async def test_probe_71_a_zone_comes_back_as_its_offset_for_the_live_run_too(store: Store) -> None:
    """The instant and the offset are the value; a zone's rules are none, and no node ever sees them by chance."""
    noon = dt.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Oslo"))
    graph, seen = typed_graph(dt.datetime, noon)
    run = await graph.run(run_id="r", store=store)
    loaded = await graph.load("r", store=store)
    for back in (seen[0], run.state.value, loaded.state.value):
        assert (back, back.utcoffset(), back.tzname()) == (noon, dt.timedelta(hours=2), "+02:00")


async def test_probe_71_nan_equals_itself() -> None:
    """It is no change that it is not equal: it is stored, and comes back as NaN."""
    graph, seen = typed_graph(float, math.nan)
    run = await graph.run()
    assert [math.isnan(value) for value in (seen[0], run.state.value)] == [True, True]


class Hidden(BaseModel):
    shown: int = 1
    _hidden: int = 2


def hidden() -> Hidden:
    made = Hidden()
    made._hidden = 3
    return made


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Dog, Loud(name="Rex")),
        (BaseModel, Cat()),
        (Hidden, hidden()),
        (Any, Cat()),
        (Any, (1, 2)),
        (Any, {1: 2}),
        (Any, dt.date(2024, 1, 1)),
        (list[Any], [{1, 2}]),
    ],
    ids=repr,
)
async def test_probe_71_what_would_come_back_as_something_else_is_refused(kind: Any, value: Any, store: Store) -> None:
    """A subclass, private data, or a class where the type says Any: an error at the node, before it is stored."""
    graph, seen = typed_graph(kind, value)
    with pytest.raises(RunFailed) as raised:
        await graph.run(run_id="r", store=store)
    (error,) = raised.value.errors
    assert (error.node, error.kind, "`value`" in error.message, seen) == ("write", "UnstorableError", True, [])
    assert [record.kind for record in await store.read("r")] == ["started", "failed", "ended"]


@pytest.mark.parametrize("kind", [Callable[[], int], type, Iterable[int]], ids=str)
def test_probe_71_a_type_that_is_no_data_is_refused_before_anything_runs(kind: Any) -> None:
    """`check` names the field and the reason."""
    with pytest.raises(GraphError, match="field `value`"):
        typed_graph(kind, None)[0].check()


async def test_probe_71_a_class_that_moved_is_read_by_the_type_that_is_declared_today(store: Store) -> None:
    """No name of a class is stored: the model decides what data becomes, wherever its class lives now."""
    old, _ = typed_graph(Dog, Dog(name="Rex"))
    await old.run(run_id="r", store=store)
    moved = create_model("Hound", __module__="somewhere.else", kind=(Literal["dog"], "dog"), name=(str, ...))
    new, _ = typed_graph(moved, None)
    loaded = await new.load("r", store=store)
    assert loaded.state.value == moved(name="Rex")
    assert not any(b"Dog" in record.data for record in await store.read("r"))


# -- the store's contract --------------------------------------------------------------------------------------------


class Wide(State):
    small: int = 0
    big: str = ""
    table: dict[str, int] = {}
    tags: Annotated[set[str], union] = set()


async def test_probe_72_unchanged_values_are_not_written_again_and_removed_keys_stay_away(
    caller: Caller, store: Store
) -> None:
    """A record has the written fields alone; a dict that lost a key has lost it in every later read."""
    graph = Graph("wide", Wide)

    @graph.node
    def fill(state: Wide) -> Update:
        return {"big": "x" * 5000, "table": {"keep": 1, "drop": 2}}

    @graph.node
    def count(state: Wide) -> Wide:
        return state.model_copy(update={"small": 1})

    @graph.node
    def drop(state: Wide) -> Update:
        return {"table": {key: value for key, value in state.table.items() if key != "drop"}}

    graph.chain(START, fill, count, drop, END)
    run = await caller.run(graph, run_id="r", store=store)
    loaded = await graph.load("r", store=store)
    assert run.state.table == loaded.state.table == {"keep": 1}
    written = [json.loads(record.data)["writes"] for record in await store.read("r") if record.kind == "done"]
    assert written[1:] == [{"small": ["set", [1]]}, {"table": ["set", [{"keep": 1}]]}]


async def test_probe_72_runs_are_listed_filtered_and_deleted_each_alone(store: Store) -> None:
    """The rest of a store's contract is `flowagent.testing.conformance`, which both stores pass in tests/stores."""
    good, bad = Walk("START a END", name="good"), Walk("START a END", name="bad")
    bad.broken = {"a"}
    for run_id in ("g1", "g2"):
        await good.graph.run(run_id=run_id, store=store)
    with pytest.raises(RunFailed):
        await bad.graph.run(run_id="b1", store=store)
    listed = [info.run_id for info in await store.runs()]
    assert (listed, sorted(listed)) == (["b1", "g2", "g1"], ["b1", "g1", "g2"])
    assert [info.run_id for info in await store.runs(graph="good", limit=1)] == ["g2"]
    assert [info.run_id for info in await store.runs(statuses=["failed"])] == ["b1"]
    await store.delete("g1")
    with pytest.raises(RunNotFound):
        await store.info("g1")
    assert (await good.graph.load("g2", store=store)).state == Trail(seen=["a"])
