"""The schemas that models are told, by example: one for each kind of annotation (C2)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional

import pytest
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import Doc, TypedDict

from flowagent import Context
from flowagent.errors import ToolDefinitionError
from flowagent.tools.context import ToolContext
from flowagent.tools.tool import tool
from tests.tools.calling import outcome

if TYPE_CHECKING:
    from flowagent import Context as Ctx
    from flowagent.tools.context import ToolContext as CallContext


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Point(NamedTuple):
    x: int
    y: int


class Line(BaseModel):
    """A line of text."""

    number: int = Field(description="from 1", ge=1)
    title: str = "untitled"


@dataclasses.dataclass
class Span:
    start: int
    end: int = 9


class Options(TypedDict, total=False):
    depth: int


class Node(BaseModel):
    children: list[Node] = []


LINE = {
    "description": "A line of text.",
    "properties": {
        "number": {"description": "from 1", "minimum": 1, "type": "integer"},
        "title": {"default": "untitled", "type": "string"},
    },
    "required": ["number"],
    "type": "object",
}
SPAN = {
    "additionalProperties": False,
    "properties": {"start": {"type": "integer"}, "end": {"default": 9, "type": "integer"}},
    "required": ["start"],
    "type": "object",
}
OPTIONS = {"additionalProperties": False, "properties": {"depth": {"type": "integer"}}, "type": "object"}

GOLDEN: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (str, {"type": "string"}, {}),
    (int, {"type": "integer"}, {}),
    (float, {"type": "number"}, {}),
    (bool, {"type": "boolean"}, {}),
    (None, {"type": "null"}, {}),
    (Any, {}, {}),
    (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}, {}),
    (Literal["a"], {"const": "a", "type": "string"}, {}),
    (Color, {"$ref": "#/$defs/Color"}, {"Color": {"enum": ["red", "blue"], "type": "string"}}),
    (Size, {"$ref": "#/$defs/Size"}, {"Size": {"enum": [1, 2], "type": "integer"}}),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, {}),  # noqa: UP045  # an old spelling, on purpose
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {}),
    (list[int], {"items": {"type": "integer"}, "type": "array"}, {}),
    (list, {"items": {}, "type": "array"}, {}),
    (Sequence[str], {"items": {"type": "string"}, "type": "array"}, {}),
    (set[str], {"items": {"type": "string"}, "type": "array", "uniqueItems": True}, {}),
    (dict[str, int], {"additionalProperties": {"type": "integer"}, "type": "object"}, {}),
    (
        tuple[int, str],
        {"maxItems": 2, "minItems": 2, "prefixItems": [{"type": "integer"}, {"type": "string"}], "type": "array"},
        {},
    ),
    (Line, {"$ref": "#/$defs/Line"}, {"Line": LINE}),
    (list[Line], {"items": {"$ref": "#/$defs/Line"}, "type": "array"}, {"Line": LINE}),
    (Span, {"$ref": "#/$defs/Span"}, {"Span": SPAN}),
    (Options, {"$ref": "#/$defs/Options"}, {"Options": OPTIONS}),
    (
        Node,
        {"$ref": "#/$defs/Node"},
        {
            "Node": {
                "properties": {"children": {"default": [], "items": {"$ref": "#/$defs/Node"}, "type": "array"}},
                "type": "object",
            }
        },
    ),
    (dt.date, {"format": "date", "type": "string"}, {}),
    (dt.datetime, {"format": "date-time", "type": "string"}, {}),
    (dt.timedelta, {"format": "duration", "type": "string"}, {}),
    (uuid.UUID, {"format": "uuid", "type": "string"}, {}),
    (SecretStr, {"format": "password", "type": "string", "writeOnly": True}, {}),
    (Annotated[str, "what it is"], {"description": "what it is", "type": "string"}, {}),
    (Annotated[str, Doc("what it is")], {"description": "what it is", "type": "string"}, {}),
    (Annotated[int, Field(ge=1, le=9, description="few")],
     {"description": "few", "maximum": 9, "minimum": 1, "type": "integer"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "schema", "defs"), GOLDEN, ids=[str(one[0]) for one in GOLDEN])
def test_a_type_becomes_this_schema(hint: Any, schema: dict[str, Any], defs: dict[str, Any]) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__ = {"value": hint}
    assert tool(function).parameters == {
        **({"$defs": defs} if defs else {}),
        "additionalProperties": False,
        "properties": {"value": schema},
        "required": ["value"],
        "type": "object",
    }


def test_defaults_are_told_and_are_not_required() -> None:
    def function(
        a: int,
        b: str = "x",
        c: Color = Color.BLUE,
        d: list[int] = [],  # noqa: B006  # pydantic copies it
        e: int = Field(default=5, ge=1),
        f: object = object(),  # a default that is no JSON
    ) -> None: ...

    made = tool(function)
    assert made.parameters["required"] == ["a"]
    assert [part.get("default") for part in made.parameters["properties"].values()] == [None, "x", "blue", [], 5, None]


def test_descriptions_come_from_the_docstring_where_the_annotation_has_none() -> None:
    def function(a: int, b: Annotated[int, "the second"]) -> None:
        """Do.

        Args:
            a: one
            b: two
        """

    parts = tool(function).parameters["properties"]
    assert {name: part["description"] for name, part in parts.items()} == {"a": "one", "b": "the second"}


def test_a_tool_without_parameters_has_an_empty_object() -> None:
    def function() -> None: ...

    assert tool(function).parameters == {"additionalProperties": False, "properties": {}, "type": "object"}


def test_an_alias_is_the_name_that_the_model_knows() -> None:
    def function(from_: Annotated[str, Field(alias="from")]) -> str:
        return from_

    assert list(tool(function).parameters["properties"]) == ["from"]


# -- FA-053, FA-055 ------------------------------------------------------------------------------------------------


async def test_fa_053_postponed_annotations_are_resolved_in_their_own_module() -> None:
    """FA-053: names that only type checkers know do not spoil the others, and the context is never shown."""

    def t(x: int, mode: Literal["a", "b"], when: Optional[str] = None, ctx: Ctx = ...) -> str:  # noqa: UP045  # pyright: ignore[reportArgumentType]
        return f"{x} {mode} {when} {ctx.run_id}"

    assert tool(t).parameters == {
        "additionalProperties": False,
        "properties": {
            "x": {"type": "integer"},
            "mode": {"enum": ["a", "b"], "type": "string"},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["x", "mode"],
        "type": "object",
    }
    assert (await outcome(t, '{"x": 1, "mode": "a"}')).result.text == "1 a None r"


def test_fa_053_a_parameter_of_the_model_that_does_not_resolve_is_refused() -> None:
    """FA-053: an error at registration names the parameter."""

    def t(x: int, y: Missing) -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable,reportUnknownParameterType]

    with pytest.raises(ToolDefinitionError) as caught:
        tool(t)
    assert caught.value.faults == (
        "parameter `y` is annotated with `Missing`, which does not resolve: import that name when the module runs, not "
        "only for type checkers",
    )


async def test_fa_055_parameters_may_be_called_like_members_of_pydantic_models() -> None:
    """FA-055: the schema has exactly these names, and the function gets exactly these values."""

    def search(
        query: str, model_extra: str, model_config: str, json: bool, *, copy: int, self: str, schema: str
    ) -> str:
        return repr((query, model_extra, model_config, json, copy, self, schema))

    names = ["query", "model_extra", "model_config", "json", "copy", "self", "schema"]
    assert list(tool(search).parameters["properties"]) == names
    data = '{"query":"q","model_extra":"e","model_config":"c","json":true,"copy":3,"self":"s","schema":"x"}'
    assert (await outcome(search, data)).result.text == "('q', 'e', 'c', True, 3, 's', 'x')"


# -- context ---------------------------------------------------------------------------------------------------------


def context_first(ctx: Context[Any], a: int) -> str:
    return f"{ctx.run_id} {a}"


def context_last(a: int, ctx: ToolContext) -> str:
    return f"{ctx.run_id} {a}"


def context_of_checkers(a: int, anything: CallContext[Any]) -> str:
    return f"{anything.run_id} {a}"


def context_by_place(ctx: Context, a: int, /) -> str:
    return f"{ctx.run_id} {a}"


@pytest.mark.parametrize("function", [context_first, context_last, context_of_checkers, context_by_place])
async def test_the_context_is_given_and_hidden_wherever_it_stands(function: Callable[..., str]) -> None:
    assert list(tool(function).parameters["properties"]) == ["a"]
    assert (await outcome(function, '{"a": 5}')).result.text == "r 5"


# -- how functions take things -----------------------------------------------------------------------------------------


async def test_arguments_are_given_by_place_and_by_name_as_the_function_wants_them() -> None:
    def function(a: int, b: int = 2, /, c: int = 3, *, d: int, e: int = 5) -> str:
        return f"{a} {b} {c} {d} {e}"

    assert (await outcome(function, '{"a": 1, "d": 4}')).result.text == "1 2 3 4 5"


async def test_what_a_partial_gives_is_hidden_from_the_model() -> None:
    def function(a: int, b: int, c: int) -> str:
        return f"{a} {b} {c}"

    part = functools.partial(function, 1, c=3)
    assert list(tool(part).parameters["properties"]) == ["b"]
    assert (await outcome(part, '{"b": 2}')).result.text == "1 2 3"


async def test_arguments_arrive_as_the_types_of_the_annotations() -> None:
    def function(when: dt.date, color: Color, line: Line, span: Span, amount: Decimal, point: Point) -> str:
        return repr((when, color, line, span, amount, point))

    data = (
        '{"when": "2026-01-02", "color": "red", "line": {"number": 1}, "span": {"start": 2}, "amount": "1.10",'
        ' "point": [1, 2]}'
    )
    expected = (dt.date(2026, 1, 2), Color.RED, Line(number=1), Span(2), Decimal("1.10"), Point(1, 2))
    assert (await outcome(function, data)).result.text == repr(expected)


async def test_a_mutable_default_is_not_shared_between_calls() -> None:
    def function(items: list[int] = []) -> str:  # noqa: B006  # that is the point
        items.append(1)
        return str(items)

    made = tool(function)
    assert [(await outcome(made)).result.text, (await outcome(made)).result.text] == ["[1]", "[1]"]


# -- what is refused -------------------------------------------------------------------------------------------------


def test_every_parameter_that_no_model_could_fill_in_is_named_at_once() -> None:
    def function(a: int, *args: int, **kwargs: int) -> None: ...

    del function.__annotations__["a"]
    with pytest.raises(ToolDefinitionError) as caught:
        tool(function)
    assert caught.value.faults == (
        "parameter `a` has no annotation: say what it takes, or let it take anything with untyped=True",
        "`*args` has no place in a JSON schema: take a list, as in `args: list[str]`",
        "`**kwargs` has no place in a JSON schema: take a dict, as in `kwargs: dict[str, str]`",
    )


def test_a_type_that_no_json_becomes_is_refused_with_its_parameter() -> None:
    class Socket: ...

    def function(a: int, call: Callable[[], int], socket: Socket) -> None: ...

    function.__annotations__["socket"] = Socket
    with pytest.raises(ToolDefinitionError) as caught:
        tool(function)
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        "parameter `call` has a type that no JSON becomes",
        "parameter `socket` has a type that no JSON becomes",
    ]


async def test_an_untyped_parameter_takes_anything_if_that_is_wanted() -> None:
    def function(a: object) -> str:
        return repr(a)

    del function.__annotations__["a"]
    made = tool(function, untyped=True)
    assert made.parameters["properties"] == {"a": {}}
    assert (await outcome(made, '{"a": [1]}')).result.text == "[1]"
