"""Hooks: code of yours around what an agent does, at five places inside it and one around its whole run.

A hook is a class with any of six methods. Each gets what is about to be done and `go`, which does it: code before
`await go(...)` runs before, code after it after; a `try` around it sees the error, and not to call it at all stands in
for it. Hooks wrap one another, the first one outermost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

from flowagent.core.context import Context

Point = Literal["run", "node", "model", "validation", "tool", "output"]
"""Where a hook stands: around a whole `run` of an agent that was started by itself, a `node` of its graph, a request to
the `model`, the `validation` of a tool's arguments, the run of a `tool`, and the checks of an `output`."""

Go: TypeAlias = Callable[[Any], Awaitable[Any]]


class Hooks:  # the parameters are for those who override; here they are only handed on
    """Does nothing at any place; override what you need.

    Example:
        What every request cost, as it happens::

            class Costs(Hooks):
                async def model(self, ctx, request, go):
                    reply = await go(request)
                    print(reply.message.model, reply.usage.tokens)
                    return reply
    """

    async def run(self, ctx: None, task: Any, go: Go) -> Any:
        """Around a run that was started on the agent itself: `task` is what it is asked, the result its result."""
        return await go(task)

    async def node(self, ctx: Context[Any, Any], state: Any, go: Go) -> Any:
        """Around one of the agent's nodes: `state` is what it was given, the result what it returns."""
        return await go(state)

    async def model(self, ctx: Context[Any, Any], request: Any, go: Go) -> Any:
        """Around one request: a `ModelRequest` goes in, a `Reply` comes out."""
        return await go(request)

    async def validation(self, ctx: Context[Any, Any], call: Any, go: Go) -> Any:
        """Around the validation of a call's arguments: a `ToolCall` goes in, the arguments as a dict come out."""
        return await go(call)

    async def tool(self, ctx: Context[Any, Any], call: Any, go: Go) -> Any:
        """Around the run of a tool: a `ToolCall` goes in, a `ToolOutcome` comes out."""
        return await go(call)

    async def output(self, ctx: Context[Any, Any], value: Any, go: Go) -> Any:
        """Around the checks of an answer that has the asked shape: the answer goes in and comes out."""
        return await go(value)


def around(hooks: Sequence[Hooks], point: Point, ctx: Any, go: Go) -> Go:
    """What does something with all hooks of a place around it."""
    for hook in reversed(hooks):
        if is_hooked([hook], point):
            go = _wrapped(hook, point, ctx, go)
    return go


def is_hooked(hooks: Sequence[Hooks], point: Point) -> bool:
    """Whether any of the hooks does something at a place."""
    return any(getattr(type(hook), point) is not getattr(Hooks, point) for hook in hooks)


def _wrapped(hook: Hooks, point: Point, ctx: Any, go: Go) -> Go:
    method: Callable[..., Awaitable[Any]] = getattr(hook, point)

    async def wrapped(given: Any) -> Any:
        result = await method(ctx, given, go)
        if result is None and not (point == "output" and given is None):
            raise TypeError(
                f"the hook `{type(hook).__name__}.{point}` returned None: it must return what `await go(...)` gives, "
                "or something in its place"
            )
        return result

    return wrapped
