"""What a tool returned, as a model is told of it, by one rule for everything.

Text is told as it is. `Media` and `Text` parts stay parts, alone or in a list. Everything else is told as JSON, as
pydantic writes it: models, dataclasses, enums, dates, sets as lists, bytes as URL-safe base64; what is only a string in
JSON is told without its quotes. A generator counts as the list of what it yields. None and blank text, which providers
refuse, are told in words. What has no JSON form fails the call.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at what users' functions return.)
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError, from_json, to_json

from flowagent.errors import ToolError
from flowagent.models.messages import Media, Text, UserPart

NO_RESULT: Final = "(no result)"
"""What a model is told of None."""

BLANK: Final = "(blank text)"
"""What a model is told of text that is empty or only spaces."""

MOST_ITEMS: Final = 10_000
"""How much of a generator is read."""


class Refused(BaseModel):
    """What stands for the result of a tool that has raised a `ToolError`: it knows that it failed, and says why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["tool_error"] = "tool_error"
    text: str


Plain: TypeAlias = Annotated[
    Refused | Media | list[Annotated[Media | Any, Field(union_mode="left_to_right")]] | Any,
    Field(union_mode="left_to_right"),
]
"""A result as it can be stored: plain data, with its media as they are."""


@dataclass(frozen=True, slots=True)
class Told:
    """A result as it is told.

    Args:
        content: what the model gets.
        value: the whole as JSON text.
        plain: the whole as plain data, to be cut; None where it holds media, which are not cut.
    """

    content: tuple[UserPart, ...]
    value: str
    plain: Any


def plain_of(value: Any) -> Any:
    """A result as plain data.

    Raises:
        ToolError: it has no JSON form; its type is named.
    """
    if isinstance(value, (Media, Refused)):
        return value
    if isinstance(value, Text):
        return value.text
    if isinstance(value, (list, tuple)) and any(isinstance(item, Media) for item in value):
        return [plain_of(item) for item in value]
    try:
        return from_json(to_json(value, inf_nan_mode="strings", bytes_mode="base64"))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolError(f"its result, of type `{type(value).__qualname__}`, has no JSON form: {error}") from error


def told(plain: Any) -> Told:
    """A result as it is told, from its plain data."""
    if isinstance(plain, Media):
        return Told((plain,), plain.model_dump_json(), None)
    if isinstance(plain, list) and any(isinstance(item, Media) for item in plain):
        parts = tuple(item if isinstance(item, Media) else Text(text=text_of_plain(item)) for item in plain)
        return Told(parts, to_json(plain, bytes_mode="base64").decode(), None)
    return Told((Text(text=text_of_plain(plain)),), to_json(plain).decode(), plain)


def text_of_plain(plain: Any) -> str:
    """Plain data as text for a model."""
    if plain is None:
        return NO_RESULT
    if isinstance(plain, str):
        return plain if plain.strip() else BLANK
    return to_json(plain).decode()


def drained(items: Iterator[Any]) -> list[Any]:
    """What a generator yields, up to a cap, which is told."""
    found: list[Any] = []
    for item in items:
        if len(found) == MOST_ITEMS:
            found.append(_MORE)
            getattr(items, "close", lambda: None)()
            break
        found.append(item)
    return found


async def drained_async(items: AsyncIterator[Any]) -> list[Any]:
    """What an async generator yields, up to a cap, which is told."""
    found: list[Any] = []
    try:
        async for item in items:
            if len(found) == MOST_ITEMS:
                found.append(_MORE)
                break
            found.append(item)
    finally:
        if (close := getattr(items, "aclose", None)) is not None:
            await close()
    return found


_MORE: Final = f"[only the first {MOST_ITEMS} items were read]"
