"""What the three interfaces send, as bytes of events, and the models that read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flowagent.models.anthropic import AnthropicModel
from flowagent.models.openai import OpenAIModel
from flowagent.models.openai_chat import OpenAIChatModel
from flowagent.models.remote import RemoteModel

KEY = "sk-test-123456"

Call = tuple[str, str, str]
"""A tool call: its id, the tool's name, and the arguments."""


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


# -- Anthropic -------------------------------------------------------------------------------------------------------


def anthropic_start(**usage: Any) -> bytes:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5-20251001",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 10, "output_tokens": 1},
    }
    return event({"type": "message_start", "message": message}, "message_start")


def anthropic_block(index: int, block: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[bytes]:
    return [
        event({"type": "content_block_start", "index": index, "content_block": block}, "content_block_start"),
        *(
            event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            for delta in deltas
        ),
        event({"type": "content_block_stop", "index": index}, "content_block_stop"),
    ]


def anthropic_text(index: int, text: str) -> list[bytes]:
    deltas = [{"type": "text_delta", "text": piece} for piece in text.split("|")]
    return anthropic_block(index, {"type": "text", "text": ""}, *deltas)


def anthropic_call(index: int, call: Call) -> list[bytes]:
    block = {"type": "tool_use", "id": call[0], "name": call[1], "input": {}}
    half = len(call[2]) // 2
    pieces = [call[2][:half], call[2][half:]]
    return anthropic_block(index, block, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def anthropic_end(reason: str = "end_turn", **usage: Any) -> list[bytes]:
    data = {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": usage or {"output_tokens": 5},
    }
    return [event(data, "message_delta"), event({"type": "message_stop"}, "message_stop")]


def anthropic_reply(text: str = "", calls: tuple[Call, ...] = ()) -> list[bytes]:
    events = [anthropic_start(), *(anthropic_text(0, text) if text else [])]
    for place, call in enumerate(calls):
        events += anthropic_call(place + bool(text), call)
    return events + anthropic_end("tool_use" if calls else "end_turn")


def anthropic_error(kind: str, message: str) -> bytes:
    return event({"type": "error", "error": {"type": kind, "message": message}}, "error")


# -- Responses -------------------------------------------------------------------------------------------------------


def response(status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "gpt-5.5-2026-04-23",
        "status": status,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **more,
    }


def message_item(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **more}


def call_item(call: Call) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call[0]}",
        "call_id": call[0],
        "name": call[1],
        "arguments": call[2],
        "status": "completed",
    }


RESPONSE_USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 15,
}


def response_created() -> bytes:
    return event({"type": "response.created", "sequence_number": 0, "response": response("in_progress", [])})


def response_items(items: list[dict[str, Any]]) -> list[bytes]:
    events: list[bytes] = []
    for index, item in enumerate(items):
        bare = item | ({"arguments": ""} if item["type"] == "function_call" else {})
        place = {"output_index": index, "sequence_number": 1}
        events.append(event({"type": "response.output_item.added", "item": bare, **place}))
        for content in item.get("content") or () if item["type"] == "message" else ():
            kind = "refusal" if content["type"] == "refusal" else "output_text"
            for piece in content.get("text", content.get("refusal")).split("|"):
                more = {"item_id": "msg_1", "content_index": 0, "logprobs": [], "delta": piece}
                events.append(event({"type": f"response.{kind}.delta", **place, **more}))
        if item["type"] == "function_call":
            more = {"item_id": item["id"], "delta": item["arguments"]}
            events.append(event({"type": "response.function_call_arguments.delta", **place, **more}))
        whole = json.loads(json.dumps(item).replace("|", ""))
        events.append(event({"type": "response.output_item.done", "item": whole, **place}))
    return events


def response_end(items: list[dict[str, Any]], status: str = "completed", **more: Any) -> bytes:
    whole = json.loads(json.dumps(items).replace("|", ""))
    done = response(status, whole, **({"usage": RESPONSE_USAGE} | more))
    return event({"type": f"response.{status}", "sequence_number": 9, "response": done})


def response_reply(text: str = "", calls: tuple[Call, ...] = ()) -> list[bytes]:
    items = ([message_item(text)] if text else []) + [call_item(call) for call in calls]
    return [response_created(), *response_items(items), response_end(items)]


def response_error(code: str, message: str) -> bytes:
    return event({"type": "error", "sequence_number": 3, "code": code, "message": message, "param": None})


# -- Chat Completions ------------------------------------------------------------------------------------------------


def chunk(*choices: Mapping[str, Any], **more: Any) -> bytes:
    head = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4.1-2025-04-14"}
    return event({**head, "choices": list(choices), **more})


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"index": 0, "delta": fields, "finish_reason": finish}


def call_delta(index: int | None, id_: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    return {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT_USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
DONE = b"data: [DONE]\n\n"


def chat_reply(text: str = "", calls: tuple[Call, ...] = ()) -> list[bytes]:
    events = [chunk(delta(role="assistant", content=""))]
    events += [chunk(delta(content=piece)) for piece in text.split("|") if text]
    for index, (id_, name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        events.append(chunk(delta(tool_calls=[call_delta(index, id_, name, arguments[:half])])))
        events.append(chunk(delta(tool_calls=[call_delta(index, None, None, arguments[half:])])))
    return [*events, chunk(delta("tool_calls" if calls else "stop")), chunk(usage=CHAT_USAGE), DONE]


def chat_error(code: str, message: str) -> bytes:
    return event({"error": {"message": message, "type": code, "code": code}})


# -- all three -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An interface: how to open a model behind it and what it sends.

    Args:
        name: what it is called here.
        make: opens a model, with the options of models.
        model: the model's name there.
        path: what is added to the server's address.
        reply: the events of a reply; `|` in its text parts the pieces.
        error: an error event within a stream, of a code and a message.
        overloaded: its code for overload.
        variable: the environment variable with its key.
    """

    name: str
    make: Callable[..., RemoteModel]
    model: str
    path: str
    reply: Callable[..., list[bytes]]
    error: Callable[[str, str], bytes]
    overloaded: str
    variable: str

    def open(self, url: str, **options: Any) -> RemoteModel:
        return self.make(self.model, **{"api_key": KEY, "base_url": url + self.path, **options})


ANTHROPIC = Api(
    name="anthropic",
    make=AnthropicModel,
    model="claude-haiku-4-5",
    path="",
    reply=anthropic_reply,
    error=anthropic_error,
    overloaded="overloaded_error",
    variable="ANTHROPIC_API_KEY",
)
RESPONSES = Api(
    name="openai",
    make=OpenAIModel,
    model="gpt-5.5",
    path="/v1",
    reply=response_reply,
    error=response_error,
    overloaded="server_is_overloaded",
    variable="OPENAI_API_KEY",
)
CHAT = Api(
    name="openai-chat",
    make=OpenAIChatModel,
    model="gpt-4.1",
    path="/v1",
    reply=chat_reply,
    error=chat_error,
    overloaded="server_is_overloaded",
    variable="OPENAI_API_KEY",
)
APIS = (ANTHROPIC, RESPONSES, CHAT)
