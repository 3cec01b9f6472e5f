"""Signatures: the short ways of reading a function tell what the long ones tell."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false
# pyright: reportUndefinedVariable=false, reportUnknownArgumentType=false, reportInvalidTypeForm=false
# pyright: reportReturnType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# (Functions as users write them, with few annotations or with those that do not resolve.)
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import pytest

from flowagent import Goto, State, Update
from flowagent.core import signatures
from flowagent.errors import GraphError


class Own(State):
    text: str = ""


def no_hint(state: Own): ...


def update(state: Own) -> Update: ...


def nothing(state: Own) -> None: ...


def jump(state: Own) -> Goto[Literal["a", "END"]]: ...


def nested(state: Own) -> Optional["Goto[Literal['a']]"]: ...  # noqa: UP037, UP045  # text within text


def listed(state: Own) -> list["Own"]: ...  # noqa: UP037  # likewise


def called(state: Own) -> Callable[["Own"], None]: ...  # noqa: UP037  # likewise


def noted(state: Own) -> Annotated[Literal["a"], ["unhashable"]]: ...


def unknown(state: Own) -> Missing: ...  # noqa: F821


@pytest.mark.parametrize(
    "function",
    [
        no_hint,
        update,
        nothing,
        jump,
        nested,
        listed,
        called,
        noted,
        unknown,
        functools.partial(jump),
        Own.model_validate,
    ],
)
def test_what_a_function_returns_is_what_all_its_hints_say(function: Any) -> None:
    """One annotation is resolved as it is among all of them."""
    long = signatures.hints_of(function).get("return")
    short = signatures.returned(function)
    assert short == long or (short, long) == (None, type(None))


def one(a): ...
def two(a, ctx): ...
def optional(a, ctx=None): ...
def told(a, ctx: Context[Any, Any] = None): ...  # noqa: F821
def rest(*args): ...
def keywords(a, *, b=1, **more): ...
def by_place(a, b, /): ...


@pytest.mark.parametrize("function", [one, two, optional, told, rest, keywords, by_place])
def test_a_plain_function_is_read_from_its_code_as_from_its_signature(function: Any) -> None:
    """A function that says the same through `inspect.signature` alone is understood alike."""

    @functools.wraps(function)
    def disguised(*args: Any, **more: Any) -> Any:
        return function(*args, **more)

    found = signatures.function_of("g", "n", function)
    assert found.takes_context == signatures.function_of("g", "n", disguised).takes_context
    assert inspect.signature(function) == inspect.signature(disguised)


@pytest.mark.parametrize(
    "function", [lambda: None, lambda a, b, c: None, lambda a, *, b: None], ids=["none", "three", "keyword"]
)
def test_what_cannot_be_called_with_state_and_context_is_refused(function: Any) -> None:
    """None, three, or a needed keyword: the error shows what it takes."""
    with pytest.raises(GraphError, match=r"node `n` takes \("):
        signatures.function_of("g", "n", function)
