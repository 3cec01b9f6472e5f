"""`TestModel` and the values that it makes up."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field, TypeAdapter

from flowagent.models.base import ModelRequest, Only, OutputSpec, ToolSpec
from flowagent.models.messages import Message, ToolMessage, user
from flowagent.models.plausible import plausible
from flowagent.testing import TestModel
from tests.models.asking import said

ADD = ToolSpec(
    name="add",
    parameters={"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
)
NOW = ToolSpec(name="now", parameters={"type": "object", "properties": {}})
END = ToolSpec(name="final_answer", parameters={"type": "object", "properties": {}})


async def called(model: TestModel, **options: Any) -> list[str]:
    """The tools that it calls, turn by turn, until it answers; a turn's names are joined by `+`."""
    conversation: tuple[Message, ...] = (user("go"),)
    turns: list[str] = []
    for _ in range(6):
        message = await said(model, ModelRequest(messages=conversation, **options))
        if not message.calls:
            return [*turns, message.text]
        turns.append("+".join(call.name for call in message.calls))
        conversation = (*conversation, message, ToolMessage(results=()))
    return turns


async def test_every_tool_is_called_once_and_then_it_answers():
    """All tools are called in one reply, with arguments that fit; then comes the answer."""
    model = TestModel(text="fine")
    assert await called(model, tools=(ADD, NOW)) == ["add+now", "fine"]
    first = await said(model, ModelRequest(messages=(user("go"),), tools=(ADD, NOW)))
    assert [call.arguments for call in first.calls] == ['{"a":3}', "{}"]
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("made", "asked", "expected"),
    [
        ({}, {"tools": (END, ADD)}, ["add", "final_answer", "done"]),
        ({"tools": ["now"]}, {"tools": (ADD, NOW)}, ["now", "done"]),
        ({}, {"tools": (ADD, NOW), "tool_choice": "none"}, ["done"]),
        ({}, {"tools": (ADD, NOW), "settings": {"parallel_tool_calls": False}}, ["add", "now", "done"]),
        ({}, {"tools": (ADD, NOW), "tool_choice": Only(tool="now")}, ["now"] * 6),
        ({}, {"tools": (ADD, NOW), "tool_choice": "required"}, ["add+now", "now", "now", "now", "now", "now"]),
        ({}, {}, ["done"]),
    ],
    ids=range(7),
)
async def test_it_does_what_it_is_asked(made: dict[str, Any], asked: dict[str, Any], expected: list[str]):
    """Tools that end the work come last; choices and settings of the request are obeyed."""
    assert await called(TestModel(**made), **asked) == expected


async def test_a_new_question_calls_the_tools_again():
    """What was called before the user's last message does not count."""
    model = TestModel()
    request = ModelRequest(messages=(user("go"),), tools=(NOW,))
    first = await said(model, request)
    again = ModelRequest(messages=(*request.messages, first, ToolMessage(results=()), user("again")), tools=(NOW,))
    assert [call.id for call in (await said(model, again)).calls] == ["call-2"]


class Tree(BaseModel):
    name: Annotated[str, Field(min_length=3, max_length=5)]
    size: Annotated[float, Field(gt=1, lt=2)]
    leaves: list[Tree] = []
    kind: Literal["oak", "ash"]


async def test_an_answer_has_the_shape_that_is_asked_for():
    """Where a shape is asked for, the answer is JSON that fits it."""
    spec = OutputSpec(name="tree", schema_=Tree.model_json_schema())
    message = await said(TestModel(), ModelRequest(messages=(user("go"),), output=spec))
    assert Tree.model_validate_json(message.text) == Tree(name="aaa", size=1.5, leaves=[], kind="oak")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "exclusiveMinimum": 3},
        {"type": "integer", "maximum": -4},
        {"type": "integer", "exclusiveMaximum": -4},
        {"type": "integer", "minimum": 5, "multipleOf": 4},
        {"type": "number", "exclusiveMaximum": -1},
        {"type": "number", "exclusiveMinimum": 1},
        {"type": "number", "minimum": 1.5, "maximum": 2},
        {"type": ["null", "string"]},
        {"type": "string", "maxLength": 0},
        {"type": "string", "format": "date"},
        {"type": "boolean"},
        {"enum": ["x", "y"]},
        {"const": 7},
        {"examples": [3], "type": "integer"},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"required": ["b"]}], "type": "object"},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        {"type": "array", "maxItems": 0},
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}},
        {"type": "object", "properties": {"x": True}, "required": ["x"]},
        {"properties": {"n": {"$ref": "#"}, "v": {"type": "string"}}, "required": ["v"]},
        {"$defs": {"N": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}},
         "required": ["next"]}}, "$ref": "#/$defs/N"},
        TypeAdapter(dict[str, list[tuple[int, Tree]]]).json_schema(),
    ],
    ids=range(24),
)  # fmt: skip
def test_what_is_made_up_fits_its_schema(schema: dict[str, Any]):
    """The value is one that the schema allows, and it is the same each time."""
    value = plausible(schema)
    jsonschema.validate(value, schema)
    assert value == plausible(schema)
