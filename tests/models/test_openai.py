"""What OpenAI's models are sent through the Responses API, and what is made of what they send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowagent.errors import ModelError
from flowagent.models.base import CallDelta, ModelRequest, Only, OutputSpec, Reply, Section, ThinkingDelta, ToolSpec
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
from flowagent.models.openai import OpenAIModel
from tests.models.asking import asked, streamed
from tests.models.serving import Server, stream
from tests.models.wire import (
    RESPONSES,
    call_item,
    event,
    message_item,
    response_created,
    response_end,
    response_items,
    response_reply,
)

ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
RESULT = ToolMessage(results=(ToolResult(id="c1", name="add", content=(Text(text="1"),)),))


async def sent(server: Server, request: ModelRequest, model: str = "gpt-5.5") -> dict[str, Any]:
    """What goes out for a request."""
    server.answers(stream(response_reply("ok")))
    await OpenAIModel(model, api_key="sk-test-123456", base_url=server.url + "/v1").request(request)
    return server.asked[-1].body


def saying(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest(messages=messages, **more)


async def reply_of(server: Server, *items: dict[str, Any], status: str = "completed", **more: Any) -> Reply:
    server.answers(
        stream([response_created(), *response_items(list(items)), response_end(list(items), status, **more)])
    )
    return await RESPONSES.open(server.url).request(asked())


# -- what is sent ----------------------------------------------------------------------------------------------------


async def test_nothing_is_kept_at_the_provider_and_reasoning_comes_encrypted(server: Server) -> None:
    body = await sent(server, saying(user("hi"), system=(Section(name="role", text="You add."),)))
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["instructions"] == "You add."
    assert body["input"] == [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
    assert "include" not in await sent(server, asked(), "gpt-4.1")


async def test_each_setting_has_its_field(server: Server) -> None:
    settings: Any = {
        "max_tokens": 50,
        "effort": "low",
        "verbosity": "high",
        "parallel_tool_calls": False,
        "service_tier": "flex",
        "metadata": {"team": "x"},
        "cache": "5m",
    }
    body = await sent(server, saying(user("hi"), tools=(ADD,), settings=settings))
    assert body["max_output_tokens"] == 50
    assert body["reasoning"] == {"effort": "low"}
    assert body["text"] == {"verbosity": "high"}
    assert (body["parallel_tool_calls"], body["service_tier"], body["metadata"]) == (False, "flex", {"team": "x"})
    assert "cache" not in body
    plain = await sent(server, saying(user("hi"), settings={"temperature": 0.1, "top_p": 0.9}), "gpt-4.1")
    assert (plain["temperature"], plain["top_p"]) == (0.1, 0.9)


@pytest.mark.parametrize(
    ("model", "settings", "effort"),
    [
        ("gpt-5.5", {"thinking": True}, "medium"),
        ("gpt-5.5", {"thinking": False}, "none"),
        ("gpt-5.5", {"thinking": True, "effort": "high"}, "high"),
        ("gpt-5", {"effort": "minimal"}, "minimal"),
    ],
)
async def test_thinking_is_a_matter_of_effort(server: Server, model: str, settings: Any, effort: str) -> None:
    assert (await sent(server, saying(user("hi"), settings=settings), model))["reasoning"] == {"effort": effort}


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("gpt-5.5", {"temperature": 0.1}, "settings['temperature'] is not accepted"),
        ("gpt-5.5", {"effort": "minimal"}, "only 'none', 'low', 'medium', 'high', 'xhigh'"),
        ("gpt-5", {"thinking": False}, "always thinks"),
        ("gpt-5.5", {"thinking": 2000}, "takes no budget"),
        ("gpt-4.1", {"effort": "low"}, "settings['effort'] is not accepted"),
        ("gpt-5.5", {"stop": ["x"]}, "settings['stop'] is not accepted"),
    ],
)
async def test_what_a_model_refuses_is_not_sent(server: Server, model: str, settings: Any, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        await sent(server, saying(user("hi"), settings=settings), model)
    assert (caught.value.kind, server.asked) == ("unsupported", [])
    assert words in str(caught.value)


async def test_a_strict_tool_has_all_properties_required_and_optional_ones_take_null(server: Server) -> None:
    """FA-057: strict is claimed only where the schema keeps it."""
    limited = {"type": "object", "properties": {"a": {"type": "string", "minLength": 5}}}
    tools = (ADD.model_copy(update={"strict": "auto"}), ToolSpec(name="cap", parameters=limited, strict="auto"), ADD)
    body = await sent(server, saying(user("hi"), tools=tools, tool_choice=Only(tool="add")))
    assert [tool["strict"] for tool in body["tools"]] == [True, False, False]
    assert body["tools"][0]["parameters"] == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert body["tools"][1]["parameters"] == limited
    assert body["tool_choice"] == {"type": "function", "name": "add"}


async def test_a_tool_that_is_demanded_strict_loses_words_but_no_object_is_opened_or_closed_for_it(
    server: Server,
) -> None:
    limited = {"type": "object", "properties": {"a": {"type": "string", "minLength": 5}}, "required": ["a"]}
    wide = {"type": "object", "additionalProperties": {"type": "integer"}}
    tools = (
        ToolSpec(name="cap", parameters=limited, strict=True),
        ToolSpec(name="count", parameters=wide, strict=True),
    )
    body = await sent(server, saying(user("hi"), tools=tools))
    assert [tool["strict"] for tool in body["tools"]] == [True, False]
    assert body["tools"][0]["parameters"]["properties"] == {"a": {"type": "string"}}
    assert body["tools"][1]["parameters"] == wide


async def test_an_output_is_strict_only_if_nothing_is_lost(server: Server) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    body = await sent(
        server, saying(user("hi"), output=OutputSpec(name="count", description="How many.", schema_=schema))
    )
    shape = body["text"]["format"]
    assert (shape["type"], shape["name"], shape["description"], shape["strict"]) == (
        "json_schema",
        "count",
        "How many.",
        True,
    )
    assert shape["schema"] == schema | {"additionalProperties": False}
    loose = {"type": "object", "additionalProperties": {"type": "integer"}}
    body = await sent(server, saying(user("hi"), output=OutputSpec(name="counts", schema_=loose)))
    assert (body["text"]["format"]["strict"], body["text"]["format"]["schema"]) == (False, loose)
    with pytest.raises(ModelError, match="must be an object at its top"):
        await sent(server, saying(user("hi"), output=OutputSpec(name="list", schema_={"type": "array"})))


async def test_results_are_items_of_their_own(server: Server) -> None:
    results = (
        ToolResult(id="c1", name="add", content=(Text(text="1"),)),
        ToolResult(id="c2", name="add", content=(Text(text="no `a`"),), is_error=True),
        ToolResult(id="c3", name="see", content=(Text(text="this"), Media(data=b"\x89PNG", media_type="image/png"))),
    )
    calls = tuple(ToolCall(id=result.id, name=result.name, arguments=" ") for result in results)
    body = await sent(server, saying(user("add"), AssistantMessage(parts=calls), ToolMessage(results=results)))
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"}
    assert body["input"][1:] == [
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
        {"type": "function_call", "call_id": "c3", "name": "see", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "Error: no `a`"},
        {"type": "function_call_output", "call_id": "c3", "output": [{"type": "input_text", "text": "this"}, image]},
    ]


async def test_media_go_out_by_their_type(server: Server) -> None:
    parts = (
        Media(url="https://x.test/a.png", media_type="image/png"),
        Media(data=b"%PDF", media_type="application/pdf", name="a.pdf"),
        Media(url="https://x.test/a.pdf", media_type="application/pdf"),
        Media(data=b"a,b", media_type="text/csv", name="a.csv"),
    )
    body = await sent(server, saying(UserMessage(parts=parts)))
    assert body["input"][0]["content"] == [
        {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        {"type": "input_file", "file_url": "https://x.test/a.pdf"},
        {"type": "input_text", "text": "a.csv:\na,b"},
    ]


async def test_media_that_a_model_does_not_read_are_refused_by_name(server: Server) -> None:
    parts = (Media(data=b"..", media_type="audio/wav", name="a.wav"), Media(media_type="image/png"))
    late = Media(data=b"\xff", media_type="text/plain", name="odd.txt")
    with pytest.raises(ModelError) as caught:
        await sent(server, saying(user("hi"), UserMessage(parts=parts), UserMessage(parts=(late,))))
    assert (caught.value.kind, server.asked) == ("unsupported", [])
    for words in (
        "message 1: audio/wav 'a.wav'",
        "needs either `data` or `url`",
        "message 2: text/plain 'odd.txt' is no UTF-8",
    ):
        assert words in str(caught.value)


# -- what comes back -------------------------------------------------------------------------------------------------


async def test_reasoning_goes_back_unchanged_in_its_place_and_not_to_another(server: Server) -> None:
    """FA-079: an encrypted item with an empty summary stands before its call again, stored and reloaded."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "S=="}
    reply = await reply_of(server, reasoning, call_item(("c1", "add", '{"a": 1}')))
    assert reply.message.finish == "tool_calls"
    stored = AssistantMessage.model_validate_json(reply.message.model_dump_json())
    body = await sent(server, saying(user("add"), stored, RESULT))
    call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'}
    assert body["input"][1:3] == [reasoning, call]
    assert (await sent(server, saying(user("add"), stored, RESULT), "gpt-4.1"))["input"][1] == call
    foreign = stored.model_copy(
        update={"parts": (Thinking(provider="anthropic", data="{}"), *stored.calls), "provider": "anthropic"}
    )
    assert (await sent(server, saying(user("add"), foreign, RESULT)))["input"][1] == call


