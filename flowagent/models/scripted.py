"""Models that are programs: `Scripted` answers step by step, `FunctionModel` by a function. They need no network.

The words for steps are in `flowagent.models.steps`; all of it can be imported from `flowagent.testing`.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, cast, get_args

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
from flowagent.models.shown import shown
from flowagent.models.steps import Piece, Step, checked_step, estimated, played

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


class UnexpectedRequest(AssertionError):
    """Raised when a scripted model is asked more than its script answers.

    It is no `ModelError`, so that no retry, fallback or error branch can hide it.

    Attributes:
        request: what was asked.
    """

    def __init__(self, message: str, request: ModelRequest) -> None:
        self.request = request
        super().__init__(f"{message}; the request was:\n{shown(request)}")


class _Program(ABC):
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
                        told = _void(told, piece)
                        yield piece
            except ModelError as error:
                error.model = error.model or self._name
                error.partial = error.partial or told
                raise

    @abstractmethod
    def _next(self, request: ModelRequest) -> tuple[Step, _Calls]:
        """The step that answers a request, which is noted as asked, and what numbers its calls."""

    def _ending(self, request: ModelRequest, said: Reply | AssistantMessage, calls: _Calls) -> Iterator[StreamPart]:
        reply = said if isinstance(said, Reply) else self._replied(request, said, calls)
        yield from deltas(reply.message, self._chunk)
        yield reply

    def _replied(self, request: ModelRequest, message: AssistantMessage, calls: _Calls) -> Reply:
        provider, _, model = self._name.partition(":")
        with self._lock:
            parts = tuple(calls.named(part, request, provider) for part in message.parts)
        whole = message.model_copy(
            update={"parts": parts, "model": message.model or model, "provider": message.provider or provider}
        )
        return Reply(
            message=whole.model_copy(update={"usage": message.usage or estimated(request, whole)}), first_token=0.0
        )


class Scripted(_Program):
    """A model that answers step by step, for tests and examples.

    Calls get the ids `call-1`, `call-2`, ..., counted for each script and on from those in the conversation. Usage
    that a step does not give is estimated: one token for four characters, at no cost. Several threads and event loops
    may ask at once; that each asker gets the same steps in every run is for `Scripted.by` to ensure.

    Args:
        *steps: the answers, in order.
        name: who it is, as `provider:model`.
        profile: what it accepts; everything, if not given.
        chunk: how many characters a streamed piece has, or several such sizes, of which the last goes on.

    Raises:
        TypeError: a step is none.
        ValueError: `chunk` holds no size, or one below 1.

    Example:
        >>> import asyncio
        >>> from flowagent.models.messages import user
        >>> from flowagent.models.steps import call, say
        >>> model = Scripted(call("add", a=19, b=23), say("42"))
        >>> question = ModelRequest(messages=(user("What is 19 + 23?"),))
        >>> asyncio.run(model.request(question)).message.calls
        (ToolCall(kind='tool_call', id='call-1', name='add', arguments='{"a":19,"b":23}'),)
        >>> asyncio.run(model.request(question)).message.text
        '42'
        >>> model.assert_used_up()
    """

    def __init__(
        self,
        *steps: Step,
        name: str = "scripted:model",
        profile: Profile = ANYTHING,
        chunk: Chunk = DEFAULT_CHUNK,
    ) -> None:
        super().__init__(name, profile, chunk)
        self._find: Callable[[ModelRequest], str] = lambda request: ""
        self._scripts = {"": _Script(steps)}

    @classmethod
    def by(
        cls,
        scripts: Mapping[str, Step | Sequence[Step]],
        *,
        key: Callable[[ModelRequest], str] | None = None,
        name: str = "scripted:model",
        profile: Profile = ANYTHING,
        chunk: Chunk = DEFAULT_CHUNK,
    ) -> Scripted:
        """A model with several scripts, for agents and branches that run side by side.

        Each request is answered from the script of its key, so which branch is faster decides nothing.

        Args:
            scripts: the scripts by key: a list of steps, or a single step.
            key: gives the key of a request; without it, it is the one key that stands in the system prompt or in
                what the user says.
            name: who it is, as `provider:model`.
            profile: what it accepts; everything, if not given.
            chunk: how many characters a streamed piece has.

        Example:
            >>> model = Scripted.by({"You write": ["A draft.", "A better one."], "You judge": ["Too short.", "Good."]})
        """
        model = cls(name=name, profile=profile, chunk=chunk)
        model._scripts = {one: _Script(_listed(steps)) for one, steps in scripts.items()}
        model._find = key or _said(tuple(scripts))
        return model

    def requests_of(self, key: str) -> Sequence[ModelRequest]:
        """What was asked so far of one of the scripts of `Scripted.by`, in order."""
        with self._lock:
            return tuple(self._scripts[key].asked)

    def assert_used_up(self) -> None:
        """Checks that every step was asked for.

        Raises:
            AssertionError: some were not; they are listed.
        """
        with self._lock:
            left = [line for key, script in self._scripts.items() for line in script.left(key)]
        if left:
            count = "1 step was" if len(left) == 1 else f"{len(left)} steps were"
            raise AssertionError("\n".join([f"{count} not asked for in the script of `{self._name}`:", *left]))

    def _next(self, request: ModelRequest) -> tuple[Step, _Calls]:
        key = self._find(request)
        with self._lock:
            self._asked.append(request)
            script = self._scripts.get(key)
            if script is None:
                known = ", ".join(repr(one) for one in self._scripts)
                raise UnexpectedRequest(f"`{self._name}` has no script for the key {key!r}, only {known}", request)
            script.asked.append(request)
            if len(script.asked) > len(script.steps):
                raise UnexpectedRequest(script.exhausted(self._name, key), request)
            return script.steps[len(script.asked) - 1], script.calls


class FunctionModel(_Program):
    """A model that answers by a function.

    Args:
        answer: gets the request and gives what a step of a script may be: text, parts, a message, a `Reply`, or an
            error, which is raised. It may be async.
        name: who it is, as `provider:model`; made of the function's name, if not given.
        profile: what it accepts; everything, if not given.
        chunk: how many characters a streamed piece has.

    Example:
        >>> import asyncio
        >>> from flowagent.models.messages import user
        >>> shout = FunctionModel(lambda request: request.messages[-1].text.upper(), name="function:shout")
        >>> asyncio.run(shout.request(ModelRequest(messages=(user("hello"),)))).message.text
        'HELLO'
    """

    def __init__(
        self,
        answer: Callable[[ModelRequest], Step | Awaitable[Step]],
        *,
        name: str = "",
        profile: Profile = ANYTHING,
        chunk: Chunk = DEFAULT_CHUNK,
    ) -> None:
        super().__init__(name or f"function:{getattr(answer, '__name__', 'answer')}", profile, chunk)
        self._answer = answer

    def _next(self, request: ModelRequest) -> tuple[Step, _Calls]:
        with self._lock:
            self._asked.append(request)
        return self._answer, _Calls()


class _Calls:
    """Gives calls their ids: on from its own last one, and from the last one in the conversation."""

    def __init__(self) -> None:
        self._last = 0

    def named(self, part: ReplyPart, request: ModelRequest, provider: str) -> ReplyPart:
        """A part with the id or provider that its maker left open."""
        match part:
            case ToolCall(id=""):
                self._last = max(self._last, _last_call(request)) + 1
                return part.model_copy(update={"id": f"call-{self._last}"})
            case Thinking(provider=""):
                return part.model_copy(update={"provider": provider})
            case _:
                return part


class _Script:
    """One list of steps, how far it has come, and what was asked of it."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = tuple(checked_step(step) for step in steps)
        self.asked: list[ModelRequest] = []
        self.calls = _Calls()

    def left(self, key: str) -> list[str]:
        of_key = f" of {key!r}" if key else ""
        unused = list(enumerate(self.steps, start=1))[len(self.asked) :]
        return [f"  - step {number}{of_key}: {step!r}" for number, step in unused]

    def exhausted(self, name: str, key: str) -> str:
        of_key = f" for {key!r}" if key else ""
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return f"the script of `{name}`{of_key} has {steps}, and request {len(self.asked)} was made"


