"""The run loop of an agent: model, tools, model again, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from flowagent import Limits
from flowagent.agents import Agent
from flowagent.agents.agent import AgentResult
from flowagent.core.usage import Usage
from flowagent.errors import AgentStopped, GraphError, ModelError, RunFailed, ToolFatal, ToolRetry
from flowagent.models.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import call, calls, fail, say
from flowagent.stores import MemoryStore
from flowagent.tools.tool import tool


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


def crash(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def shape(messages: Sequence[Message]) -> list[Any]:
    """A conversation as roles, texts, calls and results: what a test compares."""
    shown: list[Any] = []
    for message in messages:
        match message:
            case UserMessage():
                shown.append(("user", message.text))
            case AssistantMessage():
                said = [("calls", one.name, one.arguments) for one in message.calls]
                shown.append(("assistant", message.text, *said))
            case ToolMessage(results=results):
                shown.append(("tool", *((one.name, one.text, one.is_error) for one in results)))
    return shown


def test_a_call_is_answered_with_its_result_and_the_model_asked_again() -> None:
    """B1: the second request holds the assistant's call and a result with the same id, in that order."""
    model = Scripted(call("add", a=19, b=23), say("42"))
    result = Agent(model, tools=[add]).run_sync("What is 19 + 23?")
    first, second = model.requests
    assert result.output == "42"
    assert shape(first.messages) == [("user", "What is 19 + 23?")]
    assert shape(second.messages) == [
        ("user", "What is 19 + 23?"),
        ("assistant", "", ("calls", "add", '{"a":19,"b":23}')),
        ("tool", ("add", "42", False)),
    ]
    asked, answered = second.messages[1], second.messages[2]
    assert isinstance(asked, AssistantMessage)
    assert isinstance(answered, ToolMessage)
    assert asked.calls[0].id == answered.results[0].id
    assert result.stop_reason == "answer"


def test_each_request_extends_the_one_before() -> None:
    """B2: messages are appended, never rebuilt."""
    model = Scripted(call("add", a=1, b=2), calls(call("add", a=3, b=4), call("add", a=5, b=6)), say("done"))
    Agent(model, tools=[add]).run_sync("go")
    before: tuple[Message, ...] = ()
    for request in model.requests:
        assert request.messages[: len(before)] == before
        before = request.messages
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]


def test_text_before_a_call_is_no_answer() -> None:
    """B12, complaints 1 and 2: the model says a sentence, or a blank, before its call; the tool runs."""
    model = Scripted(calls("Let me see. ", call("add", a=1, b=1)), calls("  \n", call("add", a=2, b=2)), say("ok"))
    result = Agent(model, tools=[add]).run_sync("go")
    assert result.output == "ok"
    assert result.usage.tool_calls == 2


def test_an_answer_that_looks_like_a_call_runs_nothing() -> None:
    """B12: calls are told by typed parts, never by looking at the text."""
    text = '{"action": "tool", "tool_name": "add", "arguments": {"a": 1, "b": 2}}'
    result = Agent(Scripted(say(text)), tools=[add]).run_sync("go")
    assert (result.output, result.usage.tool_calls) == (text, 0)


def test_a_final_tool_gives_the_answer_itself() -> None:
    """B3: its result is the answer, and no further request is made."""
    model = Scripted(call("add", a=19, b=23))
    agent = Agent(model, tools=[tool(add, final=True)], output=int)
    result = agent.run_sync("go")
    assert (result.output, result.stop_reason, len(model.requests)) == (42, "final_tool", 1)
    assert shape(result.messages)[-1] == ("tool", ("add", "42", False))


