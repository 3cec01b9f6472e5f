"""Prompts with `{field}` in them: only checked names are filled in, and what is filled in is never read again.

Data is no template: a value that holds braces goes in as it is. Anything in braces that is not a plain name, such as an
example in JSON, stays as it stands; `{{name}}` gives `{name}`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import to_json

from flowagent.core.secret import holds_secret, secrets_of

_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_PLACEHOLDER = re.compile(r"\{\{(" + _NAME + r")\}\}|\{(" + _NAME + r")\}")


@dataclass(frozen=True)
class Template:
    """A text with placeholders.

    Args:
        text: `{name}` stands for a value, `{name.part}` for a field of a model in it.

    Example:
        >>> Template('About {topic}, as {"a": 1}').filled({"topic": "{x}"})
        'About {x}, as {"a": 1}'
    """

    text: str

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The placeholders, each once, in the order in which they first stand."""
        return tuple(dict.fromkeys(found[2] for found in _PLACEHOLDER.finditer(self.text) if found[2]))

    def filled(self, values: BaseModel | Mapping[str, Any]) -> str:
        """The text with its values in place.

        Args:
            values: a model or a mapping; what is no text is written as JSON.

        Raises:
            KeyError: a placeholder has no value.
        """
        return _PLACEHOLDER.sub(lambda found: f"{{{found[1]}}}" if found[1] else _shown(values, found[2]), self.text)

    def faults(self, known: type[BaseModel] | Mapping[str, Any], *, also: Mapping[str, Any] | None = None) -> list[str]:
        """What is wrong with it: placeholders that no field can fill, and secrets.

        Args:
            known: the model whose fields fill it, or types by name.
            also: types of further names.

        Returns:
            A line for each fault.
        """
        kinds = {**_types_of(known), **(also or {})}
        secret = secrets_of(known) if isinstance(known, type) else frozenset[str]()
        secret |= {name for name, kind in (also or {}).items() if holds_secret(kind)}
        return [fault for name in self.names if (fault := _fault(name, kinds, secret))]


def _fault(name: str, kinds: Mapping[str, Any], secret: frozenset[str]) -> str:
    first, *rest = name.split(".")
    if first in secret:
        return f"placeholder `{{{name}}}` would put the secret field `{first}` into a prompt"
    if first not in kinds:
        return f"placeholder `{{{name}}}` names no field{_near(first, kinds)}; write {{{{{name}}}}} for the text itself"
    at = kinds[first]
    for part in rest:
        at = _bare(at)
        if not (isinstance(at, type) and issubclass(at, BaseModel)):
            return f"placeholder `{{{name}}}` looks for `{part}` in what is no model"
        if part not in at.model_fields:
            return f"placeholder `{{{name}}}`: `{at.__name__}` has no field `{part}`{_near(part, at.model_fields)}"
        at = at.model_fields[part].annotation
    return ""


def _bare(kind: Any) -> Any:
    """A type without what is annotated to it, and without the None that may stand in its place."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (types.UnionType, Union):
        members = [one for one in get_args(kind) if one is not type(None)]
        return _bare(members[0]) if len(members) == 1 else kind
    return kind


def _near(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean `{{{near[0]}}}`?" if near else f" (there are {', '.join(known) or 'none'})"


def _types_of(known: type[BaseModel] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(known, Mapping):
        return dict(known)
    return {name: field.annotation for name, field in known.model_fields.items()}


def _shown(values: BaseModel | Mapping[str, Any], name: str) -> str:
    at: Any = values
    for part in name.split("."):
        if at is None:
            raise KeyError(f"{{{name}}} has no value: there is no `{part}` in None")
        at = cast("Any", at[part] if isinstance(at, Mapping) else getattr(at, part))
    return at if isinstance(at, str) else to_json(at, indent=2).decode() if _has_parts(at) else str(at)


def _has_parts(value: Any) -> bool:
    return isinstance(value, (BaseModel, Mapping, list, tuple, set, frozenset)) or value is None
