"""What is said to models and answered by them, in the form that OpenTelemetry's conventions give it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

_MODALITIES: Final = ("image", "audio", "video")


def system_instructions(request: Mapping[str, Any]) -> str:
    """The system prompt of a request; as JSON text, as all of these are.

    Args:
        request: a `ModelRequest` as JSON data.
    """
    return _json([{"type": "text", "content": one["text"]} for one in request["system"] if one["text"]])


def input_messages(request: Mapping[str, Any]) -> str:
    """The conversation of a request."""
    return _json([_message(one) for one in request["messages"]])


def output_messages(reply: Mapping[str, Any]) -> str:
    """The message of a reply."""
    return _json([{**_message(reply), "finish_reason": reply["finish"]}])


def tool_definitions(request: Mapping[str, Any]) -> str:
    """The tools of a request."""
    return _json(
        [
            {
                "type": "function",
                "name": one["name"],
                "description": one["description"],
                "parameters": one["parameters"],
            }
            for one in request["tools"]
        ]
    )


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    is_tool = message["role"] == "tool"
    parts = [_result(one) for one in message["results"]] if is_tool else _parts(message["parts"])
    return {"role": message["role"], "parts": parts}


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    told = _parts(result["content"])
    is_text = len(told) == 1 and told[0]["type"] == "text"
    return {"type": "tool_call_response", "id": result["id"], "response": told[0]["content"] if is_text else told}


def _parts(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_part(one) for one in parts]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    match part["kind"]:
        case "text":
            return {"type": "text", "content": part["text"]}
        case "thinking":
            return {"type": "reasoning", "content": part["text"]}
        case "tool_call":
            arguments = _parsed(part["arguments"])
            return {"type": "tool_call", "id": part["id"], "name": part["name"], "arguments": arguments}
        case "media":
            return _media(part)
        case kind:
            return {"type": kind}  # a block that only its provider reads


def _media(part: Mapping[str, Any]) -> dict[str, Any]:
    """A picture or document: where it is. Its bytes have no place in a trace."""
    sort = part["media_type"].partition("/")[0]
    told = {"mime_type": part["media_type"], "modality": sort if sort in _MODALITIES else "document"}
    if part["url"] is not None:
        return {"type": "uri", "uri": part["url"], **told}
    return {"type": "blob", "content": "", "base64_characters": len(part["data"] or ""), **told}


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)
