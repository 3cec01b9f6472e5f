"""Our models of each provider against a server that others wrote: each understands what the other sends."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from typing import Any

import pytest

from flowagent.errors import ModelError
from flowagent.models.base import (
    CallDelta,
    Model,
    ModelRequest,
    Reply,
    Section,
    StreamPart,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    Waiting,
)
from flowagent.models.messages import Opaque, Text, Thinking, ToolCall, ToolMessage, ToolResult, user
from flowagent.models.retrying import Retrying
from tests.patience import PATIENCE
from tests.real.mock import MockServer
from tests.real.providers import KEY, Make, each_provider
from tests.real.relay import relay

GREETING = "Grüß Gott, 世界! 👋🏽 Ça va? " * 3
HELLO = ModelRequest(system=(Section(name="role", text="You are a clerk."),), messages=(user("Say hello."),))
ONCE = Retrying(attempts=1)

WEATHER = ToolSpec(
    name="weather",
    description="Tells the weather.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
CLOCK = ToolSpec(
    name="clock",
    description="Tells the time.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
)
WITH_TOOLS = HELLO.model_copy(update={"tools": (WEATHER, CLOCK)})
TWO_CALLS = {
    "content": "Let me see.",
    "toolCalls": [{"name": "weather", "arguments": {"city": "Zürich"}}, {"name": "clock", "arguments": {}}],
}


async def told(model: Model, request: ModelRequest = HELLO) -> list[StreamPart]:
    """All that a stream tells."""
    return [part async for part in model.stream(request)]


def texts(parts: list[StreamPart]) -> str:
    """The text that a stream told in pieces."""
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


def without_ids(reply: Reply) -> Any:
    """A reply's message without what the server makes up anew for each."""
    parts = [
        part.model_copy(update={"id": ""} if isinstance(part, ToolCall) else {"data": ""})
        if isinstance(part, ToolCall | Thinking | Opaque)
        else part
        for part in reply.message.parts
    ]
    return reply.message.model_copy(update={"parts": tuple(parts), "reply_id": ""})


async def failure(model: Model, request: ModelRequest = HELLO) -> ModelError:
    """The error that a request ends in."""
    with pytest.raises(ModelError) as caught:
        await model.request(request)
    return caught.value


# -- replies -----------------------------------------------------------------------------------------------------------


@each_provider
async def test_a_reply_is_understood(mock: MockServer, make: Make) -> None:
    """Text, end and usage come out in one form, whoever sent them."""
    mock.plays(
        {
            "content": GREETING,
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "input_tokens": 11, "output_tokens": 7},
        }
    )
    reply = await make(mock.url).request(HELLO)
    usage = reply.usage
    assert (reply.message.text, reply.message.finish, usage.input, usage.output, usage.requests, usage.failed) == (
        GREETING,
        "stop",
        11,
        7,
        1,
        0,
    )


@each_provider
async def test_what_is_asked_reaches_the_server(mock: MockServer, make: Make) -> None:
    """The server reads the system prompt and the question where it looks for them, and the key where it belongs."""
    mock.plays({"content": "Hello."}, match={"systemMessage": "You are a clerk.", "userMessage": "Say hello."})
    reply = await make(mock.url).request(HELLO)
    assert reply.message.text == "Hello."
    assert [request["body"]["stream"] for request in mock.requests()] == [True]


@each_provider
async def test_a_stream_tells_its_text_piece_by_piece(mock: MockServer, make: Make) -> None:
    """The pieces make up the text, and the reply comes last and once."""
    mock.plays({"content": "One, two, three."}, chunkSize=1)
    parts = await told(make(mock.url))
    pieces = [part for part in parts if isinstance(part, TextDelta)]
    replies = [part for part in parts if isinstance(part, Reply)]
    assert (texts(parts), len(pieces), len(replies)) == ("One, two, three.", 16, 1)
    assert parts[-1] is replies[0]
    assert replies[0].message.text == "One, two, three."


@each_provider
@pytest.mark.parametrize("piece", [1, 2, 7])
async def test_a_stream_may_be_split_anywhere(mock: MockServer, make: Make, piece: int) -> None:
    """Packets that cut lines, JSON and characters apart change nothing."""
    mock.plays({**TWO_CALLS, "content": GREETING, "reasoning": "Hmm, 世界."})
    whole = await make(mock.url).request(WITH_TOOLS)
    async with relay(mock.url, piece=piece) as wire:
        parts = await told(make(wire.url), WITH_TOOLS)
    assert isinstance(parts[-1], Reply)
    assert without_ids(parts[-1]) == without_ids(whole)
    assert texts(parts) == GREETING


@each_provider
async def test_a_reply_without_text_is_a_reply(mock: MockServer, make: Make) -> None:
    """A model may say nothing at all; that is not an error of the connection."""
    mock.plays({"toolCalls": [], "finishReason": "stop"})
    reply = await make(mock.url).request(HELLO)
    assert (reply.message.text, reply.message.calls, reply.message.finish) == ("", (), "stop")


