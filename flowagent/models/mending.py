"""JSON as models write it: where a value ends in a text, and small faults of syntax mended; values are not invented."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import Any


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

    Only an object or array whose brackets are all closed is mended: one that is cut would have to be completed, and
    that would be an invention.

    Example:
        >>> mended("{'a': 1,}").value
        {'a': 1}
        >>> mended('{"a": [1') is None
        True
    """
    try:
        return Mended(json.loads(text))
    except (ValueError, RecursionError):
        pass
    if text[:1] not in {"{", "["} or closing(text, 0) != len(text):
        return None
    library: Any = importlib.import_module("json_repair")
    try:
        # Strict: a value that is missing stays missing, so that reading fails.
        value, log = library.loads(text, skip_json_loads=True, strict=True, logging=True)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)) or not value:
        return None
    told = dict.fromkeys(f"repaired its syntax: {one['text']}" for one in log)
    return Mended(value, tuple(told) or ("repaired its syntax",))


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
