"""A `ModelRequest` as OpenAI's Responses API takes it: stateless, with the items of earlier replies sent back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, assert_never

from flowagent.errors import ModelError
from flowagent.models.base import ModelRequest, Only, OutputSpec, Profile, ToolSpec
from flowagent.models.history import arguments_of, sendable
from flowagent.models.media import data_url, inline_text
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

PROVIDER: Final = "openai"

FIELDS: Final[Mapping[str, str]] = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "effort": "reasoning.effort",
    "thinking": "reasoning.effort",
    "verbosity": "text.verbosity",
    "parallel_tool_calls": "parallel_tool_calls",
    "service_tier": "service_tier",
    "metadata": "metadata",
}
"""The API's field for each setting. `cache` has none: prompts are cached without being asked."""

_SAME: Final = ("temperature", "top_p", "service_tier", "metadata", "timeout")

Item: TypeAlias = dict[str, Any]


def written(request: ModelRequest, model: str, profile: Profile) -> Call:
    """A request whose every part the model accepts, as the arguments of `responses.create`.

    Raises:
        ModelError: an output that the API cannot be held to (`unsupported`).
    """
    given: Mapping[str, Any] = {**request.settings}
    fit = sendable(request.messages, PROVIDER, same_model=lambda _: profile.thinking != "none")
    fields: dict[str, Any] = {
        "model": model,
        "input": [item for message in fit for item in _items(message)],
        "store": False,
        "stream": True,
    }
    if request.system_text.strip():
        fields["instructions"] = request.system_text
    if profile.thinking != "none":
        fields["include"] = ["reasoning.encrypted_content"]
    if "max_tokens" in given:
        fields["max_output_tokens"] = given["max_tokens"]
    fields |= {name: value for name, value in given.items() if name in _SAME}
    fields |= _reasoning(request) | _text(request, model) | _tool_fields(request, profile) | further(request)
    return Call(fields=fields, settings={name: FIELDS[name] for name in given if name in FIELDS})


def effort_of(request: ModelRequest) -> str | None:
    """How much the model is asked to think; `thinking` alone is a word for none or a middling effort."""
    settings = request.settings
    if "effort" in settings:
        return settings["effort"]
    return None if "thinking" not in settings else "medium" if settings["thinking"] else "none"


def further(request: ModelRequest) -> dict[str, Any]:
    """Headers and fields of the caller's own."""
    fields: dict[str, Any] = {}
    if "headers" in request.settings:
        fields["extra_headers"] = request.settings["headers"]
    if "extra" in request.settings:
        fields["extra_body"] = request.settings["extra"]
    return fields


def json_schema(output: OutputSpec, model: str) -> dict[str, Any]:
    """The shape of a reply, strict or as it is.

    Raises:
        ModelError: the schema is none of an object (`unsupported`).
    """
    report = report_on(output.schema_, "openai", output.strict)
    if not report.strict and output.schema_.get("type", "object") != "object":
        raise ModelError(
            f"{model} was not asked: output {output.name!r} must be an object at its top",
            kind="unsupported",
            model=model,
        )
    shape: dict[str, Any] = {"name": output.name, "schema": report.schema, "strict": report.strict}
    return shape | ({"description": output.description} if output.description else {})


def function(tool: ToolSpec, *, may_be_strict: bool) -> dict[str, Any]:
    """A tool, strict or as it is."""
    report = report_on(tool.parameters, "openai", tool.strict if may_be_strict else False)
    written: dict[str, Any] = {"name": tool.name, "parameters": report.schema}
    return written | ({"description": tool.description} if tool.description else {}) | {"strict": report.strict}


def _reasoning(request: ModelRequest) -> dict[str, Any]:
    effort = effort_of(request)
    return {} if effort is None else {"reasoning": {"effort": effort}}


def _text(request: ModelRequest, model: str) -> dict[str, Any]:
    text: dict[str, Any] = {}
    if "verbosity" in request.settings:
        text["verbosity"] = request.settings["verbosity"]
    if request.output is not None:
        text["format"] = {"type": "json_schema", **json_schema(request.output, f"{PROVIDER}:{model}")}
    return {"text": text} if text else {}


def _tool_fields(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    if not request.tools:
        return {}
    fields: dict[str, Any] = {
        "tools": [{"type": "function", **function(tool, may_be_strict=profile.strict_tools)} for tool in request.tools]
    }
    match request.tool_choice:
        case "auto" | "none" | "required":
            fields["tool_choice"] = request.tool_choice
        case Only(tool=name):
            fields["tool_choice"] = {"type": "function", "name": name}
        case _:
            assert_never(request.tool_choice)
    if "parallel_tool_calls" in request.settings:
        fields["parallel_tool_calls"] = request.settings["parallel_tool_calls"]
    return fields


# -- items -----------------------------------------------------------------------------------------------------------


def _items(message: Message) -> Iterator[Item]:
    match message:
        case UserMessage():
            yield {"type": "message", "role": "user", "content": [_spoken(part) for part in message.parts]}
        case AssistantMessage():
            yield from _answered(message.parts)
        case ToolMessage():
            yield from (_result(result) for result in message.results)
        case _:
            assert_never(message)


def _answered(parts: Iterable[Text | Thinking | ToolCall | Opaque]) -> Iterator[Item]:
    label: Item = {}
    for part in parts:
        match part:
            case Text():
                yield {"type": "message", "role": "assistant", "content": part.text, **label}
                label = {}
            case Thinking():
                yield json.loads(part.data)
            case Opaque():
                block: Item = json.loads(part.data)
                if is_label(block):
                    label = {"phase": block["phase"]}
                else:
                    yield block
            case ToolCall():
                arguments = json.dumps(arguments_of(part), ensure_ascii=False)
                yield {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}
            case _:
                assert_never(part)


def is_label(block: Item) -> bool:
    """Whether a block is not an item, but only says which phase the text after it belongs to."""
    return block.get("type") == "message" and "content" not in block and "phase" in block


def _result(result: ToolResult) -> Item:
    return {"type": "function_call_output", "call_id": result.id, "output": _output(result)}


def _output(result: ToolResult) -> str | list[Item]:
    if all(isinstance(part, Text) for part in result.content):
        return told_result(result)
    return [_spoken(part) for part in result.content]


def told_result(result: ToolResult) -> str:
    """The text of a result; an interface without a mark for errors is told of one in words."""
    text = result.text
    return f"Error: {text}" if result.is_error and not text.lower().startswith("error") else text


def _spoken(part: Text | Media) -> Item:
    match part:
        case Text():
            return {"type": "input_text", "text": part.text}
        case Media(media_type=kind) if kind.startswith("text/"):
            return {"type": "input_text", "text": inline_text(part)}
        case Media(media_type=kind) if kind.startswith("image/"):
            return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
        case Media(url=str(url)):
            return {"type": "input_file", "file_url": url}
        case Media():
            return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": data_url(part)}
        case _:
            assert_never(part)
