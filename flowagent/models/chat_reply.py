"""The chunks of OpenAI's Chat Completions, read into a reply, also those of servers that speak it with an accent.

A chunk may have no choices, a choice no delta, a call no index, or the index of another call: a new id begins a new
call. Usage comes last, in every chunk, or never.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from flowagent.core.usage import Usage
from flowagent.models.base import CallDelta, StreamPart, TextDelta, ThinkingDelta
from flowagent.models.messages import AssistantMessage, Finish, ReplyPart, Text, Thinking, ToolCall
from flowagent.models.metering import metered

_FINISHES: Final[Mapping[str, Finish]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "filtered",
}
_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Where servers put thoughts; the interface has no field for them."""


@dataclass(slots=True)
class _Call:
    """A tool call as far as it has come."""

    place: int
    id: str
    name: str = ""
    arguments: str = ""


class ChatReader:
    """Reads the chunks of one reply.

    Args:
        package: `openai`, for the object that the reply keeps as `raw`.
        provider: who is asked.
    """

    def __init__(self, package: ModuleType, provider: str) -> None:
        self._package = package
        self._provider = provider
        self._head: dict[str, Any] = {}
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._refused = False
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        self._finish = ""
        self._usage: Any = None

    @property
    def partial(self) -> str:
        """The text that has come so far."""
        return "".join(self._text)

    @property
    def usage(self) -> Usage | None:
        """What is known so far of the cost of a request that fails."""
        return None if self._usage is None else self._metered(failed=True)

    def read(self, event: Any) -> list[StreamPart]:
        """What a chunk tells."""
        for name in ("id", "model", "created", "service_tier"):
            value = getattr(event, name, None)
            if value:
                self._head.setdefault(name, value)
        self._usage = getattr(event, "usage", None) or self._usage
        return [part for choice in event.choices or () if not choice.index for part in self._choice(choice)]

    def finished(self) -> tuple[AssistantMessage, Any] | None:
        """The message, with the package's own `ChatCompletion`; None if no chunk said why it ended."""
        if not self._finish:
            return None
        message = AssistantMessage(
            parts=self._parts(),
            model=self._head.get("model", ""),
            provider=self._provider,
            finish=self._finish_word(),
            usage=self._metered(),
            reply_id=self._head.get("id", ""),
        )
        return message, self._raw()

    # -- chunks ------------------------------------------------------------------------------------------------------

    def _choice(self, choice: Any) -> list[StreamPart]:
        self._finish = getattr(choice, "finish_reason", None) or self._finish
        delta = getattr(choice, "delta", None)
        if delta is None:
            return []
        parts: list[StreamPart] = []
        thought = next((found for name in _THOUGHTS if (found := getattr(delta, name, None))), None)
        if isinstance(thought, str):
            self._thoughts.append(thought)
            parts.append(ThinkingDelta(thought))
        refusal = getattr(delta, "refusal", None)
        self._refused = self._refused or bool(refusal)
        for text in (getattr(delta, "content", None), refusal):
            if text:
                self._text.append(text)
                parts.append(TextDelta(text))
        return parts + [self._call(more) for more in getattr(delta, "tool_calls", None) or ()]

    def _call(self, more: Any) -> StreamPart:
        call = self._found(getattr(more, "index", None), getattr(more, "id", None) or "")
        function = getattr(more, "function", None)
        arguments: Any = getattr(function, "arguments", None) or ""
        call.name = call.name or getattr(function, "name", None) or ""
        call.arguments += arguments
        return CallDelta(call.place, call.id, call.name, arguments)

    def _found(self, index: int | None, id_: str) -> _Call:
        """The call that more has come of, or a new one."""
        known = self._by_index.get(index)
        if known is None and index is None and self._calls:
            known = self._calls[-1]
        if known is not None and id_ in ("", known.id):
            return known
        # Some servers give no id, or every call the same one; a result could not be matched by it.
        taken = id_ in [call.id for call in self._calls]
        call = _Call(len(self._calls), id_ if id_ and not taken else f"call_{uuid.uuid4().hex[:24]}")
        self._calls.append(call)
        self._by_index[index] = call
        return call

    # -- the end -----------------------------------------------------------------------------------------------------

    def _parts(self) -> tuple[ReplyPart, ...]:
        parts: list[ReplyPart] = []
        if self._thoughts:
            parts.append(Thinking(text="".join(self._thoughts), provider=self._provider))
        if self._text:
            parts.append(Text(text=self.partial))
        parts += [ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in self._calls]
        return tuple(parts)

    def _finish_word(self) -> Finish:
        if self._refused:
            return "refused"
        finish = _FINISHES.get(self._finish, "stop")
        return "tool_calls" if finish == "stop" and self._calls else finish

    def _metered(self, *, failed: bool = False) -> Usage:
        usage = self._usage
        read = getattr(usage, "prompt_tokens_details", None)
        written = getattr(usage, "completion_tokens_details", None)
        return metered(
            self._provider,
            self._head.get("model", ""),
            read=getattr(usage, "prompt_tokens", None),
            written=getattr(usage, "completion_tokens", None),
            cache_read=getattr(read, "cached_tokens", None),
            cache_write=getattr(read, "cache_write_tokens", None),
            reasoning=getattr(written, "reasoning_tokens", None),
            tier=self._head.get("service_tier"),
            failed=failed,
        )

    def _raw(self) -> Any:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self._calls
        ]
        message = {"role": "assistant", "content": self.partial or None, "tool_calls": calls or None}
        choice = {"index": 0, "finish_reason": self._finish, "message": message}
        return self._package.types.chat.ChatCompletion.construct(
            **self._head, object="chat.completion", choices=[choice], usage=self._usage
        )
