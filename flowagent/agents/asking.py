"""One request to a model from a node: watched, counted and told."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Generator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any

from flowagent.core import events
from flowagent.core.context import Context
from flowagent.errors import ModelError
from flowagent.models.base import Model, ModelRequest, Reply, StreamPart, TextDelta, ThinkingDelta, Waiting
from flowagent.models.metering import LOST, spent_on
from flowagent.models.opening import open_model
from flowagent.models.prompted import PromptedTools


@dataclass(frozen=True, slots=True)
class _Instead:
    every: Model | None
    named: Mapping[str, Model]


_instead: contextvars.ContextVar[_Instead | None] = contextvars.ContextVar("models_instead", default=None)


@contextmanager
def using(model: str | Model | None = None, /, **agents: str | Model) -> Generator[None]:
    """Have agents and model routers ask other models while this is open: for tests, and to compare.

    Args:
        model: asked in place of every model, or None.
        agents: asked in place of the model of the agent or router of that name.

    Example:
        >>> from flowagent.agents import Agent, using
        >>> from flowagent.testing import Scripted, say
        >>> with using(Scripted(say("42"))):
        ...     Agent("openai:gpt-5.5", name="sums").run_sync("What is 19 + 23?").output
        '42'
    """
    chosen = _Instead(None if model is None else open_model(model), {n: open_model(m) for n, m in agents.items()})
    token = _instead.set(chosen)
    try:
        yield
    finally:
        _instead.reset(token)


def model_for(agent: str, model: Model, *, has_tools: bool) -> Model:
    """The model that an agent asks: its own, or the one that is used in its place.

    Args:
        agent: the agent's name.
        model: its own.
        has_tools: whether it has tools, which a model without tools of its own is told in its prompt.
    """
    instead = _instead.get()
    chosen = model if instead is None else instead.named.get(agent) or instead.every or model
    return PromptedTools(chosen) if has_tools and not chosen.profile.tools else chosen


async def ask(model: Model, request: ModelRequest, ctx: Context[Any, Any]) -> Reply:
    """Ask a model: what comes is told to whoever watches, and what it costs is counted.

    Raises:
        ModelError: it did not answer; what that cost is counted, too.
    """
    ctx.tell(events.ModelAsked, model=model.name, asked=request)
    began = time.perf_counter()
    try:
        if ctx.is_watched:
            reply = await _watched(model, request, ctx)
        else:
            reply = await model.request(request)
    except ModelError as error:
        usage = spent_on(error)
        ctx.spend(usage)
        ctx.tell(
            events.ModelFailed,
            model=model.name,
            asked=request,
            kind=error.kind,
            message=str(error),
            usage=usage,
            seconds=time.perf_counter() - began,
        )
        raise
    except asyncio.CancelledError:
        ctx.spend(LOST)  # a request that is broken off is paid for all the same
        raise
    ctx.spend(reply.usage)
    ctx.tell(
        events.ModelCalled,
        model=model.name,
        asked=request,
        reply=reply,
        request=ctx.spent.requests,
        usage=reply.usage,
        seconds=reply.seconds,
        first_token=reply.first_token,
        finish=reply.message.finish,
    )
    return reply


async def _watched(model: Model, request: ModelRequest, ctx: Context[Any, Any]) -> Reply:
    async with aclosing(model.stream(request)) as parts:
        async for part in parts:
            if isinstance(part, Reply):
                return part
            _tell(part, model, ctx)
    raise ModelError("the stream ended without a reply", kind="cut_off", retryable=True, model=model.name)


def _tell(part: StreamPart, model: Model, ctx: Context[Any, Any]) -> None:
    match part:
        case TextDelta(text):
            ctx.tell(events.TextDelta, text=text, thinking=False)
        case ThinkingDelta(text):
            ctx.tell(events.TextDelta, text=text, thinking=True)
        case Waiting(seconds, error, restarted):
            ctx.tell(
                events.ModelWaits,
                model=model.name,
                seconds=seconds,
                kind=error.kind,
                message=str(error),
                restarted=restarted,
            )
        case _:
            pass  # a call is told when it is run
