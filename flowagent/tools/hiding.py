"""What is secret in arguments, and errors that quote none of it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks into users' arguments, whose types are only known when it runs.)
from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from flowagent.core.fields import text_of
from flowagent.core.secret import marked_in, revealed, scrubbed
from flowagent.errors import ToolFatal


def secrets_of(arguments: Mapping[str, Any], hidden: Iterable[str]) -> frozenset[str]:
    """The texts that must not be shown.

    Args:
        arguments: validated.
        hidden: the names of those that are secret, or hold something that is.
    """
    values = [arguments[name] for name in hidden]
    return frozenset(text for value in values for text in _texts(value, is_secret=_is_plain(value)))


def _is_plain(value: Any) -> bool:
    """Whether a value is text or a number itself, so that its parameter must be marked as a whole."""
    return isinstance(value, (str, bytes, int, float))


def _texts(value: Any, *, is_secret: bool) -> Iterator[str]:
    """The texts of secrets in a value."""
    if isinstance(value, (SecretStr, SecretBytes, Secret)):
        yield from _texts(revealed(value), is_secret=True)
    elif _is_plain(value):
        if is_secret:
            yield value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    else:
        for item, is_marked in _parts(value):
            yield from _texts(item, is_secret=is_secret or is_marked)


def _parts(value: Any) -> Iterator[tuple[Any, bool]]:
    """What a value holds, and whether each part is marked as secret."""
    match value:
        case BaseModel():
            marked = marked_in(type(value))
            yield from ((item, name in marked) for name, item in value)
        case Mapping():
            yield from ((item, False) for item in value.values())
        case list() | tuple() | set() | frozenset():
            yield from ((item, False) for item in value)
        case _ if dataclasses.is_dataclass(value):
            yield from ((getattr(value, one.name), False) for one in dataclasses.fields(value))
        case _:
            pass


def masked_error(error: Exception, secrets: Iterable[str]) -> Exception:
    """An error as it may be stored: itself, or one in its place whose text has masks."""
    text = text_of(error)
    clean = scrubbed(text, secrets)
    if clean == text:
        return error
    return ToolFatal(clean) if isinstance(error, ToolFatal) else RuntimeError(f"{type(error).__name__}: {clean}")
