"""`Tool`: a function that a model may ask to be called, with what the model is told of it and how calls are made."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at users' functions, which are only known when it runs.)
from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeAlias, TypedDict, cast, overload

from pydantic_core import to_json
from typing_extensions import TypeVar, Unpack

from flowagent.core.context import Context
from flowagent.core.policies import Retry
from flowagent.core.signatures import is_async
from flowagent.errors import ToolDefinitionError
from flowagent.models.strict import Report, report_on
from flowagent.tools.body import Body, FunctionBody, SchemaBody, SchemaCall, fault_of_schema
from flowagent.tools.reading import Source, body_of, returned_schema, source_of

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", default=Any)
S = TypeVar("S")

Approval: TypeAlias = bool | Callable[[Context[Any, Any], Mapping[str, Any]], bool | str]
"""Whether calls wait for a person: always, never, or as a function of context and arguments says. It may return the
reason, which the person is told."""


class RemoteOptions(TypedDict, total=False):
    """The options of each tool of a toolset, but for its name and its timeout; see `ToolOptions`."""

    retry: Retry | None
    once: bool
    final: bool
    sequential: bool
    approval: Approval
    max_result_tokens: int | None
    allowed: Callable[[Context[Any, Any]], bool] | None
    strict: bool | Literal["auto"]
    untrusted: bool
    tags: tuple[str, ...]


class SchemaOptions(RemoteOptions, total=False):
    """The options of a tool that is made of a schema; see `ToolOptions`."""

    timeout: float | None
    external: bool


class ToolOptions(SchemaOptions, total=False):
    """What may be said about any tool.

    Keys:
        name: what the tool is called, any text; that of the function if not given. Providers get a mapped one.
        description: what the model is told of it; the docstring if not given.
        retry: whether a call that raised is made again, and when; `ToolError`s are never retried.
        timeout: seconds that one call may take.
        once: never make a call twice: one whose outcome is not known leads to a question.
        final: its result is the agent's answer, and no further request is made.
        sequential: it runs alone: calls before it have ended, and calls after it wait.
        approval: whether a person decides over each call; or a function of context and arguments that says so.
        max_result_tokens: the result is cut to so many tokens, about; None leaves it to the toolbox.
        allowed: a function of the context; where it says no, the tool is absent and a call of it is refused.
        strict: whether the provider holds the model to the schema: True, False, or where nothing is lost by it.
        returns: the schema of the result for the model: True for that of the annotation, a type, or a JSON schema.
        external: it is only declared: a call pauses the run, which is resumed with the result.
        untrusted: its results come from outside, so that the model is told to follow nothing that stands in them.
        tags: words to filter by.
        untyped: a parameter may go without annotation, and takes anything.
    """

    name: str
    description: str
    returns: Any
    untyped: bool


_FUNCTIONS = frozenset({"retry", "approval", "allowed"})
"""The options that are code, or policy of the process, and so are no part of a declaration."""


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[P, R]):
    """A function that a model may ask to be called; made by `tool`. Calling it calls the function, unchanged.

    Two are equal if a model is told the same of them and they are run alike, whatever they were made of.

    Args:
        name: what it is called; any text.
        description: what the model is told of it.
        parameters: the JSON schema of its arguments, an object.
        returns: the JSON schema of its result, where the model is told of it.
        origin: where it comes from, for messages.
        body: what is behind it: how its arguments are read, and what is called with them.
        function: what it was made of; None if that takes plain data.
        receiver: whether it was made of a method in its class, and is bound to an object when it is taken from one.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(hash=False)
    returns: dict[str, Any] | None = field(default=None, hash=False)
    retry: Retry | None = None
    timeout: float | None = None
    once: bool = False
    final: bool = False
    sequential: bool = False
    approval: Approval = False
    max_result_tokens: int | None = None
    allowed: Callable[[Context[Any, Any]], bool] | None = None
    strict: bool | Literal["auto"] = "auto"
    external: bool = False
    untrusted: bool = True
    tags: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)
    body: Body = field(compare=False, repr=False)
    function: Callable[P, R] | None = field(default=None, compare=False, repr=False)
    receiver: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        faults = [*_faults(self)]
        if faults:
            raise ToolDefinitionError(f"tool `{self.name}`", faults)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function that it was made of."""
        if self.function is None:
            raise TypeError(f"tool `{self.name}` was made of no function that could be called like this")
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, holder: None, kind: type) -> Self: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], R], holder: S, kind: type | None = None) -> Tool[Q, R]: ...
    def __get__(self, holder: Any, kind: type | None = None) -> Tool[Any, Any]:
        """Bind a tool that was made of a method to the object that it is taken from."""
        if holder is None or not self.receiver:
            return self
        assert isinstance(self.body, FunctionBody), "only methods are bound; this is a bug in flowagent"
        bound = self.body.function.__get__(holder, kind)
        return replace(self, function=bound, body=FunctionBody(bound, self.body.signature), receiver=False)

    @classmethod
    def from_schema(
        cls,
        *,
        name: str,
        parameters: Mapping[str, Any],
        call: SchemaCall | None = None,
        description: str = "",
        returns: Mapping[str, Any] | None = None,
        origin: str = "",
        **options: Unpack[SchemaOptions],
    ) -> Tool[..., Any]:
        """Make a tool of a JSON schema.

        Args:
            name: what it is called.
            parameters: the JSON schema of its arguments, an object.
            call: an async function of the validated arguments, as plain data, and the context of the call; None if it
                is only declared.
            description: what the model is told of it.
            returns: the JSON schema of its result.
            origin: where it comes from, for messages.
            options: see `ToolOptions`.

        Raises:
            ToolDefinitionError: the schema is none, or not that of an object.
        """
        schema = {"type": "object", "properties": {}, **parameters}
        if (fault := fault_of_schema(schema)) is not None:
            raise ToolDefinitionError(f"tool `{name}`", [fault])
        return Tool(
            name=name,
            description=description,
            parameters=schema,
            returns=None if returns is None else dict(returns),
            origin=origin or "a schema",
            body=SchemaBody(call, schema),
            **options,
        )

    def to_json(self) -> str:
        """The declaration as JSON text: what a model is told and how calls are made, without code."""
        data = {one.name: getattr(self, one.name) for one in fields(self) if one.compare and one.name not in _FUNCTIONS}
        if isinstance(self.approval, bool):
            data["approval"] = self.approval
        defaults = {one.name: one.default for one in fields(self)}
        return to_json({key: value for key, value in data.items() if value != defaults[key]}).decode()

    @classmethod
    def from_json(cls, text: str | bytes, call: SchemaCall | None = None) -> Tool[..., Any]:
        """Read a declaration; with `call`, the tool can be run.

        Raises:
            ToolDefinitionError: the text is no declaration.
        """
        try:
            data: dict[str, Any] = {"origin": "a declaration", **json.loads(text)}
            data["tags"] = tuple(data.get("tags", ()))
            return Tool.from_schema(call=call, **data)
        except (ValueError, TypeError, AttributeError) as error:
            raise ToolDefinitionError("a declaration of a tool", [str(error)]) from error

    def report(self, provider: str) -> Report:
        """What a provider is told of it, whether it is held to that, and what is lost on the way.

        Args:
            provider: such as `openai` or `anthropic`.
        """
        return report_on(self.parameters, provider, self.strict)


def _faults(made: Tool[..., Any]) -> list[str]:
    faults: list[str] = []
    if not made.name.strip():
        faults.append("it has no name: give one with name=")
    if made.timeout is not None and not made.timeout > 0:
        faults.append(f"timeout={made.timeout}: seconds, more than 0, or None")
    if made.max_result_tokens is not None and made.max_result_tokens < 1:
        faults.append(f"max_result_tokens={made.max_result_tokens}: at least 1, or None")
    # What an async function returns is always true: everybody would be allowed, or asked.
    faults += [
        f"{option}= is an async function; it is called without await, so it must be a plain one"
        for option in ("allowed", "approval")
        if is_async(getattr(made, option))
    ]
    if made.once and made.retry is not None and made.retry.on is Exception:
        faults.append(
            "once=True forbids a second call: name in retry= the exceptions that are safe, as in Retry(on=...)"
        )
    if made.external and (made.once or made.approval is not False):
        faults.append("external=True makes no call and asks anyway, so once= and approval= say nothing")
    if made.parameters.get("type") != "object":
        faults.append(f"its parameters are of type {made.parameters.get('type')!r}; they must be an object")
    return faults


@overload
def tool(call: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...
@overload
def tool(call: object, /, **options: Unpack[ToolOptions]) -> Tool[..., Any]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(call: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a function, a method, a partial, or an object with `execute()`; or change options of a `Tool`.

    As a decorator it is written with or without options.

    Args:
        call: what the model may ask to be called.
        options: see `ToolOptions`.

    Raises:
        ToolDefinitionError: no model could call it; everything that is wrong is listed.

    Example:
        >>> @tool(name="plus", timeout=5)
        ... def add(a: int, b: int = 1) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add(2, 3), add.name, add.description
        (5, 'plus', 'Add two numbers.')
    """
    if call is None:

        def decorate(one: Callable[..., Any]) -> Tool[..., Any]:
            return tool(one, **options)

        return decorate
    if isinstance(call, Tool):
        return _changed(cast("Tool[..., Any]", call), options)
    return _made(source_of(call), options)


def as_tool(source: object) -> Tool[..., Any]:
    """A tool as it is, or one made of whatever else is given; see `tool`."""
    return cast("Tool[..., Any]", source) if isinstance(source, Tool) else tool(source)


def _changed(made: Tool[..., Any], options: ToolOptions) -> Tool[..., Any]:
    rest = {key: value for key, value in options.items() if key not in ("returns", "untyped")}
    if "returns" in options:
        rest["returns"] = returned_schema(options["returns"], made.function)
    return replace(made, **rest)


def _made(source: Source, options: ToolOptions) -> Tool[..., Any]:
    name = options.get("name", source.name)
    read = body_of(
        source.call, f"tool `{name}` ({source.origin})", doc=source.doc, untyped=options.get("untyped", False)
    )
    rest = {key: value for key, value in options.items() if key not in ("name", "description", "returns", "untyped")}
    return Tool(
        name=name,
        description=options.get("description", read.description),
        parameters=read.schema,
        returns=returned_schema(options.get("returns"), source.call),
        origin=source.origin,
        body=read.body,
        function=source.call,
        receiver=read.receiver,
        **cast("Any", rest),
    )
