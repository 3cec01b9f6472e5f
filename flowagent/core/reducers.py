"""Reducers: how two writes of one field meet. `Annotated[list[str], append]` declares one.

A reducer is pure: `fold(old, delta)` gives the new value, `diff(old, new)` reads a delta off a returned model,
and `compose(d1, d2)` gives one delta that does what both do in turn (or `NotImplemented`: then both are kept).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It folds values of any type.)
from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from flowagent.core.frozen import FrozenDict, FrozenList, FrozenSet, freeze, same
from flowagent.core.signatures import hint_at

T = TypeVar("T")


class NoDiff(Exception):
    """Raised by a `diff` when no delta leads from the old value to the new one."""


@dataclass(frozen=True, slots=True)
class Reducer:
    """How writes of a field are merged. Make your own with `reducer`.

    Args:
        name: what messages call it.
        fold: `(old, delta) -> new`, pure.
        diff: `(old, new) -> delta`, or None: then a node that changes the field must return a mapping.
        compose: `(first, second) -> delta`, or None when two deltas cannot be made one.
        delta_type: what type a delta has, given the field's type.
        prepare: `(delta, key) -> delta`, called once when a task writes it; `key` is unique to the task.
    """

    name: str
    fold: Callable[[Any, Any], Any]
    diff: Callable[[Any, Any], Any] | None = None
    compose: Callable[[Any, Any], Any] | None = None
    delta_type: Callable[[Any], Any] = lambda field_type: field_type
    prepare: Callable[[Any, str], Any] | None = None
    trusted: bool = False

    def __repr__(self) -> str:
        return f"<reducer {self.name}>"


@dataclass(frozen=True, slots=True)
class Replace(Generic[T]):
    """Sets a field that has a reducer, in place of adding to it: `return {"notes": Replace([])}`.

    Where branches meet, a `Replace` drops the writes of its field that do not descend from it; two of them
    that do not descend from one another are a conflict.
    """

    value: T


class Remove(BaseModel, frozen=True, extra="forbid"):
    """In a delta of a `messages` field: takes the message with this id out."""

    remove: str


def reducer(fn: Callable[[Any, Any], Any], diff: Callable[[Any, Any], Any] | None = None) -> Reducer:
    """Make a reducer of any pure function `(old, delta) -> new`.

    Args:
        fn: gives the new value; the type of its second parameter, if annotated, is the type of a delta.
        diff: `(old, new) -> delta`; raise `NoDiff` where there is none.

    Example:
        >>> def keep_longest(old: str, delta: str) -> str:
        ...     return max(old, delta, key=len)
        >>> longest = reducer(keep_longest)
        >>> longest.fold("ab", "abc")
        'abc'
    """

    def fold(old: Any, delta: Any) -> Any:
        return freeze(fn(old, delta))  # what it makes is state, and no node may change that

    return Reducer(
        getattr(fn, "__name__", "custom"), fold, diff, delta_type=lambda field_type: hint_at(fn, 1, field_type)
    )


def element_type(field_type: Any) -> Any:
    """The type of the elements of a container type (or of one that may be None), `Any` where it is bare."""
    args = [arg for arg in get_args(field_type) if arg is not Ellipsis]
    if get_origin(field_type) in (Union, UnionType):
        return element_type(next((arg for arg in args if arg is not NoneType), Any))
    return args[0] if args else Any


def is_tuple(field_type: Any) -> bool:
    """Whether a field's type is a tuple type."""
    return (get_origin(field_type) or field_type) is tuple


# -- append ----------------------------------------------------------------------------------------------------


def _append(old: Sequence[Any] | None, delta: Sequence[Any]) -> Sequence[Any]:
    if isinstance(old, tuple):
        return (*old, *delta)
    new = FrozenList(old or ())
    list.extend(new, delta)
    return new


def _append_diff(old: Sequence[Any] | None, new: Sequence[Any]) -> Sequence[Any]:
    before = old or ()
    if len(new) < len(before) or not all(map(same, before, new)):
        raise NoDiff("the old list is not the beginning of the new one")
    return new[len(before) :]


# -- merge, union ------------------------------------------------------------------------------------------------


def _merge(old: Mapping[Any, Any] | None, delta: Mapping[Any, Any]) -> FrozenDict:
    return FrozenDict({**(old or {}), **delta})


def _merge_diff(old: Mapping[Any, Any] | None, new: Mapping[Any, Any]) -> dict[Any, Any]:
    before = old or {}
    gone = [key for key in before if key not in new]
    if gone:
        raise NoDiff(f"it lacks the keys {gone!r}")
    return {key: item for key, item in new.items() if key not in before or not same(before[key], item)}


