"""Reads JSON out of a reply that was asked for in words: fences, prose around, several blocks, small faults of syntax.

Syntax is repaired and values never are. What was done is told, a line each; a reply that was cut off is not for here.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

_FENCE = re.compile(r"```[ \t]*([A-Za-z0-9_+-]*)[ \t]*\r?\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """JSON that was found in a text.

    Args:
        value: what it says.
        edits: what had to be done to read it, a line each.
    """

    value: Any
    edits: tuple[str, ...] = ()


def found_in(text: str) -> Iterator[Found]:
    """Every reading of a text as JSON, the most literal first.

    Args:
        text: a complete reply.

    Yields:
        Readings; whoever knows the wanted shape takes the first that fits it.
    """
    stripped = text.strip().removeprefix("\ufeff").strip()
    if not stripped:
        return
    seen: list[str] = []
    for candidate, edits in _candidates(stripped):
        if candidate in seen:
            continue
        seen.append(candidate)
        value, worked = _parsed(candidate)
        if worked:
            yield Found(value, edits)
    for candidate, edits in _candidates(stripped):
        if (repaired := _repaired(candidate)) is not None:
            yield Found(repaired.value, (*edits, *repaired.edits))


def _candidates(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield text, ()
    blocks = [(found[1].lower(), found[2].strip()) for found in _FENCE.finditer(text)]
    named = [body for language, body in blocks if language in ("json", "json5", "jsonc")]
    for body in [*named, *(body for language, body in blocks if language not in ("json", "json5", "jsonc"))]:
        yield body, ("took it out of a code fence",)
    for start, end in _spans(text):
        yield text[start:end], ("left out the text around it",)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where balanced objects and arrays stand, outermost ones, in order; strings are not looked into."""
    at = 0
    while at < len(text):
        if text[at] in "{[" and (end := _closing(text, at)):
            yield at, end
            at = end
        else:
            at += 1


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` has been closed, or 0."""
    depth, at, in_string = 0, start, False
    while at < len(text):
        char = text[at]
        if in_string:
            if char == "\\":
                at += 1
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return 0


def _parsed(text: str) -> tuple[Any, bool]:
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return None, False


def _repaired(text: str) -> Found | None:
    """What a library makes of it, if it is an object or array that begins and ends as one; else None.

    One whose brackets are not all closed was cut, and closing them would invent what the model did not say. In the
    library's strict mode a value that is missing stays missing, so that the reading fails.
    """
    if text[:1] not in ("{", "[") or _closing(text, 0) != len(text):
        return None
    library: Any = importlib.import_module("json_repair")
    try:
        value, log = library.loads(text, skip_json_loads=True, strict=True, logging=True)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)) or not value:
        return None
    told = dict.fromkeys(f"repaired its syntax: {one['text']}" for one in log)
    return Found(cast("Any", value), tuple(told) or ("repaired its syntax",))
