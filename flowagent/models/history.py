"""A conversation made fit to be sent: whatever was stored, trimmed or handed over, what goes out is legal.

The rules, for all providers:

1. Text of nothing but white space is not sent, and a message that is left without content is left out.
2. Thoughts and blocks of another provider, or of another model where they are bound to one, are left out. So are
   thoughts that nothing follows, and a reply of nothing but thoughts.
3. The results of a reply's calls stand right after it, in the order of the calls. A call without a result gets one
   that says so; a result without its call is left out.
4. Ids of calls are unique in a conversation and of letters, digits, `_` and `-`; others are replaced, in the call and
   in its result. Characters that no tool's name may have become `_`.
5. A conversation begins and ends with the user or with results; where it does not, a short message of the user is put
   there. A reply that is paused may come last, as the provider goes on from it.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

from pydantic_core import from_json

from flowagent.models.messages import (
    AssistantMessage,
    Media,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

NO_RESULT: Final = "This call was not answered: the conversation went on without its result."
BEGIN: Final = "(The conversation begins here.)"
GO_ON: Final = "Go on."

_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


def sendable(
    messages: Sequence[Message], provider: str, *, same_model: Callable[[str], bool] = lambda _: True
) -> list[Message]:
    """The conversation as it may be sent to a provider.

    Args:
        messages: the conversation as it was kept.
        provider: who gets it; only its own thoughts and blocks go back.
        same_model: whether thoughts of the model of that name go back too.
    """
    seen: set[str] = set()
    kept = [sent for message in _paired(messages) for sent in _cleaned(message, provider, same_model)]
    return _framed([one for group in _grouped(kept) for one in _renamed(group, seen)])


def with_own_ids(reply: AssistantMessage, before: Iterable[Message]) -> AssistantMessage:
    """A reply whose calls have ids of their own: some providers give none, or the same ones again.

    Args:
        reply: what a model has said.
        before: the conversation up to there.
    """
    seen = {"", *(call.id for one in before if isinstance(one, AssistantMessage) for call in one.calls)}
    fresh = [(_own(call.id, seen), call.name) for call in reply.calls]
    if [id_ for id_, _ in fresh] == [call.id for call in reply.calls]:
        return reply
    named = iter(fresh)
    return reply.model_copy(update={"parts": tuple(_relabelled(part, named) for part in reply.parts)})


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as an object, which providers demand back; text that is none stands in one as it is."""
    if not call.arguments.strip():
        return {}
    try:
        parsed: Any = from_json(call.arguments, allow_inf_nan=False)
    except ValueError:
        parsed = None
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {"invalid_json": call.arguments}


# -- calls and results -----------------------------------------------------------------------------------------------


def _paired(messages: Sequence[Message]) -> Iterator[Message]:
    """Each reply with calls, followed at once by all their results; results of other calls are gone."""
    waiting: list[Message] = []
    reply: AssistantMessage | None = None
    results: list[ToolResult] = []
    for message in messages:
        match message:
            case ToolMessage():
                results += message.results
            case UserMessage():
                waiting.append(message)
            case AssistantMessage():
                yield from _closed(reply, results, waiting)
                reply, results, waiting = message, [], []
    yield from _closed(reply, results, waiting)


def _closed(reply: AssistantMessage | None, results: list[ToolResult], after: list[Message]) -> Iterator[Message]:
    if reply is not None:
        yield reply
        if reply.calls:
            yield ToolMessage(results=tuple(_answered(reply.calls, results)))
    yield from after


