"""What is sent of a conversation, and that it is legal whatever the conversation was."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from flowagent.models import anthropic_request, chat_request, openai_request
from flowagent.models.base import ModelRequest
from flowagent.models.chat_request import Speech
from flowagent.models.history import BEGIN, GO_ON, NO_RESULT, arguments_of, sendable
from flowagent.models.messages import (
    AssistantMessage,
    Media,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    user,
)
from flowagent.models.profiles import profile_of


def call(id_: str = "c1", name: str = "add", arguments: str = "{}") -> ToolCall:
    return ToolCall(id=id_, name=name, arguments=arguments)


def result(id_: str = "c1", text: str = "1") -> ToolResult:
    return ToolResult(id=id_, name="add", content=(Text(text=text),))


def reply(*parts: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(parts=parts, **more)


# -- the rules -------------------------------------------------------------------------------------------------------


def test_a_sound_conversation_is_sent_as_it_is() -> None:
    sound: list[Message] = [
        user("add"),
        reply(call()),
        ToolMessage(results=(result(),)),
        reply(Text(text="1")),
        user("ok"),
    ]
    assert sendable(sound, "anthropic") == sound


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    sent = sendable([user("add"), reply(call("c1"), call("c2")), ToolMessage(results=(result("c2"),)), user("ok")], "x")
    missing = ToolResult(id="c1", name="add", content=(Text(text=NO_RESULT),), is_error=True)
    assert sent[2] == ToolMessage(results=(missing, result("c2")))


def test_a_result_without_its_call_is_left_out() -> None:
    assert sendable([ToolMessage(results=(result(),)), user("ok")], "x") == [user("ok")]


def test_results_that_come_late_or_in_pieces_stand_right_after_their_calls() -> None:
    late: list[Message] = [
        user("add"),
        reply(call("c1"), call("c2")),
        ToolMessage(results=(result("c2"),)),
        user("hurry"),
        ToolMessage(results=(result("c1"),)),
    ]
    assert sendable(late, "x") == [late[0], late[1], ToolMessage(results=(result("c1"), result("c2"))), user("hurry")]


def test_an_id_that_was_used_before_is_replaced_in_call_and_result() -> None:
    turn: list[Message] = [reply(call("c1")), ToolMessage(results=(result("c1"),))]
    sent = sendable([user("add"), *turn, *turn], "x")
    ids = [part.id for message in sent if isinstance(message, AssistantMessage) for part in message.calls]
    answered = [one.id for message in sent if isinstance(message, ToolMessage) for one in message.results]
    assert ids == answered
    assert len(set(ids)) == 2


def test_ids_and_names_that_no_provider_accepts_are_replaced() -> None:
    sent = sendable([user("add"), reply(call("fc|1", "my tool!"), call("", ""))], "x")
    assert isinstance(sent[1], AssistantMessage)
    assert [(one.id.isidentifier(), one.name) for one in sent[1].calls] == [(True, "my_tool_"), (True, "unnamed")]


def test_blank_text_and_messages_of_nothing_else_are_left_out() -> None:
    """FA-065: empty text is not sent, and a message that is left without content is left out."""
    blank = [user("hi"), reply(Text(text="")), user(" \n"), user("there")]
    assert sendable(blank, "x") == [user("hi"), user("there")]


def test_thoughts_and_blocks_of_another_provider_are_left_out() -> None:
    """FA-079: after a switch of provider they are left out as a whole."""
    parts = (Thinking(provider="anthropic", data="{}"), Opaque(provider="anthropic", data="{}"), Text(text="so"))
    conversation = [user("hi"), reply(*parts), user("and?")]
    assert sendable(conversation, "anthropic") == conversation
    assert sendable(conversation, "openai") == [user("hi"), reply(Text(text="so")), user("and?")]


def test_thoughts_that_lead_to_nothing_are_left_out() -> None:
    thought = Thinking(provider="x", data="{}")
    assert sendable([user("hi"), reply(thought), user("and?")], "x") == [user("hi"), user("and?")]
    assert sendable([user("hi"), reply(Text(text="so"), thought), user("?")], "x")[1] == reply(Text(text="so"))


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    assert sendable([reply(Text(text="so"))], "x") == [user(BEGIN), reply(Text(text="so")), user(GO_ON)]
    assert sendable([], "x") == [user(BEGIN)]


def test_a_paused_reply_may_come_last() -> None:
    paused = [user("find"), reply(Opaque(provider="x", data="{}"), finish="paused")]
    assert sendable(paused, "x") == paused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (" \n", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"invalid_json": "[1]"}),
        ('{"a": 1', {"invalid_json": '{"a": 1'}),
        ('{"a": NaN}', {"invalid_json": '{"a": NaN}'}),
    ],
)
def test_arguments_are_an_object(text: str, expected: dict[str, Any]) -> None:
    assert arguments_of(call(arguments=text)) == expected


# -- any conversation ------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=4)
IDS = st.sampled_from(["c1", "c2", "c3", "", "not legal!"])
JSON = st.sampled_from(["", "{}", '{"a": 1}', "[1", "null"])
IMAGE = Media(data=b"\x89PNG", media_type="image/png")
PDF = Media(data=b"%PDF", media_type="application/pdf", name="a.pdf")
SPOKEN = st.lists(st.one_of(TEXTS.map(lambda text: Text(text=text)), st.sampled_from([IMAGE, PDF])), max_size=3)
ANTHROPIC_THOUGHT = {"type": "thinking", "thinking": "", "signature": "S"}
OPENAI_THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "S"}
BLOCKS = [
    Thinking(provider="anthropic", data=json.dumps(ANTHROPIC_THOUGHT)),
    Thinking(provider="openai", data=json.dumps(OPENAI_THOUGHT)),
    Thinking(provider="openai-chat", text="hm"),
    Opaque(provider="anthropic", data=json.dumps({"type": "redacted_thinking", "data": "x"})),
    Opaque(provider="openai", data=json.dumps({"type": "message", "phase": "commentary"})),
]
CALLS = st.builds(ToolCall, id=IDS, name=st.sampled_from(["add", "my tool!", ""]), arguments=JSON)
PARTS = st.lists(st.one_of(TEXTS.map(lambda text: Text(text=text)), CALLS, st.sampled_from(BLOCKS)), max_size=4)
RESULTS = st.builds(ToolResult, id=IDS, name=st.just("add"), content=SPOKEN.map(tuple), is_error=st.booleans())
MESSAGES = st.lists(
    st.one_of(
        SPOKEN.map(lambda parts: UserMessage(parts=tuple(parts))),
        st.builds(AssistantMessage, parts=PARTS.map(tuple), finish=st.sampled_from(["stop", "paused", "length"])),
        st.lists(RESULTS, max_size=3).map(lambda results: ToolMessage(results=tuple(results))),
    ),
    max_size=7,
)


def asking(messages: list[Message]) -> ModelRequest:
    return ModelRequest(messages=tuple(messages))


adapter = cache(TypeAdapter)


def assert_accepted(params: Any, fields: dict[str, Any]) -> None:
    """The fields are what the package's own types for its arguments ask for, in all their depth."""
    exhaust(adapter(params).validate_python(fields))


