"""`Scripted` and `FunctionModel`: models that are programs."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, cast

import pytest
from pydantic import BaseModel

from flowagent.core.usage import Usage
from flowagent.errors import ModelError
from flowagent.models.base import (
    CallDelta,
    ModelRequest,
    Profile,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    Waiting,
)
from flowagent.models.deltas import Chunk
from flowagent.models.messages import (
    AssistantMessage,
    Finish,
    Opaque,
    ReplyPart,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    user,
)
from flowagent.models.steps import After, Step
from flowagent.testing import FunctionModel, Scripted, UnexpectedRequest, after, call, calls, fail, say, think
from tests.models.asking import asked, said, streamed, told_before


def words(request: ModelRequest) -> str:
    last = request.messages[-1]
    return last.text if isinstance(last, UserMessage) else ""


def doubled(request: ModelRequest) -> str:
    return words(request) * 2


def len_of_messages(request: ModelRequest) -> int:
    return len(request.messages)


# ------------------------------------------------------------------------------------------------------- steps


async def test_steps_are_answered_in_order_and_requests_are_kept():
    """Each request gets the next step, and `requests` holds what was asked."""
    model = Scripted(call("add", a=19, b=23), say("42"))
    first, second = asked("What is 19 + 23?"), asked("And?")
    assert (await said(model, first)).calls == (ToolCall(id="call-1", name="add", arguments='{"a":19,"b":23}'),)
    assert (await said(model, second)).text == "42"
    assert model.requests == (first, second)
    model.assert_used_up()


@pytest.mark.parametrize(
    ("step", "parts", "finish"),
    [
        ("hi", (Text(text="hi"),), "stop"),
        (say({"a": 1}), (Text(text='{"a":1}'),), "stop"),
        (say("cut", finish="length"), (Text(text="cut"),), "length"),
        (call("now"), (ToolCall(id="call-1", name="now", arguments="{}"),), "tool_calls"),
        (call("f", '{"a": 1'), (ToolCall(id="call-1", name="f", arguments='{"a": 1'),), "tool_calls"),
        (
            (think("hm"), "I look.", call("f"), call("g", x=[1])),
            (
                Thinking(text="hm", provider="scripted"),
                Text(text="I look."),
                ToolCall(id="call-1", name="f", arguments="{}"),
                ToolCall(id="call-2", name="g", arguments='{"x":[1]}'),
            ),
            "tool_calls",
        ),
        (
            [call("f"), say("no", finish="refused")],
            (ToolCall(id="call-1", name="f", arguments="{}"), Text(text="no")),
            "refused",
        ),
        (calls(call("f"), finish="length"), (ToolCall(id="call-1", name="f", arguments="{}"),), "length"),
        (ToolCall(id="mine", name="f", arguments="{}"), (ToolCall(id="mine", name="f", arguments="{}"),), "tool_calls"),
        (Opaque(provider="x", data="{}"), (Opaque(provider="x", data="{}"),), "stop"),
        (AssistantMessage(parts=()), (), "stop"),
        (doubled, (Text(text="hellohello"),), "stop"),
        (after(then="late"), (Text(text="late"),), "stop"),
    ],
)
async def test_whatever_a_model_may_say_is_a_step(step: Step, parts: tuple[ReplyPart, ...], finish: Finish):
    """Text, values, parts, tuples, messages and functions are steps, and become the parts and the end that they say."""
    message = await said(Scripted(step), asked())
    assert (message.parts, message.finish, message.provider, message.model) == (parts, finish, "scripted", "model")


async def test_a_model_of_pydantic_is_said_as_json():
    """A pydantic model in `say` is told as its JSON."""

    class City(BaseModel):
        name: str
        people: int

    assert say(City(name="Ulm", people=126_000)).text == '{"name":"Ulm","people":126000}'


async def test_an_async_function_is_a_step():
    """A step may be an async function, whose result may be a step of any kind."""

    async def answer(request: ModelRequest) -> Step:
        return (say("a"), call("f"))

    assert (await said(Scripted(answer), asked())).calls == (ToolCall(id="call-1", name="f", arguments="{}"),)


async def test_a_whole_reply_is_given_as_it_is():
    """A `Reply` as a step keeps its ids, usage and seconds."""
    reply = Reply(message=AssistantMessage(parts=(Text(text="x"),), model="m", provider="p"), seconds=3.5)
    assert await Scripted(reply).request(asked()) == reply


async def test_an_error_as_a_step_is_raised_and_the_script_goes_on():
    """`fail` raises a `ModelError` of that kind in the model's name; the next request gets the next step."""
    model = Scripted(fail("rate_limit", status=429, retry_after=2.0), fail("auth"), OSError("gone"), "ok", name="s:m")
    with pytest.raises(ModelError, match="this request fails: rate_limit") as limited:
        await model.request(asked())
    facts = limited.value
    assert (facts.kind, facts.retryable, facts.status, facts.retry_after, facts.model) == (
        "rate_limit",
        True,
        429,
        2.0,
        "s:m",
    )
    with pytest.raises(ModelError) as auth:
        await model.request(asked())
    assert not auth.value.retryable
    with pytest.raises(OSError, match="gone"):
        await model.request(asked())
    assert (await said(model, asked())).text == "ok"


