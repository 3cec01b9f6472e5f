"""What models behind Chat Completions are sent, and what is made of what they send, accents included."""

from __future__ import annotations

from typing import Any

import pytest

from flowagent.errors import ModelError
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
from flowagent.models.openai_chat import OpenAIChatModel, OpenAICompatible
from tests.models.asking import asked, ended, streamed
from tests.models.serving import Server, stream
from tests.models.wire import CHAT, CHAT_USAGE, DONE, call_delta, chat_reply, chunk, delta

ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})


async def sent(server: Server, request: ModelRequest, model: str = "gpt-4.1") -> dict[str, Any]:
    """What goes out to OpenAI for a request."""
    server.answers(stream(chat_reply("ok")))
    await OpenAIChatModel(model, api_key="sk-test-123456", base_url=server.url + "/v1").request(request)
    return server.asked[-1].body


async def sent_locally(server: Server, request: ModelRequest, **options: Any) -> dict[str, Any]:
    """What goes out to a server of unknown make."""
    server.answers(stream(chat_reply("ok")))
    await OpenAICompatible("qwen3", base_url=server.url + "/v1", **options).request(request)
    return server.asked[-1].body


def saying(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest(messages=messages, **more)


async def reply_of(server: Server, *chunks: bytes) -> Reply:
    server.answers(stream([*chunks, DONE]))
    return await CHAT.open(server.url).request(asked())


# -- what is sent ----------------------------------------------------------------------------------------------------


async def test_the_prompt_is_the_first_message(server: Server) -> None:
    body = await sent(server, saying(user("hi"), system=(Section(name="role", text="You add."),)))
    assert body["messages"] == [{"role": "system", "content": "You add."}, {"role": "user", "content": "hi"}]
    assert body["stream_options"] == {"include_usage": True}


async def test_the_limit_of_a_reply_has_the_field_that_the_server_knows(server: Server) -> None:
    request = saying(user("hi"), settings={"max_tokens": 50})
    assert (await sent(server, request))["max_completion_tokens"] == 50
    assert (await sent_locally(server, request))["max_tokens"] == 50


async def test_each_setting_has_its_field(server: Server) -> None:
    settings: Any = {"temperature": 0.1, "top_p": 0.9, "seed": 7, "stop": ["END"]}
    body = await sent(server, saying(user("hi"), settings={**settings, "service_tier": "flex", "cache": "5m"}))
    assert {key: body[key] for key in settings} == settings
    assert body["service_tier"] == "flex"
    local = await sent_locally(server, saying(user("hi"), settings={**settings, "top_k": 5, "extra": {"min_p": 0.1}}))
    assert {key: local[key] for key in settings} == settings
    assert (local["top_k"], local["min_p"]) == (5, 0.1)
    thinking = await sent(server, saying(user("hi"), settings={"effort": "low", "verbosity": "low"}), "gpt-5.5")
    assert (thinking["reasoning_effort"], thinking["verbosity"]) == ("low", "low")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (Only(tool="add"), {"type": "function", "function": {"name": "add"}}),
    ],
)
async def test_the_choice_of_tools(server: Server, choice: Any, expected: Any) -> None:
    request = saying(user("hi"), tools=(ADD,), tool_choice=choice, settings={"parallel_tool_calls": False})
    body = await sent(server, request)
    assert (body.get("tool_choice"), body["parallel_tool_calls"]) == (expected, False)


async def test_tools_are_strict_where_the_server_knows_the_word(server: Server) -> None:
    request = saying(user("hi"), tools=(ADD.model_copy(update={"strict": True}),))
    body = await sent(server, request)
    assert body["tools"][0]["function"]["strict"] is True
    assert body["tools"][0]["function"]["parameters"]["required"] == ["a"]
    local = await sent_locally(server, request)
    assert local["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADD.parameters}}
    ]


async def test_an_output_is_a_format(server: Server) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    body = await sent(server, saying(user("hi"), output=OutputSpec(name="count", schema_=schema)))
    shape = {"name": "count", "schema": schema | {"additionalProperties": False}, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": shape}


async def test_a_model_that_calls_no_tools_is_not_sent_any(server: Server) -> None:
    with pytest.raises(ModelError, match="it takes no tools"):
        await sent_locally(server, saying(user("hi"), tools=(ADD,)), tool_calls="prompted")
    assert server.asked == []


async def test_files_in_results_follow_in_a_message_of_the_users(server: Server) -> None:
    results = (
        ToolResult(id="c1", name="see", content=(Media(data=b"\x89PNG", media_type="image/png"),)),
        ToolResult(id="c2", name="add", content=(Text(text="no `a`"),), is_error=True),
    )
    calls = tuple(ToolCall(id=result.id, name=result.name) for result in results)
    body = await sent(server, saying(user("look"), AssistantMessage(parts=calls), ToolMessage(results=results)))
    assert body["messages"][1] == {
        "role": "assistant",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "see", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
        ],
    }
    assert body["messages"][2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "(The files of this result are in the next message.)"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no `a`"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Of the result of see (c1):"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            ],
        },
    ]