def test_the_answer_of_a_final_tool_is_validated_too() -> None:
    """B3: one that does not fit goes back to the model."""

    @tool(final=True)
    def guess() -> str:
        """Guess."""
        return "many"

    model = Scripted(call("guess"), say("7"))
    result = Agent(model, tools=[guess], output=int).run_sync("go")
    assert result.output == 7
    assert "Your answer does not have the shape" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_a_limit_of_requests_permits_exactly_as_many(limit: int) -> None:
    """B4: limit n permits exactly n model requests."""
    model = FunctionModel(lambda request: call("add", a=len(request.messages), b=0))
    with pytest.raises(AgentStopped) as caught:
        Agent(model, tools=[add], limits=Limits(requests=limit), tool_errors=99).run_sync("go")
    assert len(model.requests) == limit
    assert caught.value.reason == "limit"
    assert f"it made {limit} of at most {limit} requests" in str(caught.value)


def test_at_a_limit_the_last_request_can_be_kept_for_an_answer() -> None:
    """Complaints 3 to 5: `at_limit="answer"` makes the last request without tools, for an answer from what is there."""
    model = Scripted(call("add", a=1, b=2), say("3, as far as I came"))
    agent = Agent(model, tools=[add], limits=Limits(requests=2), at_limit="answer")
    result = agent.run_sync("go")
    assert result.output == "3, as far as I came"
    assert model.requests[1].tools == ()
    assert model.requests[1].system[-1].name == "last_request"
    assert result.ending is not None
    assert (result.ending.is_limited, result.ending.because) == (True, "it made 1 of at most 2 requests")


def test_at_a_limit_the_agent_can_stop_without_an_answer() -> None:
    """`at_limit="stop"`: the run completes, says why, and keeps what it had."""
    model = FunctionModel(lambda request: (Text(text="so far"), call("add", a=len(request.messages), b=0)))
    result = Agent(model, tools=[add], limits=Limits(requests=2), at_limit="stop").run_sync("go")
    assert (result.status, result.stop_reason) == ("completed", "limit")
    with pytest.raises(AgentStopped, match=r"ended without an answer \(limit\)"):
        _ = result.output
    assert result.ending is not None
    assert result.ending.text == "so far"


@pytest.mark.parametrize(
    ("model", "diagnosis"),
    [
        (FunctionModel(lambda r: call("crash", why=f"{len(r.messages)}")), "same tool failing: `crash` failed in 3"),
        (FunctionModel(lambda r: call("add", a=1, b=1)), 'same call repeated: `add({"a":1,"b":1})` 3 times'),
        (FunctionModel(lambda r: call("add", a=len(r.messages), b=1)), "still asking for new tools: its last 3 calls"),
    ],
    ids=["failing", "repeated", "new"],
)
def test_a_limit_is_explained(model: FunctionModel, diagnosis: str) -> None:
    """B5: the error says what the last steps show, with the calls, their arguments and errors."""
    with pytest.raises(AgentStopped) as caught:
        Agent(model, tools=[add, crash], limits=Limits(requests=3), tool_errors=99).run_sync("go")
    first, *told = caught.value.diagnosis
    assert first.startswith(diagnosis)
    assert len(told) == 3
    assert all(" -> " in line for line in told)
    assert caught.value.usage is not None
    assert caught.value.usage.requests == 3


def test_calls_for_which_there_is_no_room_are_not_run() -> None:
    """P: a limit of tool calls holds for the calls of one reply together; the last request tells what was not run."""
    three = calls(*(call("add", a=n, b=n) for n in range(3)))
    model = Scripted(call("add", a=1, b=1), three, say("enough"))
    agent = Agent(model, tools=[add], limits=Limits(tool_calls=3), at_limit="answer")
    result = agent.run_sync("go")
    assert (result.output, result.usage.tool_calls) == ("enough", 1)
    assert result.ending is not None
    assert result.ending.because == "it asked for 3 more tool calls after 1 of at most 3"
    assert shape(model.requests[2].messages)[-1][1] == (
        "add",
        "This was not run: it asked for 3 more tool calls after 1 of at most 3.",
        True,
    )


def test_limits_that_only_a_run_has_are_refused_for_an_agent() -> None:
    """P1: what would not be held is not taken in silence."""
    with pytest.raises(GraphError, match="`seconds` is a limit of a run"):
        Agent(Scripted(), limits=Limits(seconds=3))


