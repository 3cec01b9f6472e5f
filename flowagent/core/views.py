"""What a node is handed: the state as an instance of its own model that cannot be changed.

Where a model is read-only and holds only values that are frozen, that is a plain instance. Else it is one of a
subclass made here, which refuses assignment and copies a changeable part (a nested model that is not frozen) when
a task first looks at it. So nothing a node does to its input reaches siblings, later nodes or the store; and
since it would also reach nobody else, `changed_in_place` says so in place of silence.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at users' types, which are only known when it runs.)
from __future__ import annotations

import abc
import collections
import copy
import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, cast, get_args, get_origin

from pydantic import BaseModel

from flowagent.core.frozen import same
from flowagent.core.state import State
from flowagent.errors import StateError

_set = object.__setattr__
# A model keeps what it is in four slots; set so, past `__setattr__`, an instance is made without validating again.
_set_dict = BaseModel.__dict__["__dict__"].__set__
_set_fields_set = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private = BaseModel.__dict__["__pydantic_private__"].__set__


def builder(model: type[BaseModel]) -> Callable[[Mapping[str, Any]], BaseModel]:
    """What makes instances of a model around values that are already valid; nothing is validated again.

    What it needs of the model is looked up once: pydantic's metaclass makes that dearer than the instance.
    """
    new, has_private = model.__new__, bool(model.__private_attributes__)

    def build(values: Mapping[str, Any]) -> BaseModel:
        made = new(model)
        _set_dict(made, {**values})
        _set_fields_set(made, {*values})
        _set_extra(made, None)
        _set_private(made, None)
        if has_private:
            made.model_post_init(None)
        return made

    return build


def build(model: type[BaseModel], values: Mapping[str, Any]) -> BaseModel:
    """One such instance."""
    return builder(model)(values)


def view_class(model: type[BaseModel]) -> type[BaseModel]:
    """The class whose instances are handed to nodes: the model itself if that is safe, else a read-only subclass."""
    changeable = [name for name, info in model.model_fields.items() if _is_changeable(info.annotation, set())]
    read_only = issubclass(model, State) or model.model_config.get("frozen", False)
    if read_only and not changeable:
        return model
    body: dict[str, Any] = {
        "__slots__": ("__flowagent_touched__",),
        "__module__": model.__module__,
        "__qualname__": model.__qualname__,
        "__doc__": model.__doc__,
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_assignment,
        "__eq__": _equals,
        "__hash__": model.__hash__,
        "__flowagent_model__": model,
        **{name: _copied_on_first_look(name) for name in changeable},
    }
    # Made by ABCMeta, past pydantic's metaclass: fields, validators and serializers are inherited as they are.
    return cast("type[BaseModel]", abc.ABCMeta.__new__(type(model), model.__name__, (model,), body))


def result(model: type[BaseModel], values: Mapping[str, Any]) -> BaseModel:
    """A plain instance for the caller to keep; changeable parts are copies of the caller's own."""
    risky = any(_is_changeable(info.annotation, set()) for info in model.model_fields.values())
    return build(model, copy.deepcopy(dict(values)) if risky else values)


def changed_in_place(view: BaseModel) -> list[str]:
    """The names of the fields whose copies a task has changed."""
    touched: dict[str, Any] = getattr(view, "__flowagent_touched__", None) or {}
    return [name for name, before in touched.items() if not same(view.__dict__[name], before)]


def plain(value: Any) -> Any:
    """A view as an instance of the model that it is a view of; anything else as it is."""
    model = getattr(type(value), "__flowagent_model__", None)
    return value if model is None else build(model, value.__dict__)


def _copied_on_first_look(name: str) -> property:
    def look(view: BaseModel) -> Any:
        touched: dict[str, Any] | None = getattr(view, "__flowagent_touched__", None)
        if touched is None:
            touched = {}
            _set(view, "__flowagent_touched__", touched)
        if name not in touched:
            touched[name] = view.__dict__[name]
            view.__dict__[name] = copy.deepcopy(touched[name])  # pyright: ignore[reportIndexIssue]  # typeshed means classes
        return view.__dict__[name]

    return property(look)


def _refuse_assignment(view: BaseModel, name: str, *_: Any) -> NoReturn:
    raise StateError(
        f"`{type(view).__name__}` is read-only in a node, so changing `{name}` was refused: return "
        f"{{{name!r}: value}} from the node, or make a changed model with replace(state, {name}=value)"
    )


def _equals(view: BaseModel, other: object) -> Any:
    if not isinstance(other, BaseModel):
        return NotImplemented
    mine, theirs = plain(view), plain(other)
    return type(mine) is type(theirs) and mine.__dict__ == theirs.__dict__


def _is_changeable(kind: Any, seen: set[Any]) -> bool:
    """Whether values of a type have parts that stay changeable after `freeze`."""
    return any(_is_open(part, seen) for part in _types_in(kind))


def _is_open(part: Any, seen: set[Any]) -> bool:
    if not isinstance(part, type) or part in seen:
        return False
    seen.add(part)
    if issubclass(part, BaseModel):
        shut = bool(part.model_config.get("frozen", False)) or issubclass(part, State)
        return not shut or any(_is_changeable(info.annotation, seen) for info in part.model_fields.values())
    if dataclasses.is_dataclass(part):
        params = getattr(part, "__dataclass_params__", None)
        return not getattr(params, "frozen", False) or _has_open_parts(part, seen)
    if typing.is_typeddict(part) or hasattr(part, "_make"):
        return _has_open_parts(part, seen)
    return issubclass(part, _OPEN) and part not in (list, dict, set)  # those three are frozen themselves


_OPEN = (list, dict, set, collections.deque, bytearray)


def _has_open_parts(part: type, seen: set[Any]) -> bool:
    try:
        hints = typing.get_type_hints(part, include_extras=True)
    except NameError:  # a name of the user's that is not there at run time: better one copy too many
        return True
    return any(_is_changeable(hint, seen) for hint in hints.values())


def _types_in(kind: Any) -> Iterator[Any]:
    yield get_origin(kind) or kind
    if (value := getattr(kind, "__value__", None)) is not None:
        yield from _types_in(value)  # a `type` statement
    for arg in get_args(kind):
        if not isinstance(arg, (str, int, bytes)):
            yield from _types_in(arg)
