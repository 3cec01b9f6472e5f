"""A `ModelRequest` as Anthropic's Messages API takes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, assert_never

from flowagent.errors import ModelError
from flowagent.models.base import ModelRequest, Only, OutputSpec, Profile, Section, Settings, ToolSpec
from flowagent.models.history import arguments_of, sendable
from flowagent.models.media import base64_of, inline_text, unsendable
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
)
from flowagent.models.remote import Call
from flowagent.models.strict import report_on

PROVIDER: Final = "anthropic"

FIELDS: Final[Mapping[str, str]] = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop_sequences",
    "effort": "output_config.effort",
    "thinking": "thinking",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "service_tier": "service_tier",
    "metadata": "metadata",
    "cache": "cache_control",
}
"""The API's field for each setting."""

_BODY_ONLY: Final = ("temperature", "top_p", "top_k")
"""What the API takes from some models and the package has no argument for."""

_USUAL_LIMIT: Final = 8_192
"""The most tokens of a reply, which the API wants to be told, for models of which nothing is known."""

_THOUGHTS: Final = 10_000
_FEWEST_THOUGHTS: Final = 1_024
_DATED: Final = re.compile(r"-(\d{8}|latest)$")

Block: TypeAlias = dict[str, Any]


def written(request: ModelRequest, model: str, profile: Profile) -> Call:
    """A request whose every part the model accepts, as the arguments of `messages.create`.

    Raises:
        ModelError: settings that do not go together (`unsupported`).
    """
    settings = request.settings
    marker = _cache_marker(settings)
    fields: dict[str, Any] = {
        "model": model,
        "max_tokens": settings.get("max_tokens", profile.max_output or _USUAL_LIMIT),
        "messages": _messages(request.messages, model),
        "stream": True,
    }
    system = _system(request.system, marker)
    if system:
        fields["system"] = system
    if request.tools:
        fields["tools"] = _tools(request.tools, profile, marker)
        fields["tool_choice"] = _tool_choice(request)
    fields |= _thinking(request, model, fields["max_tokens"], profile)
    fields |= _output_config(request, model)
    fields |= _plain_settings(settings, model)
    return Call(fields=fields, settings={name: FIELDS[name] for name in settings if name in FIELDS})


# -- settings --------------------------------------------------------------------------------------------------------


