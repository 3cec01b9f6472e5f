"""A `ModelRequest` as OpenAI's Chat Completions takes it, the interface that most local servers speak too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, assert_never

from flowagent.models.base import ModelRequest, Only, Profile
from flowagent.models.history import arguments_of, sendable
from flowagent.models.media import base64_of, data_url, inline_text, unsendable
from flowagent.models.messages import (
    AssistantMessage,
    Media,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from flowagent.models.openai_request import effort_of, function, further, json_schema, told_result
from flowagent.models.remote import Call

Item: TypeAlias = dict[str, Any]

_SAME: Final = ("temperature", "top_p", "seed", "stop", "verbosity", "service_tier", "timeout")
_FORMATS: Final[Mapping[str, str]] = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_SEEN_BELOW: Final = "(The files of this result are in the next message.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """How a server speaks Chat Completions, where servers differ.

    Args:
        limit: the field for the most tokens of a reply.
        strict: whether it knows the word `strict` for tools.
    """

    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    strict: bool = False


def written(request: ModelRequest, model: str, provider: str, profile: Profile, speech: Speech) -> Call:
    """A request whose every part the model accepts, as the arguments of `chat.completions.create`.

    Args:
        request: what is asked.
        model: the model's name at the server.
        provider: whose thoughts and blocks go back.
        profile: what the model accepts.
        speech: how the server speaks.

    Raises:
        ModelError: an output or a part that the interface cannot carry (`unsupported`).
    """
    given: Mapping[str, Any] = {**request.settings}
    fields: dict[str, Any] = {
        "model": model,
        "messages": _messages(request, provider, model),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    fields |= {name: value for name, value in given.items() if name in _SAME}
    if "max_tokens" in given:
        fields[speech.limit] = given["max_tokens"]
    effort = effort_of(request)
    if effort is not None:
        fields["reasoning_effort"] = effort
    if request.output is not None:
        shape = json_schema(request.output, f"{provider}:{model}")
        fields["response_format"] = {"type": "json_schema", "json_schema": shape}
    fields |= _tool_fields(request, profile, speech) | further(request)
    if "top_k" in given:
        fields["extra_body"] = {"top_k": given["top_k"]} | fields.get("extra_body", {})
    return Call(fields=fields, settings=_sent_as(given, speech))


def _sent_as(given: Mapping[str, Any], speech: Speech) -> dict[str, str]:
    names = {name: name for name in (*_SAME[:-1], "top_k", "parallel_tool_calls")}
    names |= {"max_tokens": speech.limit, "effort": "reasoning_effort", "thinking": "reasoning_effort"}
    return {name: names[name] for name in given if name in names}


def _tool_fields(request: ModelRequest, profile: Profile, speech: Speech) -> dict[str, Any]:
    if not request.tools:
        return {}
    functions = [function(tool, may_be_strict=speech.strict and profile.strict_tools) for tool in request.tools]
    if not speech.strict:
        functions = [{key: value for key, value in one.items() if key != "strict"} for one in functions]
    fields: dict[str, Any] = {"tools": [{"type": "function", "function": one} for one in functions]}
    match request.tool_choice:
        case "auto":
            pass  # what every server does by itself; some do not know the word
        case "none" | "required":
            fields["tool_choice"] = request.tool_choice
        case Only(tool=name):
            fields["tool_choice"] = {"type": "function", "function": {"name": name}}
        case _:
            assert_never(request.tool_choice)
    if "parallel_tool_calls" in request.settings:
        fields["parallel_tool_calls"] = request.settings["parallel_tool_calls"]
    return fields


# -- messages --------------------------------------------------------------------------------------------------------


def _messages(request: ModelRequest, provider: str, model: str) -> list[Item]:
    system = request.system_text
    items: list[Item] = [{"role": "system", "content": system}] if system.strip() else []
    name = f"{provider}:{model}"
    return items + [item for message in sendable(request.messages, provider) for item in _items(message, name)]


def _items(message: Message, name: str) -> Iterator[Item]:
    match message:
        case UserMessage():
            yield {"role": "user", "content": _content(message.parts, name)}
        case AssistantMessage():
            yield _answered(message)
        case ToolMessage():
            yield from _results(message, name)
        case _:
            assert_never(message)


def _content(parts: Sequence[Text | Media], name: str) -> str | list[Item]:
    """One text as plain text, which every server reads; else a list of parts."""
    match parts:
        case [Text(text=text)]:
            return text
        case _:
            return [_spoken(part, name) for part in parts]


def _answered(message: AssistantMessage) -> Item:
    item: Item = {"role": "assistant"}
    calls: list[Item] = []
    for part in message.parts:
        match part:
            case Text():
                item["content"] = item.get("content", "") + part.text
            case ToolCall():
                arguments = json.dumps(arguments_of(part), ensure_ascii=False)
                calls.append(
                    {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}
                )
            case Thinking() | Opaque():
                item |= json.loads(part.data)
            case _:
                assert_never(part)
    return item | ({"tool_calls": calls} if calls else {})


def _results(message: ToolMessage, name: str) -> Iterator[Item]:
    """A message for each result; what is no text goes into one of the user's after them, as results hold text alone."""
    files: list[Text | Media] = []
    for result in message.results:
        seen = [part for part in result.content if isinstance(part, Media)]
        text = told_result(result)
        if seen:
            files += [Text(text=f"Of the result of {result.name} ({result.id}):"), *seen]
            text = f"{text}\n{_SEEN_BELOW}".strip()
        yield {"role": "tool", "tool_call_id": result.id, "content": text}
    if files:
        yield {"role": "user", "content": _content(files, name)}


def _spoken(part: Text | Media, name: str) -> Item:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Media(media_type=kind) if kind.startswith("text/"):
            return {"type": "text", "text": inline_text(part)}
        case Media(media_type=kind) if kind.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": data_url(part)}}
        case Media(data=None):
            raise unsendable(part, name)
        case Media(media_type=kind) if kind in _FORMATS:
            return {"type": "input_audio", "input_audio": {"data": base64_of(part), "format": _FORMATS[kind]}}
        case Media():
            return {"type": "file", "file": {"filename": part.name or "file.pdf", "file_data": data_url(part)}}
        case _:
            assert_never(part)
