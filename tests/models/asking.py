"""Short words for asking a model in tests."""

from __future__ import annotations

from flowagent.models.base import Model, ModelRequest, Reply, Section, StreamPart
from flowagent.models.messages import AssistantMessage, user


def asked(text: str = "hello", *, system: str = "") -> ModelRequest:
    """A request of one user's message."""
    sections = (Section(name="instructions", text=system),) if system else ()
    return ModelRequest(system=sections, messages=(user(text),))


async def streamed(model: Model, request: ModelRequest) -> list[StreamPart]:
    """All that a stream tells."""
    return [part async for part in model.stream(request)]


async def said(model: Model, request: ModelRequest | str = "hello") -> AssistantMessage:
    """The message that a model answers with."""
    return (await model.request(asked(request) if isinstance(request, str) else request)).message


async def told_before(
    model: Model, request: ModelRequest, error: type[BaseException]
) -> tuple[list[StreamPart], BaseException]:
    """What a stream tells before it fails, and the failure."""
    told: list[StreamPart] = []
    try:
        async for part in model.stream(request):
            told.append(part)  # noqa: PERF401 - what came before the failure is kept
    except error as raised:
        return told, raised
    raise AssertionError(f"no {error.__name__} was raised; told: {told}")


def ended(parts: list[StreamPart]) -> Reply:
    """The reply at the end of what a stream told."""
    assert isinstance(parts[-1], Reply)
    return parts[-1]
