"""Types of state fields, from simple to odd, each with values of it: what `values` draws from."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    computed_field,
    field_serializer,
    field_validator,
)
from typing_extensions import TypedDict

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
