"""Puts together characters that a server has cut in two: halves of a UTF-16 pair, which JSON can write one by one."""

from __future__ import annotations

from dataclasses import replace

from flowagent.models.base import StreamPart, TextDelta, ThinkingDelta
from flowagent.models.messages import AssistantMessage, ReplyPart, Text, Thinking, ToolCall


def joined(text: str) -> str:
    r"""A text with the halves of its characters put together; a half without the other becomes U+FFFD.

    Example:
        >>> joined("\ud83e" + "\udd16") == "\U0001f916"
        True
    """
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole(message: AssistantMessage) -> AssistantMessage:
    """A message without halves of characters, which no store could write."""
    parts = tuple(_whole(part) for part in message.parts)
    return message if parts == message.parts else message.model_copy(update={"parts": parts})


def _whole(part: ReplyPart) -> ReplyPart:
    match part:
        case Text(text=text) | Thinking(text=text) if joined(text) != text:
            return part.model_copy(update={"text": joined(text)})
        case ToolCall(arguments=arguments) if joined(arguments) != arguments:
            return part.model_copy(update={"arguments": joined(arguments)})
        case _:
            return part


class Halves:
    """Holds back the first half of a character until the delta with the second one comes."""

    def __init__(self) -> None:
        self._held: dict[type, str] = {}

    def more(self, part: StreamPart) -> StreamPart:
        """A part of a stream, with what was held back before it and without what is cut at its end."""
        return self._mended(part) if isinstance(part, (TextDelta, ThinkingDelta)) else part

    def _mended(self, part: TextDelta | ThinkingDelta) -> TextDelta | ThinkingDelta:
        text = self._held.pop(type(part), "") + part.text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held[type(part)] = text[-1]
            text = text[:-1]
        return replace(part, text=joined(text))
