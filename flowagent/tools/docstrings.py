"""What a docstring says of a function and of its parameters, in the styles of Google, NumPy and Sphinx.

The reading is griffe's: unlike smaller parsers it keeps what stands after the list of parameters, and a docstring is
all that a model is told of a tool.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (griffe is loaded late, so its types are not known here.)
from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_HINTS = {
    "google": re.compile(
        r"^[ \t]*(Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters):", re.MULTILINE
    ),
    "numpy": re.compile(r"^[ \t]*(Other )?Parameters[ \t]*\n[ \t]*-{3,}", re.MULTILINE),
    "sphinx": re.compile(r"^[ \t]*:(param|parameter|arg|argument|key|keyword)\b", re.MULTILINE),
}
"""How a docstring looks that has a list of parameters. Where none fits, griffe is not even loaded."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a docstring says.

    Args:
        text: all but what it says of parameters, results and errors.
        parameters: what it says of each.
    """

    text: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


@lru_cache(maxsize=1024)
def described(docstring: str | None) -> Described:
    r"""Read a docstring; one in none of the three styles is all text.

    Example:
        >>> described("Add up.\n\nArgs:\n    a: the first\n").parameters["a"]
        'the first'
    """
    if not docstring:
        return Described()
    text = inspect.cleandoc(docstring)
    for style, hint in _HINTS.items():
        if hint.search(text):
            return _read(text, style)
    return Described(text)


def _read(text: str, style: str) -> Described:
    griffe: Any = importlib.import_module("griffe")
    sections = getattr(griffe, f"parse_{style}")(griffe.Docstring(text), warnings=False)
    parameters: dict[str, str] = {}
    texts: list[str] = []
    for section in sections:
        kind = section.kind.value
        if kind in ("parameters", "other parameters"):
            parameters |= {_bare(found.name): _flat(found.description) for found in section.value}
        elif kind not in ("returns", "raises", "yields", "warns", "receives"):
            texts.append(_told(section))
    if not parameters:  # a list that griffe cannot read is told as it stands
        return Described(text)
    return Described("\n\n".join(filter(None, texts)), parameters)


def _bare(name: str) -> str:
    return name.lstrip("*")


def _flat(text: str) -> str:
    """Lines that were only broken to fit are joined; paragraphs and lists stay."""
    return "\n\n".join(_paragraphs(text))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        is_list = re.search(r"^\s*([-*+]|\d+[.)])\s", paragraph, re.MULTILINE)
        yield paragraph if is_list else " ".join(paragraph.split())


def _told(section: Any) -> str:
    """A section of a docstring as text, with its title if it has one."""
    match section.kind.value:
        case "text":
            return str(section.value).strip()
        case "examples":
            return "\n".join(["Examples:", *(str(part) for _, part in section.value)])
        case kind:
            text = str(getattr(section.value, "description", "")).strip()
            return f"{section.title or kind.capitalize()}:{_gap(text)}{text}" if text else ""


def _gap(text: str) -> str:
    """What stands between a title and its text: a title that has several lines below it stands alone."""
    return "\n" if "\n" in text else " "
