"""JSON as models write it: where values stand in a text, and small faults of syntax mended; values are not invented."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_core import from_json

MOST_UNCLOSED: Final = 100
"""After so many brackets that are never closed, a text is not searched further: each costs a look at all of it."""

_BRACKET = re.compile(r"[{\[]")


@dataclass(frozen=True, slots=True)
class Mended:
    """JSON that was read.

    Args:
        value: what it says.
        repairs: what had to be mended, a line each.
    """

    value: Any
    repairs: tuple[str, ...] = ()


def mended(text: str) -> Mended | None:
    """Reads JSON, mending its syntax where that is needed; None if it cannot be read.

    Example:
        >>> mended("{'a': 1,}").value
        {'a': 1}
        >>> mended('{"a": [1') is None
        True
    """
    return parsed(text) or repaired(text)


def parsed(text: str) -> Mended | None:
    """Reads JSON as it stands; None if it is none, or is nested so deep that nobody reads it."""
    try:
        return Mended(from_json(text))
    except ValueError:
        return None


def repaired(text: str) -> Mended | None:
    """Reads an object or array whose syntax is at fault; None if it cannot be read.

    One whose brackets are not all closed was cut: it would have to be completed, and that would be an invention. In the
    library's strict mode a value that is missing stays missing, so that the reading fails.
    """
    if text[:1] not in {"{", "["} or closing(text, 0) != len(text):
        return None
    library: Any = importlib.import_module("json_repair")
    try:
        value, log = library.loads(text, skip_json_loads=True, strict=True, logging=True)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)) or not value:
        return None
    told = dict.fromkeys(f"repaired its syntax: {one['text']}" for one in log)
    return Mended(cast("Any", value), tuple(told) or ("repaired its syntax",))


def openings(text: str) -> Iterator[tuple[int, int]]:
    """Where JSON may begin: outermost brackets, in order, each with where it has been closed, or 0."""
    at, unclosed = 0, 0
    while unclosed < MOST_UNCLOSED and (found := _BRACKET.search(text, at)):
        end = closing(text, found.start())
        yield found.start(), end
        unclosed += end == 0
        at = end or found.end()


def closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` has been closed, strings left aside; 0 if it never is."""
    depth, at, in_string = 0, start, False
    while at < len(text):
        char = text[at]
        if char == "\\" and in_string:
            at += 1
        elif char == '"':
            in_string = not in_string
        elif char in "{[" and not in_string:
            depth += 1
        elif char in "}]" and not in_string:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return 0