@pytest.mark.parametrize("wrong", [42, (), ("a", 1), None, After((), cast("Any", object()))])
def test_what_is_no_step_is_refused_when_the_script_is_made(wrong: Any):
    """A script with a step that is none cannot be made, and the error says what steps are."""
    with pytest.raises(TypeError, match=r"is no step of a script; use text, say\(\.\.\.\)"):
        Scripted("fine", wrong)


async def test_what_a_function_gives_must_be_a_step():
    """A function step that gives something else is an error at that request."""
    with pytest.raises(TypeError, match="1 is no step"):
        await Scripted(cast("Any", len_of_messages)).request(asked())


def test_a_call_has_its_arguments_in_one_way():
    """Raw text and named arguments together are refused."""
    with pytest.raises(ValueError, match="give one of them"):
        call("f", "{}", a=1)


# ---------------------------------------------------------------------------------------------------- used up


async def test_one_request_too_many_shows_the_request():
    """A request after the last step is an error that is no `ModelError` and shows what was asked."""
    model = Scripted("only one", name="scripted:tiny")
    await model.request(asked())
    further = asked("more?", system="Be brief.")
    with pytest.raises(UnexpectedRequest) as raised:
        await model.request(further)
    assert raised.value.request == further
    assert str(raised.value) == (
        "the script of `scripted:tiny` has 1 step, and request 2 was made; the request was:\n"
        "system (instructions): Be brief.\nuser: more?"
    )


async def test_unused_steps_are_listed():
    """`assert_used_up` lists the steps that nobody asked for."""
    model = Scripted.by({"a": ["1", "2"], "b": "3"})
    await model.request(asked("a"))
    with pytest.raises(AssertionError) as raised:
        model.assert_used_up()
    assert str(raised.value) == (
        "2 steps were not asked for in the script of `scripted:model`:\n  - step 2 of 'a': '2'\n  - step 1 of 'b': '3'"
    )


# -------------------------------------------------------------------------------------------------- streaming


async def test_a_reply_is_streamed_in_small_pieces():
    """Text, thoughts and arguments come in pieces of the given sizes; together they are the reply."""
    model = Scripted((think("abc"), "defgh", call("f", '{"a":1}'), call("g", "")), chunk=[1, 3])
    *pieces, reply = await streamed(model, asked())
    assert pieces == [
        ThinkingDelta("a"),
        ThinkingDelta("bc"),
        TextDelta("d"),
        TextDelta("efg"),
        TextDelta("h"),
        CallDelta(0, "call-1", "f", "{"),
        CallDelta(0, "call-1", "f", '"a"'),
        CallDelta(0, "call-1", "f", ":1}"),
        CallDelta(1, "call-2", "g", ""),
    ]
    assert isinstance(reply, Reply)
    assert reply.message.text == "defgh"


