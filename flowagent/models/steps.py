"""What a scripted model does in one step, and the words for it: `say`, `think`, `call`, `calls`, `fail`, `after`."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias, Union, cast

from pydantic_core import to_json

from flowagent.core.usage import Usage
from flowagent.errors import ModelError, ModelErrorKind
from flowagent.models.base import CallDelta, ModelRequest, Reply, TextDelta, ThinkingDelta, Waiting
from flowagent.models.estimating import request_about, tokens_about
from flowagent.models.messages import AssistantMessage, Finish, Opaque, ReplyPart, Text, Thinking, ToolCall

PASSING: frozenset[ModelErrorKind] = frozenset(
    {"rate_limit", "overloaded", "timeout", "connection", "cut_off", "server"}
)
"""The kinds of error after which `fail` says that another try may help, unless told otherwise."""

Piece: TypeAlias = TextDelta | ThinkingDelta | CallDelta | Waiting
Said: TypeAlias = str | Text | Thinking | ToolCall | Opaque | AssistantMessage

Step: TypeAlias = Union[
    Said,
    Reply,
    BaseException,
    "After",
    tuple[Said, ...],
    list[Said],
    Callable[[ModelRequest], "Step | Awaitable[Step]"],
]
"""One answer of a scripted model: text, parts, several of them, a whole message or `Reply`, an error to be raised,
`after(...)`, or a function of the request that gives one of these, now or when awaited."""


@dataclass(frozen=True, slots=True)
class After:
    """A step that tells pieces of its own first; made by `after`."""

    told: tuple[Piece, ...]
    then: Step


def say(content: object, *, finish: Finish = "stop", usage: Usage | None = None) -> AssistantMessage:
    """The model answers with text.

    Args:
        content: the text, or a value that is told as JSON.
        finish: why the reply ends; `length` for one that is cut.
        usage: what it costs; made by an estimate if None.

    Example:
        >>> say({"city": "Ulm"}).text
        '{"city":"Ulm"}'
    """
    text = content if isinstance(content, str) else to_json(content).decode()
    return AssistantMessage(parts=(Text(text=text),), finish=finish, usage=usage)


def think(text: str, data: str = "") -> Thinking:
    """The model thinks; put it before what it says, as in `(think("hm"), say("42"))`."""
    return Thinking(text=text, provider="", data=data)


def call(tool: str, raw: str | None = None, /, **arguments: Any) -> ToolCall:
    """The model calls a tool.

    Args:
        tool: its name.
        raw: the arguments as the model writes them, for those that are broken; instead of `arguments`.
        **arguments: the arguments, told as JSON.

    Raises:
        ValueError: both are given.

    Example:
        >>> call("add", a=19, b=23).arguments
        '{"a":19,"b":23}'
    """
    if raw is not None and arguments:
        raise ValueError(f"call({tool!r}) has arguments as text and by name; give one of them")
    return ToolCall(id="", name=tool, arguments=to_json(arguments).decode() if raw is None else raw)


def calls(*parts: Said, finish: Finish | None = None, usage: Usage | None = None) -> AssistantMessage:
    """The model calls several tools in one reply, or says something beside its calls.

    Args:
        *parts: `call(...)`, `say(...)`, `think(...)` or text, in order.
        finish: why the reply ends; `length` for one that is cut.
        usage: what it costs; made by an estimate if None.
    """
    message = joined(parts)
    return message.model_copy(update={"finish": finish or message.finish, "usage": usage or message.usage})


def fail(
    kind: ModelErrorKind,
    message: str = "",
    *,
    retryable: bool | None = None,
    status: int | None = None,
    retry_after: float | None = None,
    usage: Usage | None = None,
) -> ModelError:
    """The model does not answer.

    Args:
        kind: why.
        message: what the error says.
        retryable: whether another try may help; None decides by `kind`.
        status: the HTTP status.
        retry_after: seconds that the provider asks to wait.
        usage: what the failed request costs; if None, it is one failed request that used no tokens.
    """
    return ModelError(
        message or f"the script says that this request fails: {kind}",
        kind=kind,
        retryable=kind in PASSING if retryable is None else retryable,
        status=status,
        retry_after=retry_after,
        usage=usage or Usage(requests=1, failed=1),
    )


def after(*told: Piece, then: Step) -> After:
    """The model tells pieces that the step itself does not hold, then does the step.

    For streams that break off or are begun again: `after(TextDelta("Hel"), then=fail("cut_off"))`,
    `after(TextDelta("Hel"), Waiting(1.0, fail("cut_off"), restarted=True), then=say("Hello"))`.

    Args:
        *told: what a stream tells first.
        then: what it does after that.
    """
    return After(told, then)


def joined(parts: tuple[Said, ...] | list[Said]) -> AssistantMessage:
    """Several things that a model says, as one reply.

    Its end and its usage are those of the last message among them that says something of its own about them.
    """
    found: list[ReplyPart] = []
    finish: Finish | None = None
    usage: Usage | None = None
    for one in parts:
        match one:
            case str():
                found.append(Text(text=one))
            case AssistantMessage():
                found.extend(one.parts)
                finish = finish if one.finish in {"stop", "tool_calls"} else one.finish
                usage = one.usage or usage
            case _:
                found.append(one)
    has_calls = any(isinstance(part, ToolCall) for part in found)
    return AssistantMessage(parts=tuple(found), finish=finish or ("tool_calls" if has_calls else "stop"), usage=usage)


async def played(step: Step, request: ModelRequest) -> AsyncGenerator[Piece | Reply | AssistantMessage]:
    """Does a step: tells its own pieces, then the reply or message that it comes to.

    Args:
        step: what is done.
        request: what functions among the steps get.

    Yields:
        The pieces that `after` names, then one message or reply, whose ids and usage may be missing.

    Raises:
        TypeError: a step, or what a function gave for one, is none.
    """
    while True:
        if isinstance(step, After):
            for piece in step.told:
                yield piece
            step = step.then
        elif callable(step):
            given = step(request)
            step = await given if inspect.isawaitable(given) else given
        else:
            yield _outcome(step)
            return


def checked_step(step: Step) -> Step:
    """A step as it is, if it is one.

    Raises:
        TypeError: it is none.
    """
    inner = step.then if isinstance(step, After) else step
    if not callable(inner) and not isinstance(inner, BaseException | After):
        _outcome(inner)
    return step


def _outcome(step: Any) -> Reply | AssistantMessage:
    match step:
        case Reply() | AssistantMessage():
            return step
        case BaseException():
            raise step
        case str() | Text() | Thinking() | ToolCall() | Opaque():
            return joined((step,))
        case tuple() | list() if step and all(isinstance(one, Said) for one in cast("list[object]", step)):
            return joined(cast("list[Said]", step))
        case _:
            raise TypeError(
                f"{step!r} is no step of a script; use text, say(...), call(...), calls(...), a tuple of these, an "
                "error, or a function of the request that returns one of them"
            )


def estimated(request: ModelRequest, message: AssistantMessage) -> Usage:
    """Usage by a rough rule: one token for four characters of what is sent and of what is answered, and no cost.

    What is sent is counted as JSON text, tools and their schemas included.
    """
    answered = json.dumps([part.model_dump(mode="json") for part in message.parts], ensure_ascii=False)
    return Usage(requests=1, input=request_about(request), output=tokens_about(answered), cost=Decimal(0))