def test_a_prompt_is_looked_over_for_tools_and_placeholders_that_there_are_not() -> None:
    """1H 13: the seed's own example names a tool that the agent lacks and a file name with an unfilled placeholder."""
    agent = Agent(
        Scripted(),
        instructions=["Read with `read_file`, then call add_up(1, 2).", "Save to {session_id}.md"],
        tools=[add],
    )
    assert [line for line in agent.lint() if line.startswith("instructions")] == [
        "instructions: names the tool `read_file`, which there is not",
        "instructions: names the tool `add_up`, which there is not; did you mean `add`?",
        "instructions: the placeholder `{session_id}` is filled in by nobody",
    ]


def test_empty_replies_end_with_a_diagnosis() -> None:
    """B5: *empty replies*; a blank text is asked about a bounded number of times."""
    model = FunctionModel(lambda request: say("  "))
    with pytest.raises(AgentStopped) as caught:
        Agent(model).run_sync("go")
    assert (caught.value.reason, len(model.requests)) == ("empty", 3)
    assert caught.value.diagnosis[0].startswith("empty replies: the last 3")


def test_an_empty_reply_is_asked_about_once_more() -> None:
    """Complaint 2: blank text is not an answer."""
    model = Scripted(say(" \n "), say("here"))
    assert Agent(model).run_sync("go").output == "here"
    assert shape(model.requests[1].messages)[-1] == (
        "user",
        "Your last reply was empty. Give your answer, or call a tool.",
    )


def test_calls_that_keep_failing_come_to_an_end() -> None:
    """The cap on failed calls in a row; a good one in between starts the count anew."""
    steps = [call("crash", why="1"), call("crash", why="2"), call("add", a=1, b=1), *[call("crash", why="x")] * 3]
    model = Scripted(*steps)
    with pytest.raises(AgentStopped) as caught:
        Agent(model, tools=[add, crash], tool_errors=3).run_sync("go")
    assert (caught.value.reason, len(model.requests)) == ("tool_errors", 6)


def test_an_unknown_tool_is_told_to_the_model_with_the_names() -> None:
    """FA-061, complaint 9: the run goes on, the good call beside it runs."""
    model = Scripted(calls(call("exec_code", x=1), call("add", a=1, b=2)), say("ok"))
    assert Agent(model, tools=[add]).run_sync("go").output == "ok"
    (_, unknown, good) = shape(model.requests[1].messages)[-1]
    assert (unknown[0], unknown[2]) == ("exec_code", True)
    assert "add" in unknown[1]
    assert good == ("add", "3", False)


def test_the_same_unknown_tool_again_and_again_ends_at_the_cap() -> None:
    """FA-061: repetition ends, with a count."""
    model = FunctionModel(lambda request: call("exec_code"))
    with pytest.raises(AgentStopped, match="the last 6 calls of tools failed"):
        Agent(model, tools=[add]).run_sync("go")
    assert len(model.requests) == 6


@pytest.mark.parametrize("arguments", ['{"path": "a.txt"', '{"path": "a.txt"}'])
def test_no_tool_of_a_cut_reply_is_run(arguments: str) -> None:
    """FA-063: it was cut in the middle of a call; that the fragment parses proves nothing."""
    written: list[str] = []

    def write(path: str, content: str = "") -> str:
        """Write a file."""
        written.append(path)
        return "written"

    model = Scripted(calls(call("write", path="b"), call("write", arguments), finish="length"), say("shorter"))
    result = Agent(model, tools=[write]).run_sync("go")
    assert (result.output, written, result.usage.tool_calls) == ("shorter", [], 0)
    assert shape(model.requests[1].messages)[1][1].startswith("Your last reply was cut off")


