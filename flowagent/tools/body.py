"""What is behind a tool: a function of the user's, or a call that takes plain data by a JSON schema."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (jsonschema has no types.)
from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from pydantic import ValidationError
from pydantic_core import from_json

from flowagent.core.fields import cut, short
from flowagent.core.secret import MASK
from flowagent.core.signatures import is_async
from flowagent.tools.context import ToolContext
from flowagent.tools.signature import Signature

_LONGEST: Final = 300
"""How much of what jsonschema finds is told: it quotes what it looks at."""

SchemaCall: TypeAlias = Callable[[dict[str, Any], ToolContext[Any, Any]], Awaitable[Any]]
"""Takes validated arguments as plain data, and the context of the call."""


class ArgumentsError(Exception):
    """Arguments do not fit; `problems` has one line for each, with the place and the value."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


class Body(Protocol):
    """How a tool reads its arguments and is called with them."""

    @property
    def runs(self) -> bool:
        """Whether there is anything to call, or else only a declaration."""
        ...

    @property
    def on_loop(self) -> bool:
        """Whether it is called on the event loop, or else in a thread."""
        ...

    @property
    def secrets(self) -> frozenset[str]:
        """The arguments that are shown nowhere, by the names that the model knows."""
        ...

    def validated(self, data: bytes) -> dict[str, Any]:
        """The arguments as the body takes them.

        Raises:
            ArgumentsError: they do not fit.
        """
        ...

    def told(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Validated arguments by the names that the model knows."""
        ...

    def call(self, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
        """Make the call."""
        ...


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """A function, and what its signature says."""

    function: Callable[..., Any]
    signature: Signature

    @property
    def runs(self) -> bool:
        """See `Body.runs`."""
        return True

    @property
    def on_loop(self) -> bool:
        """See `Body.on_loop`: coroutine functions and async generators."""
        return is_async(self.function) or _is_async_generator(self.function)

    @property
    def secrets(self) -> frozenset[str]:
        """See `Body.secrets`."""
        return frozenset(one.wire for one in self.signature.parameters if one.secret)

    def validated(self, data: bytes) -> dict[str, Any]:
        """See `Body.validated`."""
        try:
            return self.signature.validated(data)
        except ValidationError as error:
            problems = _problems(error, self.secrets, tuple(one.wire for one in self.signature.parameters))
        raise ArgumentsError(problems)  # not from the error, which quotes secrets

    def told(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """See `Body.told`."""
        return self.signature.told(values)

    def call(self, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
        """See `Body.call`."""
        by_place, by_name = self.signature.bound(values, ctx)
        return self.function(*by_place, **by_name)


@dataclass(frozen=True, slots=True)
class SchemaBody:
    """A call that takes plain data, which is held to a JSON schema."""

    function: SchemaCall | None
    schema: dict[str, Any]

    @property
    def runs(self) -> bool:
        """See `Body.runs`."""
        return self.function is not None

    @property
    def on_loop(self) -> bool:
        """See `Body.on_loop`."""
        return True

    @property
    def secrets(self) -> frozenset[str]:
        """See `Body.secrets`: what the schema says is only written."""
        properties: dict[str, Any] = self.schema.get("properties", {})
        return frozenset(name for name, one in properties.items() if isinstance(one, dict) and one.get("writeOnly"))

    def validated(self, data: bytes) -> dict[str, Any]:
        """See `Body.validated`."""
        values = from_json(data)
        # With a registry of its own, a reference to elsewhere does not resolve. That of jsonschema would fetch it, and
        # the schema may come from a server that nobody has reason to trust.
        registry = importlib.import_module("referencing").Registry()
        validator = _validator_class(self.schema)(self.schema, registry=registry)
        found = sorted(validator.iter_errors(values), key=lambda error: list(map(str, error.absolute_path)))
        if found:
            raise ArgumentsError([_told(error, self.secrets) for error in found])
        return values

    def told(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """See `Body.told`."""
        return dict(values)

    def call(self, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
        """See `Body.call`."""
        assert self.function is not None, "what is only declared is not called; this is a bug in flowagent"
        return self.function(values, ctx)


def fault_of_schema(schema: Mapping[str, Any]) -> str | None:
    """Why a JSON schema is none, or None."""
    jsonschema: Any = importlib.import_module("jsonschema")
    try:
        _validator_class(schema).check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"its parameters are no JSON schema: {error.json_path}: {cut(error.message, _LONGEST)}"
    return None


def _validator_class(schema: Mapping[str, Any]) -> Any:
    """The dialect of a schema, as far as it says."""
    jsonschema: Any = importlib.import_module("jsonschema")
    return jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)


def _is_async_generator(call: Any) -> bool:
    while isinstance(call, functools.partial):
        call = call.func
    return inspect.isasyncgenfunction(call) or inspect.isasyncgenfunction(getattr(call, "__call__", None))  # noqa: B004  # asks what it is, not whether


def _problems(error: ValidationError, secrets: frozenset[str], known: tuple[str, ...]) -> list[str]:
    """pydantic's findings, one line each: path, what is wrong, and the value."""
    lines: list[str] = []
    for found in error.errors(include_url=False):
        path = _path(found["loc"])
        if found["type"] == "missing":
            lines.append(f"`{path}` is missing")
        elif found["type"] == "extra_forbidden" and len(found["loc"]) == 1:
            lines.append(
                f"there is no parameter `{path}`; there are: {', '.join(f'`{name}`' for name in known) or 'none'}"
            )
        elif found["loc"] and found["loc"][0] in secrets:
            lines.append(f"`{path}` does not fit ({found['type']}; it is secret, so it is not shown)")
        else:
            lines.append(f"`{path}`: {found['msg']} (got {short(found['input'])})")
    return lines


def _told(error: Any, secrets: frozenset[str]) -> str:
    """One of jsonschema's findings."""
    path = tuple(error.absolute_path)
    where = f"`{_path(path)}`: " if path else ""
    if path and path[0] in secrets:
        return f"{where}{MASK} does not fit (its `{error.validator}`)"
    return f"{where}{cut(error.message, _LONGEST)}"


def _path(parts: tuple[Any, ...]) -> str:
    """A place in arguments, as one would write it: `edits[0].line`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".")
