from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic import SecretStr, TypeAdapter

from flowagent import Context
from flowagent.errors import AnswerError, RunFailed
from flowagent.stores import SQLiteStore
from flowagent.tools.context import ToolContext
from flowagent.tools.decisions import Abort, Answer, Approve, Decision, Deny, verdict
from flowagent.tools.tool import Tool, tool
from tests.tools.calling import Caller, Calls, call, outcome

made: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


@tool(approval=True)
def refund(order: str, cents: int) -> str:
    """Refund an order."""
    made.append((order, cents))
    return f"refunded {cents}"


ARGUMENTS = '{"order": "7", "cents": 500}'


async def decided(decision: Any, source: Tool[..., Any] = refund) -> Any:
    """What comes of a call that somebody decided on."""
    caller = Caller([source], [call(source.name, ARGUMENTS)])
    assert (await caller.run()).status == "waiting"
    assert made == []
    return (await caller.resume({"c1": decision})).state.outcomes[0]


async def test_a_person_is_shown_what_would_run_and_where() -> None:
    """C17, pain 35: the tool, its arguments and the place of the call, keyed by the id of the call."""
    run = await Caller([refund], [call("refund", ARGUMENTS)]).run()
    question = run.questions[0]
    assert (question.id, question.text) == (
        "node?c1",
        '`refund` is to be called with {"order":"7","cents":500} in `node`. Approve, deny, answer or abort?',
    )


@pytest.mark.parametrize("decision", [True, "approve", {"verb": "approve"}, Approve()], ids=repr)
async def test_an_approved_call_is_made(decision: Any) -> None:
    result = await decided(decision)
    assert (result.status, result.result.text, made) == ("done", "refunded 500", [("7", 500)])


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (False, "The call of `refund` was denied by the person in charge, and was not made."),
        ("deny", "The call of `refund` was denied by the person in charge, and was not made."),
        (
            {"verb": "deny", "reason": "too much"},
            "The call of `refund` was denied by the person in charge, and was not made: too much",
        ),
    ],
    ids=repr,
)
async def test_a_denied_call_is_not_made_and_the_model_is_told_why(decision: Any, told: str) -> None:
    result = await decided(decision)
    assert (result.status, result.result.is_error, result.result.text, made) == ("denied", True, told, [])


async def test_a_call_can_be_answered_in_place_of_the_tool() -> None:
    result = await decided(Answer(result={"done": "by hand"}))
    assert (result.status, result.result.is_error, result.result.text) == ("answered", False, '{"done":"by hand"}')
    assert (result.ok, made) == (True, [])


async def test_a_call_can_be_made_with_other_arguments() -> None:
    result = await decided(Approve(arguments={"order": "7", "cents": 100}))
    assert (result.status, made) == ("done", [("7", 100)])


async def test_other_arguments_are_held_to_the_schema_too() -> None:
    result = await decided(Approve(arguments={"order": "7", "cents": "lots"}))
    assert (result.status, made) == ("invalid", [])
    assert result.result.text.startswith("The person in charge has changed the arguments. The arguments of `refund`")


@pytest.mark.parametrize("decision", ["abort", {"verb": "abort", "reason": "fraud"}], ids=repr)
async def test_aborting_fails_the_run(decision: Any) -> None:
    with pytest.raises(RunFailed, match="`c1` of `refund` was aborted"):
        await decided(decision)
    assert made == []


@pytest.mark.parametrize("decision", ["perhaps", {"verb": "approve", "reason": "x"}, {"verb": "shrug"}, 3, None])
async def test_what_is_no_decision_is_refused_and_the_question_stays_open(decision: Any) -> None:
    caller = Caller([refund], [call("refund", ARGUMENTS)])
    await caller.run()
    with pytest.raises(AnswerError):
        await caller.resume({"c1": decision})
    assert (await caller.resume({"c1": True})).status == "completed"


def test_every_decision_goes_to_json_and_back() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Decision)
    for one in (Approve(arguments={"a": 1}), Deny(reason="x"), Answer(result=[1]), Abort(), True, "deny"):
        assert adapter.validate_json(adapter.dump_json(one)) == one
    assert (verdict("abort"), verdict(False)) == (Abort(), Deny())


async def test_decisions_are_keyed_by_the_id_of_the_call() -> None:
    """Pain 30: two calls of one tool wait side by side in one node; each answer reaches its own."""
    caller = Caller([refund], [call("refund", ARGUMENTS, "a"), call("refund", '{"order": "8", "cents": 9}', "b")])
    assert [question.id for question in (await caller.run()).questions] == ["node?a"]
    assert [question.id for question in (await caller.resume({"a": "deny"})).questions] == ["node?b"]
    run = await caller.resume({"b": True})
    assert ([one.status for one in run.state.outcomes], made) == (["denied", "done"], [("8", 9)])
    assert run.usage.tool_calls >= 2


async def test_nothing_is_asked_again_after_a_restart(tmp_path: Any) -> None:
    """Pain 32, 33: what was decided is in the store; another process goes on from there."""
    path = tmp_path / "runs.db"
    caller = Caller([refund], [call("refund", ARGUMENTS)], store=SQLiteStore(path))
    await caller.run()
    again = Caller([refund], [call("refund", ARGUMENTS)], store=SQLiteStore(path))
    run = await again.resume({"c1": True})
    assert (run.status, made) == ("completed", [("7", 500)])


