from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError
from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from flowagent import Context, Retry
from flowagent.errors import ToolDefinitionError
from flowagent.tools.context import ToolContext
from flowagent.tools.tool import Tool, tool
from flowagent.tools.toolbox import Toolbox
from tests.tools.calling import outcome, text


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: the first
    """
    return a + b


async def add_async(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: the first
    """
    return a + b


def add_much(a: int, extra: str, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: the first
    """
    return a + b


class Calculator:
    """Counts."""

    def add(self, a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: the first
        """
        return a + b

    def tools(self) -> Sequence[Callable[..., Any]]:
        return [self.add]


class Add:
    def execute(self, a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: the first
        """
        return a + b


class Marked:
    def __init__(self) -> None:
        self.more = 100

    @tool
    def add(self, a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: the first
        """
        return a + b + self.more

    def tools(self) -> Sequence[Tool[..., Any]]:
        return [self.add]


class Callme:
    def __call__(self, a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: the first
        """
        return a + b


FORMS: dict[str, Any] = {
    "function": add,
    "async function": tool(add_async, name="add"),
    "bound method": Calculator().add,
    "object with execute": Add(),
    "class with execute": Add,
    "callable object": tool(Callme(), name="add"),
    "partial": tool(functools.partial(add_much, extra="x"), name="add"),
    "tool": tool(add),
}


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_the_same_signature_becomes_an_equal_tool(form: str) -> None:
    """C1: whatever a tool was made of, the same is told of it, and the call works."""
    made = Toolbox([FORMS[form]]).tools[0]
    assert made == tool(add)
    assert hash(made) == hash(tool(add))
    assert await text(made, '{"a": 2}') == "3"


async def test_a_toolkit_is_its_tools() -> None:
    assert Toolbox([Calculator()]).tools == (tool(add),)
    assert await text(Marked(), '{"a": 2}') == "103"


def test_a_tool_is_called_like_the_function_that_it_was_made_of() -> None:
    made = tool(add)
    assert_type(made(2, b=3), int)
    assert (made(2, b=3), made.name, made.description) == (5, "add", "Add two numbers.")


async def test_an_async_tool_is_called_like_its_function() -> None:
    @tool(name="plus", timeout=3)
    async def function(a: int) -> str:
        return str(a)

    assert_type(await function(1), str)
    assert (await function(1), function.name, function.timeout) == ("1", "plus", 3)


def test_a_tool_made_of_a_method_is_bound_to_the_object_that_it_is_taken_from() -> None:
    assert Marked().add(1, 2) == 103
    assert Marked.add.receiver
    assert Toolbox([Marked.add]).faults() == [
        f"tool `add` ({Marked.add.origin}) is a method of a class: take it from an object"
    ]


def test_a_tool_that_is_an_attribute_of_a_class_and_no_method_stays_as_it_is() -> None:
    class Holder:
        plus = tool(add)

    assert vars(Holder)["plus"].__get__(Holder(), Holder) is Holder.plus


def test_a_tool_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        tool(add).name = "other"  # type: ignore[misc]


def test_options_are_changed_by_making_another_tool() -> None:
    first = tool(add)
    second = tool(first, name="plus", sequential=True, returns=True)
    assert (first.name, second.name, second.sequential, second.returns) == ("add", "plus", True, {"type": "integer"})


def test_the_schema_of_the_result_is_told_on_request() -> None:
    class Sum(BaseModel):
        total: int

    assert tool(add).returns is None
    assert tool(add, returns=True).returns == {"type": "integer"}
    assert tool(add, returns={"type": "number"}).returns == {"type": "number"}
    assert tool(add, returns=Sum).returns == {
        "properties": {"total": {"title": "Total", "type": "integer"}},
        "required": ["total"],
        "type": "object",
    }
    with pytest.raises(ToolDefinitionError, match="there is no JSON schema"):
        tool(add, returns=asyncio.Event)


# -- names and origins -------------------------------------------------------------------------------------------------


def test_an_object_is_called_by_its_own_name_or_that_of_its_class() -> None:
    class WebSearch:
        """Finds pages."""

        def execute(self, query: str) -> str:
            return query

    class HTTPFetch:
        name = "fetch"

        def execute(self, url: str) -> str:
            """Fetch."""
            return url

    made = [tool(WebSearch()), tool(HTTPFetch())]
    assert [(one.name, one.description) for one in made] == [("web_search", "Finds pages."), ("fetch", "Fetch.")]


def test_a_tool_knows_where_it_comes_from() -> None:
    assert tool(add).origin == f"tests.tools.test_tool.add, test_tool.py:{add.__code__.co_firstlineno}"


# -- what is refused -------------------------------------------------------------------------------------------------


def test_faults_of_options_are_told_all_at_once() -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        tool(add, name=" ", timeout=0, max_result_tokens=0, once=True, retry=Retry(), external=True)
    assert str(caught.value) == (
        "5 faults in tool ` `:\n"
        "  - it has no name: give one with name=\n"
        "  - timeout=0: seconds, more than 0, or None\n"
        "  - max_result_tokens=0: at least 1, or None\n"
        "  - once=True forbids a second call: name in retry= the exceptions that are safe, as in Retry(on=...)\n"
        "  - external=True makes no call and asks anyway, so once= and approval= say nothing"
    )


class Needy:
    def __init__(self, key: str) -> None:
        self.key = key

    def execute(self) -> str:
        return self.key


async def nobody(*_: object) -> bool:
    return False


def test_an_async_function_that_should_say_who_may_is_refused_as_it_would_always_say_yes() -> None:
    options: Any = {"allowed": nobody, "approval": nobody}
    with pytest.raises(ToolDefinitionError) as caught:
        tool(add, **options)
    assert caught.value.faults == (
        "allowed= is an async function; it is called without await, so it must be a plain one",
        "approval= is an async function; it is called without await, so it must be a plain one",
    )


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (3, "it is no function, method, partial, nor an object with execute"),
        (getattr, "what it takes is not known"),
        (Needy, "it is a class that cannot be made without arguments"),
    ],
)  # fmt: skip
def test_what_is_no_tool_is_refused(thing: Any, message: str) -> None:
    with pytest.raises(ToolDefinitionError, match=message):
        tool(thing)


# -- schemas and declarations ------------------------------------------------------------------------------------------


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 2}, "days": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city"],
}


async def forecast(arguments: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
    return {**arguments, "call": ctx.call_id, "tool": ctx.tool, "known": dict(ctx.arguments)}


async def test_a_tool_of_a_schema_gets_plain_data_and_its_context() -> None:
    made = Tool.from_schema(name="forecast", description="Tell.", parameters=SCHEMA, call=forecast)
    result = await outcome(made, '{"city": "Oslo", "days": "[1]"}')
    assert json.loads(result.result.text) == {
        "city": "Oslo",
        "days": [1],
        "call": "c1",
        "tool": "forecast",
        "known": {"city": "Oslo", "days": [1]},
    }
    assert result.repairs == ("decoded `days` from a JSON string",)


async def test_arguments_for_a_schema_are_held_to_it() -> None:
    made = Tool.from_schema(name="forecast", parameters=SCHEMA, call=forecast)
    assert (await text(made, '{"city": "O", "days": [1, "x"]}')).splitlines()[1:3] == [
        "- `city`: 'O' is too short",
        "- `days[1]`: 'x' is not of type 'integer'",
    ]
    assert "- 'city' is a required property" in await text(made, "{}")


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="its parameters are no JSON schema"):
        Tool.from_schema(name="x", parameters={"properties": {"a": {"type": "nonsense"}}})
    with pytest.raises(ToolDefinitionError, match="must be an object"):
        Tool.from_schema(name="x", parameters={"type": "array"})


async def test_a_reference_to_elsewhere_is_never_fetched() -> None:
    """A schema may come from a server that nobody has reason to trust."""
    fetched: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append((await reader.readline()).decode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        parameters = {"properties": {"a": {"$ref": f"http://127.0.0.1:{port}/schema.json"}}}
        result = await outcome(Tool.from_schema(name="x", parameters=parameters, call=forecast), '{"a": 1}')
    assert (result.status, fetched) == ("failed", [])
    assert "Unresolvable" in result.result.text


def test_a_declaration_goes_to_json_and_back() -> None:
    """C16: what a model is told, and how calls are made, without code."""
    made = tool(
        add, name="Add up", tags=("math",), returns=True, timeout=2.5, approval=True, sequential=True, final=True
    )
    assert Tool.from_json(made.to_json()) == made
    assert json.loads(made.to_json()) == {
        "name": "Add up",
        "description": "Add two numbers.",
        "parameters": made.parameters,
        "returns": {"type": "integer"},
        "timeout": 2.5,
        "final": True,
        "sequential": True,
        "approval": True,
        "tags": ["math"],
    }


def test_what_is_code_is_no_part_of_a_declaration() -> None:
    made = tool(add, approval=lambda ctx, arguments: True, allowed=lambda ctx: True, retry=Retry())
    assert Tool.from_json(made.to_json()) == tool(add)


def test_what_is_only_declared_is_no_tool_yet() -> None:
    made = Tool.from_json(tool(add).to_json())
    assert Toolbox([made]).faults() == [
        "tool `add` (a declaration) is only declared: give it a call=, or say external=True"
    ]
    with pytest.raises(TypeError, match="no function that could be called"):
        made()


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"name": "x", "parameters": {}, "colour": 1}'])
def test_a_broken_declaration_is_told(broken: str) -> None:
    with pytest.raises(ToolDefinitionError, match="declaration of a tool"):
        Tool.from_json(broken)


async def test_a_declaration_is_run_by_a_call_of_its_own() -> None:
    async def run(arguments: dict[str, Any], ctx: Context[Any, Any]) -> int:
        return arguments["a"] * 10

    assert await text(Tool.from_json(tool(add).to_json(), run), '{"a": 3}') == "30"
