from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from openai import pydantic_function_tool
from pydantic import BaseModel, Field, SecretStr, create_model

from flowagent.models.schemas import kinds_of
from flowagent.tools.tool import Tool, tool
from flowagent.tools.toolbox import Toolbox
from tests.tools.calling import text


class Opts(BaseModel):
    deep: bool = False


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Tree(BaseModel):
    left: Annotated[Tree | None, Field(description="smaller")] = None
    same: Annotated[Tree, Field(description="equal")]


def weather(city: str, unit: str = "C", opts: Opts | None = None) -> str:
    """Tell the weather."""
    return f"{city} {unit} {opts}"


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


def test_fa_057_what_is_called_strict_is_closed_and_loses_nothing() -> None:
    """FA-057: every object is closed and lists all its properties as required; optional ones may be null."""
    report = tool(weather).report("openai")
    assert report.strict
    assert (report.lost, report.blocked) == ((), ())
    assert report.schema == {
        "$defs": {
            "Opts": {
                "properties": {"deep": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}},
                "required": ["deep"],
                "type": "object",
                "additionalProperties": False,
            }
        },
        "properties": {
            "city": {"type": "string"},
            "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "opts": {"anyOf": [{"$ref": "#/$defs/Opts"}, {"type": "null"}]},
        },
        "required": ["city", "unit", "opts"],
        "type": "object",
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "arguments",
    ['{"city":"X"}', '{"city":"X","unit":null,"opts":null}'],
)
async def test_fa_057_null_for_a_parameter_with_a_default_means_the_default(arguments: str) -> None:
    """FA-057: both calls run with unit "C"."""
    assert await text(weather, arguments) == "X C None"


async def test_fa_057_null_means_the_default_inside_of_nested_models_too() -> None:
    """FA-057: a nested model is made strict likewise, so that its fields with defaults come as null."""
    assert await text(weather, '{"city":"X","opts":{"deep":null}}') == "X C deep=False"


def test_a_strict_schema_has_the_shape_that_the_openai_package_makes() -> None:
    """Apart from what takes null: the package makes every property required and lets no default apply."""

    def flat(a: int, b: Annotated[str, Field(description="text")], c: list[Opts]) -> None: ...

    model = create_model("flat", a=(int, ...), b=(Annotated[str, Field(description="text")], ...), c=(list[Opts], ...))
    theirs: Any = pydantic_function_tool(model)["function"].get("parameters")
    ours = tool(flat).report("openai").schema
    assert ours["required"] == theirs["required"]
    assert all(one["additionalProperties"] is False for one in [*objects(ours), *objects(theirs)])
    assert {name: set(part) - {"title"} for name, part in theirs["properties"].items()} == {
        name: set(part) for name, part in ours["properties"].items()
    }


