"""`PromptedTools`: tool calls for models that have none of their own, in words."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import cast

from flowagent.models.actions import Action, instructions, read, results_told, written
from flowagent.models.around import Around
from flowagent.models.base import (
    CallDelta,
    ModelRequest,
    Profile,
    Reply,
    Section,
    Settings,
    StreamPart,
    TextDelta,
    Waiting,
)
from flowagent.models.fingerprint import fingerprint, told
from flowagent.models.messages import (
    AssistantMessage,
    Message,
    ReplyPart,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)

SECTION = "tools"
"""The name of the section of the system prompt that tells of tools."""

_PLAIN = re.compile(r"(?:(?!```)[^{\[])*")
_PENDING = re.compile(r"[\s`]*\Z")


class PromptedTools(Around):
    """A model that calls tools in words, whatever it can natively.

    The tools are written into the system prompt, with the schemas that a model with tools would get; natively nothing
    is sent of them. The model ends its reply with JSON, `{"action": "tool", "tool_name": ..., "arguments": ...}` or a
    list of these, or answers with `{"action": "answer", "text": ...}`. Such a reply comes back as text and tool calls,
    so that all that is done about calls is the same as with native ones: what is no such tool or fits no schema, the
    model is told. A reply that was cut off is never read for calls, nor one in which text follows the JSON. Small
    faults of syntax are mended, by the package `json_repair`.

    Args:
        model: who is asked.

    Example:
        >>> import asyncio
        >>> from flowagent.models.base import ToolSpec
        >>> from flowagent.models.messages import user
        >>> from flowagent.models.scripted import Scripted
        >>> model = PromptedTools(Scripted('I look. {"action": "tool", "tool_name": "now", "arguments": {}}'))
        >>> now = ToolSpec(name="now", parameters={"type": "object"})
        >>> message = asyncio.run(model.request(ModelRequest(messages=(user("Time?"),), tools=(now,)))).message
        >>> message.text, message.calls[0].name, message.finish
        ('I look.', 'now', 'tool_calls')
    """

    @property
    def profile(self) -> Profile:
        """What it accepts: several tools, none by force, and no shape of output beside them."""
        inner = self._model.profile
        return replace(
            inner,
            tools=True,
            strict_tools=False,
            parallel_tools=True,
            forced_tools=False,
            output_with_tools=False,
            settings=inner.settings | {"parallel_tool_calls"},
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, telling parts as they come; the last one is the `Reply`.

        Text is told as it comes up to where JSON may begin, and the rest when it is known what it is.
        """
        shown = _Shown()
        async with aclosing(self._model.stream(in_words(request))) as parts:
            async for part in parts:
                match part:
                    case TextDelta(text=text):
                        plain = shown.more(text)
                        if plain:
                            yield TextDelta(plain)
                    case Reply():
                        reply = _read(part, request)
                        for last in _rest(shown, reply):
                            yield last
                        yield reply
                    case Waiting(restarted=True):
                        shown = _Shown()
                        yield part
                    case _:
                        yield part


def in_words(request: ModelRequest) -> ModelRequest:
    """A request in which tools, calls and results are told in words.

    Args:
        request: one with tools, or with calls in its conversation; any other one is given back equal.
    """
    settings = cast("Settings", {key: value for key, value in request.settings.items() if key != "parallel_tool_calls"})
    stable = [section for section in request.system if not section.volatile]
    volatile = [section for section in request.system if section.volatile]
    tools = [Section(name=SECTION, text=instructions(request))] if request.tools else []
    return request.model_copy(
        update={
            "system": (*stable, *tools, *volatile) if tools else request.system,
            "messages": _conversation(request.messages),
            "tools": (),
            "tool_choice": "auto",
            "settings": settings,
        }
    )


def _conversation(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Messages in words; what a user says after results of tools stands in one message with them."""
    words: list[Message] = []
    for message in messages:
        match message:
            case ToolMessage(results=results, id=id_):
                words.append(UserMessage(id=id_, parts=tuple(results_told(results))))
            case UserMessage() if words and isinstance(words[-1], UserMessage):
                words[-1] = UserMessage(id=message.id, parts=(*words[-1].parts, *message.parts))
            case AssistantMessage() if message.calls:
                words.append(_called(message))
            case _:
                words.append(message)
    return tuple(words)


def _called(message: AssistantMessage) -> AssistantMessage:
    others = [part for part in message.parts if not isinstance(part, ToolCall)]
    said = Text(text=written(message.calls))
    return message.model_copy(update={"parts": (*others, said), "finish": "stop"})


def _read(reply: Reply, request: ModelRequest) -> Reply:
    """A reply with the calls that stand in its text."""
    message = reply.message
    if not request.tools or message.finish != "stop":
        return reply
    action = read(message.text, request.tools)
    if action is None or (action.calls and request.tool_choice == "none"):
        return reply
    others: list[ReplyPart] = [part for part in message.parts if not isinstance(part, Text)]
    said = [Text(text=action.text)] if action.text else []
    finish = "tool_calls" if action.calls else message.finish
    parts = (*others, *said, *_calls(action, request))
    return replace(reply, message=message.model_copy(update={"parts": parts, "finish": finish}))


def _calls(action: Action, request: ModelRequest) -> list[ToolCall]:
    # Ids that follow from the conversation are the same when it is repeated, and in no other place of it.
    stem = fingerprint(told(request)["messages"])[:12] if action.calls else ""
    return [
        ToolCall(id=f"call-{stem}-{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(action.calls, start=1)
    ]


class _Shown:
    """What of a reply's text has been told: all that comes before JSON may begin."""

    def __init__(self) -> None:
        self.told = ""
        self._held = ""

    def more(self, text: str) -> str:
        """The text that can be told now that there is more of it."""
        self._held += text
        match = _PLAIN.match(self._held)
        plain = _PENDING.sub("", match[0]) if match else ""
        self.told += plain
        self._held = self._held[len(plain) :]
        return plain


def _rest(shown: _Shown, reply: Reply) -> Iterator[StreamPart]:
    """The parts of a reply that its stream has not told, now that it is known what they are."""
    text = reply.message.text.removeprefix(shown.told)
    if text:
        yield TextDelta(text)
    for index, call in enumerate(reply.message.calls):
        yield CallDelta(index, call.id, call.name, call.arguments)