async def test_a_stream_may_break_off():
    """`after` tells pieces before an error, which carries them as its `partial`."""
    model = Scripted(after(TextDelta("Hel"), TextDelta("lo wor"), then=fail("cut_off")))
    told, error = await told_before(model, asked(), ModelError)
    assert told == [TextDelta("Hel"), TextDelta("lo wor")]
    assert isinstance(error, ModelError)
    assert (error.kind, error.partial, error.retryable) == ("cut_off", "Hello wor", True)


async def test_a_stream_may_begin_again():
    """`after` with a `Waiting` voids what was told before it."""
    again = Waiting(1.0, fail("overloaded"), restarted=True)
    model = Scripted(after(TextDelta("Hel"), again, then="Hello"), after(TextDelta("a"), again, then=fail("server")))
    assert (await streamed(model, asked()))[:3] == [TextDelta("Hel"), again, TextDelta("Hello")]
    with pytest.raises(ModelError) as raised:
        await model.request(asked())
    assert raised.value.partial == ""


@pytest.mark.parametrize("chunk", [0, [], [3, 0], -1])
def test_a_piece_has_at_least_one_character(chunk: Chunk):
    """Sizes of pieces below 1 are refused."""
    with pytest.raises(ValueError, match="how many characters a piece has"):
        Scripted("a", chunk=chunk)


# ------------------------------------------------------------------------------------------------ ids and usage


async def test_ids_of_calls_go_on_from_those_in_the_conversation():
    """A new script in a conversation that has calls already gives no id twice."""
    before = AssistantMessage(parts=(ToolCall(id="call-7", name="f"), ToolCall(id="toolu_9", name="f")))
    request = ModelRequest(messages=(user("hi"), before))
    model = Scripted((call("f"), call("g")), call("h"))
    assert [one.id for one in (await said(model, request)).calls] == ["call-8", "call-9"]
    assert [one.id for one in (await said(model, asked())).calls] == ["call-10"]


async def test_usage_is_what_the_step_says_or_an_estimate():
    """A step's usage is given; without one it is a token for four characters, at no cost (FA-117)."""
    spent = Usage(requests=1, input=100, output=7, cost=Decimal("0.25"))
    unknown = Usage(requests=1, unmeasured=1, unpriced=1)
    model = Scripted(say("a", usage=spent), calls(call("f"), usage=unknown), "four")
    replies = [await model.request(asked()) for _ in range(3)]
    assert [reply.usage for reply in replies[:2]] == [spent, unknown]
    sent = '{"system":[],"messages":[{"role":"user","id":"","parts":[{"kind":"text","text":"hello"}]}],"tools":[],'
    assert len(sent + '"output":null}') == 29 * 4
    assert len('[{"kind": "text", "text": "four"}]') == 8 * 4 + 2
    assert replies[2].usage == Usage(requests=1, input=29, output=9, cost=Decimal(0))


async def test_streamed_and_not_streamed_agree_on_usage():
    """FA-117: the reply at the end of a stream has the usage that `request` gives."""
    last = (await streamed(Scripted("hello there"), asked()))[-1]
    assert last == await Scripted("hello there").request(asked())


# ----------------------------------------------------------------------------------------------- side by side


async def test_branches_have_their_own_scripts():
    """Whatever the order of requests, each branch is answered from the script whose key it says."""
    scripts = {"You write": [call("f"), "draft", "better"], "You judge": [call("g"), "bad", "good"]}

    async def branch(model: Scripted, system: str, first: int) -> list[str]:
        got: list[str] = []
        for turn in range(3):
            for _ in range(first):
                await asyncio.sleep(0)
            message = await said(model, asked(f"turn {turn}", system=system))
            got += [message.text, *(one.id for one in message.calls)]
        return got

    for waits in [(0, 3), (3, 0), (1, 1)]:
        model = Scripted.by(scripts)
        both = await asyncio.gather(branch(model, "You write.", waits[0]), branch(model, "You judge.", waits[1]))
        assert both == [["", "call-1", "draft", "better"], ["", "call-1", "bad", "good"]]
        assert [request.system_text for request in model.requests_of("You judge")] == ["You judge."] * 3
        model.assert_used_up()