def _plain_settings(settings: Settings, model: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "stop" in settings:
        fields["stop_sequences"] = settings["stop"]
    if "service_tier" in settings:
        fields["service_tier"] = settings["service_tier"]
    if "metadata" in settings:
        fields["metadata"] = _metadata(settings["metadata"], model)
    if "headers" in settings:
        fields["extra_headers"] = settings["headers"]
    if "timeout" in settings:
        fields["timeout"] = settings["timeout"]
    given: Mapping[str, Any] = {**settings}
    body = {name: given[name] for name in _BODY_ONLY if name in given} | settings.get("extra", {})
    return fields | ({"extra_body": body} if body else {})


def _metadata(metadata: dict[str, str], model: str) -> dict[str, str]:
    others = sorted(set(metadata) - {"user_id"})
    if others:
        raise _unsupported(model, f"settings['metadata'] may hold `user_id` alone here, not {', '.join(others)}")
    return metadata


def _thinking(request: ModelRequest, model: str, limit: int, profile: Profile) -> dict[str, Any]:
    wanted = request.settings.get("thinking")
    if wanted is None or profile.thinking == "none":
        return {}
    if wanted is False:
        return {"thinking": {"type": "disabled"}}
    if profile.thinking != "budget":
        return {"thinking": {"type": "adaptive"}}
    budget = min(_THOUGHTS, max(limit // 2, _FEWEST_THOUGHTS)) if wanted is True else wanted
    if not _FEWEST_THOUGHTS <= budget < limit:
        raise _unsupported(
            model,
            f"settings['thinking'] = {wanted!r}: a budget of {_FEWEST_THOUGHTS} tokens at least, and below "
            f"settings['max_tokens'] = {limit}",
        )
    if request.tools and request.tool_choice not in ("auto", "none"):
        raise _unsupported(model, "settings['thinking'] with a budget, together with a tool_choice that forces a call")
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _output_config(request: ModelRequest, model: str) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if "effort" in request.settings:
        config["effort"] = request.settings["effort"]
    if request.output is not None:
        config["format"] = {"type": "json_schema", "schema": _output_schema(request.output, model)}
    return {"output_config": config} if config else {}


def _output_schema(output: OutputSpec, model: str) -> dict[str, Any]:
    """The schema as the API takes it; what it cannot express is left to whoever reads the reply."""
    report = report_on(output.schema_, PROVIDER, True)
    if not report.strict:
        raise _unsupported(model, f"output {output.name!r}: {'; '.join(report.blocked)}")
    return report.schema


def _unsupported(model: str, what: str) -> ModelError:
    name = f"{PROVIDER}:{model}"
    return ModelError(f"{name} was not asked: {what}", kind="unsupported", model=name)


# -- system and tools ------------------------------------------------------------------------------------------------


def _cache_marker(settings: Settings) -> dict[str, Any]:
    ttl = settings.get("cache")
    return {} if ttl is None else {"cache_control": {"type": "ephemeral", "ttl": ttl}}


def _system(sections: Iterable[Section], marker: Block) -> list[Block]:
    """At most two blocks: what never changes, where a cache may end, and the rest."""
    static: list[str] = []
    rest: list[str] = []
    for section in sections:
        if section.text.strip():
            (rest if rest or section.volatile else static).append(section.text)
    blocks: list[Block] = []
    if static:
        blocks.append({"type": "text", "text": "\n\n".join(static), **marker})
    if rest:
        blocks.append({"type": "text", "text": "\n\n".join(rest)})
    return blocks


def _tools(tools: tuple[ToolSpec, ...], profile: Profile, marker: Block) -> list[Block]:
    blocks = [_tool(tool, profile) for tool in tools]
    blocks[-1] |= marker
    return blocks


def _tool(tool: ToolSpec, profile: Profile) -> Block:
    report = report_on(tool.parameters, PROVIDER, tool.strict if profile.strict_tools else False)
    block: Block = {"name": tool.name, "input_schema": report.schema}
    if tool.description:
        block["description"] = tool.description
    if report.strict:
        block["strict"] = True
    return block


def _tool_choice(request: ModelRequest) -> Block:
    choice: Block
    match request.tool_choice:
        case "auto" | "none":
            choice = {"type": request.tool_choice}
        case "required":
            choice = {"type": "any"}
        case Only(tool=name):
            choice = {"type": "tool", "name": name}
        case _:
            assert_never(request.tool_choice)
    if request.settings.get("parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return choice


# -- messages --------------------------------------------------------------------------------------------------------


def _messages(messages: Iterable[Message], model: str) -> list[Block]:
    """The conversation with roles that alternate; results come first in the user's message that follows them."""
    turns: list[Block] = []
    wanted = _DATED.sub("", model)
    fit = sendable(list(messages), PROVIDER, same_model=lambda name: not name or _DATED.sub("", name) == wanted)
    for message in fit:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = list(_blocks(message, model))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message, model: str) -> Iterator[Block]:
    match message:
        case UserMessage():
            yield from (_spoken(part, model) for part in message.parts)
        case AssistantMessage():
            yield from (_answered(part) for part in message.parts)
        case ToolMessage():
            yield from (_result(result, model) for result in message.results)
        case _:
            assert_never(message)


def _answered(part: Text | Thinking | ToolCall | Opaque) -> Block:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking() | Opaque():
            return json.loads(part.data)
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_of(part)}
        case _:
            assert_never(part)


def _result(result: ToolResult, model: str) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": result.id}
    if result.content:
        block["content"] = [_spoken(part, model) for part in result.content]
    if result.is_error:
        block["is_error"] = True
    return block


def _spoken(part: Text | Media, model: str) -> Block:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Media(media_type=kind) if kind.startswith("image/"):
            return {"type": "image", "source": _source(part)}
        case Media(media_type="application/pdf"):
            return _document(part, _source(part))
        case Media(media_type=kind, data=bytes()) if kind.startswith("text/"):
            text = inline_text(part.model_copy(update={"name": ""}))
            return _document(part, {"type": "text", "media_type": "text/plain", "data": text})
        case Media():
            raise unsendable(part, f"{PROVIDER}:{model}")
        case _:
            assert_never(part)


def _document(part: Media, source: Block) -> Block:
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}


def _source(part: Media) -> Block:
    if part.url is not None:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": base64_of(part)}
