"""Models that are programs: `Scripted` answers step by step, `FunctionModel` by a function. They need no network.

The words for steps are in `flowagent.models.steps`; all of it can be imported from `flowagent.testing`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import cast

from flowagent.models.base import ModelRequest, Profile
from flowagent.models.deltas import Chunk
from flowagent.models.program import ANYTHING, DEFAULT_CHUNK, CallIds, Program
from flowagent.models.shown import shown
from flowagent.models.steps import Step, checked_step


class UnexpectedRequest(AssertionError):
    """Raised when a scripted model is asked more than its script answers.

    It is no `ModelError`, so that no retry, fallback or error branch can hide it.

    Attributes:
        request: what was asked.
    """

    def __init__(self, message: str, request: ModelRequest) -> None:
        self.request = request
        super().__init__(f"{message}; the request was:\n{shown(request)}")


class Scripted(Program):
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

    def _next(self, request: ModelRequest) -> tuple[Step, CallIds]:
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


class FunctionModel(Program):
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

    def _next(self, request: ModelRequest) -> tuple[Step, CallIds]:
        with self._lock:
            self._asked.append(request)
        return self._answer, CallIds()


class _Script:
    """One list of steps, how far it has come, and what was asked of it."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = tuple(checked_step(step) for step in steps)
        self.asked: list[ModelRequest] = []
        self.calls = CallIds()

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