def test_replies_that_are_always_cut_come_to_an_end() -> None:
    """FA-063: it does not loop until the limit of steps."""
    model = FunctionModel(lambda request: say("blah blah", finish="length"))
    with pytest.raises(AgentStopped) as caught:
        Agent(model).run_sync("go")
    assert (caught.value.reason, caught.value.text, len(model.requests)) == ("cut_off", "blah blah", 3)
    assert caught.value.diagnosis == (
        "cut replies: ask for a shorter answer, or let replies be longer with settings={'max_tokens': ...}",
    )


@pytest.mark.parametrize("reason", ["refused", "filtered"])
def test_a_refusal_is_an_outcome_and_no_bad_output(reason: Any) -> None:
    """FA-066: one request, a typed outcome with the text, no validation error, no retry."""
    model = Scripted(say("I will not help with that.", finish=reason))
    result = Agent(model, output=int).run_sync("go")
    assert (result.status, result.stop_reason, len(model.requests)) == ("completed", reason, 1)
    assert result.ending is not None
    assert result.ending.text == "I will not help with that."
    with pytest.raises(AgentStopped, match=reason):
        _ = result.output


def test_a_paused_reply_is_sent_back() -> None:
    """The provider asks to go on: the reply stays in the conversation."""
    model = Scripted(say("one moment", finish="paused"), say("done"))
    assert Agent(model).run_sync("go").output == "done"
    assert shape(model.requests[1].messages)[-1] == ("assistant", "one moment")


def test_a_tool_error_keeps_its_siblings() -> None:
    """Complaint 10: one failing call of several; results come in the order of the calls."""
    model = Scripted(calls(call("add", a=1, b=1), call("crash", why="no"), call("add", a=2, b=2)), say("ok"))
    Agent(model, tools=[add, crash]).run_sync("go")
    results = shape(model.requests[1].messages)[-1]
    assert results == (
        "tool",
        ("add", "2", False),
        ("crash", "`crash` failed: ValueError: no", True),
        ("add", "4", False),
    )


def test_a_fatal_tool_error_stops_the_run() -> None:
    """C8: `ToolFatal` ends it; the model is not told."""

    def broken() -> str:
        """Break."""
        raise ToolFatal("the account is locked")

    model = Scripted(call("broken"))
    with pytest.raises(RunFailed, match="the account is locked"):
        Agent(model, tools=[broken]).run_sync("go")
    assert len(model.requests) == 1


def test_a_hint_of_a_tool_reaches_the_model() -> None:
    """C8: `ToolRetry` tells the model how to call it better."""

    def find(name: str) -> str:
        """Find somebody."""
        if " " not in name:
            raise ToolRetry("give first and last name")
        return "found"

    model = Scripted(call("find", name="Ann"), call("find", name="Ann Lee"), say("ok"))
    assert Agent(model, tools=[find]).run_sync("go").output == "ok"
    assert shape(model.requests[1].messages)[-1][1][1:] == (
        "`find` must be called in another way: give first and last name",
        True,
    )


def test_calls_of_one_reply_run_side_by_side_and_a_sequential_one_alone() -> None:
    """C18: independent calls in parallel, a barrier for `sequential`, results in the order of the calls."""
    running: set[str] = set()
    together: list[frozenset[str]] = []

    async def slow(name: str) -> str:
        """Take a while."""
        running.add(name)
        for _ in range(20):
            await asyncio.sleep(0)
        together.append(frozenset(running))
        running.discard(name)
        return name

    @tool(sequential=True)
    async def alone(name: str) -> str:
        """Run alone."""
        return await slow(name)

    four = calls(call("slow", name="a"), call("slow", name="b"), call("alone", name="c"), call("slow", name="d"))
    model = Scripted(four, say("ok"))
    result = Agent(model, tools=[slow, alone]).run_sync("go")
    assert {frozenset("ab"), frozenset("c"), frozenset("d")} <= {*together}
    assert [one[1] for one in shape(model.requests[1].messages)[-1][1:]] == ["a", "b", "c", "d"]
    assert result.usage.tool_calls == 4


