"""What a function takes, as a model is told of it: a JSON schema, and the reading of arguments by it.

The arguments of a function are the fields of a pydantic model with invented field names; the names of the parameters
are their aliases. So a parameter may be called as the user likes, `model_config` and `json` included.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at users' types, which are only known when it runs.)
from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_origin

import pydantic
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from flowagent.core.context import Context
from flowagent.core.secret import holds_secret
from flowagent.core.signatures import hints_of
from flowagent.errors import ToolDefinitionError

_CONFIG = ConfigDict(extra="forbid", val_json_bytes="base64", ser_json_bytes="base64", arbitrary_types_allowed=False)
_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter that the model fills in.

    Args:
        name: as in the function.
        wire: as the model is told; another name only where `Field(alias=...)` says so.
        field: its field in the model of the arguments.
        by_place: whether it can only be given by its place.
        secret: whether its value is shown nowhere.
    """

    name: str
    wire: str
    field: str
    by_place: bool
    secret: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a function takes.

    Args:
        parameters: what the model fills in, in order.
        contexts: the parameters that are given the context, with whether they can only be given by their place.
        order: the names of those that are given by place, in order.
        model: validates arguments.
        schema: the JSON schema of the arguments.
    """

    parameters: tuple[Parameter, ...]
    contexts: tuple[str, ...]
    order: tuple[str, ...]
    model: type[BaseModel]
    schema: dict[str, Any]

    def validated(self, data: bytes) -> dict[str, Any]:
        """The arguments by the names of the parameters, defaults filled in.

        Raises:
            pydantic.ValidationError: they do not fit; places are told by the names that the model knows.
        """
        read = self.model.model_validate_json(data)
        return {one.name: getattr(read, one.field) for one in self.parameters}

    def told(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Validated arguments by the names that the model knows."""
        return {one.wire: values[one.name] for one in self.parameters}

    def bound(self, values: Mapping[str, Any], ctx: Any) -> tuple[list[Any], dict[str, Any]]:
        """How to call the function: by place, and by name."""
        given = {**values, **dict.fromkeys(self.contexts, ctx)}
        return [given.pop(name) for name in self.order], given


def signature_of(call: Callable[..., Any], what: str, docs: Mapping[str, str], *, untyped: bool) -> Signature:
    """Read the signature of a function.

    Args:
        call: the function, method, partial or object.
        what: what it is, for messages.
        docs: what its docstring says of its parameters.
        untyped: whether a parameter may go without annotation and take anything.

    Raises:
        ToolDefinitionError: a parameter that no model could fill in; all of them are listed.
    """
    hidden = _bound_by(call)
    hints = hints_of(call)
    faults: list[str] = []
    contexts: list[str] = []
    found: list[tuple[Parameter, Any]] = []
    try:
        listed = [one for one in inspect.signature(call).parameters.values() if one.name not in hidden]
    except ValueError as error:
        raise ToolDefinitionError(what, [f"what it takes is not known ({error}): wrap it in a function"]) from error
    for one in listed:
        if is_context(hints.get(one.name), one):
            contexts.append(one.name)
        elif fault := _fault(one, hints, untyped=untyped):
            faults.append(fault)
        else:
            found.append(_field(one, hints.get(one.name, Any), len(found), docs))
    if faults:
        raise ToolDefinitionError(what, faults)
    model, schema = _compiled(what, found)
    return Signature(
        parameters=tuple(one for one, _ in found),
        contexts=tuple(contexts),
        order=tuple(one.name for one in listed if one.kind is one.POSITIONAL_ONLY),
        model=model,
        schema=schema,
    )


def is_context(hint: Any, parameter: inspect.Parameter) -> bool:
    """Whether a parameter is given the context: by its type, or by what its annotation says where that is only text.

    A name that is imported for type checkers only does not resolve (PEP 563). Such an annotation counts if its class
    is called `...Context`, or its parameter `ctx` or `context`.
    """
    if hint is not None:
        kind = get_origin(hint) or hint
        return isinstance(kind, type) and issubclass(kind, Context)
    if not isinstance(parameter.annotation, str):
        return False
    head = re.match(r"[\w.]+", parameter.annotation.strip("'\" "))
    return head is not None and (head[0].endswith("Context") or parameter.name in ("ctx", "context"))