async def test_media_go_out_by_their_type(server: Server) -> None:
    parts = (
        Media(url="https://x.test/a.png", media_type="image/png"),
        Media(data=b"%PDF", media_type="application/pdf", name="a.pdf"),
        Media(data=b"a,b", media_type="text/csv"),
    )
    body = await sent(server, saying(UserMessage(parts=parts)))
    assert body["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "text", "text": "a,b"},
    ]
    sound = UserMessage(parts=(Media(data=b"RIFF", media_type="audio/wav"),))
    body = await sent(server, saying(sound), "gpt-audio")
    assert body["messages"][0]["content"] == [
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    ]


async def test_a_document_behind_a_url_is_refused(server: Server) -> None:
    with pytest.raises(ModelError, match="no form for application/pdf given as a URL"):
        await sent(
            server, saying(UserMessage(parts=(Media(url="https://x.test/a.pdf", media_type="application/pdf"),)))
        )
    assert server.asked == []


# -- what comes back -------------------------------------------------------------------------------------------------


async def test_two_calls_of_one_index_are_two_calls(server: Server) -> None:
    """FA-067: a new id begins a new call, whatever its index."""
    calls = [call_delta(0, "a", "read", '{"path":"a"}'), call_delta(0, "b", "read", '{"path":"b"}')]
    reply = await reply_of(server, *(chunk(delta(tool_calls=[call])) for call in calls), chunk(delta("tool_calls")))
    assert reply.message.calls == (
        ToolCall(id="a", name="read", arguments='{"path":"a"}'),
        ToolCall(id="b", name="read", arguments='{"path":"b"}'),
    )


async def test_pieces_of_two_calls_may_come_by_turns(server: Server) -> None:
    pieces = [
        call_delta(0, "a", "read", '{"path"'),
        call_delta(1, "b", "read", '{"path"'),
        call_delta(0, None, None, ':"a"}'),
        call_delta(1, "b", None, ':"b"}'),
    ]
    reply = await reply_of(server, *(chunk(delta(tool_calls=[call])) for call in pieces), chunk(delta("tool_calls")))
    assert [(call.id, call.arguments) for call in reply.message.calls] == [("a", '{"path":"a"}'), ("b", '{"path":"b"}')]


async def test_calls_without_index_or_id_are_told_apart_and_get_an_id(server: Server) -> None:
    pieces = [
        call_delta(None, "a", "read", '{"x"'),
        call_delta(None, None, None, ":1}"),
        call_delta(None, "b", "now", None),
    ]
    reply = await reply_of(server, *(chunk(delta(tool_calls=[call])) for call in pieces), chunk(delta("stop")))
    assert [(c.id, c.name, c.arguments) for c in reply.message.calls] == [("a", "read", '{"x":1}'), ("b", "now", "")]
    assert reply.message.finish == "tool_calls"
    nameless = await reply_of(server, chunk(delta(tool_calls=[call_delta(0, "", "now", "")])), chunk(delta("stop")))
    assert nameless.message.calls[0].id.startswith("call_")


async def test_more_of_a_call_without_index_belongs_to_the_last_one(server: Server) -> None:
    pieces = [call_delta(0, "a", "read", '{"x"'), call_delta(None, None, None, ":1}")]
    reply = await reply_of(server, *(chunk(delta(tool_calls=[call])) for call in pieces), chunk(delta("tool_calls")))
    assert reply.message.calls == (ToolCall(id="a", name="read", arguments='{"x":1}'),)


async def test_fields_of_a_servers_own_go_back_to_it(server: Server) -> None:
    own = Opaque(provider="compatible", data='{"reasoning_details": [1]}')
    body = await sent_locally(server, saying(user("hi"), AssistantMessage(parts=(own, Text(text="so"))), user("and?")))
    assert body["messages"][1] == {"role": "assistant", "reasoning_details": [1], "content": "so"}


async def test_one_id_for_two_calls_is_replaced_in_the_second(server: Server) -> None:
    calls = [call_delta(0, "x", "read", "{}"), call_delta(1, "x", "now", "{}")]
    reply = await reply_of(server, *(chunk(delta(tool_calls=[call])) for call in calls), chunk(delta("tool_calls")))
    first, second = reply.message.calls
    assert (first.id, first.name, second.name) == ("x", "read", "now")
    assert second.id != "x"


