from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from flowagent.tools.arguments import written
from flowagent.tools.body import ArgumentsError
from flowagent.tools.tool import Tool, tool
from tests.tools.calling import outcome


class Edit(BaseModel):
    line: int
    tags: list[str] = []


def ping() -> str:
    return "pong"


def greet(name: str) -> str:
    return f"hello {name}"


def edit(path: str, edits: list[Edit], note: str = "") -> str:
    return f"{path} {edits} {note}"


# -- FA-058 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["", "  ", "\n", "{}", "null", '""', '"{}"'])
async def test_fa_058_no_arguments_at_all_call_a_tool_that_takes_none(arguments: str) -> None:
    """FA-058: many servers send the empty string where there are no arguments."""
    assert (await outcome(ping, arguments)).result.text == "pong"


@pytest.mark.parametrize("arguments", ["", "  ", "{}", "null"])
async def test_fa_058_no_arguments_for_a_tool_that_needs_one_are_told_to_the_model(arguments: str) -> None:
    """FA-058: a validation message goes back to the model, and no exception leaves the run."""
    result = await outcome(greet, arguments)
    assert (result.status, result.result.is_error, result.attempts) == ("invalid", True, 0)
    assert result.result.text == (
        "The arguments of `greet` do not fit, so it was not called:\n- `name` is missing\n"
        "Its parameters: `name` (string). Call it again with all of them right."
    )


def test_none_is_no_arguments() -> None:
    assert written(None, tool(ping).parameters).data == b"{}"


# -- FA-059 --------------------------------------------------------------------------------------------------------


async def test_fa_059_what_is_encoded_twice_is_decoded_where_the_schema_wants_no_text() -> None:
    """FA-059: `edits` is decoded, and `note` stays a string character for character."""
    data = r'{"path": "a.txt", "edits": "[{\"line\": 1, \"tags\": \"[\\\"x\\\"]\"}]", "note": "{\"a\": 1}"}'
    result = await outcome(edit, data)
    assert result.result.text == "a.txt [Edit(line=1, tags=['x'])] {\"a\": 1}"
    assert result.repairs == (
        "decoded `edits` from a JSON string",
        "decoded `edits[0].tags` from a JSON string",
    )


async def test_fa_059_arguments_that_are_encoded_as_a_whole_are_unwrapped_once_more() -> None:
    """FA-059: the whole value is a JSON string of a JSON object."""
    result = await outcome(greet, r'"{\"name\": \"Ada\"}"')
    assert (result.result.text, result.repairs) == ("hello Ada", ("decoded the arguments from a JSON string",))


async def test_fa_059_what_cannot_be_decoded_is_told_to_the_model() -> None:
    """FA-059: undecodable text is a validation message."""
    result = await outcome(edit, '{"path": "a", "edits": "[{oops"}')
    assert result.status == "invalid"
    assert "- `edits`: Input should be a valid array (got '[{oops')" in result.result.text


def test_text_that_holds_another_kind_than_the_schema_wants_stays_text() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "object"}}}
    assert written('{"a": "{}", "b": "3"}', schema).data == b'{"a":"{}","b":"3"}'


def test_arguments_that_are_intact_are_not_said_to_be_mended() -> None:
    assert written('{"path": "a", "edits": []}', tool(edit).parameters).repairs == ()


# -- null ------------------------------------------------------------------------------------------------------------


def test_null_is_left_out_only_where_it_does_not_fit_and_nothing_is_required() -> None:
    schema = {
        "type": "object",
        "properties": {
            "needed": {"type": "string"},
            "optional": {"type": "string"},
            "nullable": {"type": ["string", "null"]},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "pair": {"type": "array", "prefixItems": [{"type": "object", "properties": {"x": {"type": "integer"}}}]},
        },
        "required": ["needed"],
        "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer"}}},
    }
    text = (
        '{"needed":null,"optional":null,"nullable":null,"rows":[{"x":null}],"pair":[{"x":null},{"x":null}],'
        '"other":{"x":null}}'
    )
    assert written(text, schema).data == (
        b'{"needed":null,"nullable":null,"rows":[{}],"pair":[{},{"x":null}],"other":{}}'
    )


# -- what is no JSON -------------------------------------------------------------------------------------------------


async def test_json_that_does_not_parse_is_told_with_its_position_and_the_parameters() -> None:
    result = await outcome(edit, '{"path": "a.txt", "edits": [1,')
    assert result.status == "invalid"
    assert result.result.text == (
        "The arguments of `edit` do not fit, so it was not called:\n"
        "- the arguments are no valid JSON: EOF while parsing a value at line 1 column 30\n"
        "Its parameters: `path` (string), `edits` (array), `note` (string, optional). "
        "Call it again with all of them right."
    )


@pytest.mark.parametrize("text", ["[1]", "3", "true", '"3"'])
def test_arguments_that_are_no_object_are_refused(text: str) -> None:
    with pytest.raises(ArgumentsError, match="must be a JSON object"):
        written(text, {"type": "object"})


async def test_wrong_values_are_told_with_path_and_value() -> None:
    result = await outcome(edit, '{"path": 1, "edits": [{"line": "x"}, {}], "extra": 1}')
    assert result.result.text.splitlines()[1:5] == [
        "- `path`: Input should be a valid string (got 1)",
        "- `edits[0].line`: Input should be a valid integer, unable to parse string as an integer (got 'x')",
        "- `edits[1].line` is missing",
        "- there is no parameter `extra`; there are: `path`, `edits`, `note`",
    ]


async def test_of_very_many_wrong_values_the_first_are_told_and_how_many_more_there_are() -> None:
    data = f'{{"path": "a", "edits": [{", ".join(["{}"] * 50)}]}}'
    lines = (await outcome(edit, data)).result.text.splitlines()
    assert lines[20:22] == ["- `edits[19].line` is missing", "- and 30 more of that kind"]


def test_numbers_beyond_json_and_large_ones_arrive() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "number"}}}
    assert written('{"a": 123456789012345678901234567890, "b": NaN}', schema).data == (
        b'{"a":123456789012345678901234567890,"b":NaN}'
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["path", "edits", "[{}]"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["path", "edits", "note", "line", "x"]), inner),
)


async def take(arguments: dict[str, Any], ctx: object) -> None: ...


def read(made: Tool[..., Any], text: str) -> dict[str, Any] | tuple[str, ...]:
    """Arguments as a tool takes them, or what is wrong with them."""
    try:
        return made.body.validated(written(text, made.parameters).data)
    except ArgumentsError as error:
        return error.problems


@given(st.text() | anything.map(json.dumps) | anything.map(json.dumps).map(json.dumps))
def test_whatever_a_model_writes_is_read_or_told_and_nothing_else_is_raised(text: str) -> None:
    plain = Tool.from_schema(name="edit", parameters=tool(edit).parameters, call=take)
    assert all(isinstance(one, dict) or len(one) > 0 for one in (read(tool(edit), text), read(plain, text)))