@each_provider
async def test_a_reply_that_was_cut_says_so(mock: MockServer, make: Make) -> None:
    """The limit of output is told as such."""
    mock.plays({"content": "Once upon a", "finishReason": "length"})
    reply = await make(mock.url).request(HELLO)
    assert (reply.message.text, reply.message.finish) == ("Once upon a", "length")


@each_provider
async def test_thoughts_are_no_text(mock: MockServer, make: Make) -> None:
    """What a model thinks is told apart from what it says."""
    mock.plays({"content": "42", "reasoning": "Let me add. 19 and 23."}, chunkSize=4)
    parts = await told(make(mock.url))
    thought = "".join(part.text for part in parts if isinstance(part, ThinkingDelta))
    assert isinstance(parts[-1], Reply)
    assert (thought, parts[-1].message.text) == ("Let me add. 19 and 23.", "42")


# -- tools -------------------------------------------------------------------------------------------------------------


@each_provider
async def test_several_calls_at_once_come_in_order(mock: MockServer, make: Make) -> None:
    """Each call has its own id and its own arguments, however the stream mixes them."""
    mock.plays(TWO_CALLS, chunkSize=2)
    parts = await told(make(mock.url), WITH_TOOLS)
    assert isinstance(parts[-1], Reply)
    message = parts[-1].message
    assert [(call.name, json.loads(call.arguments or "{}")) for call in message.calls] == [
        ("weather", {"city": "Zürich"}),
        ("clock", {}),
    ]
    assert len({call.id for call in message.calls}) == 2
    assert (message.finish, message.text) == ("tool_calls", "Let me see.")
    written = "".join(part.arguments for part in parts if isinstance(part, CallDelta) and part.index == 0)
    assert json.loads(written) == {"city": "Zürich"}


@each_provider
async def test_results_go_back_and_the_model_goes_on(mock: MockServer, make: Make) -> None:
    """A turn of calls and results is written so that the server finds each result by the id of its call."""
    mock.plays(TWO_CALLS, match={"hasToolResult": False})
    mock.plays({"content": "It rains at noon."}, match={"hasToolResult": True, "toolResultContains": "noon"})
    model = make(mock.url)
    asked = (await model.request(WITH_TOOLS)).message
    results = ToolMessage(
        results=tuple(
            ToolResult(id=call.id, name=call.name, content=(Text(text=text),))
            for call, text in zip(asked.calls, ("rain", "noon"), strict=True)
        )
    )
    reply = await model.request(WITH_TOOLS.model_copy(update={"messages": (*HELLO.messages, asked, results)}))
    assert reply.message.text == "It rains at noon."
    body = mock.requests()[-1]["body"]
    assert [one["tool_call_id"] for one in body["messages"] if one["role"] == "tool"] == [
        call.id for call in asked.calls
    ]


@each_provider
async def test_a_tool_is_told_with_its_schema(mock: MockServer, make: Make) -> None:
    """The server reads each tool's name, description and parameters."""
    mock.plays({"content": "Hello."})
    await make(mock.url).request(WITH_TOOLS)
    tools = [tool["function"] for tool in mock.requests()[-1]["body"]["tools"]]
    assert [(tool["name"], tool["description"], tool["parameters"]["properties"]) for tool in tools] == [
        ("weather", "Tells the weather.", {"city": {"type": "string"}}),
        ("clock", "Tells the time.", {}),
    ]


# -- failures before the reply -----------------------------------------------------------------------------------------

FAILURES = {
    "rate limit": (429, "rate_limit_error", "rate_limit_exceeded", "slow down", "rate_limit", True),
    "quota": (429, "insufficient_quota", "insufficient_quota", "pay first", "quota", False),
    "overloaded": (529, "overloaded_error", "overloaded_error", "too much", "overloaded", True),
    "key": (401, "authentication_error", "invalid_api_key", "who are you", "auth", False),
    "model": (404, "not_found_error", "model_not_found", "no such model", "not_found", False),
    "request": (400, "invalid_request_error", "invalid_value", "what is that", "bad_request", False),
    "too long": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "prompt is too long",
        "context_exceeded",
        False,
    ),
    "server": (500, "api_error", "server_error", "oops", "server", True),
}


@each_provider
@pytest.mark.parametrize("which", FAILURES)
async def test_a_failure_is_classified(mock: MockServer, make: Make, which: str) -> None:
    """Status and words of the provider become one of our kinds; its own text is in the error, and the key never is."""
    status, type_, code, text, kind, retryable = FAILURES[which]
    mock.plays({"error": {"message": text, "type": type_, "code": code}, "status": status})
    error = await failure(make(mock.url, retrying=ONCE))
    assert (error.kind, error.retryable, error.status, text in str(error), KEY in str(error)) == (
        kind,
        retryable,
        status,
        True,
        False,
    )