def exhaust(value: Any) -> None:
    """Go through all of a validated value: pydantic checks an `Iterable` only when somebody takes from it."""
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, str | bytes | int | float | None):
        return
    for one in value:
        exhaust(one)


def plain(fields: dict[str, Any]) -> dict[str, Any]:
    """What goes over the wire."""
    return json.loads(json.dumps(fields))


@given(MESSAGES)
def test_any_conversation_is_a_legal_request_to_anthropic(messages: list[Message]) -> None:
    profile = profile_of("anthropic", "claude-haiku-4-5")
    fields = plain(anthropic_request.written(asking(messages), "claude-haiku-4-5", profile).fields)
    assert_accepted(MessageCreateParamsStreaming, fields)
    turns = fields["messages"]
    roles = [turn["role"] for turn in turns]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    assert all(turn["content"] for turn in turns)
    seen: set[str] = set()
    for place, turn in enumerate(turns):
        blocks = turn["content"]
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        after = turns[place + 1]["content"] if place + 1 < len(turns) else []
        assert [block["tool_use_id"] for block in after[: len(calls)] if block["type"] == "tool_result"] == calls
        results = [block for block in blocks if block["type"] == "tool_result"]
        assert len(results) == (
            0 if place == 0 else len([b for b in turns[place - 1]["content"] if b["type"] == "tool_use"])
        )
        assert not seen & set(calls)
        assert len(set(calls)) == len(calls)
        seen |= set(calls)


@given(MESSAGES)
def test_any_conversation_is_a_legal_request_to_the_responses_api(messages: list[Message]) -> None:
    profile = profile_of("openai", "gpt-5.5")
    fields = plain(openai_request.written(asking(messages), "gpt-5.5", profile).fields)
    assert_accepted(ResponseCreateParamsStreaming, fields)
    items = fields["input"]
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    results = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert calls == results
    assert len(set(calls)) == len(calls)
    assert items[0]["type"] == "message"
    assert items[0]["role"] == "user"
    open_calls: set[str] = set()
    for item in items:
        match item["type"]:
            case "function_call":
                open_calls.add(item["call_id"])
            case "function_call_output":
                open_calls.remove(item["call_id"])
            case "message" if item["role"] == "user":
                assert not open_calls
            case _:
                pass
    assert not open_calls


@given(MESSAGES)
def test_any_conversation_is_a_legal_request_to_chat_completions(messages: list[Message]) -> None:
    profile = profile_of("openai-chat", "gpt-4.1")
    request = asking(messages)
    fields = plain(chat_request.written(request, "gpt-4.1", "openai-chat", profile, Speech()).fields)
    assert_accepted(CompletionCreateParamsStreaming, fields)
    waiting: list[str] = []
    for item in fields["messages"]:
        if item["role"] == "tool":
            assert item["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        assert item.get("content") or item.get("tool_calls")
        waiting = [call["id"] for call in item.get("tool_calls", ())]
    assert not waiting
    assert fields["messages"][0]["role"] == "user"
