"""What Anthropic's models are sent, and what is made of what they send."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from flowagent.core.usage import Usage
from flowagent.errors import ModelError
from flowagent.models.anthropic import AnthropicModel
from flowagent.models.base import ModelRequest, Only, OutputSpec, Reply, Section, ThinkingDelta, ToolSpec
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
from tests.models.asking import asked, ended, streamed
from tests.models.serving import Server, stream
from tests.models.wire import (
    ANTHROPIC,
    anthropic_block,
    anthropic_call,
    anthropic_end,
    anthropic_reply,
    anthropic_start,
    anthropic_text,
)

ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})


async def sent(server: Server, request: ModelRequest, model: str = "claude-haiku-4-5") -> dict[str, Any]:
    """What goes out for a request."""
    server.answers(stream(anthropic_reply("ok")))
    await AnthropicModel(model, api_key="sk-test-123456", base_url=server.url).request(request)
    return server.asked[-1].body


def saying(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest(messages=messages, **more)


async def reply_of(server: Server, *events: bytes) -> Reply:
    server.answers(stream(events))
    return await ANTHROPIC.open(server.url).request(asked())


# -- what is sent ----------------------------------------------------------------------------------------------------


async def test_the_static_part_of_the_prompt_and_the_tools_are_cached_if_that_is_asked_for(server: Server) -> None:
    sections = (
        Section(name="role", text="You add."),
        Section(name="rules", text="Be brief."),
        Section(name="date", text="It is Monday.", volatile=True),
        Section(name="late", text="Static, but too late."),
    )
    body = await sent(server, saying(user("hi"), system=sections, tools=(ADD, ADD), settings={"cache": "1h"}))
    marker = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert body["system"] == [
        {"type": "text", "text": "You add.\n\nBe brief.", **marker},
        {"type": "text", "text": "It is Monday.\n\nStatic, but too late."},
    ]
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, marker["cache_control"]]


async def test_without_cache_nothing_is_marked(server: Server) -> None:
    body = await sent(server, saying(user("hi"), system=(Section(name="role", text="You add."),), tools=(ADD,)))
    assert body["system"] == [{"type": "text", "text": "You add."}]
    assert body["tools"] == [{"name": "add", "description": "Adds.", "input_schema": ADD.parameters}]
    assert body["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize(
    ("choice", "settings", "expected"),
    [
        ("auto", {}, {"type": "auto"}),
        ("none", {"parallel_tool_calls": False}, {"type": "none"}),
        ("required", {}, {"type": "any"}),
        (
            Only(tool="add"),
            {"parallel_tool_calls": False},
            {"type": "tool", "name": "add", "disable_parallel_tool_use": True},
        ),
        ("auto", {"parallel_tool_calls": True}, {"type": "auto"}),
    ],
)
async def test_the_choice_of_tools(server: Server, choice: Any, settings: Any, expected: Any) -> None:
    body = await sent(server, saying(user("hi"), tools=(ADD,), tool_choice=choice, settings=settings))
    assert body["tool_choice"] == expected


async def test_the_limit_of_a_reply_comes_from_the_profile_unless_it_is_set(server: Server) -> None:
    assert (await sent(server, asked()))["max_tokens"] == 64_000
    assert (await sent(server, asked(), "claude-of-tomorrow"))["max_tokens"] == 8_192
    assert (await sent(server, saying(user("hi"), settings={"max_tokens": 9})))["max_tokens"] == 9


async def test_each_setting_has_its_field(server: Server) -> None:
    settings: Any = {"temperature": 0.1, "top_p": 0.9, "top_k": 5, "stop": ["END"], "service_tier": "auto"}
    body = await sent(server, saying(user("hi"), settings={**settings, "metadata": {"user_id": "u1"}}))
    assert {key: body[key] for key in settings if key != "stop"} == {k: v for k, v in settings.items() if k != "stop"}
    assert body["stop_sequences"] == ["END"]
    assert body["metadata"] == {"user_id": "u1"}


@pytest.mark.parametrize(
    ("model", "settings", "expected"),
    [
        ("claude-haiku-4-5", {"thinking": True}, {"thinking": {"type": "enabled", "budget_tokens": 10_000}}),
        ("claude-haiku-4-5", {"thinking": 2000}, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
        ("claude-haiku-4-5", {"thinking": False}, {"thinking": {"type": "disabled"}}),
        ("claude-opus-5", {"thinking": True}, {"thinking": {"type": "adaptive"}}),
        ("claude-opus-5", {"thinking": False}, {"thinking": {"type": "disabled"}}),
        ("claude-opus-5-5", {"thinking": True}, {"thinking": {"type": "adaptive"}}),
        ("claude-opus-5", {"effort": "xhigh"}, {"output_config": {"effort": "xhigh"}}),
    ],
)
async def test_thinking_is_asked_for_as_the_model_wants_it(
    server: Server, model: str, settings: Any, expected: dict[str, Any]
) -> None:
    body = await sent(server, saying(user("hi"), settings=settings), model)
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == expected


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("claude-haiku-4-5", {"thinking": 100}, "1024 tokens at least"),
        ("claude-haiku-4-5", {"thinking": 5000, "max_tokens": 5000}, "below settings['max_tokens'] = 5000"),
        ("claude-haiku-4-5", {"effort": "low"}, "settings['effort'] is not accepted"),
        ("claude-opus-4-5", {"effort": "max"}, "only 'low', 'medium', 'high'"),
        ("claude-opus-5", {"thinking": 2000}, "takes no budget"),
        ("claude-opus-5-5", {"thinking": False}, "always thinks"),
        ("claude-opus-5", {"temperature": 0}, "settings['temperature'] is not accepted"),
        ("claude-haiku-4-5", {"metadata": {"team": "x"}}, "`user_id` alone"),
        ("claude-haiku-4-5", {"seed": 1}, "settings['seed'] is not accepted"),
    ],
)
async def test_what_a_model_refuses_is_not_sent(server: Server, model: str, settings: Any, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        await sent(server, saying(user("hi"), settings=settings), model)
    assert (caught.value.kind, server.asked) == ("unsupported", [])
    assert words in str(caught.value)
    assert f"anthropic:{model}" in str(caught.value)


async def test_a_model_that_cannot_be_made_to_call_a_tool_is_not_asked(server: Server) -> None:
    with pytest.raises(ModelError, match="cannot be made to call a tool"):
        await sent(server, saying(user("hi"), tools=(ADD,), tool_choice="required"), "claude-opus-5-5")
    with pytest.raises(ModelError, match="forces a call"):
        await sent(server, saying(user("hi"), tools=(ADD,), tool_choice="required", settings={"thinking": True}))
    with pytest.raises(ModelError, match="none of the request's tools"):
        await sent(server, saying(user("hi"), tools=(ADD,), tool_choice=Only(tool="sub")))


async def test_an_output_is_sent_in_the_form_that_can_be_held_to(server: Server) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    body = await sent(server, saying(user("hi"), output=OutputSpec(name="count", schema_=schema)))
    closed = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    expected = {"type": "json_schema", "schema": closed | {"additionalProperties": False}}
    assert body["output_config"] == {"format": expected}


async def test_an_output_that_cannot_be_held_to_is_refused_with_the_reason(server: Server) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    with pytest.raises(ModelError, match="an object with any properties cannot be closed"):
        await sent(server, saying(user("hi"), output=OutputSpec(name="counts", schema_=schema)))


async def test_a_tool_is_strict_only_if_nothing_is_lost(server: Server) -> None:
    limited = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 5}}}
    tools = (ADD.model_copy(update={"strict": "auto"}), ToolSpec(name="cap", parameters=limited, strict="auto"))
    body = await sent(server, saying(user("hi"), tools=tools))
    assert [tool.get("strict") for tool in body["tools"]] == [True, None]
    assert body["tools"][0]["input_schema"]["additionalProperties"] is False
    assert body["tools"][1]["input_schema"] == limited


async def test_a_tool_that_is_demanded_strict_loses_words_for_it(server: Server) -> None:
    limited = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 5}}}
    body = await sent(server, saying(user("hi"), tools=(ToolSpec(name="cap", parameters=limited, strict=True),)))
    assert body["tools"][0]["strict"] is True
    assert body["tools"][0]["input_schema"]["properties"] == {"a": {"type": "integer"}}


async def test_results_come_first_in_the_users_message_after_the_calls(server: Server) -> None:
    history = (
        user("add"),
        AssistantMessage(parts=(ToolCall(id="c1", name="add", arguments='{"a": 1}'), ToolCall(id="c2", name="add"))),
        ToolMessage(
            results=(
                ToolResult(id="c1", name="add", content=(Text(text="1"),)),
                ToolResult(id="c2", name="add", content=(Text(text="no `a`"),), is_error=True),
            )
        ),
        user("and then?"),
    )
    body = await sent(server, saying(*history, tools=(ADD,)))
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "1"}]},
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": [{"type": "text", "text": "no `a`"}],
                    "is_error": True,
                },
                {"type": "text", "text": "and then?"},
            ],
        },
    ]


async def test_media_go_out_by_their_type(server: Server) -> None:
    parts = (
        Text(text="Look:"),
        Media(data=b"\x89PNG", media_type="image/png"),
        Media(url="https://x.test/a.png", media_type="image/png"),
        Media(data=b"%PDF", media_type="application/pdf", name="a.pdf"),
        Media(data="é".encode(), media_type="text/csv", name="a.csv"),
    )
    body = await sent(server, saying(UserMessage(parts=parts)))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}, "title": "a.csv"},
    ]


async def test_media_that_the_interface_has_no_form_for_are_refused(server: Server) -> None:
    profile = replace(ANTHROPIC.open(server.url).profile, media=("*/*",))
    sound = saying(UserMessage(parts=(Media(data=b"RIFF", media_type="audio/wav"),)))
    with pytest.raises(ModelError, match="no form for audio/wav given as bytes"):
        await ANTHROPIC.open(server.url, profile=profile).request(sound)
    assert server.asked == []


# -- what comes back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refused"),
        ("pause_turn", "paused"),
        ("model_context_window_exceeded", "context"),
    ],
)
async def test_each_reason_to_stop_has_its_word(server: Server, reason: str, finish: str) -> None:
    """FA-066: a refusal is a reply of its own kind and not a failure."""
    reply = await reply_of(server, anthropic_start(), *anthropic_text(0, "so"), *anthropic_end(reason))
    assert (reply.message.finish, reply.message.text) == (finish, "so")
    assert len(server.asked) == 1


async def test_a_call_that_was_cut_off_keeps_what_came_and_says_so(server: Server) -> None:
    """FA-063: whether a fragment parses or not, the reply says that it was cut."""
    for arguments in ('{"path": "a.txt"', '{"path": "a.txt"}'):
        call = anthropic_call(0, ("c1", "write", arguments))
        reply = await reply_of(server, anthropic_start(), *call, *anthropic_end("max_tokens"))
        assert reply.message.finish == "length"
        assert reply.message.calls == (ToolCall(id="c1", name="write", arguments=arguments),)


async def test_a_call_without_arguments_has_an_empty_object(server: Server) -> None:
    """FA-058: a tool without parameters is called with nothing at all."""
    reply = await reply_of(server, anthropic_start(), *anthropic_call(0, ("c1", "now", "")), *anthropic_end("tool_use"))
    assert reply.message.calls == (ToolCall(id="c1", name="now", arguments="{}"),)


async def test_thoughts_go_back_unchanged_in_their_place_and_not_to_another(server: Server) -> None:
    """FA-079: a signed block with empty text, stored and reloaded, stands before its call again."""
    block = {"type": "thinking", "thinking": "", "signature": ""}
    thought = anthropic_block(0, block, {"type": "signature_delta", "signature": "S=="})
    hidden = anthropic_block(1, {"type": "redacted_thinking", "data": "xyz"})
    call = anthropic_call(2, ("c1", "add", '{"a": 1}'))
    reply = await reply_of(server, anthropic_start(), *thought, *hidden, *call, *anthropic_end("tool_use"))
    stored = AssistantMessage.model_validate_json(reply.message.model_dump_json())
    result = ToolMessage(results=(ToolResult(id="c1", name="add", content=(Text(text="1"),)),))
    body = await sent(server, saying(user("add"), stored, result, tools=(ADD,)))
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "", "signature": "S=="},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    ]
    elsewhere = await sent(server, saying(user("add"), stored, result, tools=(ADD,)), "claude-opus-5")
    assert [part["type"] for part in elsewhere["messages"][1]["content"]] == ["tool_use"]


async def test_thoughts_are_told_as_they_come(server: Server) -> None:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in ("I ", "think")]
    signed = anthropic_block(0, block, *deltas, {"type": "signature_delta", "signature": "S"})
    server.answers(stream([anthropic_start(), *signed, *anthropic_text(1, "so"), *anthropic_end()]))
    parts = await streamed(ANTHROPIC.open(server.url), asked())
    assert parts[:2] == [ThinkingDelta("I "), ThinkingDelta("think")]
    thought = ended(parts).message.parts[0]
    assert isinstance(thought, Thinking)
    assert (thought.text, thought.provider) == ("I think", "anthropic")
    assert json.loads(thought.data) == {"type": "thinking", "thinking": "I think", "signature": "S"}


async def test_a_block_of_tomorrow_is_kept_whole(server: Server) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}, "of_tomorrow": [1]}
    events = anthropic_block(0, search, {"type": "input_json_delta", "partial_json": '{"query": "é"}'})
    reply = await reply_of(server, anthropic_start(), *events, *anthropic_end("pause_turn"))
    part = reply.message.parts[0]
    assert isinstance(part, Opaque)
    assert json.loads(part.data) == search | {"input": {"query": "é"}}
    body = await sent(server, saying(user("find"), reply.message))
    assert body["messages"][1] == {"role": "assistant", "content": [json.loads(part.data)]}


async def test_sources_of_a_text_stand_in_the_raw_reply(server: Server) -> None:
    source = {
        "type": "char_location",
        "cited_text": "x",
        "document_index": 0,
        "start_char_index": 0,
        "end_char_index": 1,
    }
    deltas = [
        {"type": "text_delta", "text": "so"},
        {"type": "citations_delta", "citation": source},
        {"type": "new_delta"},
    ]
    block = anthropic_block(0, {"type": "text", "text": ""}, *deltas)
    reply = await reply_of(server, anthropic_start(), *block, *anthropic_end())
    assert reply.message.parts == (Text(text="so"),)
    assert reply.raw.content[0].citations[0].cited_text == "x"


async def test_empty_text_is_not_sent_back(server: Server) -> None:
    """FA-065: neither an empty block beside a call, nor a user's message of spaces, nor an empty reply."""
    history = (
        user("add"),
        AssistantMessage(parts=(Text(text=""), ToolCall(id="c1", name="add"))),
        ToolMessage(results=(ToolResult(id="c1", name="add", content=(Text(text=""),)),)),
        user("   "),
        AssistantMessage(parts=(Text(text=""),)),
        user("go on"),
    )
    body = await sent(server, saying(*history, tools=(ADD,)))
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "add"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}, {"type": "text", "text": "go on"}]},
    ]


async def test_usage_counts_the_cache_as_read_and_takes_the_last_figures(server: Server) -> None:
    start = anthropic_start(
        input_tokens=10, output_tokens=1, cache_read_input_tokens=100, cache_creation_input_tokens=20
    )
    end = anthropic_end(output_tokens=50, output_tokens_details={"thinking_tokens": 30})
    usage = (await reply_of(server, start, *anthropic_text(0, "so"), *end)).usage
    assert usage.cost is not None
    assert usage.model_copy(update={"cost": None}) == Usage(
        requests=1, input=130, output=50, cache_read=100, cache_write=20, reasoning=30
    )
