"""Secrets are taken out of what traces and audit logs show of models and tools.

Two things know what is secret: a `Redact`, by form, by name and by the environment; and the tools, which say which of
their arguments are. What those held in one call is taken out wherever it stands in what comes after it, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from pydantic_core import from_json

from flowagent.core.secret import MASK
from flowagent.models.base import ModelRequest
from flowagent.models.messages import AssistantMessage, Message, ToolCall
from flowagent.models.redaction import Redact, redacted_data, redacted_request
from flowagent.tools.names import likeness
from flowagent.tools.telling import scrubbed

_SHORTEST: Final = 4
"""Secret arguments that are shorter are masked where they stand; elsewhere they would take out half of a text."""


class Masking:
    """Takes secrets out of what one run says to models and tools and hears from them.

    Args:
        redact: takes secrets out of a text; None leaves everything as it is, secret arguments of tools included.
    """

    def __init__(self, redact: Redact | None) -> None:
        self._redact = redact
        self._values: set[str] = set()

    def request(self, request: ModelRequest) -> dict[str, Any]:
        """A request as JSON data without secrets."""
        data = request.model_dump(mode="json")
        if self._redact is None:
            return data
        hidden = _hidden(request)
        self._learn(hidden, _calls(request.messages))
        for message in data["messages"]:
            _mask_calls(message, hidden)
        return redacted_request(data, self.text)

    def reply(self, request: ModelRequest, message: AssistantMessage) -> dict[str, Any]:
        """The message of a reply as JSON data without secrets."""
        data = message.model_dump(mode="json")
        if self._redact is None:
            return data
        hidden = _hidden(request)
        self._learn(hidden, message.calls)
        _mask_calls(data, hidden)
        return cast("dict[str, Any]", redacted_data(data, self.text))

    def text(self, text: str) -> str:
        """A text without secrets."""
        return text if self._redact is None else self._redact(scrubbed(text, self._values))

    def _learn(self, hidden: Mapping[str, tuple[str, ...]], calls: Iterable[ToolCall]) -> None:
        """Note what secret arguments hold, as it is and as it stands in JSON."""
        for call in calls:
            for value in _secrets(call, hidden.get(likeness(call.name), ())):
                if len(value) >= _SHORTEST:
                    self._values |= {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}


def _hidden(request: ModelRequest) -> dict[str, tuple[str, ...]]:
    """The secret arguments of the tools that have some, by names in the form in which calls find their tools."""
    return {likeness(spec.name): spec.secrets for spec in request.tools if spec.secrets}


def _secrets(call: ToolCall, names: tuple[str, ...]) -> Iterator[str]:
    """What the secret arguments of a call hold."""
    arguments = (_parsed(call.arguments) or {}) if names else {}
    for name in names:
        yield from _texts(arguments.get(name))


def _calls(messages: Iterable[Message]) -> Iterator[ToolCall]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.calls


def _mask_calls(message: dict[str, Any], hidden: Mapping[str, tuple[str, ...]]) -> None:
    """Mask the secret arguments of the calls in a message that is JSON data."""
    for part in message.get("parts", ()):
        if part["kind"] == "tool_call" and (names := hidden.get(likeness(part["name"]))):
            part["arguments"] = _masked(part["arguments"], names)


def _masked(arguments: str, names: tuple[str, ...]) -> str:
    parsed = _parsed(arguments)
    if parsed is None:
        return MASK  # what cannot be read may hold the secret anywhere
    return json.dumps({name: MASK if name in names else value for name, value in parsed.items()}, ensure_ascii=False)


def _parsed(arguments: str) -> dict[str, Any] | None:
    try:
        parsed = from_json(arguments)
    except ValueError:
        return None
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None


def _texts(value: Any) -> Iterator[str]:
    """The texts and numbers within JSON data."""
    match value:
        case dict():
            for one in cast("dict[str, Any]", value).values():
                yield from _texts(one)
        case list():
            for one in cast("list[Any]", value):
                yield from _texts(one)
        case None | bool():
            return
        case _:
            yield str(value)