def _union(old: Collection[Any] | None, delta: Collection[Any]) -> Collection[Any]:
    new = {*(old or ()), *delta}
    return frozenset(new) if isinstance(old, frozenset) else FrozenSet(new)


def _union_diff(old: Collection[Any] | None, new: Collection[Any]) -> set[Any]:
    gone = set(old or ()) - set(new)
    if gone:
        raise NoDiff(f"it lacks the members {sorted(map(repr, gone))}")
    return set(new) - set(old or ())


# -- numbers and single values -----------------------------------------------------------------------------------


def _add(old: Any, delta: Any) -> Any:
    return delta if old is None else old + delta


def _add_diff(old: Any, new: Any) -> Any:
    return new if old is None else new - old


def _add_compose(first: Any, second: Any) -> Any:
    # (old + a) + b is old + (a + b) for whole numbers; for floats the last bits differ, so both are kept.
    whole = type(first) is int and type(second) is int
    return first + second if whole else NotImplemented


def _extreme(name: str, pick: Callable[[Any, Any], Any]) -> Reducer:
    def fold(old: Any, delta: Any) -> Any:
        return delta if old is None else pick(old, delta)

    def diff(old: Any, new: Any) -> Any:
        if not same(fold(old, new), new):
            raise NoDiff(f"{new!r} is not the {name} of itself and {old!r}")
        return new

    return Reducer(name, fold, diff, pick, trusted=True)


# -- messages ----------------------------------------------------------------------------------------------------


def _id_of(message: Any) -> Any:
    return message.get("id") if isinstance(message, dict) else getattr(message, "id", None)


def _with_id(message: Any, new_id: str) -> Any:
    if isinstance(message, BaseModel):
        return message.model_copy(update={"id": new_id})
    return {**message, "id": new_id}


def _name_messages(delta: Sequence[Any], key: str) -> list[Any]:
    """Give an id to every message that has none, from the task's key: the same whenever the task is repeated."""

    def named(place: int, message: Any) -> Any:
        if isinstance(message, Remove) or _id_of(message):
            return message
        return _with_id(message, hashlib.blake2b(f"{key}.{place}".encode(), digest_size=8).hexdigest())

    return [named(place, message) for place, message in enumerate(delta)]


def _messages(old: Sequence[Any] | None, delta: Sequence[Any]) -> FrozenList:
    new = {_id_of(message): message for message in old or ()}
    for message in delta:
        if isinstance(message, Remove):
            new.pop(message.remove, None)
        else:
            new[_id_of(message)] = message
    return FrozenList(new.values())


def _messages_diff(old: Sequence[Any] | None, new: Sequence[Any]) -> list[Any]:
    before = {_id_of(message): message for message in old or ()}
    named = [name for message in new if (name := _id_of(message))]
    stay = [name for name in before if name in named]
    if len({*named}) != len(named) or [_id_of(message) for message in new[: len(stay)]] != stay:
        raise NoDiff("the messages that were there are not at its beginning, once each and in their order")
    gone = [Remove(remove=name) for name in before if name not in stay]
    changed = [message for message in new[: len(stay)] if not same(before[_id_of(message)], message)]
    return [*gone, *changed, *new[len(stay) :]]


append = Reducer(
    "append",
    _append,
    _append_diff,
    _append,
    lambda field_type: list[element_type(field_type)],
    trusted=True,
)
"""Adds the elements of a list at the end."""

merge = Reducer("merge", _merge, _merge_diff, _merge, trusted=True)
"""Adds the keys of a dict; of equal keys, the later branch in declared order wins."""

add = Reducer("add", _add, _add_diff, _add_compose, trusted=True)
"""Adds a number."""

union = Reducer("union", _union, _union_diff, _union, lambda field_type: set[element_type(field_type)], trusted=True)
"""Adds the members of a set."""

maximum = _extreme("maximum", max)
"""Keeps the greatest value."""

minimum = _extreme("minimum", min)
"""Keeps the least value."""

last = Reducer("last", lambda old, delta: delta, lambda old, new: new, lambda first, second: second, trusted=True)
"""Of concurrent writes, the one of the last branch in declared order wins."""

messages = Reducer(
    "messages",
    _messages,
    _messages_diff,
    lambda first, second: [*first, *second],
    lambda field_type: list[element_type(field_type) | Remove],
    _name_messages,
    trusted=True,
)
"""A list of things with an `id`: a known id replaces, a new one is added, `Remove(remove=id)` takes out."""
