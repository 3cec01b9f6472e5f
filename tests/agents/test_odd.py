"""Odd names, ids, replies, callbacks and types: what an agent makes of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Literal, cast

import pytest
from pydantic import BaseModel, TypeAdapter

from flowagent import Limits
from flowagent.agents import Agent, Guard, Hooks
from flowagent.core.context import Context
from flowagent.errors import (
    AgentStopped,
    AnswerError,
    GraphChanged,
    GraphError,
    ModelError,
    OutputError,
    RunFailed,
)
from flowagent.models.base import Profile
from flowagent.models.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, user
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import Step, call, fail, say
from flowagent.stores import MemoryStore
from flowagent.tools.decisions import Approve
from flowagent.tools.names import wire_name
from flowagent.tools.tool import tool


class Count(BaseModel):
    n: int


class Shop:
    """What tools get."""


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


def asks(*given: tuple[str, str, str]) -> AssistantMessage:
    """A reply with calls, by id, name and arguments."""
    parts = tuple(ToolCall(id=id_, name=name, arguments=arguments) for id_, name, arguments in given)
    return AssistantMessage(parts=parts, finish="tool_calls")


def script(*steps: Step) -> FunctionModel:
    """A model that says one thing after another, with ids as they are given."""
    left = iter(steps)
    return FunctionModel(lambda _: next(left))


def results(model: FunctionModel | Scripted) -> list[tuple[str, str]]:
    """The results that the last request tells, each with the name of its tool."""
    told = model.requests[-1].messages[-1]
    assert isinstance(told, ToolMessage)
    return [(one.name, one.text) for one in told.results]


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["web-search", "web search", "a/b", "a@b", "a.b", "搜索", "x" * 80, "START", "END", "dispatch", "model", "main"],
)
def test_an_agent_of_any_name_is_called_as_a_tool(name: str) -> None:
    """It is found by the name that providers are given, whatever it is called itself."""
    inner = Agent(Scripted("from inside"), name=name)
    model = Scripted(call(wire_name(name), task="go"), "done")
    result = Agent(model, name="main", tools=[inner]).run_sync("go")
    assert (results(model), result.output) == ([(wire_name(name), "from inside")], "done")
    assert result.draw().dot


def test_an_agent_is_called_also_by_a_name_with_other_dashes() -> None:
    model = Scripted(call("web_search", task="go"), "done")
    Agent(model, tools=[Agent(Scripted("from inside"), name="web-search")]).run_sync("go")
    assert results(model) == [("web_search", "from inside")]


def test_a_final_answer_is_known_also_by_a_name_with_other_dashes() -> None:
    assert Agent(Scripted(call("final-answer", n=1)), output=Count, output_mode="tool").run_sync("go").output.n == 1


# -- ids -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other"), [("x", "x"), ("", "")])
def test_calls_with_equal_ids_get_each_its_own_result(one: str, other: str) -> None:
    """Some servers give every call the same id, or none."""
    reply = asks((one, "add", '{"a": 1, "b": 1}'), (other, "add", '{"a": 2, "b": 2}'))
    model = script(reply, reply, say("done"))
    result = Agent(model, tools=[add]).run_sync("go")
    assert results(model) == [("add", "2"), ("add", "4")]
    ids = [one.id for message in result.messages if isinstance(message, AssistantMessage) for one in message.calls]
    assert len(set(ids)) == 4


def test_an_id_of_the_history_is_not_taken_again() -> None:
    """So a result of today is not mistaken for one of an earlier run."""
    before = (user("a"), asks(("x", "add", "{}")), ToolMessage(results=(ToolResult(id="x", name="add", content=()),)))
    result = Agent(script(asks(("x", "add", '{"a": 1, "b": 1}')), say("done")), tools=[add]).run_sync(
        "go", history=before
    )
    asked, told = result.messages[-3:-1]
    assert isinstance(asked, AssistantMessage)
    assert isinstance(told, ToolMessage)
    assert asked.calls[0].id == told.results[0].id != "x"


def paying() -> tuple[Agent[str, Any], list[int]]:
    """An agent that has two others pay, whose calls have one id; and what was paid."""
    paid: list[int] = []

    def pay(amount: int) -> int:
        """Pay."""
        paid.append(amount)
        return amount

    payer = FunctionModel(
        lambda request: (
            asks(("same", "pay", f'{{"amount": {request.messages[0].text}}}')) if len(request.messages) == 1 else "paid"
        )
    )
    inner = Agent(payer, name="payer", tools=[tool(pay, approval=True)])
    model = script(asks(("1", "payer", '{"task": "10"}'), ("2", "payer", '{"task": "20"}')), say("done"))
    return Agent(model, tools=[inner]), paid


def test_a_decision_by_an_id_that_several_open_calls_have_is_refused() -> None:
    """What is meant for one must not be taken for another's; by question id each is decided."""
    agent, paid = paying()
    store = MemoryStore()
    waiting = agent.run_sync("go", store=store, run_id="r")
    with pytest.raises(AnswerError, match="`same` is the id of 2 open calls: decide by question_id"):
        agent.resume_sync("r", {"same": Approve()}, store=store)
    result = agent.resume_sync("r", {one.question_id: Approve() for one in waiting.pending}, store=store)
    assert (result.output, sorted(paid)) == ("done", [10, 20])


