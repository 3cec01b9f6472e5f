"""What a model is to the rest of flowagent: two methods, a profile of what it accepts, and the plain data between.

A provider's file turns a `ModelRequest` into its own call and what comes back into a `Reply`. Everything above (agents,
wrappers, recorders) knows only what stands here.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from flowagent.core.usage import Usage
from flowagent.errors import ModelError
from flowagent.models.messages import AssistantMessage, Message, ToolMessage

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Settings(TypedDict, total=False):
    """How a model is asked to work. Nothing is sent unless it is set, and set only where the model accepts it.

    Keys:
        max_tokens: the most tokens that one reply may have.
        temperature: how freely it chooses, from 0.
        top_p: chooses among the likeliest words that make up this share.
        top_k: chooses among this many words.
        seed: for replies that can be repeated, where the provider can.
        stop: texts at which a reply ends.
        effort: how much it thinks.
        thinking: whether it thinks: a bool, or the most tokens to think.
        verbosity: how wordy it is.
        parallel_tool_calls: whether one reply may call several tools.
        service_tier: the provider's word for priority and price.
        metadata: labels that the provider keeps with the request.
        cache: how long the provider keeps the static beginning of the prompt, where that must be asked for.
        timeout: seconds until a request is given up.
        headers: further HTTP headers.
        extra: further fields of the provider's request, sent as they are.
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int
    stop: list[str]
    effort: Effort
    thinking: bool | int
    verbosity: Literal["low", "medium", "high"]
    parallel_tool_calls: bool
    service_tier: str
    metadata: dict[str, str]
    cache: Literal["5m", "1h"]
    timeout: float
    headers: dict[str, str]
    extra: dict[str, Any]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Section(_Frozen):
    """A named part of the system prompt.

    Args:
        name: what it is, such as `instructions`; not sent.
        text: what is sent.
        volatile: whether it changes from request to request, so that a prompt cache ends before it.
    """

    name: str
    text: str
    volatile: bool = False


class ToolSpec(_Frozen):
    """A tool as a model is told of it.

    Args:
        name: matches `[a-zA-Z0-9_-]{1,64}`.
        description: when to use it and how.
        parameters: the JSON schema of its arguments, an object. What a provider has to make of it, the provider makes.
        strict: whether the provider shall hold the model to the schema: True (even if words are lost by it), False, or
            where nothing is lost.
        returns: the JSON schema of its result, where it is known and worth telling.
        secrets: the arguments whose values are shown nowhere; for those who write requests down, not sent.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any]
    strict: bool | Literal["auto"] = False
    returns: dict[str, Any] | None = None
    secrets: tuple[str, ...] = ()


class OutputSpec(_Frozen):
    """The shape that a provider shall hold a reply to.

    Args:
        name: matches `[a-zA-Z0-9_-]{1,64}`.
        schema_: a JSON schema.
        strict: whether the provider shall hold the model to it; see `ToolSpec`.
    """

    name: str
    description: str = ""
    schema_: dict[str, Any]
    strict: bool | Literal["auto"] = "auto"


class Only(_Frozen):
    """The model must call this tool."""

    tool: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Only


class ModelRequest(_Frozen):
    """All that a model is told in one request.

    Args:
        system: the system prompt in its sections; they are joined by empty lines.
        messages: the conversation so far.
        tools: what it may call.
        tool_choice: whether it may, must not or must call something.
        output: the shape that its text must have, for models that can be held to one.
        settings: how it works.
    """

    system: tuple[Section, ...] = ()
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    output: OutputSpec | None = None
    settings: Settings = {}

    @property
    def system_text(self) -> str:
        """The system prompt as one text."""
        return "\n\n".join(section.text for section in self.system if section.text)

    @property
    def tool_results(self) -> dict[str, Any]:
        """The newest results of tools by tool name: the value where the text is JSON, else the text.

        A tool that was called several times in that turn has a list of its results, in the order of the calls.
        """
        newest = next((one for one in reversed(self.messages) if isinstance(one, ToolMessage)), None)
        by_name: dict[str, list[Any]] = {}
        for result in newest.results if newest else ():
            by_name.setdefault(result.name, []).append(_told_value(result.text))
        return {name: values[0] if len(values) == 1 else values for name, values in by_name.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete answer.

    Args:
        message: what was answered, why it ended, and what it cost.
        raw: the provider's own object, for what is not in the message; it is not stored.
        seconds: from the request to the end of the reply.
        first_token: seconds from the request to the first part of the reply; None if nothing was streamed.
        from_cache: whether no request was made because the answer was known.
    """

    message: AssistantMessage
    raw: Any = field(default=None, compare=False, repr=False)
    seconds: float = 0.0
    first_token: float | None = None
    from_cache: bool = False

    @property
    def usage(self) -> Usage:
        """What it cost, retries included."""
        usage = self.message.usage
        return Usage(requests=1, unmeasured=1, unpriced=1) if usage is None else usage


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of a tool call; to be shown, never to be run.

    Args:
        index: which of the reply's calls, from 0.
        id: the call's id.
        name: the tool's name as far as it is known.
        arguments: more of its JSON text.
    """

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request failed in a way that may pass, and is made again after a wait.

    Args:
        seconds: how long the wait is.
        error: what failed.
        restarted: whether parts of the failed reply were told already, which are void now.
    """

    seconds: float
    error: ModelError
    restarted: bool = False


