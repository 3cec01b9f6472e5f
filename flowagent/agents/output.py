"""The shape of an agent's answer: how it is asked for, how it is read, and what is said when it does not fit.

Three ways to ask: `native` (the provider holds the reply to a JSON schema), `tool` (the answer is the arguments of a
tool) and `prompted` (the schema stands in the prompt, and the reply is read tolerantly). `auto` takes the first of them
that loses nothing of the schema.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json

from flowagent.agents.reading import found_in
from flowagent.core.fields import short
from flowagent.models.base import OutputSpec, Profile, ToolSpec
from flowagent.models.messages import AssistantMessage, ToolCall
from flowagent.models.strict import dialect_of, strict_form, without_nulls
from flowagent.tools.names import likeness

OutputMode = Literal["text", "native", "tool", "prompted"]
WantedMode = Literal["auto", "native", "tool", "prompted"]

TOOL_NAME: Final = "final_answer"
"""The tool whose arguments are the answer, where the answer is asked for by a tool."""

_WRAPPED: Final = "answer"


class Attempt(BaseModel):
    """An answer that did not fit.

    Args:
        text: what the model wrote.
        problems: what was wrong with it, a line each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An answer that fits.

    Args:
        value: what it says, as the wanted type.
        repairs: what had to be done to read it, a line each.
    """

    value: Any
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlan:
    """How an answer is asked of one model.

    Args:
        mode: the way.
        schema: the JSON schema that is sent or written; None for plain text.
        is_wrapped: whether the schema has the answer in a field, as it is no object itself.
        takes_text: whether plain text is an answer too.
        why: why this way was taken, a line for each that was passed over.
    """

    mode: OutputMode
    schema: dict[str, Any] | None = None
    is_wrapped: bool = False
    takes_text: bool = False
    why: tuple[str, ...] = ()

    def asked_as(self, mode: OutputMode) -> OutputPlan:
        """The plan for a reply that was asked for in a certain way, maybe of another model and before a resume."""
        return self if "text" in (mode, self.mode) else replace(self, mode=mode)

    @property
    def spec(self) -> OutputSpec | None:
        """What a provider is given to hold the reply to."""
        if self.mode != "native" or self.schema is None:
            return None
        return OutputSpec(name=TOOL_NAME, schema_=self.schema)

    @property
    def tool(self) -> ToolSpec | None:
        """The tool whose arguments are the answer."""
        if self.mode != "tool" or self.schema is None:
            return None
        return ToolSpec(
            name=TOOL_NAME,
            description="Give the final answer. Call this once, alone, when everything else is done.",
            parameters=self.schema,
            strict="auto",
        )

    @property
    def section(self) -> str:
        """What the prompt says about the shape of the answer."""
        if self.mode == "tool":
            end = "" if self.takes_text else " Do not answer in plain text."
            return f"Give your final answer by calling `{TOOL_NAME}`.{end}"
        if self.mode != "prompted" or self.schema is None:
            return ""
        also = " If that does not suit the question, answer in plain text." if self.takes_text else ""
        return (
            "Your final answer is one JSON value that fits this JSON schema. Start with the first character of the "
            f"JSON and write nothing before or after it.{also}\n{to_json(self.schema).decode()}"
        )


class Shape:
    """The type of an answer.

    Args:
        wanted: any type that pydantic knows; `str` is plain text, `Article | str` is either.
    """

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted
        self.is_text = wanted is str
        members = _members(wanted)
        self.takes_text = str in members
        rest = [member for member in members if member is not str]
        structured: Any = Union[tuple(rest)] if self.takes_text and rest else wanted  # noqa: UP007  # members are data
        self.adapter: TypeAdapter[Any] = TypeAdapter(structured)
        plain = self.adapter.json_schema(mode="validation")
        self.is_wrapped = not self.is_text and plain.get("type") != "object" and "$ref" not in plain
        self.schema = _wrapped(plain) if self.is_wrapped else plain

    def plan(self, profile: Profile, provider: str, *, mode: WantedMode, has_tools: bool) -> OutputPlan:
        """How the answer is asked of a model.

        Args:
            profile: what the model accepts.
            provider: whose rules for schemas hold.
            mode: the way that was asked for.
            has_tools: whether the agent has tools.
        """
        if self.is_text:
            return OutputPlan(mode="text", takes_text=True)
        form = strict_form(self.schema, dialect_of(provider))
        passed: dict[OutputMode, str] = {
            "native": _no_native(profile, has_tools=has_tools, takes_text=self.takes_text),
            "tool": "" if profile.tools else "native tool calls: the model has none",
            "prompted": "",
        }
        if mode == "auto" and not passed["native"] and not form.lossless:
            passed["native"] = (
                f"native output: the schema would lose something ({'; '.join((*form.blocked, *form.lost))})"
            )
        chosen: OutputMode = next(way for way, why in passed.items() if not why) if mode == "auto" else mode
        return OutputPlan(
            mode=chosen,
            schema=self.schema,
            is_wrapped=self.is_wrapped,
            takes_text=self.takes_text,
            why=tuple(why for why in passed.values() if why) if mode == "auto" else (),
        )

    def read(self, plan: OutputPlan, message: AssistantMessage) -> Accepted | Attempt:
        """What a complete reply says, if it fits.

        Args:
            plan: how it was asked for.
            message: the reply.
        """
        call = answer_call(plan, message)
        if call is not None:
            return self._from_readings(plan, call.arguments or "{}")
        if plan.mode == "text":
            return Accepted(message.text)
        read = self._from_readings(plan, message.text)
        if isinstance(read, Attempt) and plan.takes_text:
            return Accepted(message.text)
        if isinstance(read, Attempt) and plan.mode == "tool":
            return Attempt(text=message.text, problems=(f"the answer must be given by calling `{TOOL_NAME}`",))
        return read

    def validated(self, data: bytes) -> Accepted | Attempt:
        """An answer that is JSON already, such as what a final tool returned."""
        if self.is_text:
            value = json.loads(data)
            return Accepted(value if isinstance(value, str) else data.decode())
        try:
            return Accepted(self.adapter.validate_json(data))
        except ValidationError as error:
            if self.takes_text and isinstance(text := json.loads(data), str):
                return Accepted(text)
            return Attempt(text=data.decode(errors="replace"), problems=problems(error))

    def _from_readings(self, plan: OutputPlan, text: str) -> Accepted | Attempt:
        first: Attempt | None = None
        for found in found_in(text):
            value: Any = without_nulls(found.value, self.schema)
            if plan.is_wrapped and isinstance(value, dict) and [*cast("dict[str, Any]", value)] == [_WRAPPED]:
                value = cast("Any", value[_WRAPPED])
            try:
                return Accepted(self.adapter.validate_json(json.dumps(value)), found.repairs)
            except ValidationError as error:
                first = first or Attempt(text=text, problems=problems(error))
        return first or Attempt(text=text, problems=(_unreadable(text),))


def answer_call(plan: OutputPlan, message: AssistantMessage) -> ToolCall | None:
    """The call in a reply that is the answer, if there is one."""
    if plan.mode != "tool":
        return None
    return next((call for call in message.calls if likeness(call.name) == TOOL_NAME), None)


def feedback(attempt: Attempt) -> str:
    """What a model is told of an answer that does not fit."""
    lines = "\n".join(f"- {problem}" for problem in attempt.problems)
    return f"Your answer does not have the shape that is needed:\n{lines}\nGive the whole answer again, corrected."


def problems(error: ValidationError) -> tuple[str, ...]:
    """What pydantic found wrong, with the path and the value of each, a line each."""
    return tuple(
        f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']} (given: {short(one['input'])})"
        for one in error.errors(include_url=False, include_context=False)
    )


def _unreadable(text: str) -> str:
    if not text.strip():
        return "it is empty"
    try:
        json.loads(text)
    except ValueError as error:
        return f"it is no JSON: {error}"
    except RecursionError:
        return "it is nested too deep"
    return "it is no JSON value of the wanted shape"


def _no_native(profile: Profile, *, has_tools: bool, takes_text: bool) -> str:
    if not profile.output:
        return "native output: the model cannot be held to a schema"
    if has_tools and not profile.output_with_tools:
        return "native output: the model cannot be held to a schema while it has tools"
    return "native output: the answer may be plain text, too" if takes_text else ""


def _members(wanted: Any) -> Sequence[Any]:
    return get_args(wanted) if get_origin(wanted) in (types.UnionType, typing.Union) else [wanted]


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: part for name, part in schema.items() if name != "$defs"}
    defs = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
        **defs,
    }