# -- replies ---------------------------------------------------------------------------------------------------------


def test_an_agent_without_tools_tells_a_model_that_calls_one_so() -> None:
    model = Scripted(call("add", a=1, b=2), say("then 3"))
    assert Agent(model).run_sync("go").output == "then 3"
    assert results(model) == [("add", "There is no tool `add`, and no other either: answer without tools.")]


def test_a_model_that_calls_what_is_not_there_again_and_again_comes_to_an_end() -> None:
    model = FunctionModel(lambda _: call("add", a=1, b=2))
    with pytest.raises(AgentStopped, match="the last 6 calls of tools failed"):
        Agent(model).run_sync("go")
    assert len(model.requests) == 6


def test_without_tools_of_its_own_an_agent_names_the_tool_for_the_answer() -> None:
    model = Scripted(call("reply", n=1), call("final_answer", n=1))
    assert Agent(model, output=Count, output_mode="tool").run_sync("go").output.n == 1
    assert "`final_answer`" in results(model)[0][1]


@pytest.mark.parametrize("last", [say(" "), call("add", a=1, b=1)])
def test_the_last_request_is_no_more_than_one(last: Any) -> None:
    """B4: a limit of requests holds, too, if the answer that was kept back for is none."""
    model = script(call("add", a=1, b=1), last, last, last)
    result = Agent(model, tools=[add], limits=Limits(requests=2), at_limit="answer").run_sync("go")
    assert (result.stop_reason, len(model.requests), result.usage.requests) == ("limit", 2, 2)


def test_a_last_answer_that_does_not_fit_is_not_asked_for_beyond_the_limit() -> None:
    model = script(call("add", a=1, b=1), say("many"), say("7"))
    agent = Agent(model, tools=[add], output=int, limits=Limits(requests=2), at_limit="answer")
    assert (agent.run_sync("go").stop_reason, len(model.requests)) == ("limit", 2)


@pytest.mark.parametrize("text", ['{"n":' * 3000 + "1" + "}" * 3000, "[" * 50_000, "{" * 50_000, "[{" * 25_000])
def test_an_answer_that_is_nested_without_end_is_one_that_does_not_fit(text: str) -> None:
    with pytest.raises(OutputError):
        Agent(Scripted(say(text)), output=Count, output_retries=0).run_sync("go")


# -- what stands around ----------------------------------------------------------------------------------------------


def boom(_: Any) -> None:
    """Fail."""
    raise ValueError("boom")


def fine(_: Any) -> None:
    """Refuse nothing."""


def wants_three(_: Any, __: Any, ___: Any) -> None:
    """Want more than there is."""


def test_an_error_of_a_guardrail_that_looks_on_is_told_as_itself() -> None:
    with pytest.raises(RunFailed) as caught:
        Agent(Scripted("fine"), guards=[Guard(boom, "input", beside=True)]).run_sync("go")
    assert repr(caught.value.errors[0].__cause__) == "ValueError('boom')"


def test_an_error_of_the_model_is_told_as_itself_while_a_guardrail_looks_on() -> None:
    """So that a retry, a fallback or a caller knows it."""
    with pytest.raises(ModelError):
        Agent(Scripted(fail("auth")), guards=[Guard(fine, "input", beside=True)]).run_sync("go")


def test_checks_and_guardrails_may_be_builtins_and_have_options() -> None:
    """What is a second parameter with a default is no place for a context."""

    def rounded(value: int, to: int = 10) -> int:
        return value // to * to

    def noted(value: int, ctx: Context[Any, Any]) -> int:
        return value + len(ctx.task_id[:0])

    agent = Agent(Scripted("-47"), output=int, checks=[abs, rounded, noted], guards=[Guard(bool, "output")])
    assert agent.run_sync("go").output == 40


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0, 0), (False, 0), (None, 7)],
)
def test_only_none_from_a_check_leaves_the_answer_as_it_is(given: Any, expected: int) -> None:
    def check(_: int) -> Any:
        return given

    assert Agent(Scripted("7"), output=int, checks=[check]).run_sync("go").output == expected