def test_no_more_calls_run_at_a_time_than_the_cap_allows() -> None:
    """C18: a cap on concurrency holds."""
    running = 0
    most = 0

    async def slow(n: int) -> int:
        """Take a while."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(10):
            await asyncio.sleep(0)
        running -= 1
        return n

    model = Scripted(calls(*(call("slow", n=n) for n in range(9))), say("ok"))
    Agent(model, tools=[slow], parallel_tools=3).run_sync("go")
    assert most == 3


def test_a_model_that_does_not_answer_is_told_as_such() -> None:
    """B6: a provider's error is an error and no answer; the run is stored and can be resumed."""
    model = Scripted(fail("overloaded", "busy"), say("back"))
    store = MemoryStore()
    with pytest.raises(ModelError, match="busy") as caught:
        Agent(model, name="a").run_sync("go", store=store, run_id="r")
    assert "which can be resumed" in caught.value.__notes__[0]
    result = Agent(model, name="a").resume_sync("r", store=store)
    assert result.output == "back"
    assert (result.usage.requests, result.usage.failed) == (2, 1)


def test_history_is_handed_on_whole() -> None:
    """B8: `result.messages` goes on as `history=`; one system prompt, in first place."""
    model = Scripted(call("add", a=1, b=2), say("3"), say("still 3"))
    agent = Agent(model, tools=[add], instructions="Be brief.")
    first = agent.run_sync("1 + 2?")
    second = agent.run_sync("Sure?", history=first.messages)
    assert shape(model.requests[2].messages) == [*shape(first.messages), ("user", "Sure?")]
    assert [one.name for one in model.requests[2].system].count("instructions") == 1
    assert len(second.messages) == 6


def test_explain_prints_who_said_what_kind_of_thing() -> None:
    """B8: one line for each part; text before a call and parallel calls are there."""
    model = Scripted(calls("Adding.", call("add", a=1, b=2), call("add", a=3, b=4)), say("3 and 7"))
    result = Agent(model, tools=[add]).run_sync("Add")
    assert result.explain().splitlines() == [
        "user: text: Add",
        "assistant: text: Adding.",
        'assistant: tool_call: add({"a":1,"b":2})',
        'assistant: tool_call: add({"a":3,"b":4})',
        "tool: result add: 3",
        "tool: result add: 7",
        "assistant: text: 3 and 7",
    ]


async def test_runs_of_one_agent_share_nothing() -> None:
    """A1, complaints 27 and 29: fifty runs at once; each sees only its own conversation."""
    model = FunctionModel(lambda request: say(request.messages[0].text.upper()))
    agent = Agent(model)
    results: list[AgentResult[str]] = await asyncio.gather(*(agent.run(f"user {n}") for n in range(50)))
    assert [result.output for result in results] == [f"USER {n}" for n in range(50)]
    assert all(len(result.messages) == 2 for result in results)


def test_making_an_agent_needs_no_key_and_does_nothing() -> None:
    """A1: no I/O, no key, no provider's package."""
    agent = Agent("anthropic:claude-haiku-4-5", name="writer", instructions=["Be brief."], tools=[add])
    assert repr(agent) == "Agent('anthropic:claude-haiku-4-5', name='writer')"
    assert agent.replace(name="other").name == "other"
    assert agent.name == "writer"


def test_all_that_is_wrong_with_an_agent_is_told_at_once() -> None:
    """Duplicate tools, bad numbers, unknown placeholders of `save_to`."""
    with pytest.raises(GraphError) as caught:
        Agent(Scripted(), name="bad", tools=[add, add], output_retries=-1, save_to="{session}.md")
    assert len(caught.value.faults) == 3


def test_usage_counts_requests_and_calls_once() -> None:
    """O: known tokens are added up, what is not reported counts as unmeasured."""
    model = Scripted(
        calls(call("add", a=1, b=2), usage=Usage(requests=1, input=10, output=5)),
        say("3", usage=Usage(requests=1, unmeasured=1)),
    )
    usage = Agent(model, tools=[add]).run_sync("go").usage
    assert (usage.requests, usage.tool_calls, usage.tokens, usage.unmeasured) == (2, 1, 15, 1)
