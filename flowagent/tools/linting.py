"""Finds what is allowed in tools, and yet likely to make a model call the wrong one, or one wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any, Final, cast

from flowagent.models.schemas import Json, kinds_of
from flowagent.models.strict import DIALECTS
from flowagent.tools.tool import Tool

_ALIKE: Final = 0.9
"""From which likeness on two descriptions count as the same."""

_CHOICES: Final = re.compile(r"\b(one of|either)\b|(['\"`])\w+\2\s*(,|or|\|)\s*\2?|\w+\s*\|\s*\w+", re.IGNORECASE)
"""How a description looks that lists the values of a parameter."""


def lint(tools: Sequence[Tool[..., Any]]) -> list[str]:
    """One line for each thing that is better changed.

    Args:
        tools: in the order in which a model is told of them.
    """
    return [*(line for one in tools for line in _of_one(one)), *_pairs(tools)]


def _of_one(one: Tool[..., Any]) -> Iterator[str]:
    if not one.description.strip():
        yield f"tool `{one.name}` has no description, so a model must guess when to call it: write a docstring"
    if one.strict is True:
        blocked = {name: one.report(name).blocked for name in DIALECTS}
        yield from (
            f"tool `{one.name}` demands strict=True, which cannot be had of {provider}: {'; '.join(reasons)}"
            for provider, reasons in blocked.items()
            if reasons
        )
    for name, part in one.parameters.get("properties", {}).items():
        yield from _of_parameter(f"parameter `{name}` of tool `{one.name}`", cast("Json", part), one.parameters)


def _of_parameter(what: str, part: Json, root: Json) -> Iterator[str]:
    description = str(part.get("description", ""))
    if not description:
        yield f"{what} has no description: write it in the docstring, or as Annotated[..., 'text']"
    listed = part.get("enum") or "const" in part or "$ref" in part
    if kinds_of(part, root) == frozenset({"string"}) and not listed and _CHOICES.search(description):
        yield f"{what} is a str whose description lists its values: declare them with Literal[...] or an enum"


def _pairs(tools: Sequence[Tool[..., Any]]) -> Iterator[str]:
    for one, other in combinations(tools, 2):
        texts = one.description.strip().lower(), other.description.strip().lower()
        if all(texts) and SequenceMatcher(a=texts[0], b=texts[1]).ratio() >= _ALIKE:
            yield f"tools `{one.name}` and `{other.name}` have nearly the same description: say when to call which"
