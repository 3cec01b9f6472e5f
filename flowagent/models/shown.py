"""A request as text for people: what a model was told, in the order in which it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import assert_never

from flowagent.models.base import ModelRequest, Only
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

MOST_CHARACTERS = 2_000


def shown(request: ModelRequest, *, most: int = MOST_CHARACTERS) -> str:
    """A request as text, one line or more for each thing that the model is told.

    Args:
        request: what is shown.
        most: how many characters of each text are shown; what is left out is counted.

    Example:
        >>> from flowagent.models.messages import user
        >>> print(shown(ModelRequest(messages=(user("What is 19 + 23?"),))))
        user: What is 19 + 23?
    """
    return "\n".join(_cut(line, most) for line in _lines(request))


def _lines(request: ModelRequest) -> Iterator[str]:
    for section in request.system:
        yield f"system ({section.name}): {section.text}"
    for message in request.messages:
        yield from _message_lines(message)
    if request.tools:
        yield f"tools: {', '.join(tool.name for tool in request.tools)}{_choice(request)}"
    if request.output:
        yield f"output: {request.output.name} {json.dumps(request.output.schema_, ensure_ascii=False)}"
    if request.settings:
        yield f"settings: {', '.join(f'{name}={value!r}' for name, value in request.settings.items())}"


def _choice(request: ModelRequest) -> str:
    match request.tool_choice:
        case "auto":
            return ""
        case Only(tool=tool):
            return f" (must call {tool})"
        case choice:
            return f" ({choice})"


def _message_lines(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(parts=parts) | AssistantMessage(parts=parts):
            yield from (f"{message.role}: {_part(part)}" for part in parts)
        case ToolMessage(results=results):
            for result in results:
                told = " ".join(_part(part) for part in result.content)
                yield f"tool: {result.name} ({result.id}) -> {'error: ' if result.is_error else ''}{told}"
        case _:
            assert_never(message)


def _part(part: Text | Media | Thinking | ToolCall | Opaque) -> str:
    match part:
        case Text(text=text):
            return text
        case Thinking(text=text):
            return f"(thinks) {text}"
        case ToolCall(id=id_, name=name, arguments=arguments):
            return f"calls {name} ({id_}) {arguments}"
        case Media(data=data, url=url, media_type=media_type):
            return f"[{media_type}, {_where(data, url)}]"
        case Opaque(provider=provider, data=data):
            return f"[{len(data)} characters that only {provider} reads]"
        case _:
            assert_never(part)


def _where(data: bytes | None, url: str | None) -> str:
    return url if url is not None else f"{len(data or b'')} bytes"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"
