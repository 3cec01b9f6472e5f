"""Reads JSON out of a reply that was asked for in words: fences, prose around, several blocks, small faults of syntax.

Syntax is repaired and values never are. What was done is told, a line each; a reply that was cut off is not for here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flowagent.models.mending import Mended, openings, parsed, repaired

_FENCE = re.compile(r"```[ \t]*([A-Za-z0-9_+-]*)[ \t]*\r?\n(.*?)```", re.DOTALL)


def found_in(text: str) -> Iterator[Mended]:
    """Every reading of a text as JSON, the most literal first.

    Args:
        text: a complete reply.

    Yields:
        Readings; whoever knows the wanted shape takes the first that fits it.
    """
    stripped = text.strip().removeprefix("\ufeff").strip()
    if not stripped:
        return
    candidates: dict[str, tuple[str, ...]] = {}
    for candidate, edits in _candidates(stripped):
        candidates.setdefault(candidate, edits)
    for read in (parsed, repaired):
        for candidate, edits in candidates.items():
            if (found := read(candidate)) is not None:
                yield Mended(found.value, (*edits, *found.repairs))


def _candidates(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield text, ()
    blocks = [(found[1].lower(), found[2].strip()) for found in _FENCE.finditer(text)]
    named = [body for language, body in blocks if language in ("json", "json5", "jsonc")]
    for body in [*named, *(body for language, body in blocks if language not in ("json", "json5", "jsonc"))]:
        yield body, ("took it out of a code fence",)
    for start, end in openings(text):
        if end:
            yield text[start:end], ("left out the text around it",)