def _bound_by(call: Any) -> frozenset[str]:
    """The parameters that a partial gives by name: they are its author's, not the model's."""
    names: set[str] = set()
    while isinstance(call, functools.partial):
        names |= set(call.keywords)
        call = call.func
    return frozenset(names)


def _fault(one: inspect.Parameter, hints: Mapping[str, Any], *, untyped: bool) -> str | None:
    """What is wrong with a parameter, or None."""
    if one.kind is one.VAR_POSITIONAL:
        return f"`*{one.name}` has no place in a JSON schema: take a list, as in `{one.name}: list[str]`"
    if one.kind is one.VAR_KEYWORD:
        return f"`**{one.name}` has no place in a JSON schema: take a dict, as in `{one.name}: dict[str, str]`"
    if one.annotation is _EMPTY:
        if untyped:
            return None
        return f"parameter `{one.name}` has no annotation: say what it takes, or let it take anything with untyped=True"
    if one.name not in hints:
        return (
            f"parameter `{one.name}` is annotated with `{one.annotation}`, which does not resolve: import that name "
            "when the module runs, not only for type checkers"
        )
    return None


def _field(one: inspect.Parameter, hint: Any, number: int, docs: Mapping[str, str]) -> tuple[Parameter, Any]:
    """A parameter and its field, as `create_model` takes it."""
    default = one.default
    if isinstance(default, FieldInfo):
        hint, default = Annotated[hint, default], _EMPTY
    info = FieldInfo.from_annotation(hint)
    description = info.description or _text_in(info.metadata) or docs.get(one.name)
    parameter = Parameter(
        name=one.name,
        wire=info.alias or one.name,
        field=f"p{number}",
        by_place=one.kind is one.POSITIONAL_ONLY,
        secret=holds_secret(hint),
    )
    annotation = Annotated[hint, Field(alias=parameter.wire, description=description)]
    if default is _EMPTY and info.is_required():
        return parameter, annotation
    return parameter, (annotation, info.get_default(call_default_factory=False) if default is _EMPTY else default)


def _text_in(metadata: list[Any]) -> str | None:
    """A description that is annotated as text: `Annotated[str, "what it is"]`, or `Doc("what it is")`."""
    for extra in metadata:
        text = getattr(extra, "documentation", extra)
        if isinstance(text, str):
            return text
    return None


def _compiled(what: str, fields: list[tuple[Parameter, Any]]) -> tuple[type[BaseModel], dict[str, Any]]:
    """The model of the arguments, and its JSON schema.

    Raises:
        ToolDefinitionError: some parameters have types that no JSON becomes; all of them are named.
    """
    try:
        return _model(fields)
    except (pydantic.PydanticUserError, TypeError) as error:
        faults = [fault for one in fields if (fault := _untold(one)) is not None]
        raise ToolDefinitionError(what, faults or [str(error).splitlines()[0]]) from error


def _untold(field: tuple[Parameter, Any]) -> str | None:
    """Why no model can be told of the type of a parameter, or None."""
    try:
        _model([field])
    except (pydantic.PydanticUserError, TypeError) as error:
        return f"parameter `{field[0].name}` has a type that no JSON becomes: {str(error).splitlines()[0]}"
    return None


def _model(fields: list[tuple[Parameter, Any]]) -> tuple[type[BaseModel], dict[str, Any]]:
    model = create_model("arguments", __config__=_CONFIG, **{one.field: field for one, field in fields})
    schema = model.model_json_schema(schema_generator=_Schema, mode="validation")
    return model, {"properties": {}, **untitled(schema)}


class _Schema(GenerateJsonSchema):
    """pydantic's schemas without the titles that it makes up, which cost tokens and tell nothing."""

    # A default that is no JSON is left out; the function has it all the same.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # as pydantic declares it
        return False


def untitled(schema: JsonSchemaValue) -> dict[str, Any]:
    """A schema without the titles that are only the names of classes."""
    made = {key: value for key, value in schema.items() if key != "title"}
    if "$defs" in made:
        made["$defs"] = {
            name: {key: value for key, value in one.items() if (key, value) != ("title", name)}
            for name, one in made["$defs"].items()
        }
    return made
