"""The events of OpenAI's Responses API, read into a reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowagent.core.usage import Usage
from flowagent.models.base import CallDelta, StreamPart, TextDelta, ThinkingDelta
from flowagent.models.failures import Failed
from flowagent.models.messages import AssistantMessage, Finish, Opaque, ReplyPart, Text, Thinking, ToolCall
from flowagent.models.metering import metered
from flowagent.models.openai_request import PROVIDER

_CUT: Final[Mapping[str, Finish]] = {"max_output_tokens": "length", "content_filter": "filtered"}


class ResponsesReader:
    """Reads the events of one reply."""

    def __init__(self) -> None:
        self._response: Any = None
        self._complete = False
        self._items: dict[int, Any] = {}
        self._calls: dict[int, tuple[int, str, str]] = {}
        self._partial: list[str] = []

    @property
    def partial(self) -> str:
        """The text that has come so far."""
        return "".join(self._partial)

    @property
    def usage(self) -> Usage | None:
        """What is known so far of the cost of a request that fails."""
        return None if getattr(self._response, "usage", None) is None else self._metered(failed=True)

    def read(self, event: Any) -> list[StreamPart]:
        """What an event tells.

        Raises:
            Failed: the reply failed.
        """
        match event.type:
            case "response.created" | "response.in_progress" | "response.queued":
                self._response = event.response
            case "response.completed" | "response.incomplete":
                self._response, self._complete = event.response, True
            case "response.failed":
                self._response = event.response
                error = event.response.error
                raise Failed(getattr(error, "message", "") or "it failed", code=getattr(error, "code", "") or "")
            case "error":
                raise Failed(event.message or "an error", code=event.code or "", param=event.param or "")
            case "response.output_item.added":
                return self._begin(event.output_index, event.item)
            case "response.output_item.done":
                self._items[event.output_index] = event.item
            case _:
                return self._delta(event)
        return []

    def finished(self) -> tuple[AssistantMessage, Any] | None:
        """The message, with the package's own `Response`; None if the end did not come."""
        if not self._complete:
            return None
        items = list(self._response.output or ()) or [item for _, item in sorted(self._items.items())]
        parts = tuple(part for item in items for part in _parts(item))
        message = AssistantMessage(
            parts=parts,
            model=self._response.model or "",
            provider=PROVIDER,
            finish=self._finish(items, parts),
            usage=self._metered(),
            reply_id=self._response.id or "",
        )
        return message, self._response

    def _finish(self, items: list[Any], parts: tuple[ReplyPart, ...]) -> Finish:
        if self._response.status == "incomplete":
            details = self._response.incomplete_details
            return _CUT.get(getattr(details, "reason", None) or "", "length")
        if any(content.type == "refusal" for item in items if item.type == "message" for content in item.content or ()):
            return "refused"
        return "tool_calls" if any(isinstance(part, ToolCall) for part in parts) else "stop"

    def _begin(self, index: int, item: Any) -> list[StreamPart]:
        if item.type != "function_call":
            return []
        self._calls[index] = (len(self._calls), item.call_id, item.name)
        return [CallDelta(*self._calls[index], item.arguments or "")]

    def _delta(self, event: Any) -> list[StreamPart]:
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self._partial.append(event.delta)
                return [TextDelta(event.delta)]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ThinkingDelta(event.delta)]
            case "response.function_call_arguments.delta" if event.output_index in self._calls:
                return [CallDelta(*self._calls[event.output_index], event.delta)]
            case _:
                return []  # other tools of the provider's tell of their work; what counts is the item at the end

    def _metered(self, *, failed: bool = False) -> Usage:
        usage = self._response.usage
        read = getattr(usage, "input_tokens_details", None)
        written = getattr(usage, "output_tokens_details", None)
        return metered(
            PROVIDER,
            self._response.model or "",
            read=getattr(usage, "input_tokens", None),
            written=getattr(usage, "output_tokens", None),
            cache_read=getattr(read, "cached_tokens", None),
            cache_write=getattr(read, "cache_write_tokens", None),
            reasoning=getattr(written, "reasoning_tokens", None),
            tier=getattr(self._response, "service_tier", None),
            failed=failed,
        )


def _parts(item: Any) -> Iterator[ReplyPart]:
    match item.type:
        case "message":
            yield from _texts(item)
        case "function_call":
            yield ToolCall(id=item.call_id, name=item.name, arguments=item.arguments or "")
        case "reasoning":
            summary = "\n\n".join(part.text for part in item.summary or ())
            content = "\n\n".join(part.text for part in item.content or ())
            yield Thinking(text=summary or content, provider=PROVIDER, data=_json(item))
        case _:
            yield Opaque(provider=PROVIDER, data=_json(item))


def _texts(item: Any) -> Iterator[ReplyPart]:
    """The text of a message; the phase that it belongs to goes before it, as the API wants it back."""
    phase = getattr(item, "phase", None)
    for content in item.content or ():
        if phase is not None:
            yield Opaque(provider=PROVIDER, data=json.dumps({"type": "message", "phase": phase}))
        yield Text(text=content.refusal if content.type == "refusal" else content.text)


def _json(item: Any) -> str:
    return json.dumps(item.model_dump(mode="json", exclude_unset=True))