@pytest.mark.parametrize("arguments", ["", None, "  ", "{}"])
async def test_empty_arguments_are_kept_and_sent_back_as_an_object(server: Server, arguments: str | None) -> None:
    """FA-058: many servers send an empty text for a tool without parameters."""
    call = call_delta(0, "c1", "now", arguments)
    reply = await reply_of(server, chunk(delta(tool_calls=[call])), chunk(delta("tool_calls")))
    assert reply.message.calls == (ToolCall(id="c1", name="now", arguments=arguments or ""),)
    result = ToolMessage(results=(ToolResult(id="c1", name="now", content=(Text(text="noon"),)),))
    body = await sent(server, saying(user("when?"), reply.message, result))
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_odd_chunks_are_neither_shown_nor_taken_for_a_message(server: Server) -> None:
    """FA-070: no choices, a choice without delta, and a last chunk with usage alone."""
    odd = {"index": 0, "finish_reason": None}
    server.answers(
        stream(
            [
                chunk(prompt_filter_results=[]),
                chunk(delta(content="Hello")),
                chunk(odd, id=""),
                chunk(delta("stop")),
                chunk(usage=CHAT_USAGE),
                DONE,
            ]
        )
    )
    parts = await streamed(CHAT.open(server.url), asked())
    reply = ended(parts)
    assert len(parts) == 2
    assert (reply.message.text, reply.message.finish, reply.usage.input) == ("Hello", "stop", 10)


async def test_usage_in_every_chunk_is_not_added_up(server: Server) -> None:
    reply = await reply_of(
        server,
        chunk(delta(content="Hi"), usage=CHAT_USAGE),
        chunk(delta("stop"), usage=CHAT_USAGE),
        chunk(usage=CHAT_USAGE),
    )
    assert (reply.usage.input, reply.usage.output) == (10, 5)


async def test_a_server_that_reports_no_usage_is_unmeasured(server: Server) -> None:
    usage = (await reply_of(server, chunk(delta(content="Hi")), chunk(delta("stop"), usage=None))).usage
    assert (usage.input, usage.output, usage.unmeasured, usage.unpriced) == (None, None, 1, 1)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thoughts_of_local_models_are_told_and_not_sent_back(server: Server, field: str) -> None:
    chunks = [chunk(delta(**{field: "I "})), chunk(delta(**{field: "think"})), chunk(delta(content="so"))]
    server.answers(stream([*chunks, chunk(delta("stop")), DONE]))
    model = OpenAICompatible("qwen3", base_url=server.url + "/v1")
    parts = await streamed(model, asked())
    message = ended(parts).message
    assert parts[:2] == [ThinkingDelta("I "), ThinkingDelta("think")]
    assert message.parts == (Thinking(text="I think", provider="compatible"), Text(text="so"))
    body = await sent_locally(server, saying(user("hi"), message, user("and?")))
    assert body["messages"][1] == {"role": "assistant", "content": "so"}


async def test_a_refusal_is_a_reply_of_its_own_kind(server: Server) -> None:
    """FA-066: also if it comes beside plain text."""
    reply = await reply_of(
        server, chunk(delta(content="Well. ")), chunk(delta(refusal="I will not.")), chunk(delta("stop"))
    )
    assert (reply.message.finish, reply.message.text, len(server.asked)) == ("refused", "Well. I will not.", 1)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "filtered"),
        ("eos", "stop"),
        ("function_call", "tool_calls"),
    ],
)
async def test_each_reason_to_stop_has_its_word(server: Server, reason: str, finish: str) -> None:
    reply = await reply_of(server, chunk(delta(content="so")), chunk(delta(reason)))
    assert reply.message.finish == finish


async def test_a_call_that_was_cut_off_says_so(server: Server) -> None:
    """FA-063: a call in a reply that hit its limit is kept, and the reply says that it was cut."""
    call = call_delta(0, "c1", "write", '{"path": "a.txt"}')
    reply = await reply_of(server, chunk(delta(tool_calls=[call])), chunk(delta("length")))
    assert (reply.message.finish, len(reply.message.calls)) == ("length", 1)


async def test_a_local_model_is_named_after_its_server(server: Server) -> None:
    server.answers(stream(chat_reply("ok")))
    model = OpenAICompatible("qwen3", base_url=server.url + "/v1", provider="ollama")
    message = (await model.request(asked())).message
    assert (model.name, message.provider) == ("ollama:qwen3", "ollama")
