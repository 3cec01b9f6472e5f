"""Values of generated types, written by a node or given as input: they come back as they were, or are refused.

Back means: to the next node, and to whoever loads the run from another store, with types, order and private data; and
what was stored is, once read, written as the same bytes. Refused means: by a typed error, with nothing of it stored.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import shutil
import uuid
import warnings
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

import hypothesis
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    computed_field,
    create_model,
    field_serializer,
    field_validator,
)
from typing_extensions import TypedDict

from flowagent import Context, Graph, Run, State, Update, append, last, merge, union
from flowagent.core.frozen import same
from flowagent.core.loops import run_blocking
from flowagent.errors import FlowAgentError, GraphError, RunFailed, RunNotFound, StateError
from flowagent.stores import SQLiteStore
from tests.fuzz.search import searching, told

# -- types that are not simple -----------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = ("b", 1)


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2**40


class Point(BaseModel):
    x: float
    y: int = 0


class Point3(Point):
    z: int = 7


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str = ""


class Area(BaseModel):
    side: int

    @computed_field
    @property
    def size(self) -> int:
        return self.side**2


class Secretive(BaseModel):
    shown: int
    _hidden: int = PrivateAttr(default=0)


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(default="", alias="Name")
    size: int = Field(default=0, validation_alias="in", serialization_alias="out")


class Trimmed(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def _trim(cls, text: str) -> str:
        return text.strip() + "!"


class Rounded(BaseModel):
    number: float

    @field_serializer("number")
    def _round(self, number: float) -> float:
        return round(number, 1)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int = 0


class Tree(BaseModel):
    value: int
    under: list[Tree] = []


@dataclass
class Pair:
    left: int
    right: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counted:
    word: str
    times: int = field(default=1)


class Address(TypedDict):
    street: str
    number: int


class Spot(NamedTuple):
    x: int
    y: float


def _secretive(shown: int, hidden: int) -> Secretive:
    made = Secretive(shown=shown)
    made._hidden = hidden
    return made


# -- strategies: a type, and a value of it -----------------------------------------------------------------------------

Typed = tuple[Any, Any]
_integers = st.one_of(
    st.integers(-5, 5), st.integers(-(2**70), 2**70), st.sampled_from([2**53 + 1, 2**63, -(2**63) - 1])
)
_floats = st.one_of(st.floats(), st.sampled_from([0.1, -0.0, 1e308, 5e-324, float("nan"), float("inf"), 1.0, 2.0**60]))
_texts = st.one_of(
    st.text(max_size=8),
    st.text(st.characters(), max_size=4),
    st.sampled_from(["\0", "\ud800", "a\udfff", "", "NaN", "1", "é"]),
)
_zones = st.sampled_from(
    [
        None,
        dt.UTC,
        dt.timezone(dt.timedelta(hours=5, minutes=45)),
        dt.timezone(dt.timedelta(seconds=-1)),
        ZoneInfo("Europe/Berlin"),
    ]
)
_datetimes = st.datetimes(timezones=_zones)
_odd_decimals = ["1.0", "1.00", "-0", "1E+400", "NaN", "Infinity"]
_decimals = st.one_of(st.decimals(allow_nan=False), st.sampled_from(_odd_decimals).map(Decimal))
_deltas = st.one_of(
    st.timedeltas(), st.sampled_from([dt.timedelta(microseconds=-1), dt.timedelta.max, dt.timedelta.min])
)


def _of(kind: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Typed]:
    return values.map(lambda value: (kind, value))


_hashable: Final[dict[Any, st.SearchStrategy[Any]]] = {
    int: _integers,
    str: _texts,
    float: _floats,
    bool: st.booleans(),
    bytes: st.binary(max_size=6),
    Decimal: _decimals,
    dt.datetime: _datetimes,
    dt.date: st.dates(),
    dt.time: st.times(),
    dt.timedelta: _deltas,
    uuid.UUID: st.uuids(),
    Colour: st.sampled_from(Colour),
    Size: st.sampled_from(Size),
    Literal[1, "a", True]: st.sampled_from([1, "a", True]),
    PurePosixPath: st.sampled_from([PurePosixPath("/a/b"), PurePosixPath("x")]),
    Counted: st.builds(Counted, _texts, _integers),
    Spot: st.builds(Spot, _integers, _floats),
    type(None): st.none(),
    int | str: st.one_of(_integers, _texts),
    float | int: st.one_of(_floats, _integers),
    str | bytes: st.one_of(_texts, st.binary(max_size=4)),
    dt.datetime | str: st.one_of(_datetimes, _texts),
    dt.date | dt.datetime: st.one_of(st.dates(), _datetimes),
    Decimal | float: st.one_of(_decimals, _floats),
}
_others: Final[dict[Any, st.SearchStrategy[Any]]] = {
    Annotated[Decimal, "any"]: st.sampled_from(["sNaN", "-NaN", "NaN1"]).map(Decimal),  # the first cannot be hashed
    Point: st.one_of(st.builds(Point, x=_floats, y=_integers), st.builds(Point3, x=_floats, z=_integers)),
    Point | Point3: st.one_of(st.builds(Point, x=_floats), st.builds(Point3, x=_floats)),
    Annotated[Cat | Dog, Field(discriminator="kind")]: st.one_of(
        st.builds(Cat, lives=_integers), st.builds(Dog, name=_texts)
    ),
    Cat | Dog: st.one_of(st.builds(Cat), st.builds(Dog)),
    Area: st.builds(Area, side=st.integers(0, 9)),
    Secretive: st.builds(_secretive, st.integers(), st.integers(0, 1)),
    Aliased: st.builds(Aliased, name=st.text(max_size=3), size=st.integers()),
    Trimmed: st.builds(Trimmed, text=st.text(max_size=4)),
    Rounded: st.builds(Rounded, number=_floats),
    Open: st.builds(
        Open, known=st.integers(), other=st.one_of(_integers, _floats, _datetimes, st.tuples(st.integers()))
    ),
    Tree: st.recursive(
        st.builds(Tree, value=_integers),
        lambda under: st.builds(Tree, value=_integers, under=st.lists(under, max_size=2)),
        max_leaves=5,
    ),
    Pair: st.builds(Pair, _integers, st.tuples(_texts)),
    Address: st.fixed_dictionaries({"street": _texts, "number": _integers}),
    Any: st.recursive(
        st.one_of(st.none(), _integers, _floats, _texts, st.binary(max_size=3), _datetimes, st.builds(Cat)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.tuples(inner), st.dictionaries(st.text(max_size=2), inner, max_size=2)
        ),
        max_leaves=4,
    ),
    dict[str, Any]: st.dictionaries(
        _texts, st.one_of(_integers, _floats, st.tuples(st.integers()), st.sets(st.integers(), max_size=3)), max_size=3
    ),
    object: st.one_of(st.integers(), st.text(max_size=3)),
    list: st.lists(st.one_of(st.integers(), st.floats()), max_size=3),
}


def _leaves(known: dict[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Typed]:
    return st.sampled_from(list(known.items())).flatmap(lambda one: _of(*one))


def _containers(inner: dict[Any, st.SearchStrategy[Any]], hashable: bool) -> st.SearchStrategy[Typed]:
    def made(one: tuple[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Typed]:
        kind, values = one
        options = [
            _of(list[kind], st.lists(values, max_size=4)),
            _of(tuple[kind, ...], st.lists(values, max_size=3).map(tuple)),
            _of(tuple[kind, int], st.tuples(values, _integers)),
            _of(dict[str, kind], st.dictionaries(_texts, values, max_size=3)),
            _of(list[list[kind]], st.lists(st.lists(values, max_size=2), max_size=2)),
            _of(kind | None if not isinstance(kind, str) else Any, st.one_of(st.none(), values)),
        ]
        if hashable:
            options += [
                _of(set[kind], st.sets(values, max_size=8)),
                _of(frozenset[kind], st.frozensets(values, max_size=8)),
                _of(dict[kind, int], st.dictionaries(values, _integers, max_size=4)),
                _of(set[tuple[kind, ...]], st.sets(st.tuples(values), max_size=3)),
            ]
        return st.one_of(options)

    return st.sampled_from(list(inner.items())).flatmap(made)


typed = st.one_of(_leaves(_hashable), _leaves(_others), _containers(_hashable, True), _containers(_others, False))
REDUCERS: Final = {list: append, dict: merge, set: union, frozenset: union}


@dataclass(frozen=True)
class Case:
    """A type, a value of it, and the way that it takes."""

    kind: Any
    value: Any
    by: Literal["input", "node", "model", "reducer"]


def _case(one: Typed, by: Literal["input", "node", "model", "reducer"]) -> Case:
    return Case(one[0], one[1], by)


cases = st.builds(_case, typed, st.sampled_from(["input", "node", "node", "model", "reducer"]))


@dataclass
class Seen:
    """What the next node was given."""

    values: list[Any] = field(default_factory=list[Any])


class Trial:
    """Tries one value."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tried(self, case: Case) -> str:
        """What became of it.

        Raises:
            AssertionError: it came back as something else, or was refused too late.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = SQLiteStore(self._path)
            try:
                return self._run(case, store)
            finally:
                run_blocking(store.close())
                for file in self._path.parent.glob(f"{self._path.name}*"):
                    file.unlink()

    def _run(self, case: Case, store: SQLiteStore) -> str:
        graph, given = self._graph(case)
        seen = Seen()
        try:
            graph.check()
        except GraphError:
            return "refused: type"
        try:
            run = graph.run_sync(given, store=store, run_id="r", deps=seen)
        except RunFailed as failed:
            self._is_refused(failed, store)
            return "refused: by the node"
        except StateError:
            assert self._is_absent(store), "an input was refused after it was stored"
            return "refused: input"
        self._is_back(case, graph, run, seen)
        return "came back"

    def _graph(self, case: Case) -> tuple[Graph[Any, Seen], Any]:
        kind, value = case.kind, case.value
        reducer = REDUCERS.get(getattr(kind, "__origin__", kind), last) if case.by == "reducer" else None
        if reducer is not None and reducer is not last:
            declared: Any = (Annotated[kind, reducer], getattr(kind, "__origin__", kind)())
        elif reducer is not None:
            declared = (Annotated[kind | None if kind is not Any else Any, reducer], None)
        else:
            declared = (kind, ...) if case.by == "input" else (kind | None if kind is not Any else Any, None)
        model = create_model("Values", __base__=State, value=declared)
        g: Graph[Any, Seen] = Graph("values", model, deps=Seen)

        def write(state: Any) -> Any:
            if case.by == "input":
                return None
            return state.model_copy(update={"value": value}) if case.by == "model" else {"value": value}

        def read(state: Any, ctx: Context[Seen, Any]) -> Update:
            ctx.deps.values.append(state.value)
            return None

        g.node(write, name="write")
        g.node(read, name="read")
        g.chain("START", "write", "read", "END")
        return g, {"value": value} if case.by == "input" else {}

    def _is_refused(self, failed: RunFailed, store: SQLiteStore) -> None:
        (error,) = failed.errors
        assert error.node == "write", f"another node failed: {error}"
        assert isinstance(error.__cause__, FlowAgentError), f"no typed error: {error.__cause__!r}"
        records = run_blocking(store.read("r"))
        assert [record.kind for record in records] == ["started", "failed", "ended"], "something of it was stored"

    def _is_absent(self, store: SQLiteStore) -> bool:
        try:
            run_blocking(store.info("r"))
        except RunNotFound:
            return True
        return False

    def _is_back(self, case: Case, graph: Graph[Any, Seen], run: Run[Any], seen: Seen) -> None:
        written = _validated(case)
        run_blocking(run.store.close())
        loaded = graph.load_sync("r", store=SQLiteStore(self._path))
        (live,) = seen.values
        back = loaded.state.value
        assert same(live, back), f"a live run saw {live!r}, a loaded one has {back!r}"
        assert same(run.state.value, back), f"the run has {run.state.value!r}, loaded it has {back!r}"
        alike = same(written, back) or same(written, back, widen=True)
        assert alike, f"{written!r} came back as {back!r}"
        codec = graph.topology.schema.fields["value"].value
        once = codec.encode(back)
        assert codec.encode(codec.decode(once)) == once, (
            f"{once!r} is written anew as {codec.encode(codec.decode(once))!r}"
        )
        self._stable(loaded, codec, case)

    def _stable(self, loaded: Run[Any], codec: Any, case: Case) -> None:
        """What stands in the journal is what is written when it is read and written again."""
        if case.by == "reducer":
            return
        if case.by == "input":
            stored = json.loads(loaded.records[0].data)["input"]["value"]
        else:
            kind, (stored,) = json.loads(loaded.records[1].data)["writes"].get("value", ["set", [None]])
            assert kind == "set"
        text = json.dumps(stored)
        again = json.loads(codec.encode(codec.decode(text)))
        assert json.dumps(again) == text, f"stored {text}, written again {json.dumps(again)}"


def _validated(case: Case) -> Any:
    """What the declared type makes of a value; the write is that."""
    return TypeAdapter(case.kind, config=None).validate_python(case.value)


def campaign(folder: Path, rounds: int, seed: int, first: int = 0) -> tuple[list[str], str]:
    """Try values; what went wrong, and the totals in one line."""
    folder.mkdir(exist_ok=True)
    counts: Counter[str] = Counter()

    @hypothesis.seed(seed)
    @searching(rounds, report_multiple_bugs=False)
    @given(cases)
    def tried(case: Case) -> None:
        counts["values"] += 1
        counts[Trial(folder / f"{counts['values']}.db").tried(case)] += 1

    faults: list[str] = []
    try:
        tried()
    except Exception as error:
        faults = list(told(error))
    shutil.rmtree(folder)
    return faults, ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
