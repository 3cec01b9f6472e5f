"""`State`, the model that most graphs use, and `replace`, the typed way to change one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from flowagent.core.secret import MASK, marked_in
from flowagent.errors import StateError

S = TypeVar("S", bound=BaseModel)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field, PrivateAttr))
class _ReadOnly(type(BaseModel)):
    """Tells type checkers that a `State` is not to be assigned to."""


class State(BaseModel, metaclass=_ReadOnly):
    """A pydantic model with settings that lose nothing on the way through JSON; unknown fields are refused.

    Any `BaseModel` will do as a graph's state; this one says to type checkers that it is read-only, and says so
    itself when somebody assigns to it.

    Example:
        >>> class Ticket(State):
        ...     text: str
        ...     tries: int = 0
        >>> replace(Ticket(text="hello"), tries=1)
        Ticket(text='hello', tries=1)
    """

    model_config = ConfigDict(
        extra="forbid", ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings"
    )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).model_fields:
            raise StateError(
                f"`{type(self).__name__}` is read-only, so setting `{name}` was refused: return "
                f"{{{name!r}: value}} from the node, or make a changed model with replace(state, {name}=value)"
            )
        super().__setattr__(name, value)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        hidden: frozenset[str] = marked_in(cast("type[BaseModel]", type(self)))
        for name, value in super().__repr_args__():
            yield name, MASK if name in hidden else value


def replace(state: S, /, **changes: object) -> S:
    """A copy of a state with some fields changed; it is validated when a node returns it.

    Raises:
        StateError: a name that is no field of the model.
    """
    unknown = [name for name in changes if name not in type(state).model_fields]
    if unknown:
        raise StateError(f"`{type(state).__name__}` has no field {', '.join(f'`{name}`' for name in unknown)}")
    return state.model_copy(update=changes)
