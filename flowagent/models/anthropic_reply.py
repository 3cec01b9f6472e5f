"""The events of Anthropic's Messages API, read into a reply.

The blocks are put together here and not by the package, so that what must go back unchanged is what came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from flowagent.core.usage import Usage
from flowagent.models.anthropic_request import PROVIDER
from flowagent.models.base import CallDelta, StreamPart, TextDelta, ThinkingDelta
from flowagent.models.messages import AssistantMessage, Finish, Opaque, ReplyPart, Text, Thinking, ToolCall
from flowagent.models.metering import metered

_FINISHES: Final[Mapping[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "refusal": "refused",
    "pause_turn": "paused",
}


class AnthropicReader:
    """Reads the events of one reply.

    Args:
        package: `anthropic`, for the object that the reply keeps as `raw`.
    """

    def __init__(self, package: ModuleType) -> None:
        self._package = package
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        self._calls: dict[int, int] = {}
        self._usage: dict[str, Any] = {}
        self._stop: dict[str, Any] = {}
        self._complete = False

    @property
    def partial(self) -> str:
        """The text that has come so far."""
        return "".join(block.get("text", "") for block in self._blocks.values() if block.get("type") == "text")

    @property
    def usage(self) -> Usage | None:
        """What is known so far of the cost of a request that fails."""
        return self._metered(failed=True) if self._usage else None

    def read(self, event: Any) -> list[StreamPart]:
        """What an event tells."""
        match event.type:
            case "message_start":
                self._message = _plain(event.message)
                self._count(event.message.usage)
            case "content_block_start":
                return self._start(event.index, _plain(event.content_block))
            case "content_block_delta":
                return self._grow(event.index, _plain(event.delta))
            case "message_delta":
                self._stop |= _plain(event.delta)
                self._count(event.usage)
            case "message_stop":
                self._complete = True
            case _:
                pass  # ends of blocks say nothing new, and events of tomorrow may be left unread
        return []

    def finished(self) -> tuple[AssistantMessage, Any] | None:
        """The message, with the package's own `Message`; None if the end did not come."""
        if not self._complete:
            return None
        message = AssistantMessage(
            parts=tuple(self._part(index, block) for index, block in sorted(self._blocks.items())),
            model=self._message.get("model", ""),
            provider=PROVIDER,
            finish=_FINISHES.get(self._stop.get("stop_reason") or "", "stop"),
            usage=self._metered(),
            reply_id=self._message.get("id", ""),
        )
        content = [self._whole(index, block) for index, block in sorted(self._blocks.items())]
        fields = self._message | self._stop | {"content": content, "usage": self._usage}
        return message, self._package.types.Message.construct(**fields)

    # -- blocks ------------------------------------------------------------------------------------------------------

    def _start(self, index: int, block: dict[str, Any]) -> list[StreamPart]:
        self._blocks[index] = block
        match block["type"]:
            case "text":
                return [TextDelta(block["text"])] if block.get("text") else []
            case "thinking":
                return [ThinkingDelta(block["thinking"])] if block.get("thinking") else []
            case "tool_use":
                self._calls[index] = len(self._calls)
                return [CallDelta(self._calls[index], block["id"], block["name"], "")]
            case _:
                return []

    def _grow(self, index: int, delta: dict[str, Any]) -> list[StreamPart]:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
                return [TextDelta(delta["text"])]
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
                return [ThinkingDelta(delta["thinking"])]
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta["signature"]
            case "input_json_delta":
                return self._grow_input(index, block, delta["partial_json"])
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case _:
                pass
        return []

    def _grow_input(self, index: int, block: dict[str, Any], more: str) -> list[StreamPart]:
        self._inputs[index] = self._inputs.get(index, "") + more
        if index not in self._calls or not more:
            return []
        return [CallDelta(self._calls[index], block["id"], block["name"], more)]

    def _part(self, index: int, block: dict[str, Any]) -> ReplyPart:
        match block["type"]:
            case "text":
                return Text(text=block.get("text", ""))
            case "thinking":
                return Thinking(text=block.get("thinking", ""), provider=PROVIDER, data=json.dumps(block))
            case "redacted_thinking":
                return Thinking(provider=PROVIDER, data=json.dumps(block))
            case "tool_use":
                arguments = self._inputs.get(index) or json.dumps(block.get("input") or {})
                return ToolCall(id=block["id"], name=block["name"], arguments=arguments)
            case _:
                return Opaque(provider=PROVIDER, data=json.dumps(self._whole(index, block)))

    def _whole(self, index: int, block: dict[str, Any]) -> dict[str, Any]:
        """A block with its input, which comes as JSON in pieces."""
        if not self._inputs.get(index):
            return block
        try:
            return block | {"input": json.loads(self._inputs[index])}
        except ValueError:  # cut off in the midst of it; the call itself keeps what came
            return block

    # -- usage -------------------------------------------------------------------------------------------------------

    def _count(self, usage: Any) -> None:
        """Take over what an event reports; figures are cumulative, so the last of each counts."""
        if usage is not None:
            self._usage |= {name: value for name, value in _plain(usage).items() if value is not None}

    def _metered(self, *, failed: bool = False) -> Usage:
        told = self._usage
        details: dict[str, Any] = told.get("output_tokens_details") or {}
        fresh, read, write = (
            told.get(name) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        )
        return metered(
            PROVIDER,
            self._message.get("model", ""),
            read=None if fresh is None else fresh + (read or 0) + (write or 0),
            written=told.get("output_tokens"),
            cache_read=read,
            cache_write=write,
            reasoning=details.get("thinking_tokens"),
            tier=told.get("service_tier"),
            failed=failed,
        )


def _plain(value: Any) -> dict[str, Any]:
    """What came, as plain data, with what the package does not know."""
    return value.model_dump(mode="json", exclude_unset=True)