StreamPart: TypeAlias = TextDelta | ThinkingDelta | CallDelta | Waiting | Reply
"""What a stream tells; the last one is the `Reply`, and only that decides anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a model accepts. Data, so that one table tells the models apart and nothing else has to.

    Args:
        window: the most tokens that request and reply may have together; None if it is not known.
        max_output: the most tokens of a reply; None if it is not known.
        tools: whether it takes tools natively; else they are written into the prompt.
        strict_tools: whether it can be held to the schemas of tools.
        parallel_tools: whether one reply may hold several calls.
        forced_tools: whether it can be made to call a tool (`tool_choice` other than auto and none).
        output: whether it can be held to a JSON schema.
        output_with_tools: whether it can be held to a JSON schema while it has tools.
        media: the media types that it reads, such as `image/*`.
        settings: the settings that it accepts.
        efforts: the values of `effort` that it accepts.
        thinking: how thinking is asked for: not at all, by a budget of tokens, adaptive, or it always thinks.
    """

    window: int | None = None
    max_output: int | None = None
    tools: bool = True
    strict_tools: bool = False
    parallel_tools: bool = True
    forced_tools: bool = True
    output: bool = False
    output_with_tools: bool = False
    media: tuple[str, ...] = ()
    settings: frozenset[str] = frozenset()
    efforts: tuple[Effort, ...] = ()
    thinking: Literal["none", "budget", "adaptive", "always"] = "none"


@runtime_checkable
class Model(Protocol):
    """A model: something that answers a conversation.

    Making one opens no connection, needs no key and imports no provider's package; the first request does.
    """

    @property
    def name(self) -> str:
        """Who it is, as `provider:model`."""
        ...

    @property
    def profile(self) -> Profile:
        """What it accepts."""
        ...

    async def request(self, request: ModelRequest) -> Reply:
        """Answer.

        Raises:
            ModelError: it could not; `kind` says why and `retryable` whether another try may help.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, telling parts as they come; the last one is the `Reply`.

        Raises:
            ModelError: as `request`; what came before is void, and stands in its `partial`.
        """
        ...


def _told_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def drained(parts: AsyncGenerator[StreamPart]) -> Reply:
    """The reply at the end of a stream, for models whose `request` is their `stream` to its end.

    Raises:
        ModelError: the stream ended without one.
    """
    async with aclosing(parts) as stream:
        async for part in stream:
            if isinstance(part, Reply):
                return part
    raise ModelError("the stream ended without a reply", kind="cut_off", retryable=True)