async def test_thoughts_that_are_shown_are_told(server: Server) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I think"}]}
    reply = await reply_of(server, reasoning, message_item("so"))
    thought, text = reply.message.parts
    assert isinstance(thought, Thinking)
    assert (thought.text, thought.provider, text) == ("I think", "openai", Text(text="so"))
    assert json.loads(thought.data) == reasoning


async def test_thoughts_and_calls_are_told_as_they_come(server: Server) -> None:
    place = {"output_index": 0, "item_id": "rs_1", "sequence_number": 2}
    events = [
        event({"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "I ", **place}),
        event({"type": "response.reasoning_text.delta", "content_index": 0, "delta": "think", **place}),
        event({"type": "response.web_search_call.searching", **place}),
    ]
    items = [call_item(("c1", "add", '{"a": 1}'))]
    server.answers(stream([response_created(), *events, *response_items(items), response_end(items)]))
    parts = await streamed(RESPONSES.open(server.url), asked())
    assert parts[:-1] == [
        ThinkingDelta("I "),
        ThinkingDelta("think"),
        CallDelta(0, "c1", "add", ""),
        CallDelta(0, "c1", "add", '{"a": 1}'),
    ]


async def test_a_refusal_is_a_reply_of_its_own_kind(server: Server) -> None:
    """FA-066: one request, the refusal's text, and a word to branch on."""
    item = message_item("")
    item["content"] = [{"type": "refusal", "refusal": "I will not."}]
    reply = await reply_of(server, item)
    assert (reply.message.finish, reply.message.text, len(server.asked)) == ("refused", "I will not.", 1)


@pytest.mark.parametrize(("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "filtered")])
async def test_an_incomplete_reply_says_why(server: Server, reason: str, finish: str) -> None:
    """FA-063: a call of a reply that was cut off is kept, and the reply says that it was cut."""
    call = call_item(("c1", "write", '{"path": "a"'))
    reply = await reply_of(server, call, status="incomplete", incomplete_details={"reason": reason})
    assert (reply.message.finish, reply.message.calls[0].arguments) == (finish, '{"path": "a"')


async def test_the_phase_of_a_text_goes_back_with_it(server: Server) -> None:
    reply = await reply_of(server, message_item("First I look.", phase="commentary"), call_item(("c1", "add", "{}")))
    assert reply.message.text == "First I look."
    body = await sent(server, saying(user("add"), reply.message, RESULT))
    said = {"type": "message", "role": "assistant", "content": "First I look.", "phase": "commentary"}
    assert body["input"][1] == said


async def test_items_of_other_tools_are_kept_whole(server: Server) -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "é"}}
    reply = await reply_of(server, item, message_item("so"))
    assert isinstance(reply.message.parts[0], Opaque)
    body = await sent(server, saying(user("find"), reply.message, user("more")))
    assert body["input"][1] == item


async def test_the_items_are_taken_from_the_stream_if_the_end_has_none(server: Server) -> None:
    items = [message_item("so")]
    server.answers(stream([response_created(), *response_items(items), response_end([])]))
    assert (await RESPONSES.open(server.url).request(asked())).message.text == "so"


async def test_a_reply_without_usage_is_unmeasured(server: Server) -> None:
    usage = (await reply_of(server, message_item("so"), usage=None)).usage
    assert (usage.input, usage.output, usage.unmeasured, usage.unpriced) == (None, None, 1, 1)
