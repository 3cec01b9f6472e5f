"""What freezes values of a type: worked out from the type once, so that no value of it is searched in vain."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at types, and what is inside them may be anything.)
from __future__ import annotations

import datetime as dt
import decimal
import enum
import types
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from flowagent.core.frozen import FrozenDict, FrozenList, FrozenSet, freeze

_SCALARS: Final = (
    int,
    str,
    float,
    bool,
    bytes,
    type(None),
    enum.Enum,
    decimal.Decimal,
    uuid.UUID,
    dt.date,
    dt.time,
    dt.timedelta,
)
_FROZEN: Final[dict[Any, type]] = {list: FrozenList, dict: FrozenDict, set: FrozenSet}
_OWN_SCHEMA: Final = "__get_pydantic_core_schema__"


def freezer(kind: Any) -> Callable[[Any], Any]:
    """What does as `freeze` does, for values that were just decoded as that type.

    >>> freezer(list[str])(["a"]) == ["a"], freezer(list[str]) is FrozenList, freezer(list[list[str]]) is freeze
    (True, True, True)
    """
    if _is_shut(kind, ()):
        return _as_it_is
    inside = get_args(kind)
    frozen = _FROZEN.get(get_origin(kind))
    return frozen if frozen is not None and all(_is_shut(part, ()) for part in inside) else freeze


def _as_it_is(value: Any) -> Any:
    return value


def _is_shut(kind: Any, around: tuple[Any, ...]) -> bool:
    """Whether no value of a type has a list, dict or set in it. Where that is not plain to see, it may have one.

    Args:
        kind: the type.
        around: the models that it stands in: one that holds itself is judged by what else it holds.
    """
    origin = get_origin(kind)
    if origin is Literal:
        return True
    if origin is Union or origin is types.UnionType or (origin is tuple and get_args(kind)):
        return all(part is Ellipsis or _is_shut(part, around) for part in get_args(kind))
    if origin is Annotated:
        inner, *metadata = get_args(kind)
        return all(map(_only_checks, metadata)) and _is_shut(inner, around)
    if not isinstance(kind, type) or origin is not None:
        return False
    if issubclass(kind, BaseModel):
        return kind in around or _is_plain_model(kind, (*around, kind))
    return issubclass(kind, _SCALARS) and _OWN_SCHEMA not in vars(kind)


def _is_plain_model(model: type[BaseModel], around: tuple[Any, ...]) -> bool:
    """Whether a model's fields hold what they declare, as no code of its own changes it, and that is shut."""
    if model.model_config.get("extra") == "allow" or _has_code(model):
        return False
    return all(
        _is_shut(info.annotation, around) and all(map(_only_checks, info.metadata))
        for info in model.model_fields.values()
    )


def _has_code(model: type[BaseModel]) -> bool:
    """Whether something of the model's own is called when it is validated."""
    decorators = model.__pydantic_decorators__
    return (
        bool(decorators.validators or decorators.field_validators)
        or bool(decorators.root_validators or decorators.model_validators)
        or model.__init__ is not BaseModel.__init__
        or model.model_post_init is not BaseModel.model_post_init
        or any(_OWN_SCHEMA in vars(base) for base in model.__mro__ if base is not BaseModel)
    )


def _only_checks(metadata: Any) -> bool:
    """Whether something annotated to a type can refuse values and not make others of them."""
    return type(metadata).__module__ == "annotated_types"
