"""Containers that say no: lists, dicts and sets of the state are frozen when they are written.

They stay what they are to every reader (`isinstance`, JSON, pydantic, comparison, slicing); only changing them
in place raises, and names what to do instead. `freeze` costs as much as the value is big, so it is applied to
what a task wrote, never to the whole state.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at values of any type, and narrowing them leaves their elements unknown.)
from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from itertools import repeat
from typing import Any, NoReturn

from pydantic import BaseModel

from flowagent.errors import StateError


def _refusal(container: str, method: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise StateError(
            f"the state is read-only, so `{method}` on this {container} was refused: return an update instead, "
            f"such as {{'field': new_value}}, or work on a copy ({container}(value))"
        )

    refuse.__name__ = method
    return refuse


class FrozenList(list[Any]):
    """A list of the state; reading works as ever, changing it in place raises `StateError`."""

    __slots__ = ()

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenList:
        return FrozenList([copy.deepcopy(item, memo) for item in self])

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        return list, (list(self),)


class FrozenDict(dict[Any, Any]):
    """A dict of the state; reading works as ever, changing it in place raises `StateError`."""

    __slots__ = ()

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return FrozenDict({key: copy.deepcopy(item, memo) for key, item in self.items()})

    def __reduce__(self) -> tuple[type, tuple[dict[Any, Any]]]:
        return dict, (dict(self),)


class FrozenSet(set[Any]):
    """A set of the state; reading works as ever, changing it in place raises `StateError`."""

    __slots__ = ()

    def __copy__(self) -> set[Any]:
        return set(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenSet:
        return FrozenSet(self)

    def __reduce__(self) -> tuple[type, tuple[set[Any]]]:
        return set, (set(self),)


_CHANGERS = {
    FrozenList: (
        "list",
        "append clear extend insert pop remove reverse sort __setitem__ __delitem__ __iadd__ __imul__",
    ),
    FrozenDict: ("dict", "clear pop popitem setdefault update __setitem__ __delitem__ __ior__"),
    FrozenSet: (
        "set",
        "add clear discard difference_update intersection_update pop remove symmetric_difference_update update "
        "__iand__ __ior__ __isub__ __ixor__",
    ),
}
for _frozen, (_container, _methods) in _CHANGERS.items():
    for _method in _methods.split():
        setattr(_frozen, _method, _refusal(_container, _method))

_SCALARS = frozenset({int, str, float, bool, type(None), bytes})


def freeze(value: Any) -> Any:
    """The value with every list, dict and set in it frozen; models and dataclasses are frozen inside, in place.

    Only for values that nobody else holds, such as ones that were just decoded.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        return FrozenList([freeze(item) for item in value])
    if kind is dict:
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if kind is set:
        return FrozenSet(value)
    if isinstance(value, tuple):
        items = [freeze(item) for item in value]
        return tuple(items) if kind is tuple else kind(*items)  # a NamedTuple
    if isinstance(value, BaseModel):
        for name, item in value.__dict__.items():
            value.__dict__[name] = freeze(item)  # pyright: ignore[reportIndexIssue]  # typeshed means classes
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            object.__setattr__(value, field.name, freeze(getattr(value, field.name)))
    return value


_PLAIN: dict[type, type] = {FrozenList: list, FrozenDict: dict, FrozenSet: set}


def same(a: Any, b: Any, widen: bool = False) -> bool:  # `map` passes it by place
    """Whether two values are alike through and through: types, order of lists, private data; NaN equals itself.

    With `widen`, a whole number of the first is also the same as an equal float of the second.
    """
    kind = _PLAIN.get(type(a), type(a))
    if kind is not _PLAIN.get(type(b), type(b)):
        return widen and kind is int and type(b) is float and bool(a == b)
    if kind in _SCALARS:
        return a == b or (a != a and b != b)  # noqa: PLR0124  # only NaN is not equal to itself
    if kind is list or kind is tuple:
        return len(a) == len(b) and all(map(same, a, b, repeat(widen)))
    if kind is dict:
        return len(a) == len(b) and _same_items(a, b, widen)
    if kind is set or kind is frozenset:
        return len(a) == len(b) and set(map(_typed, a)) == set(map(_typed, b))
    if isinstance(a, BaseModel):
        return (
            same(a.__dict__, b.__dict__, widen)
            and same(a.__pydantic_private__, b.__pydantic_private__)
            and same(a.__pydantic_extra__, b.__pydantic_extra__)
        )
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, field.name), getattr(b, field.name), widen) for field in dataclasses.fields(a))
    return bool(a == b)


def _typed(value: Any) -> tuple[type, Any]:
    """A member of a set, or a key, so that only one of the same type is equal to it."""
    return type(value), tuple(map(_typed, value)) if isinstance(value, tuple) else value


def _same_items(a: dict[Any, Any], b: dict[Any, Any], widen: bool) -> bool:
    """Whether two dicts of one length are alike, in whatever order; `1`, `1.0` and `True` are other keys."""
    if not all(map(same, a, b, repeat(widen))):
        if set(map(_typed, a)) != set(map(_typed, b)):
            return False
        b = {key: b[key] for key in a}
    return all(map(same, a.values(), b.values(), repeat(widen)))
