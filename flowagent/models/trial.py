"""`TestModel`: a model that tries every tool once, and then answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from flowagent.models.base import ModelRequest, Only, Profile, ToolSpec
from flowagent.models.plausible import plausible
from flowagent.models.program import ANYTHING, DEFAULT_CHUNK, CallIds, Program
from flowagent.models.steps import Step, call, calls, say


class TestModel(Program):
    """A model that calls every tool once, with arguments that fit its schema, and then answers.

    It shows that an agent's wiring holds, without a script: that each tool can be called, and that an answer of the
    asked shape is accepted. What it says means nothing. It decides by the conversation since the user's last message
    alone, so one can be used by any number of agents.

    Args:
        tools: the names of the tools that it calls; None for all.
        last: tools that are called alone, after all others: those that end an agent's work.
        text: what it answers; where a shape is asked for, a value that fits it.
        name: who it is, as `provider:model`.
        profile: what it accepts; everything, if not given.

    Example:
        >>> import asyncio
        >>> from flowagent.models.base import ToolSpec
        >>> from flowagent.models.messages import user
        >>> add = ToolSpec(name="add", parameters={"properties": {"a": {"type": "integer"}}, "required": ["a"]})
        >>> request = ModelRequest(messages=(user("hello"),), tools=(add,))
        >>> asyncio.run(TestModel().request(request)).message.calls[0].arguments
        '{"a":0}'
    """

    __test__ = False  # pytest, it is no test

    def __init__(
        self,
        *,
        tools: Collection[str] | None = None,
        last: Collection[str] = ("final_answer",),
        text: str = "done",
        name: str = "test:model",
        profile: Profile = ANYTHING,
    ) -> None:
        super().__init__(name, profile, DEFAULT_CHUNK)
        self._tools = tools
        self._last = last
        self._text = text

    def _next(self, request: ModelRequest) -> tuple[Step, CallIds]:
        with self._lock:
            self._asked.append(request)
        return self._step(request), CallIds()

    def _step(self, request: ModelRequest) -> Step:
        wanted = self._wanted(request)
        if wanted:
            one_by_one = request.settings.get("parallel_tool_calls") is False or not self._profile.parallel_tools
            return calls(
                *(call(tool.name, **plausible(tool.parameters)) for tool in wanted[: 1 if one_by_one else None])
            )
        return say(self._text if request.output is None else plausible(request.output.schema_))

    def _wanted(self, request: ModelRequest) -> Sequence[ToolSpec]:
        """The tools to be called now."""
        called = _called_since(request)
        chosen = [tool for tool in request.tools if self._tools is None or tool.name in self._tools]
        match request.tool_choice:
            case "none":
                return []
            case Only(tool=name):
                return [tool for tool in request.tools if tool.name == name]
            case choice:
                fresh = [tool for tool in chosen if tool.name not in called]
                first = [tool for tool in fresh if tool.name not in self._last] or fresh[:1]
                return first or (list(request.tools[-1:]) if choice == "required" else [])


def _called_since(request: ModelRequest) -> set[str]:
    """The tools that were called since the user said something."""
    called: set[str] = set()
    for message in reversed(request.messages):
        if message.role == "user":
            break
        if message.role == "assistant":
            called |= {one.name for one in message.calls}
    return called
