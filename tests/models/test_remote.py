"""What is true of every model behind a provider's package, told to each of the three interfaces."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from flowagent.core.usage import Usage
from flowagent.errors import ModelError
from flowagent.models.base import CallDelta, ModelRequest, Reply, TextDelta, ToolSpec, Waiting
from flowagent.models.messages import Text, ToolCall, user
from flowagent.models.retrying import Retrying
from tests.models.asking import asked, ended, streamed, told_before
from tests.models.failing import failed
from tests.models.serving import Answer, Server, refusal, stream
from tests.models.wire import ANTHROPIC, APIS, CHAT, KEY, RESPONSES, Api, anthropic_start, chunk, delta
from tests.patience import PATIENCE

TEXT = "é北🤖"
TWICE = (("c1", "add", '{"a": 1, "b": 2}'), ("c2", "add", '{"a": 3, "b": 4}'))


class Sleeps:
    """A sleep that only notes how long it would have been."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)


def uncosted(usage: Usage) -> Usage:
    """Usage without its price, which changes with the table of prices."""
    return usage.model_copy(update={"cost": None, "unpriced": 0})


# -- replies ---------------------------------------------------------------------------------------------------------


async def test_a_reply_is_told_in_pieces_and_then_whole(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hel|lo")))
    parts = await streamed(api.open(server.url), asked())
    assert parts[:-1] == [TextDelta("Hel"), TextDelta("lo")]
    reply = ended(parts)
    assert reply.message.parts == (Text(text="Hello"),)
    assert (reply.message.finish, reply.message.provider) == ("stop", api.name)
    assert reply.message.model.startswith(api.model)
    assert reply.message.reply_id in ("msg_1", "resp_1", "chat_1")
    assert reply.first_token is not None
    assert 0 < reply.first_token <= reply.seconds


async def test_a_reply_that_nobody_listens_to_is_the_same(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hel|lo")))
    model = api.open(server.url)
    reply = await model.request(asked())
    again = ended(await streamed(model, asked()))
    assert reply.message == again.message


async def test_several_calls_of_one_reply_are_kept_in_order(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("I add.", TWICE)))
    parts = await streamed(api.open(server.url), asked())
    message = ended(parts).message
    assert message.parts == (Text(text="I add."), *(ToolCall(id=i, name=n, arguments=a) for i, n, a in TWICE))
    assert message.finish == "tool_calls"
    told: dict[int, str] = {}
    for part in parts:
        if isinstance(part, CallDelta):
            told[part.index] = told.get(part.index, "") + part.arguments
    assert told == {0: TWICE[0][2], 1: TWICE[1][2]}


async def test_usage_is_the_same_streamed_or_not(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hello")))
    model = api.open(server.url)
    one = (await model.request(asked())).usage
    other = ended(await streamed(model, asked())).usage
    details: dict[str, Any] = {} if api is ANTHROPIC else {"cache_read": 4, "reasoning": 2}
    if api is RESPONSES:
        details["cache_write"] = 0
    assert uncosted(one) == uncosted(other) == Usage(requests=1, input=10, output=5, **details)
    assert one.cost is not None
    assert one.cost > 0
    assert one.unpriced == 0


async def test_the_raw_reply_is_the_object_of_the_package(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hello", TWICE[:1])))
    raw = (await api.open(server.url).request(asked())).raw
    assert (
        type(raw).__name__ == {"anthropic": "Message", "openai": "Response", "openai-chat": "ChatCompletion"}[api.name]
    )
    assert "Hello" in raw.model_dump_json()
    assert json.dumps(TWICE[0][2])[1:-1] in raw.model_dump_json() or '"b":2' in raw.model_dump_json()


@pytest.mark.parametrize("size", [1, None], ids=["byte by byte", "cut in two at every place"])
async def test_characters_cut_by_the_network_arrive_whole(api: Api, server: Server, size: int | None) -> None:
    """FA-069: the text is the same wherever the network cuts the stream."""
    whole = b"".join(api.reply(TEXT))
    start = whole.index(TEXT.encode()) - 3
    cuts = [None] if size else range(start, start + len(TEXT.encode()) + 6)
    model = api.open(server.url)
    for cut in cuts:
        pieces = (whole[:cut], whole[cut:]) if cut else tuple(whole[at : at + 1] for at in range(len(whole)))
        server.answers(Answer(pieces=pieces, headers={"content-type": "text/event-stream"}))
        assert (await model.request(asked())).message.text == TEXT


# -- failures and retries --------------------------------------------------------------------------------------------


async def test_a_wait_that_the_provider_asks_for_is_kept_and_told(api: Api, server: Server) -> None:
    """FA-073: four requests, each wait as long as asked for, and success; the failed ones are counted."""
    limited = refusal(429, {"error": {"type": "rate_limit_error", "message": "slow"}}, retry_after="2")
    server.answers(limited, limited, limited, stream(api.reply("Hello")))
    sleeps = Sleeps()
    parts = await streamed(api.open(server.url, sleep=sleeps), asked())
    assert sleeps.waits == [2, 2, 2]
    assert len(server.asked) == 4
    waits = [part for part in parts if isinstance(part, Waiting)]
    assert [(wait.seconds, wait.error.kind, wait.restarted) for wait in waits] == [(2, "rate_limit", False)] * 3
    usage = ended(parts).usage
    assert (usage.requests, usage.failed, usage.input, usage.unmeasured) == (4, 3, 10, 0)


async def test_the_gaps_are_as_long_as_the_provider_asks(server: Server) -> None:
    """FA-073: with the real clock."""
    limited = refusal(429, {"error": {"type": "rate_limit_error", "message": "slow"}}, retry_after_ms="150")
    server.answers(limited, limited, stream(ANTHROPIC.reply("Hello")))
    await ANTHROPIC.open(server.url).request(asked())
    times = [one.time for one in server.asked]
    assert [later - earlier >= 0.15 for earlier, later in pairwise(times)] == [True, True]


async def test_cancelling_ends_a_wait_at_once(api: Api, server: Server) -> None:
    """FA-073: a wait of a minute does not outlive its task."""
    server.answers(refusal(429, {"error": {"type": "rate_limit_error", "message": "slow"}}, retry_after="60"))
    waiting = asyncio.Event()

    async def listen() -> None:
        async for part in api.open(server.url).stream(asked()):
            if isinstance(part, Waiting):
                waiting.set()

    task = asyncio.create_task(listen())
    await waiting.wait()
    task.cancel()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(server.asked) == 1


async def test_a_wait_longer_than_allowed_is_an_error_that_states_it(api: Api, server: Server) -> None:
    """FA-073: a waiting time above the bound ends with an error that tells both."""
    server.answers(refusal(429, {"error": {"type": "rate_limit_error", "message": "slow"}}, retry_after="300"))
    error = await failed(api.open(server.url, sleep=Sleeps()))
    assert (error.kind, error.retry_after, error.status, len(server.asked)) == ("rate_limit", 300, 429, 1)
    assert "300 s" in str(error)
    assert "longest_wait=120" in str(error)


async def test_after_the_last_attempt_the_error_tells_how_many_there_were(api: Api, server: Server) -> None:
    server.answers(refusal(500, {"error": {"message": "oops"}}))
    error = await failed(api.open(server.url, sleep=Sleeps(), retrying=Retrying(attempts=3)))
    assert (error.kind, len(server.asked)) == ("server", 3)
    assert "the last of 3 attempts" in str(error)
    assert error.usage == Usage(requests=3, failed=3)


@pytest.mark.parametrize(("word", "requests"), [("false", 1), ("true", 4)])
async def test_the_provider_has_the_last_word_on_retries(api: Api, server: Server, word: str, requests: int) -> None:
    status = 500 if word == "false" else 400
    server.answers(refusal(status, {"error": {"message": "so be it"}}, x_should_retry=word))
    await failed(api.open(server.url, sleep=Sleeps()))
    assert len(server.asked) == requests


@pytest.mark.parametrize("end", ["ended", "dropped"])
async def test_a_stream_without_its_end_is_cut_off_and_keeps_its_text(api: Api, server: Server, end: Any) -> None:
    """FA-071: the end of the bytes is not the end of the message; the half answer stands on the error alone."""
    events = api.reply("Hel|lo")
    last = {"anthropic": -2, "openai": -2, "openai-chat": -3}[api.name]
    server.answers(stream(events[:last], end=end))
    told, error = await told_before(api.open(server.url), asked(), ModelError)
    assert isinstance(error, ModelError)
    assert (error.kind, error.retryable, error.partial) == ("cut_off", True, "Hello")
    assert told == [TextDelta("Hel"), TextDelta("lo")]
    assert error.usage is not None
    assert (error.usage.requests, error.usage.failed) == (1, 1)


async def test_a_stream_that_ends_in_a_call_is_cut_off(api: Api, server: Server) -> None:
    """FA-071: the connection closes in the middle of a tool call; there is no reply and so no call."""
    events = api.reply("", TWICE[:1])
    server.answers(stream(events[:3]))
    told, error = await told_before(api.open(server.url), asked(), ModelError)
    assert isinstance(error, ModelError)
    assert (error.kind, error.partial) == ("cut_off", "")
    assert not [part for part in told if isinstance(part, Reply)]


async def test_an_error_within_a_stream_keeps_its_kind_and_the_text_before_it(api: Api, server: Server) -> None:
    """FA-071: an overloaded error after HTTP 200 and some text."""
    head = 3 if api is not CHAT else 2
    server.answers(stream([*api.reply("Hel|lo")[:head], api.error(api.overloaded, "busy")]))
    _, error = await told_before(api.open(server.url), asked(), ModelError)
    assert isinstance(error, ModelError)
    assert (error.kind, error.retryable, error.status, error.partial) == ("overloaded", True, 200, "Hel")


async def test_a_request_is_made_again_after_an_error_within_its_stream(api: Api, server: Server) -> None:
    broken = stream([*api.reply("Hel|lo")[:3], api.error(api.overloaded, "busy")])
    server.answers(broken, stream(api.reply("Hello")))
    reply = await api.open(server.url, sleep=Sleeps()).request(asked())
    assert reply.message.text == "Hello"
    assert (reply.usage.requests, reply.usage.failed) == (2, 1)


async def test_a_stream_begins_again_only_if_that_was_asked_for(api: Api, server: Server) -> None:
    broken = stream([*api.reply("Hel|lo")[:3], api.error(api.overloaded, "busy")])
    server.answers(broken, stream(api.reply("Hello")))
    model = api.open(server.url, sleep=Sleeps(), retrying=Retrying(after_first=True))
    parts = await streamed(model, asked())
    restarts = [part.restarted for part in parts if isinstance(part, Waiting)]
    assert restarts == [True]
    assert ended(parts).message.text == "Hello"


async def test_tokens_of_a_failed_attempt_are_counted_where_they_are_known(server: Server) -> None:
    broken = stream([anthropic_start(input_tokens=7, output_tokens=1), ANTHROPIC.error("overloaded_error", "busy")])
    server.answers(broken, stream(ANTHROPIC.reply("Hello")))
    usage = (await ANTHROPIC.open(server.url, sleep=Sleeps()).request(asked())).usage
    assert uncosted(usage) == Usage(requests=2, failed=1, input=17, output=6)


async def test_an_attempt_that_broke_off_is_counted_as_unmeasured(server: Server) -> None:
    server.answers(stream([chunk(delta(content="Hel"))], end="dropped"), stream(CHAT.reply("Hello")))
    usage = (await CHAT.open(server.url, sleep=Sleeps()).request(asked())).usage
    assert (usage.requests, usage.failed, usage.unmeasured, usage.input) == (2, 1, 1, 10)


async def test_a_stream_that_says_nothing_ends_at_the_timeout(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hel|lo")[:1], end="held"))
    model = api.open(server.url, retrying=Retrying(attempts=1))
    error = await failed(model, asked().model_copy(update={"settings": {"timeout": 0.2}}))
    server.over.set()
    assert (error.kind, error.retryable) == ("timeout", True)


async def test_no_server_is_a_failed_connection(api: Api) -> None:
    error = await failed(api.open("http://127.0.0.1:1", retrying=Retrying(attempts=1)))
    assert (error.kind, error.retryable, error.status) == ("connection", True, None)
    assert error.usage == Usage(requests=1, failed=1, unmeasured=1, unpriced=1)


async def test_a_stream_of_something_else_is_an_error_of_the_server(api: Api, server: Server) -> None:
    server.answers(stream([b"event: message_start\ndata: {not json\n\n"]))
    error = await failed(api.open(server.url, retrying=Retrying(attempts=1)))
    assert (error.kind, error.retryable) == ("server", True)
    assert "not json" not in str(error)


# -- what is not sent ------------------------------------------------------------------------------------------------


async def test_a_setting_that_the_model_refuses_is_an_error_that_names_both(api: Api, server: Server) -> None:
    profile = replace(api.open(server.url).profile, settings=frozenset())
    model = api.open(server.url, profile=profile)
    request = asked().model_copy(update={"settings": {"temperature": 0.1, "seed": 7}})
    error = await failed(model, request)
    assert (error.kind, server.asked) == ("unsupported", [])
    for word in ("'temperature'", "'seed'", model.name):
        assert word in str(error)


async def test_a_refused_setting_is_left_out_with_a_warning_if_that_was_asked_for(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hello")))
    base = api.open(server.url).profile
    profile = replace(base, settings=base.settings - {"temperature"})
    request = asked().model_copy(update={"settings": {"temperature": 0.1, "max_tokens": 50}})
    with pytest.warns(UserWarning, match="temperature"):
        await api.open(server.url, profile=profile, drop_unsupported=True).request(request)
    assert "temperature" not in server.asked[0].body
    assert 50 in server.asked[0].body.values()


async def test_a_setting_that_the_provider_refuses_is_named(api: Api, server: Server) -> None:
    body = {"error": {"type": "invalid_request_error", "message": "`top_p` is not supported here", "param": "top_p"}}
    server.answers(refusal(400, body))
    base = api.open(server.url).profile
    model = api.open(server.url, profile=replace(base, settings=base.settings | {"top_p"}))
    error = await failed(model, asked().model_copy(update={"settings": {"top_p": 0.5, "max_tokens": 99}}))
    assert error.kind == "bad_request"
    assert "names the setting 'top_p'" in str(error)


@pytest.mark.parametrize("value", ["1", "remote"])
async def test_requests_can_be_forbidden(api: Api, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("FLOWAGENT_NO_REQUESTS", value)
    error = await failed(api.make(api.model, api_key=KEY))
    assert (error.kind, error.retryable, error.usage) == ("forbidden", False, None)


async def test_requests_to_this_machine_can_be_left_allowed(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWAGENT_NO_REQUESTS", "remote")
    server.answers(stream(api.reply("Hello")))
    assert (await api.open(server.url).request(asked())).message.text == "Hello"
    monkeypatch.setenv("FLOWAGENT_NO_REQUESTS", "1")
    assert (await failed(api.open(server.url))).kind == "forbidden"


async def test_headers_and_further_fields_are_sent_as_they_are(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hello")))
    settings: Any = {"headers": {"x-trace": "t1"}, "extra": {"brand_new": {"on": True}}}
    await api.open(server.url).request(asked().model_copy(update={"settings": settings}))
    assert server.asked[0].headers["x-trace"] == "t1"
    assert server.asked[0].body["brand_new"] == {"on": True}


async def test_nothing_is_sent_that_was_not_set(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hello")))
    await api.open(server.url).request(asked())
    always = {
        "anthropic": {"model", "messages", "stream", "max_tokens"},
        "openai": {"model", "input", "stream", "store", "include"},
        "openai-chat": {"model", "messages", "stream", "stream_options"},
    }
    assert set(server.asked[0].body) == always[api.name]


async def test_a_tool_can_be_demanded(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("", TWICE[:1])))
    tool = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {}})
    request = ModelRequest(messages=(user("hi"),), tools=(tool,), tool_choice="required")
    await api.open(server.url).request(request)
    sent = server.asked[0].body["tool_choice"]
    assert sent == ({"type": "any"} if api is ANTHROPIC else "required")


def test_all_interfaces_are_tested() -> None:
    assert [api.name for api in APIS] == ["anthropic", "openai", "openai-chat"]
