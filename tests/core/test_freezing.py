"""What freezes values of a type does as `freeze` does, and searches no value in vain."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
from annotated_types import MaxLen
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, TypeAdapter, field_validator

from flowagent.core.freezing import freezer
from flowagent.core.frozen import FrozenDict, FrozenList, FrozenSet, freeze, same

ItemT = TypeVar("ItemT")


class Color(enum.Enum):
    RED = "red"


class Message(BaseModel):
    role: Literal["user", "model"] = "user"
    content: Annotated[str, MaxLen(200)] = ""
    at: dt.datetime | None = None
    color: Color = Color.RED
    marks: tuple[int, ...] = ()


class Reply(BaseModel):
    to: Reply | None = None
    message: Message = Message()


class Box(BaseModel, Generic[ItemT]):
    item: ItemT


class Tagged(BaseModel):
    tags: list[str] = []


class Validated(BaseModel):
    text: Any = ""
    word: str = ""

    @field_validator("word", mode="after")
    @classmethod
    def split(cls, word: str) -> Any:
        return word.split()


class Filled(BaseModel):
    word: str = ""

    def model_post_init(self, context: Any, /) -> None:
        object.__setattr__(self, "word", [self.word])


class Made(BaseModel):
    word: str = ""

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)
        object.__setattr__(self, "word", [self.word])


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Private(BaseModel):
    word: str = ""
    _seen: list[str] = PrivateAttr(default_factory=list[str])


class Named(NamedTuple):
    words: list[str]


@dataclass
class Point:
    at: list[int]


Split = Annotated[str, AfterValidator(str.split)]


class Parted(BaseModel):
    words: Split = ""


@pytest.mark.parametrize(
    "kind",
    [int, str | None, Decimal, Color, Literal["a"], Message, Reply, Box[int], tuple[int, str], tuple[Message, ...]],
    ids=str,
)
def test_what_has_no_container_in_it_is_not_looked_at(kind: Any) -> None:
    """A value of such a type is frozen as it is."""
    value = object()
    assert freezer(kind)(value) is value


@pytest.mark.parametrize(
    ("kind", "frozen"),
    [
        (list[str], FrozenList),
        (list[Message], FrozenList),
        (dict[str, Message | Reply], FrozenDict),
        (set[int], FrozenSet),
    ],
    ids=str,
)
def test_a_container_of_such_is_frozen_alone(kind: Any, frozen: type) -> None:
    """Its members are not looked at."""
    assert freezer(kind) is frozen


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Any, '{"a":[1]}'),
        (list[list[int]], "[[1]]"),
        (list[Any], "[[1]]"),
        (dict[str, list[int]], '{"a":[1]}'),
        (list[int] | None, "[1]"),
        (tuple[list[int], ...], "[[1]]"),
        (Tagged, '{"tags":["a"]}'),
        (list[Tagged], '[{"tags":["a"]}]'),
        (Box[list[int]], '{"item":[1]}'),
        (Validated, '{"word":"a b"}'),
        (Filled, '{"word":"a"}'),
        (Made, '{"word":"a"}'),
        (Open, '{"more":[1]}'),
        (Private, '{"word":"a"}'),
        (Named, '[["a"]]'),
        (Point, '{"at":[1]}'),
        (Split, '"a b"'),
        (Parted, '{"words":"a b"}'),
        (Annotated[list[int], Field(max_length=3)], "[1]"),
        (Message, '{"marks":[1,2]}'),
        (list[Reply], '[{"to":{"message":{"content":"a"}}}]'),
        (dict[str, Message], '{"a":{"role":"model","at":"2026-11-30T12:00:00Z"}}'),
        (set[int], "[1,2]"),
    ],
    ids=str,
)
def test_nothing_stays_changeable_that_freeze_would_freeze(kind: Any, data: str) -> None:
    """Whatever a type holds, and whatever its validators make of that."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    frozen, wanted = freezer(kind)(adapter.validate_json(data)), freeze(adapter.validate_json(data))
    assert same(frozen, wanted)
    assert _types(frozen) == _types(wanted)


def _types(value: Any) -> Any:
    """The types of a value and of all that is in it."""
    if isinstance(value, BaseModel):
        return type(value), [_types(item) for item in value.__dict__.values()]
    if isinstance(value, Point):
        return type(value), _types(value.at)
    if isinstance(value, dict):
        return type(value), [_types(item) for item in value.values()]
    if isinstance(value, (list, tuple, set)):
        return type(value), [_types(item) for item in value]
    return type(value)
