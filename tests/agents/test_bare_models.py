"""Agents on models that have no tools of their own, and on real interfaces over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flowagent.agents import Agent
from flowagent.models import Profile
from flowagent.models.scripted import Scripted
from flowagent.models.steps import say
from tests.models.serving import Server, stream
from tests.models.wire import APIS, Api

BARE = Profile(tools=False)


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


class Sum(BaseModel):
    total: int


def test_a_model_without_tools_is_told_of_them_in_its_prompt() -> None:
    """D5: the same loop, validation and events; the tools stand in the prompt and nowhere else (A9)."""
    model = Scripted(
        say('I will add.\n{"action": "tool", "tool_name": "add", "arguments": {"a": 19, "b": 23}}'),
        say({"action": "answer", "text": "It is 42."}),
        profile=BARE,
    )
    result = Agent(model, tools=[add]).run_sync("19 + 23?")
    assert result.output == "It is 42."
    assert result.usage.tool_calls == 1
    assert all(request.tools == () for request in model.requests)
    assert "Add two whole numbers." in model.requests[0].system_text
    assert "42" in model.requests[1].messages[-1].text


def test_a_typed_answer_of_a_model_without_tools_is_read_from_its_text() -> None:
    """D1 and D5 together: complaint 16, an output type and tools at once."""
    model = Scripted(
        say({"action": "tool", "tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        say({"action": "answer", "text": '{"total": 3}'}),
        profile=BARE,
    )
    result = Agent(model, tools=[add], output=Sum).run_sync("1 + 2?")
    assert (result.output, result.output_mode) == (Sum(total=3), "tool")


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_an_agent_goes_round_on_each_real_interface(api: Api) -> None:
    """B1 over HTTP: a call, its result, the answer; the tools as sent are the tools that are told (C19)."""
    with Server().running() as server:
        server.answers(stream(api.reply(calls=(("c1", "add", '{"a": 19, "b": 23}'),))), stream(api.reply("It is |42.")))
        agent = Agent(api.open(server.url), tools=[add])
        result = agent.run_sync("19 + 23?")
    bodies: list[Any] = [asked.body for asked in server.asked]
    assert result.output == "It is 42."
    assert [body["tools"] for body in bodies] == [agent.tool_schemas(), agent.tool_schemas()]
    assert "42" in str(bodies[1])
    assert (result.usage.requests, result.usage.tool_calls) == (2, 1)