def test_alternatives_with_a_discriminator_survive() -> None:
    def pat(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    report = tool(pat).report("openai")
    assert report.strict
    assert report.schema["properties"]["pet"] == {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}


@pytest.mark.parametrize(
    ("hint", "lost", "blocked"),
    [
        (dict[str, int], (), ("$.value: an object with any properties cannot be closed",)),
        (Any, (), ("$.value: a value of any kind",)),
        (list, (), ("$.value[]: a value of any kind",)),
        (set[str], ("$.value: uniqueItems True",), ()),
        (Annotated[str, Field(min_length=2)], ("$.value: minLength 2",), ()),
    ],
    ids=str,
)
def test_what_strict_mode_would_lose_is_told_and_strict_is_not_claimed(
    hint: Any, lost: tuple[str, ...], blocked: tuple[str, ...]
) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = hint
    made = tool(function)
    report = made.report("openai")
    assert (report.strict, report.lost, report.blocked) == (False, lost, blocked)
    assert report.schema == made.parameters


def test_providers_lose_different_things() -> None:
    def function(count: Annotated[int, Field(ge=1)], day: dt.date) -> None: ...

    assert tool(function).report("openai").strict
    assert tool(function).report("anthropic:claude").lost == ("$.count: minimum 1",)


def test_a_schema_that_refers_to_itself_is_strict_only_where_that_is_known() -> None:
    def function(tree: Tree) -> None: ...

    anthropic = tool(function).report("anthropic")
    assert (anthropic.strict, anthropic.blocked) == (False, ("$defs.Tree: refers to itself",))


def test_a_description_beside_a_reference_is_kept_by_a_union_of_one() -> None:
    def function(opts: Annotated[Opts, "how"]) -> None: ...

    assert tool(function).report("openai").schema["properties"]["opts"] == {
        "anyOf": [{"$ref": "#/$defs/Opts"}],
        "description": "how",
    }


def test_strict_can_be_demanded_and_then_drops_words_but_never_opens_an_object() -> None:
    def short(value: Annotated[str, Field(max_length=2)]) -> None: ...
    def wide(value: dict[str, int]) -> None: ...

    report = tool(short, strict=True).report("openai")
    assert (report.strict, report.schema["properties"]) == (True, {"value": {"type": "string"}})
    assert report.lost == ("$.value: maxLength 2",)
    assert not tool(wide, strict=True).report("openai").strict


def test_strict_can_be_refused() -> None:
    report = tool(weather, strict=False).report("openai")
    assert (report.strict, report.schema) == (False, tool(weather).parameters)


def test_null_that_has_a_meaning_of_its_own_blocks_strict_mode() -> None:
    def function(unit: str | None = "C") -> None: ...

    assert tool(function).report("openai").blocked == ("$.unit: null would mean null and its default",)


async def test_whether_a_tool_is_strict_is_left_to_who_writes_the_request() -> None:
    """A toolbox hands on the schema as it is, and what was wanted."""
    made = [weather, tool(weather, name="held", strict=True), tool(weather, name="free", strict=False)]
    specs = (await Toolbox(made).load()).specs(None)
    assert [(one.strict, one.parameters) for one in specs] == [
        (wanted, tool(weather).parameters) for wanted in ("auto", True, False)
    ]


def test_a_format_that_a_provider_does_not_know_is_lost() -> None:
    def function(data: SecretStr) -> None: ...

    assert tool(function).report("openai").lost == ("$.data: format 'password'",)


def test_a_schema_that_was_made_to_take_long_does_not() -> None:
    """It may come from a server that nobody has reason to trust."""
    described = [{"$ref": f"#/$defs/d{number}", "description": "x"} for number in range(41)]
    twice = {
        f"d{number}": {"type": "object", "properties": {"a": described[number + 1], "b": described[number + 1]}}
        for number in range(40)
    }
    either = {f"e{number}": {"anyOf": [{"$ref": f"#/$defs/e{number + 1}"}] * 2} for number in range(40)}
    defs = {**twice, "d40": {"type": "string"}, **either, "e40": {"type": "string"}}
    parameters = {"properties": {"a": described[0], "b": {"$ref": "#/$defs/e0"}}, "$defs": defs}
    made = Tool.from_schema(name="x", parameters=parameters)
    assert (made.report("openai").blocked, made.report("anthropic").blocked) == ((), ())
    assert kinds_of({"$ref": "#/$defs/e0"}, parameters) == {"string"}


def test_definitions_that_refer_to_one_another_are_followed_once() -> None:
    defs = {
        "a": {"$ref": "#/$defs/b"},
        "b": {"properties": {"x": {"$ref": "#/$defs/c"}, "y": {"$ref": "#/$defs/c"}}, "type": "object"},
        "c": {"type": "string"},
    }
    made = Tool.from_schema(name="x", parameters={"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": defs})
    assert made.report("anthropic").blocked == ()


def test_a_schema_of_somebody_elses_that_says_little_is_not_strict() -> None:
    made = Tool.from_schema(name="x", parameters={"properties": {"a": True, "b": {}, "c": {"type": "array"}}})
    assert made.report("openai").blocked == (
        "$.a: a value of any kind",
        "$.b: a value of any kind",
        "$.c[]: a value of any kind",
    )