async def test_an_approval_of_other_arguments_than_would_run_now_is_stale() -> None:
    """What was approved is what runs: here the code that reads the arguments has changed in between."""
    caller = Caller([refund], [call("refund", ARGUMENTS)])
    await caller.run()

    @tool(approval=True, name="refund")
    def dollars(order: str, cents: int, currency: str = "USD") -> str:
        made.append(currency)
        return currency

    again = Caller([dollars], [call("refund", ARGUMENTS)], store=caller.store)
    result = (await again.resume({"c1": True})).state.outcomes[0]
    assert (result.status, made) == ("denied", [])
    assert "its arguments are others now than those that were approved" in result.result.text


# -- when --------------------------------------------------------------------------------------------------------------


def large(ctx: Context[Any, Any], arguments: Mapping[str, Any]) -> bool | str:
    return "more than 100 cents" if arguments["cents"] > 100 else False


async def test_code_decides_whether_a_person_is_asked_and_says_why() -> None:
    """Pain 34: the model has no say in it."""
    source = tool(refund, approval=large)
    assert (await outcome(source, '{"order": "7", "cents": 5}')).status == "done"
    run = await Caller([source], [call("refund", ARGUMENTS)]).run()
    assert "(more than 100 cents). Approve" in run.questions[0].text


async def test_a_decision_holds_where_the_function_that_judges_would_say_something_else_by_now() -> None:
    """Whether somebody is asked is on record: a denied call is not made because nobody would have to be asked."""
    answers = iter(["first time", False])
    source = tool(refund, approval=lambda ctx, arguments: next(answers))
    result = await decided("deny", source)
    assert (result.status, made) == ("denied", [])


async def test_what_was_judged_harmless_holds_only_for_the_arguments_that_were_judged() -> None:
    @tool(approval=lambda ctx, arguments: False)
    def look(order: str) -> str:
        return f"looked at {order}"

    @tool(approval=True)
    def confirm() -> str:
        return "confirmed"

    calls = [call("look", '{"order": "7"}', "a"), call("confirm", "", "b")]
    caller = Caller([look, confirm], calls)
    await caller.run()
    again = Caller([look, confirm], [call("look", '{"order": "8"}', "a"), calls[1]], store=caller.store)
    run = await again.resume({"b": True})
    assert [one.status for one in run.state.outcomes] == ["denied", "done"]


async def test_nobody_to_ask_fails_the_run() -> None:
    """What needs approval is never made because nobody could be asked, and the model is not told of that."""
    for source in (refund, look_up):
        arguments = ARGUMENTS if source is refund else '{"name": "Ada"}'
        with pytest.raises(RunFailed, match="no store was given"):
            await Caller([source], [call(source.name, arguments)]).graph().run(Calls(), run_id="r")
    assert made == []


async def test_arguments_that_do_not_fit_ask_nobody() -> None:
    assert (await outcome(refund, "{}")).status == "invalid"


async def test_secrets_are_masked_in_the_question() -> None:
    """FA-114: a person who decides sees no password."""

    @tool(approval=True)
    def log_in(user: str, password: SecretStr) -> str:
        return user

    run = await Caller([log_in], [call("log_in", '{"user": "ada", "password": "hunter2222"}')]).run()
    assert '{"user":"ada","password":"**********"}' in run.questions[0].text
    assert "hunter2222" not in repr(run.questions)


# -- tools that ask themselves ---------------------------------------------------------------------------------------


async def ask_async(ctx: ToolContext) -> str:
    return await ctx.ask("size", "which size?")


def ask_sync(ctx: ToolContext) -> str:
    return ctx.ask_sync("size", "which size?")


@pytest.mark.parametrize("source", [ask_async, ask_sync])
async def test_a_tool_may_ask_something_itself_and_is_counted_once(source: Any) -> None:
    caller = Caller([tool(source, name="ask")], [call("ask")])
    assert (await caller.run()).status == "waiting"
    run = await caller.resume({"size": "large"})
    assert (run.state.outcomes[0].result.text, run.usage.tool_calls) == ("large", 1)


# -- external ----------------------------------------------------------------------------------------------------------


@tool(external=True)
def look_up(name: Annotated[str, "whose number"]) -> int:
    """Look up a telephone number."""
    raise AssertionError(name)


async def test_a_tool_that_is_only_declared_pauses_with_the_call_and_goes_on_with_the_result() -> None:
    """C17: the model only asks; somebody else does it."""
    caller = Caller([look_up], [call("look_up", '{"name": "Ada"}')])
    run = await caller.run()
    assert run.questions[0].text == '`look_up` was called with {"name":"Ada"} in `node`: answer with its result.'
    result = (await caller.resume({"c1": {"number": 5}})).state.outcomes[0]
    assert (result.status, json.loads(result.value)) == ("done", {"number": 5})


async def test_an_external_tool_of_a_schema_checks_its_arguments_before_it_pauses() -> None:
    made = Tool.from_schema(
        name="ask", parameters={"properties": {"a": {"type": "integer"}}, "required": ["a"]}, external=True
    )
    assert (await outcome(made, "{}")).status == "invalid"
    assert (await Caller([made], [call("ask", '{"a": 1}')]).run()).status == "waiting"
