"""Agents as tools of agents: one graph, one budget, one picture."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from flowagent import Limits
from flowagent.agents import Agent
from flowagent.errors import GraphError
from flowagent.models.messages import ToolMessage
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import call, calls, say


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


class Order(BaseModel):
    topic: str
    words: int = 100


def test_an_agent_answers_as_a_tool() -> None:
    """F6: its answer is the result of the call; usage is counted once, over both."""
    writer = Agent(Scripted(call("add", a=1, b=2), say("three")), name="writer", description="Writes.", tools=[add])
    outer = Scripted(calls(call("writer", task="Add 1 and 2 in words."), call("add", a=2, b=2)), say("three and 4"))
    result = Agent(outer, name="editor", tools=[writer, add]).run_sync("go")
    message = outer.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert [(one.name, one.text) for one in message.results] == [("writer", "three"), ("add", "4")]
    assert (result.usage.requests, result.usage.tool_calls) == (4, 3)
    assert [step.task for step in result.run.history if step.task.startswith("tools@1[0]/writer")] == [
        "tools@1[0]/writer",
        "tools@1[0]/writer/model@1",
        "tools@1[0]/writer/tools@1[0]",
        "tools@1[0]/writer/tools@1",
        "tools@1[0]/writer/model@2",
        "tools@1[0]/writer/output@2",
        "tools@1[0]/writer",
    ]


def test_an_agent_sees_only_what_it_is_asked() -> None:
    """Complaint 17: no foreign calls or messages in its conversation."""
    inner = Scripted(say("done"))
    outer = Scripted(call("writer", topic="tides", words=20), say("ok"))
    writer = Agent(inner, name="writer")
    tool = writer.as_tool(input=Order, prompt="Write {words} words about {topic}.", description="Writes a text.")
    Agent(outer, name="editor", tools=[tool]).run_sync("secret plans")
    assert [message.text for message in inner.requests[0].messages] == ["Write 20 words about tides."]
    spec = outer.requests[0].tools[0]
    assert (spec.name, spec.description, list(spec.parameters["properties"])) == (
        "writer",
        "Writes a text.",
        ["topic", "words"],
    )


def test_arguments_that_do_not_fit_reach_the_model_and_not_the_agent() -> None:
    inner = Scripted(say("done"))
    outer = Scripted(call("writer", words="many"), call("writer", topic="x"), say("ok"))
    tool = Agent(inner, name="writer").as_tool(input=Order, prompt="{topic}")
    Agent(outer, name="editor", tools=[tool]).run_sync("go")
    message = outer.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.results[0].is_error
    assert "topic" in message.results[0].text
    assert len(inner.requests) == 1


def test_the_answer_of_an_agent_with_a_type_is_told_as_json() -> None:
    inner = Scripted(say({"topic": "tides", "words": 5}))
    outer = Scripted(call("planner", task="plan"), say("ok"))
    Agent(outer, tools=[Agent(inner, name="planner", output=Order)]).run_sync("go")
    message = outer.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.results[0].text == '{"topic":"tides","words":5}'


def test_an_agent_that_ends_without_an_answer_is_an_error_for_who_called_it() -> None:
    """A refusal inside is told to the outer model, which may go on."""
    inner = Scripted(say("I will not.", finish="refused"))
    outer = Scripted(call("writer", task="x"), say("it refused"))
    result = Agent(outer, tools=[Agent(inner, name="writer")]).run_sync("go")
    message = outer.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert (message.results[0].is_error, result.output) == (True, "it refused")
    assert "ended without an answer (refused)" in message.results[0].text
    assert "I will not." in message.results[0].text


def test_an_agent_at_its_limit_or_without_a_fitting_answer_is_told_to_who_called_it() -> None:
    """Its run goes on: the outer model is told why, and does without."""
    looping = Agent(
        FunctionModel(lambda _: call("add", a=1, b=1)), name="looping", tools=[add], limits=Limits(requests=2)
    )
    vague = Agent(FunctionModel(lambda _: say("hm")), name="vague", output=Order, output_retries=0)
    outer = Scripted(calls(call("looping", task="x"), call("vague", task="y")), say("neither"))
    result = Agent(outer, tools=[looping, vague]).run_sync("go")
    message = outer.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    first, second = message.results
    assert result.output == "neither"
    assert first.is_error
    assert "agent `looping` ended without an answer (limit: it made 2 of at most 2 requests)" in first.text
    assert second.is_error
    assert "agent `vague` ended without an answer (output: none of its 1 answers had the shape" in second.text


def test_one_budget_holds_for_all_agents() -> None:
    """P: limits of the run flow down the whole tree; resuming with more goes on."""
    inner = FunctionModel(
        lambda request: call("add", a=len(request.messages), b=0) if len(request.messages) < 6 else say("in")
    )
    outer = Scripted(call("worker", task="x"), say("out"))
    worker = Agent(inner, name="worker", tools=[add])
    boss = Agent(outer, name="boss", tools=[worker])
    stopped = boss.run_sync("go", limits=Limits(requests=3))
    assert (stopped.status, stopped.usage.requests) == ("limit", 3)
    done = boss.resume_sync(stopped, limits=Limits(requests=10))
    assert (done.output, done.usage.requests) == ("out", 6)
    assert (len(outer.requests), len(inner.requests)) == (2, 4)


def test_the_limits_of_an_agent_include_what_it_has_others_do() -> None:
    """`Agent.limits` counts the agents that it calls."""
    inner = FunctionModel(lambda request: call("add", a=1, b=1) if len(request.messages) < 4 else say("in"))
    outer = FunctionModel(lambda request: call("worker", task=f"{len(request.messages)}"))
    worker = Agent(inner, name="worker", tools=[add])
    result = Agent(outer, name="boss", tools=[worker], limits=Limits(requests=4), at_limit="stop").run_sync("go")
    assert (result.stop_reason, result.usage.requests) == ("limit", 4)


def test_a_prompt_that_its_input_cannot_fill_is_refused_when_the_agent_is_made() -> None:
    tool = Agent(Scripted(), name="writer").as_tool(input=Order, prompt="About {subject}")
    with pytest.raises(GraphError, match=r"placeholder `\{subject\}` names no field"):
        Agent(Scripted(), name="editor", tools=[tool])


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError, match="writer"):
        Agent(Scripted(), tools=[Agent(Scripted(), name="writer"), Agent(Scripted(), name="writer")])