@each_provider
async def test_the_wait_that_a_provider_asks_for_is_kept(mock: MockServer, make: Make) -> None:
    """A 429 with `retry-after` is waited out, told, counted, and then the request succeeds."""
    limited = {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 7}
    mock.plays_in_turn(limited, {"content": "Hello."})
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    parts = await told(make(mock.url, sleep=sleep))
    waiting = [(part.seconds, part.error.kind) for part in parts if isinstance(part, Waiting)]
    assert (waits, waiting, texts(parts)) == ([7.0], [(7.0, "rate_limit")], "Hello.")
    assert isinstance(parts[-1], Reply)
    assert (parts[-1].usage.requests, parts[-1].usage.failed, len(mock.requests())) == (2, 1, 2)


@each_provider
@pytest.mark.parametrize("trouble", ["dropRate", "malformedRate", "disconnectRate", "rateLimitRate"])
async def test_trouble_that_never_ends_is_an_error_after_all_attempts(
    mock: MockServer, make: Make, trouble: str
) -> None:
    """The server's chaos: each kind of trouble is tried again as often as allowed, and then told."""
    mock.plays({"content": "Hello."})
    mock.troubles(**{trouble: 1.0})
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    error = await failure(make(mock.url, retrying=Retrying(attempts=3), sleep=sleep))
    kinds = {
        "dropRate": "server",
        "malformedRate": "cut_off",
        "disconnectRate": "connection",
        "rateLimitRate": "rate_limit",
    }
    assert (error.kind, len(waits), "the last of 3 attempts" in str(error)) == (kinds[trouble], 2, True)
    assert error.usage is not None
    assert (error.usage.requests, error.usage.failed) == (3, 3)


@each_provider
async def test_trouble_now_and_then_is_got_over(mock: MockServer, make: Make) -> None:
    """Where half of the requests fail in one way or another, ten askers at once all get their answer."""
    mock.plays({"content": "Hello."})
    mock.troubles(dropRate=0.2, disconnectRate=0.2, rateLimitRate=0.2)

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    model = make(mock.url, retrying=Retrying(attempts=40), sleep=sleep)
    replies = await asyncio.gather(*(model.request(HELLO) for _ in range(10)))
    assert [reply.message.text for reply in replies] == ["Hello."] * 10
    assert sum(reply.usage.requests for reply in replies) == len(mock.requests())


@each_provider
async def test_nobody_listening_is_a_failed_connection(make: Make) -> None:
    """A port where no server is."""
    error = await failure(make("http://127.0.0.1:9", retrying=ONCE))
    assert (error.kind, error.retryable, error.status) == ("connection", True, None)


@each_provider
async def test_a_model_that_is_dropped_closes_its_connections(mock: MockServer, make: Make) -> None:
    """Nobody has to close a model: once it is collected its connections end, and none is left for the collector."""
    mock.plays({"content": "Hello."})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with relay(mock.url) as wire:
            await make(wire.url).request(HELLO)
            gc.collect()
            async with asyncio.timeout(PATIENCE):
                await wire.idle()
    assert [str(one.message) for one in caught if one.category is ResourceWarning] == []


# -- failures within the reply -----------------------------------------------------------------------------------------


@each_provider
async def test_a_stream_that_breaks_off_is_no_reply(mock: MockServer, make: Make) -> None:
    """What had come is void, but stands in the error."""
    mock.plays({"content": "One, two, three, four, five."}, chunkSize=4, latency=10, truncateAfterChunks=7)
    parts: list[StreamPart] = []

    async def listen() -> None:
        async for part in make(mock.url, retrying=ONCE).stream(HELLO):
            parts.append(part)  # noqa: PERF401  # what came before the error is wanted

    with pytest.raises(ModelError) as caught:
        await listen()
    assert (caught.value.kind, caught.value.retryable) == ("cut_off", True)
    assert caught.value.partial == texts(parts)
    assert "One, two, three, four, five.".startswith(caught.value.partial)


@each_provider
async def test_a_stream_that_broke_off_is_begun_again_if_nobody_listens(mock: MockServer, make: Make) -> None:
    """Without a listener nothing was told that would be void, so another attempt is made."""
    mock.plays(
        {"content": "One, two, three."}, match={"sequenceIndex": 0}, chunkSize=2, latency=5, truncateAfterChunks=6
    )
    mock.plays({"content": "One, two, three."}, match={"sequenceIndex": 1})

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    reply = await make(mock.url, sleep=sleep).request(HELLO)
    assert (reply.message.text, reply.usage.requests, reply.usage.failed) == ("One, two, three.", 2, 1)


@each_provider
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.95])
async def test_a_connection_may_break_at_any_byte(mock: MockServer, make: Make, share: float) -> None:
    """Wherever the wire is cut, there is an error and never half a reply."""
    mock.plays({**TWO_CALLS, "content": GREETING})
    async with relay(mock.url) as wire:
        assert isinstance((await told(make(wire.url), WITH_TOOLS))[-1], Reply)
    async with relay(mock.url, cut_after=int(wire.handed * share)) as cut:
        error = await failure(make(cut.url, retrying=ONCE), WITH_TOOLS)
    assert (error.kind in ("cut_off", "connection"), error.retryable) == (True, True)