@pytest.mark.parametrize("point", ["run", "node", "model", "tool", "output"])
def test_a_hook_that_forgets_to_return_is_told(point: str) -> None:
    async def forgets(self: Any, ctx: Any, given: Any, go: Any) -> None:
        await go(given)

    kind: type[Hooks] = type("Mine", (Hooks,), {point: forgets})
    agent = Agent(Scripted(call("add", a=1, b=1), "fine"), tools=[add], hooks=[kind()])
    with pytest.raises((RunFailed, TypeError), match=f"the hook `Mine.{point}` returned None"):
        agent.run_sync("go")


def test_what_stands_where_something_else_is_wanted_is_told_when_the_agent_is_made() -> None:
    wrong: Any = {"hooks": [Hooks], "guards": [boom]}
    with pytest.raises(GraphError) as caught:
        Agent("openai:gpt-5.5", **wrong)
    assert [line.partition(":")[0] for line in caught.value.faults] == ["hooks.0", "guards.0"]


def test_what_cannot_be_called_as_it_will_be_is_told_when_the_agent_is_made() -> None:
    with pytest.raises(GraphError) as caught:
        Agent(
            "openai:gpt-5.5",
            name=" ",
            checks=[lambda: 1],
            guards=[Guard(wants_three, "tool", name="mine")],
            output=socket.socket,
        )
    assert [line.partition(" takes")[0].partition(" 0x")[0][:35] for line in caught.value.faults] == [
        "name: it needs one that is not empt",
        "output=<class 'socket.socket'> cann",
        "guard `mine`",
        "check <function test_what_cannot_be",
    ]


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("at_limit", "never", "at_limit: Input should be 'answer', 'stop' or 'raise' (got 'never')"),
        ("output_mode", "json", "output_mode: Input should be 'auto', 'native', 'tool' or 'prompted' (got 'json')"),
        ("date", "year", "date: Input should be 'day', 'minute' or 'second' (got 'year')"),
        ("settings", {"temprature": 1}, "settings.temprature: Extra inputs are not permitted"),
        ("output_retries", "3", "output_retries: Input should be a valid integer (got '3')"),
        ("examples", [("a", "b")], "examples.0: Input should be an instance of Example (got ('a', 'b'))"),
        ("limits", None, "limits: Input should be an instance of Limits (got None)"),
        ("name", 5, "name: Input should be a valid string (got 5)"),
        ("tools", "add", "tools='add' is no list"),
        ("tools", 5, "tools=5 is no list"),
        ("instructions", [5], "instructions: 5 is no text, and no function of the context"),
        ("model", None, "model=None is none"),
    ],
)
def test_an_option_of_a_wrong_kind_is_told_when_the_agent_is_made(option: str, value: Any, told: str) -> None:
    """Not by a request that was paid for, and never by doing something else in silence."""
    wrong: dict[str, Any] = {"model": "openai:gpt-5.5", option: value}
    with pytest.raises(GraphError) as caught:
        Agent(**wrong)
    assert caught.value.faults == (told,)


def test_instructions_may_say_nothing_and_nothing_but_text() -> None:
    def quiet(_: Any) -> None:
        """Say nothing."""

    def numbers(_: Any) -> list[int]:
        return [1]

    def alone() -> str:
        return ""

    model = Scripted("fine")
    assert Agent(model, instructions=["Be brief.", quiet]).run_sync("go").output == "fine"
    assert [section.text for section in model.requests[0].system] == ["Be brief."]
    with pytest.raises(RunFailed, match=r"gave \[1\]: it gives text, a list of texts, or None"):
        Agent(Scripted("fine"), instructions=numbers).run_sync("go")
    with pytest.raises(GraphError, match="is called with the Context alone"):
        Agent(Scripted("fine"), instructions=cast("Any", alone))


def test_an_answer_by_a_tool_can_be_had_of_a_model_without_tools() -> None:
    text = '{"action": "tool", "tool_name": "final_answer", "arguments": {"n": 1}}'
    model = Scripted(say(text), profile=Profile(tools=False))
    assert Agent(model, output=Count, output_mode="tool").run_sync("go").output.n == 1
    assert model.requests[0].tools == ()


@pytest.mark.parametrize("output", ["Count", boom, Callable[[int], int], 5])
def test_what_is_no_type_of_an_answer_is_told_when_the_agent_is_made(output: Any) -> None:
    with pytest.raises(GraphError, match="output="):
        Agent("openai:gpt-5.5", output=output)


def test_a_run_without_the_deps_that_an_agent_declares_fails_before_anything_is_spent() -> None:
    model = Scripted("fine")
    with pytest.raises(RunFailed, match="needs deps of type `Shop`, and the run has none: pass deps= to it"):
        Agent(model, deps=Shop).run_sync("go")
    assert model.requests == ()
    assert Agent(model, deps=Shop).run_sync("go", deps=Shop()).output == "fine"


