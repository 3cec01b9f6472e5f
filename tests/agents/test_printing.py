"""What a person sees of an agent in a terminal."""

from __future__ import annotations

import io
from typing import Any

from pydantic import BaseModel
from rich.console import Console

from flowagent.agents import Agent
from flowagent.agents.printing import print_request, print_result, print_stream
from flowagent.core.usage import Usage
from flowagent.models.base import ModelRequest, TextDelta, Waiting
from flowagent.models.messages import user
from flowagent.models.scripted import Scripted
from flowagent.models.steps import after, call, fail, say, think
from flowagent.stores import MemoryStore
from flowagent.tools.tool import tool


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


def screen() -> Console:
    return Console(file=io.StringIO(), width=100, force_terminal=False, color_system=None)


def shown(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


class Sum(BaseModel):
    total: int


def test_an_answer_is_printed_with_what_it_cost() -> None:
    console = screen()
    model = Scripted(say("# Tides", usage=Usage(requests=1, input=10, output=5, cost="0.25")))  # type: ignore[arg-type]
    print_result(Agent(model).run_sync("go"), console=console)
    assert shown(console) == ["# Tides", "1 requests, 0 tool calls, 15 tokens, $0.2500"]


def test_markdown_is_rendered_only_where_it_is_wanted() -> None:
    """A6, B13: a heading loses its mark."""
    console = screen()
    print_result(Agent(Scripted(say("# Tides\n\n- one"))).run_sync("go"), console=console, markdown=True)
    lines = shown(console)
    assert "# Tides" not in lines
    assert any("Tides" in line for line in lines)
    assert any("• one" in line for line in lines)


def test_a_typed_answer_is_printed_as_json() -> None:
    console = screen()
    print_result(Agent(Scripted(say({"total": 3})), output=Sum).run_sync("go"), console=console)
    assert shown(console)[:3] == ["{", '  "total": 3', "}"]


def test_a_run_that_waits_shows_what_for_and_one_without_an_answer_why() -> None:
    console = screen()
    agent = Agent(Scripted(call("add", a=1, b=2)), tools=[tool(add, approval=True)])
    waiting = agent.run_sync("go", store=MemoryStore())
    print_result(waiting, console=console)
    assert shown(console)[0].startswith(f"waits for a decision about {waiting.pending[0].call_id}: ")
    console = screen()
    print_result(Agent(Scripted(say("No.", finish="refused"))).run_sync("go"), console=console)
    assert shown(console)[0] == "ended without an answer (refused):"


async def test_a_stream_shows_text_as_it_comes_and_the_calls_of_tools() -> None:
    """B14: a switch of the printer; thoughts are shown on request."""
    steps: list[Any] = [(think("Hm. "), say("I add."), call("add", a=1, b=2)), say("It is three.")]
    console = screen()
    async with Agent(Scripted(*steps), tools=[add]).stream("go") as watch:
        await print_stream(watch, console=console)
    assert shown(console) == ["I add.", '→ add({"a":1,"b":2})', "← add: 3", "It is three."]
    console = screen()
    async with Agent(Scripted(*steps), tools=[add]).stream("go") as watch:
        await print_stream(watch, console=console, show_tools=False, show_thinking=True)
    assert shown(console) == ["Hm. I add.It is three."]


async def test_a_stream_shows_waits_and_questions() -> None:
    error = fail("overloaded", "busy")
    steps = [after(TextDelta("Hel"), Waiting(1.5, error, restarted=True), then=call("add", a=1, b=2))]
    console = screen()
    async with Agent(Scripted(*steps), tools=[tool(add, approval=True)]).stream("go", store=MemoryStore()) as watch:
        await print_stream(watch, console=console)
    lines = shown(console)
    assert lines[:2] == ["Hel", "waits 1.5 s: busy"]
    assert lines[2].startswith("asks: ")


def test_debug_shows_each_request_exactly_as_it_is_sent() -> None:
    """B16: a function gets the requests themselves; printed, they are JSON."""
    seen: list[ModelRequest] = []
    model = Scripted(call("add", a=1, b=2), say("3"))
    Agent(model, tools=[add], debug=seen.append).run_sync("go")
    assert tuple(seen) == model.requests
    console = screen()
    print_request("a", ModelRequest(messages=(user("hello"),)), console)
    assert any('"text": "hello"' in line for line in shown(console))


def test_the_tools_are_told_as_each_provider_wants_them() -> None:
    """C19: a provider's name alone will do."""
    agent = Agent(Scripted(), tools=[add])
    assert [sorted(one) for one in agent.tool_schemas("anthropic")] == [
        ["description", "input_schema", "name", "strict"]
    ]
    assert agent.tool_schemas("openai")[0]["type"] == "function"
    assert agent.tool_schemas("openai-chat")[0]["function"]["name"] == "add"
    assert agent.tool_schemas()[0]["name"] == "add"