async def test_many_threads_share_a_script():
    """Each step is given once, from however many threads and event loops it is asked for."""
    model = Scripted(*(str(number) for number in range(200)))

    def work() -> list[str]:
        async def ask() -> list[str]:
            return [(await said(model, asked())).text for _ in range(50)]

        return asyncio.run(ask())

    got = await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
    assert sorted(int(text) for texts in got for text in texts) == list(range(200))
    model.assert_used_up()


async def test_a_key_may_be_computed():
    """`key` finds the script; one that is not there is told with those that are."""
    model = Scripted.by({"long": "l", "short": "s"}, key=words)
    assert [(await said(model, asked(key))).text for key in ("short", "long")] == ["s", "l"]
    with pytest.raises(UnexpectedRequest, match=r"no script for the key 'wide', only 'long', 'short'"):
        await model.request(asked("wide"))


@pytest.mark.parametrize(
    ("text", "error"),
    [("neither", "none of the keys 'one', 'two' stand"), ("one or two", r"several keys \('one', 'two'\)")],
)
async def test_a_request_that_fits_no_one_script_is_refused(text: str, error: str):
    """Without `key`, a request must say exactly one of the keys."""
    with pytest.raises(UnexpectedRequest, match=error):
        await Scripted.by({"one": "1", "two": "2"}).request(asked(text))


# ---------------------------------------------------------------------------------------------- function model


async def test_a_function_answers():
    """`FunctionModel` answers by a function of the request and keeps what it was asked."""
    model = FunctionModel(doubled)
    assert ((await said(model, asked("ab"))).text, model.name) == ("abab", "function:doubled")
    assert model.requests == (asked("ab"),)


async def test_a_function_may_be_async_and_call_tools():
    """An async function may give calls, which get ids that are new in the conversation."""

    async def answer(request: ModelRequest) -> Step:
        return call("f") if len(request.messages) < 3 else "done"

    model = FunctionModel(answer, name="f:x", profile=Profile(tools=True))
    first = await said(model, asked())
    assert [one.id for one in first.calls] == ["call-1"]
    results = ToolMessage(results=(ToolResult(id="call-1", name="f", content=(Text(text="1"),)),))
    assert (await said(model, ModelRequest(messages=(*asked().messages, first, results)))).text == "done"


# ------------------------------------------------------------------------------------------------ tool results


def test_tool_results_of_a_request_are_read_by_name():
    """`tool_results` has the newest results by tool: values of JSON, text as it is, lists for several calls."""
    old = ToolMessage(results=(_result("add", "1"),))
    new = ToolMessage(
        results=(_result("add", "42"), _result("ask", "no JSON"), _result("many", "[1]"), _result("many", "2"))
    )
    assert ModelRequest(messages=(old, new, user("go on"))).tool_results == {
        "add": 42,
        "ask": "no JSON",
        "many": [[1], 2],
    }
    assert asked().tool_results == {}


def test_what_was_told_of_tools_is_shown():
    """An unexpected request shows tools, calls and results."""
    spec = ToolSpec(name="add", parameters={"type": "object"})
    conversation = (
        user("hi"),
        AssistantMessage(parts=(ToolCall(id="c", name="add", arguments="{}"),)),
        ToolMessage(results=(_result("add", "3").model_copy(update={"is_error": True}),)),
    )
    request = ModelRequest(messages=conversation, tools=(spec,), tool_choice="required", settings={"max_tokens": 5})
    assert str(UnexpectedRequest("no", request)).splitlines()[1:] == [
        "user: hi",
        "assistant: calls add (c) {}",
        "tool: add (c) -> error: 3",
        "tools: add (required)",
        "settings: max_tokens=5",
    ]


def _result(name: str, text: str) -> ToolResult:
    return ToolResult(id="c", name=name, content=(Text(text=text),))
