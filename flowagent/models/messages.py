"""What is said between a program and a model: frozen, typed, and the same for every provider.

A message has parts. Three kinds of message alternate: what the user says, what the model answers, and the results of
the tools that it called, which stand together in one message. What a provider demands back unchanged (signed
reasoning, its own blocks) is kept as the JSON text that it sent and never looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from flowagent.core.usage import Usage

Finish = Literal["stop", "tool_calls", "length", "context", "refused", "filtered", "paused"]
"""Why a reply ended: `stop` (it is complete), `tool_calls` (it waits for results), `length` (cut at the limit of
output), `context` (cut at the model's window), `refused` (the model declines), `filtered` (the provider cut it for its
content), `paused` (the provider wants it sent back to go on)."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class Text(_Frozen):
    """Plain text."""

    kind: Literal["text"] = "text"
    text: str


class Media(_Frozen):
    """An image, a sound or a document: its bytes, or where the provider can fetch it.

    Args:
        data: its bytes, or None if `url` says where they are.
        url: where the provider fetches it from, or None.
        media_type: such as `image/png`, `audio/wav` or `application/pdf`.
        name: what it is called, for models that are told.
    """

    kind: Literal["media"] = "media"
    data: bytes | None = None
    url: str | None = None
    media_type: str
    name: str = ""


class Thinking(_Frozen):
    """What a model thought before it answered, as far as it is shown.

    Args:
        text: the thoughts, or a summary of them; often empty.
        provider: whose it is; only that provider gets it back.
        data: the block as the provider sent it, as JSON text, which goes back unchanged; "" if it wants none back.
    """

    kind: Literal["thinking"] = "thinking"
    text: str = ""
    provider: str
    data: str = ""


class ToolCall(_Frozen):
    """A model asks for a tool to be called.

    Args:
        id: what its result is matched by; unique in the conversation.
        name: the tool's name, as the provider wrote it.
        arguments: JSON text as the model wrote it, which may be anything.
    """

    kind: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    arguments: str = ""


class Opaque(_Frozen):
    """A block that only its provider understands; it goes back there unchanged and to nobody else.

    Args:
        provider: whose it is.
        data: the block as the provider sent it, as JSON text.
    """

    kind: Literal["opaque"] = "opaque"
    provider: str
    data: str


UserPart: TypeAlias = Annotated[Text | Media, Field(discriminator="kind")]
ReplyPart: TypeAlias = Annotated[Text | Thinking | ToolCall | Opaque, Field(discriminator="kind")]


class ToolResult(_Frozen):
    """What came of a tool call.

    Args:
        id: the id of the call.
        name: the tool's name, as it stands in the call.
        content: what the model is told.
        is_error: whether the call failed, so that the model is told of an error.
    """

    id: str
    name: str
    content: tuple[UserPart, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """Its text, without what is no text."""
        return _text(self.content)


class UserMessage(_Frozen):
    """What is said to the model."""

    role: Literal["user"] = "user"
    id: str = ""
    parts: tuple[UserPart, ...]

    @property
    def text(self) -> str:
        """Its text, without what is no text."""
        return _text(self.parts)


class AssistantMessage(_Frozen):
    """What a model answered.

    Args:
        parts: in the order in which they came.
        model: the model that answered, as the provider names it.
        provider: who served it.
        finish: why it ended there.
        usage: what it cost; None for messages that no model wrote.
        reply_id: the provider's id of the reply.
    """

    role: Literal["assistant"] = "assistant"
    id: str = ""
    parts: tuple[ReplyPart, ...]
    model: str = ""
    provider: str = ""
    finish: Finish = "stop"
    usage: Usage | None = None
    reply_id: str = ""

    @property
    def text(self) -> str:
        """Its text, without thoughts and calls."""
        return _text(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that it asks to be called, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class ToolMessage(_Frozen):
    """The results of all calls of one reply, in the order of the calls."""

    role: Literal["tool"] = "tool"
    id: str = ""
    results: tuple[ToolResult, ...]

    @property
    def text(self) -> str:
        """The text of all results, a line break between them."""
        return "\n".join(result.text for result in self.results)


Message: TypeAlias = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]
"""One message of a conversation."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages that must stay together: a user's message, or a reply with the results of its calls."""

    messages: tuple[UserMessage | AssistantMessage | ToolMessage, ...]


def turns(messages: Iterable[UserMessage | AssistantMessage | ToolMessage]) -> Iterator[Turn]:
    """A conversation cut where it may be cut: a call is never parted from its results.

    Args:
        messages: the conversation, in order.

    Yields:
        Its turns, in order; together they hold every message once.
    """
    open_turn: list[UserMessage | AssistantMessage | ToolMessage] = []
    for message in messages:
        if open_turn and not isinstance(message, ToolMessage):
            yield Turn(tuple(open_turn))
            open_turn = []
        open_turn.append(message)
    if open_turn:
        yield Turn(tuple(open_turn))


def user(content: str | UserMessage | Text | Media | Sequence[str | Text | Media]) -> UserMessage:
    """A user's message from whatever is at hand: text, a part, or several.

    Raises:
        TypeError: it is none of these.

    Example:
        >>> user("hello").parts
        (Text(kind='text', text='hello'),)
    """
    if isinstance(content, UserMessage):
        return content
    is_one = isinstance(content, (str, Text, Media)) or not hasattr(content, "__iter__")
    several: Any = [content] if is_one else content
    return UserMessage(parts=tuple(map(_part, several)))


def _part(one: object) -> Text | Media:
    if isinstance(one, str):
        return Text(text=one)
    if not isinstance(one, (Text, Media)):
        raise TypeError(f"{one!r} is nothing that a user says: give text, Text, Media, or a list of these")
    return one


def _text(parts: Iterable[Text | Media | Thinking | ToolCall | Opaque]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text))