@pytest.mark.parametrize("prompt", [None, 5, [5]])
def test_what_nobody_can_say_is_refused_with_what_can_be_said(prompt: Any) -> None:
    with pytest.raises(TypeError, match="is nothing that a user says: give text, Text, Media, or a list of these"):
        Agent(Scripted()).run_sync(prompt)


# -- runs ------------------------------------------------------------------------------------------------------------


async def test_a_stream_fails_with_what_a_run_would_fail_with() -> None:
    async def watched() -> None:
        async with Agent(Scripted(fail("auth"))).stream("go") as events:
            async for _ in events:
                pass

    with pytest.raises(ModelError):
        await watched()


async def test_a_request_that_is_broken_off_counts() -> None:
    """It is paid for all the same; what it cost nobody knows."""
    asked = asyncio.Event()

    async def never(_: Any) -> Step:
        asked.set()
        return await asyncio.Future[Step]()

    store = MemoryStore()
    agent = Agent(FunctionModel(never))
    running = asyncio.create_task(agent.run("go", store=store, run_id="r"))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    result = await agent.replace(model=Scripted("done")).resume("r", store=store)
    assert (result.output, result.usage.requests, result.usage.unmeasured) == ("done", 2, 1)


def resumed_with(**options: Any) -> Any:
    """An agent that waits for approval, is changed, and goes on."""
    store = MemoryStore()
    waits = Agent(script(asks(("1", "add", '{"a": 1, "b": 1}'))), tools=[tool(add, approval=True)])
    waits.run_sync("go", store=store, run_id="r")
    changed = waits.replace(model=Scripted("done"), **options)
    return changed.resume_sync("r", {"1": Approve()}, store=store)


def test_a_run_goes_on_after_its_agent_got_other_instructions_and_tools() -> None:
    more = tool(add, name="plus")
    assert resumed_with(instructions="Be brief.", tools=[tool(add, approval=True), more]).output == "done"


def test_an_answer_is_read_as_it_was_asked_for_whoever_is_asked_by_now() -> None:
    """A run that broke off before its answer was read goes on without asking again, though the model is another one."""

    class Breaks(Hooks):
        async def output(self, ctx: Context[Any, Any], value: Any, go: Any) -> Any:
            raise ValueError("broken")

    store = MemoryStore()
    agent = Agent(Scripted(call("final_answer", n=1)), output=Count, output_mode="tool", hooks=[Breaks()])
    with pytest.raises(RunFailed, match="broken"):
        agent.run_sync("go", store=store, run_id="r")
    other = agent.replace(model=Scripted(), output_mode="native", hooks=())
    assert other.resume_sync("r", store=store).output == Count(n=1)


def test_a_call_of_a_tool_that_is_gone_is_told_to_the_model() -> None:
    result = resumed_with(tools=[tool(add, name="plus")])
    assert (result.output, "There is no tool `add`" in result.messages[-2].results[0].text) == ("done", True)


@pytest.mark.parametrize("options", [{"tools": ()}, {"guards": [Guard(fine, "input")]}])
def test_a_run_of_an_agent_that_has_another_graph_by_now_is_refused_as_changed(options: dict[str, Any]) -> None:
    """Also where what is stored cannot be told to today's graph at all."""
    with pytest.raises(GraphChanged, match="accept_changes=True"):
        resumed_with(**options)


# -- types -----------------------------------------------------------------------------------------------------------


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


@pytest.mark.parametrize("mode", ["native", "tool", "prompted"])
@pytest.mark.parametrize(
    ("output", "written", "expected"),
    [
        (Cat, '{"kind": "cat", "lives": null}', Cat(kind="cat")),
        (list[Cat], '{"answer": [{"kind": "cat", "lives": null}]}', [Cat(kind="cat")]),
        (Tree, '{"name": "a", "children": [{"name": "b", "children": null}]}',
         Tree(name="a", children=[Tree(name="b")])),
        (Cat | None, '{"answer": null}', None),
        (dict[str, int], '{"a": 1}', {"a": 1}),
    ],
)  # fmt: skip
def test_null_for_what_was_left_out_is_undone_in_every_mode(
    mode: Literal["native", "tool", "prompted"], output: Any, written: str, expected: Any
) -> None:
    """FA-057: whoever sent the schema in whichever form."""
    reply = asks(("1", "final_answer", written)) if mode == "tool" else say(written)
    result = Agent(script(reply), output=output, output_mode=mode, output_retries=0).run_sync("go")
    assert TypeAdapter(output).validate_python(result.output) == expected
