"""What models that are programs have in common: their answers are steps, which they stream and whose gaps they fill."""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Final, get_args

from flowagent.errors import ModelError
from flowagent.models.base import (
    Effort,
    ModelRequest,
    Profile,
    Reply,
    Settings,
    StreamPart,
    TextDelta,
    Waiting,
    drained,
)
from flowagent.models.deltas import Chunk, checked_chunk, deltas
from flowagent.models.messages import AssistantMessage, ReplyPart, Thinking, ToolCall
from flowagent.models.steps import Piece, Step, estimated, played

ANYTHING: Final = Profile(
    strict_tools=True,
    output=True,
    output_with_tools=True,
    media=("*/*",),
    settings=frozenset(Settings.__annotations__),
    efforts=get_args(Effort),
    thinking="adaptive",
)
"""The profile of a model that accepts everything; the starting one of models that are programs."""

DEFAULT_CHUNK: Final = 8


class CallIds:
    """Gives calls their ids: on from its own last one, and from the last one in the conversation."""

    def __init__(self) -> None:
        self._last = 0

    def named(self, part: ReplyPart, request: ModelRequest, provider: str) -> ReplyPart:
        """A part with the id or provider that its maker left open."""
        match part:
            case ToolCall(id=""):
                self._last = max(self._last, last_call(request)) + 1
                return part.model_copy(update={"id": f"call-{self._last}"})
            case Thinking(provider=""):
                return part.model_copy(update={"provider": provider})
            case _:
                return part


class Program(ABC):
    """A model whose answers are steps: it fills in ids and usage, streams, and keeps what it was asked."""

    def __init__(self, name: str, profile: Profile, chunk: Chunk) -> None:
        self._name = name
        self._profile = profile
        self._chunk = checked_chunk(chunk)
        self._lock = threading.Lock()
        self._asked: list[ModelRequest] = []

    @property
    def name(self) -> str:
        """Who it is, as `provider:model`."""
        return self._name

    @property
    def profile(self) -> Profile:
        """What it accepts."""
        return self._profile

    @property
    def requests(self) -> Sequence[ModelRequest]:
        """What it was asked so far, in order."""
        with self._lock:
            return tuple(self._asked)

    async def request(self, request: ModelRequest) -> Reply:
        """Answer."""
        return await drained(self.stream(request))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, telling parts as they come; the last one is the `Reply`."""
        step, calls = self._next(request)
        told = ""
        async with aclosing(played(step, request)) as pieces:
            try:
                async for piece in pieces:
                    if isinstance(piece, Reply | AssistantMessage):
                        for part in self._ending(request, piece, calls):
                            yield part
                    else:
                        told = _told_so_far(told, piece)
                        yield piece
            except ModelError as error:
                error.model = error.model or self._name
                error.partial = error.partial or told
                raise

    @abstractmethod
    def _next(self, request: ModelRequest) -> tuple[Step, CallIds]:
        """The step that answers a request, which is noted as asked, and what numbers its calls."""

    def _ending(self, request: ModelRequest, said: Reply | AssistantMessage, calls: CallIds) -> Iterator[StreamPart]:
        reply = said if isinstance(said, Reply) else self._replied(request, said, calls)
        yield from deltas(reply.message, self._chunk)
        yield reply

    def _replied(self, request: ModelRequest, message: AssistantMessage, calls: CallIds) -> Reply:
        provider, _, model = self._name.partition(":")
        with self._lock:
            parts = tuple(calls.named(part, request, provider) for part in message.parts)
        whole = message.model_copy(
            update={"parts": parts, "model": message.model or model, "provider": message.provider or provider}
        )
        return Reply(
            message=whole.model_copy(update={"usage": message.usage or estimated(request, whole)}), first_token=0.0
        )


def _told_so_far(told: str, piece: Piece) -> str:
    """The text that a stream has told so far, after one more piece."""
    match piece:
        case TextDelta(text=text):
            return told + text
        case Waiting(restarted=True):
            return ""
        case _:
            return told


def last_call(request: ModelRequest) -> int:
    """The highest number of a call in a conversation that is named as scripted models name them."""
    ids = [call.id for message in request.messages if message.role == "assistant" for call in message.calls]
    return max((int(match[1]) for id_ in ids if (match := re.fullmatch(r"call-(\d{1,9})", id_))), default=0)
