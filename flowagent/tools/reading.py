"""Reads what tools are made of: functions, methods, partials, and objects with `execute()` or `__call__()`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at users' functions, which are only known when it runs.)
from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from flowagent.core.signatures import hints_of
from flowagent.errors import ToolDefinitionError
from flowagent.tools.body import FunctionBody
from flowagent.tools.docstrings import described
from flowagent.tools.signature import signature_of, untitled


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a tool is made of.

    Args:
        call: what is called.
        name: what it calls itself.
        doc: its docstring.
        origin: where it stands, for messages.
    """

    call: Callable[..., Any]
    name: str
    doc: str | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a function says of itself.

    Args:
        body: how it is called.
        schema: the JSON schema of its arguments.
        description: its docstring, without what it says of parameters and results.
        receiver: whether it is a method that is not bound to an object yet.
    """

    body: FunctionBody
    schema: dict[str, Any]
    description: str
    receiver: bool


def source_of(call: Any) -> Source:
    """What can be called of something, and what it calls itself.

    Raises:
        ToolDefinitionError: it is nothing that can be called.
    """
    if isinstance(call, type):
        call = _instance(call)
    execute = getattr(call, "execute", None)
    plain = isinstance(call, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial))
    if callable(execute) and not plain:
        own = getattr(call, "name", None)
        name = own if isinstance(own, str) else _snake(type(call).__name__)
        return Source(call=execute, name=name, doc=_doc_of(execute) or _own_doc(call), origin=_origin(type(call)))
    if not callable(call):
        raise ToolDefinitionError(
            f"tool {call!r}", ["it is no function, method, partial, nor an object with execute() or tools()"]
        )
    inner = _unwrapped(call)
    name = getattr(inner, "__name__", None) or _snake(type(inner).__name__)
    return Source(call=call, name=name, doc=_doc_of(inner), origin=_origin(inner))


def _instance(kind: type) -> Any:
    """An object of a class that is given in place of one."""
    try:
        return kind()
    except TypeError as error:
        raise ToolDefinitionError(
            f"tool `{kind.__qualname__}`",
            [f"it is a class that cannot be made without arguments ({error}): pass an object"],
        ) from error


def _unwrapped(call: Any) -> Any:
    while isinstance(call, functools.partial):
        call = call.func
    return call


def _doc_of(call: Any) -> str | None:
    if isinstance(call, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return inspect.getdoc(call)
    return inspect.getdoc(getattr(type(call), "__call__", None)) or _own_doc(call)  # noqa: B004  # its text is wanted


def _own_doc(call: Any) -> str | None:
    """The docstring of an object's class itself, not one that it inherits from a base of Python's."""
    return type(call).__doc__


def _snake(name: str) -> str:
    """A class's name as that of a function: `WebSearch` becomes `web_search`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _origin(call: Any) -> str:
    """Where something is defined: its name in its module, and the line."""
    label = f"{getattr(call, '__module__', '?')}.{getattr(call, '__qualname__', type(call).__qualname__)}"
    code = getattr(inspect.unwrap(call) if callable(call) else call, "__code__", None)
    return label if code is None else f"{label}, {Path(code.co_filename).name}:{code.co_firstlineno}"


def body_of(call: Callable[..., Any], what: str, *, doc: str | None = None, untyped: bool = False) -> Read:
    """Read a function.

    Args:
        call: the function.
        what: what it is, for messages.
        doc: its docstring.
        untyped: whether a parameter may go without annotation.

    Raises:
        ToolDefinitionError: no model could call it.
    """
    told = described(doc)
    receiver = _takes_receiver(call)
    # A method in its class is read as if it were bound already: the model never sees its first parameter.
    read = types.MethodType(call, what) if receiver else call
    signature = signature_of(read, what, told.parameters, untyped=untyped)
    return Read(body=FunctionBody(call, signature), schema=signature.schema, description=told.text, receiver=receiver)


def _takes_receiver(call: Any) -> bool:
    """Whether a function is a method that is still in its class: it is called `self`, and stands in a class."""
    if not isinstance(call, types.FunctionType):
        return False
    holder, _, _ = call.__qualname__.rpartition(".")
    first = next(iter(inspect.signature(call).parameters), "")
    return bool(holder) and not holder.endswith("<locals>") and first == "self"


def returned_schema(returns: Any, call: Callable[..., Any] | None) -> dict[str, Any] | None:
    """The JSON schema of a result, from what `returns=` says.

    Raises:
        ToolDefinitionError: the type has no JSON schema.
    """
    if returns is None or returns is False or isinstance(returns, dict):
        return returns or None
    kind = hints_of(call).get("return", Any) if returns is True else returns
    try:
        return untitled(TypeAdapter(kind).json_schema(mode="serialization"))
    except Exception as error:
        raise ToolDefinitionError(f"returns={returns!r}", [f"there is no JSON schema of {kind!r}: {error}"]) from error