def _answered(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> Iterator[ToolResult]:
    """One result for each call, the first of its id that no call before it took."""
    by_id: defaultdict[str, deque[ToolResult]] = defaultdict(deque)
    for result in results:
        by_id[result.id].append(result)
    for call in calls:
        found = by_id[call.id].popleft() if by_id[call.id] else None
        yield found or ToolResult(id=call.id, name=call.name, content=(Text(text=NO_RESULT),), is_error=True)


def _grouped(messages: Iterable[Message]) -> Iterator[tuple[Message, ...]]:
    """Replies with their results, and every other message alone."""
    reply: AssistantMessage | None = None
    for message in messages:
        if isinstance(message, ToolMessage) and reply is not None:
            yield (reply, message)
            reply = None
            continue
        if reply is not None:
            yield (reply,)
        reply = message if isinstance(message, AssistantMessage) else None
        if reply is None:
            yield (message,)
    if reply is not None:
        yield (reply,)


def _renamed(group: tuple[Message, ...], seen: set[str]) -> Iterator[Message]:
    """A reply and its results with legal names and ids that no reply before has."""
    match group:
        case (AssistantMessage() as reply, ToolMessage() as answers):
            ids = [_unique(call.id, seen) for call in reply.calls]
            names = [_NO_NAME.sub("_", call.name)[:64] or "unnamed" for call in reply.calls]
            fresh = iter(zip(ids, names, strict=True))
            yield reply.model_copy(update={"parts": tuple(_relabelled(part, fresh) for part in reply.parts)})
            yield answers.model_copy(
                update={
                    "results": tuple(
                        result.model_copy(update={"id": id_, "name": name})
                        for result, id_, name in zip(answers.results, ids, names, strict=True)
                    )
                }
            )
        case _:
            yield from group


def _relabelled(part: Any, fresh: Iterator[tuple[str, str]]) -> Any:
    if not isinstance(part, ToolCall):
        return part
    id_, name = next(fresh)
    return part.model_copy(update={"id": id_, "name": name})


def _unique(wanted: str, seen: set[str]) -> str:
    return _own(wanted if _ID.fullmatch(wanted) else "", seen)


def _own(wanted: str, seen: set[str]) -> str:
    """An id that no call before has: the wanted one if there is one that is free."""
    id_, number = wanted, 1
    while not id_ or id_ in seen:
        number += 1
        id_ = f"call_{len(seen) + number}"
    seen.add(id_)
    return id_


# -- content ---------------------------------------------------------------------------------------------------------


def _cleaned(message: Message, provider: str, same_model: Callable[[str], bool]) -> Iterator[Message]:
    match message:
        case UserMessage():
            parts = _spoken(message.parts)
            if parts:
                yield message.model_copy(update={"parts": parts})
        case AssistantMessage():
            own = same_model(message.model)
            kept = _unended([part for part in message.parts if _goes_back(part, provider, own=own)])
            if any(not isinstance(part, Thinking) for part in kept):
                yield message.model_copy(update={"parts": tuple(kept)})
        case ToolMessage():
            results = (one.model_copy(update={"content": _spoken(one.content)}) for one in message.results)
            yield message.model_copy(update={"results": tuple(results)})


def _spoken(parts: Iterable[Text | Media]) -> tuple[Text | Media, ...]:
    return tuple(part for part in parts if not isinstance(part, Text) or part.text.strip())


def _goes_back(part: Text | Thinking | ToolCall | Opaque, provider: str, *, own: bool) -> bool:
    match part:
        case Text():
            return bool(part.text.strip())
        case Thinking():
            return part.provider == provider and bool(part.data) and own
        case Opaque():
            return part.provider == provider
        case ToolCall():
            return True


def _unended(parts: list[Any]) -> list[Any]:
    """Without thoughts at the end: providers refuse those that lead to nothing."""
    while parts and isinstance(parts[-1], Thinking):
        parts.pop()
    return parts


def _framed(messages: list[Message]) -> list[Message]:
    if not messages or not isinstance(messages[0], UserMessage):
        messages = [UserMessage(parts=(Text(text=BEGIN),)), *messages]
    last = messages[-1]
    if isinstance(last, AssistantMessage) and last.finish != "paused":
        messages = [*messages, UserMessage(parts=(Text(text=GO_ON),))]
    return messages