def _listed(steps: Step | Sequence[Step]) -> Sequence[Step]:
    return cast("Sequence[Step]", steps) if isinstance(steps, list | tuple) else (cast("Step", steps),)


def _void(told: str, piece: Piece) -> str:
    """The text that a stream has told so far, after one more piece."""
    match piece:
        case TextDelta(text=text):
            return told + text
        case Waiting(restarted=True):
            return ""
        case _:
            return told


def _said(keys: tuple[str, ...]) -> Callable[[ModelRequest], str]:
    """Finds the one key that stands in the system prompt or in what the user says."""

    def find(request: ModelRequest) -> str:
        texts = [request.system_text, *(one.text for one in request.messages if one.role == "user")]
        found = [key for key in keys if any(key in text for text in texts)]
        if len(found) != 1:
            what = (
                f"several keys ({', '.join(map(repr, found))})"
                if found
                else f"none of the keys {', '.join(map(repr, keys))}"
            )
            raise UnexpectedRequest(f"{what} stand in the request; give Scripted.by a `key` that tells", request)
        return found[0]

    return find


def _last_call(request: ModelRequest) -> int:
    """The highest number of a call in a conversation that is named as scripted models name them."""
    ids = [call.id for message in request.messages if message.role == "assistant" for call in message.calls]
    return max((int(match[1]) for id_ in ids if (match := re.fullmatch(r"call-(\d{1,9})", id_))), default=0)
