"""Reads the arguments that a model wrote. What is mended is mended by the schema alone, never by looks, and is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_core import from_json, to_json

from flowagent.core.fields import short
from flowagent.models.schemas import Json, items_of, kind_of, kinds_of, part_for
from flowagent.models.strict import without_nulls
from flowagent.tools.body import ArgumentsError


@dataclass(frozen=True, slots=True)
class Written:
    """Arguments as plain data that is ready for validation.

    Args:
        data: a JSON object.
        repairs: what was mended, one line each.
    """

    data: bytes
    repairs: tuple[str, ...]


def written(text: str | None, schema: Json) -> Written:
    """Read arguments.

    Nothing at all means no arguments. An object or array that is encoded a second time, as text, is decoded where the
    schema takes an object or array and no text. null for a parameter that has a default and takes no null is left
    out, as strict schemas ask for it.

    Args:
        text: what the model wrote.
        schema: the JSON schema of the arguments.

    Raises:
        ArgumentsError: it is no JSON object.
    """
    repairs: list[str] = []
    plain = _parsed(text)
    if isinstance(plain, str):
        plain = _parsed(plain)
        repairs.append("decoded the arguments from a JSON string")
    if plain is None:
        plain = {}
    if not isinstance(plain, dict):
        raise ArgumentsError([f"the arguments must be a JSON object, not {short(plain)}"])
    decoded = _Decoding(schema, repairs).of(plain, schema, "")
    return Written(to_json(without_nulls(decoded, schema), inf_nan_mode="constants"), tuple(repairs))


def _parsed(text: str | None) -> Any:
    if text is None or not text.strip():
        return {}
    try:
        return from_json(text)
    except ValueError as error:
        raise ArgumentsError([f"the arguments are no valid JSON: {error}"]) from error


@dataclass(slots=True)
class _Decoding:
    """One walk through arguments, along their schema, that decodes what was encoded a second time."""

    root: Json
    repairs: list[str] = field(default_factory=list[str])

    def of(self, value: Any, schema: Any, path: str) -> Any:
        """A part of the arguments."""
        if isinstance(value, str):
            value = self._decoded(value, schema, path)
        if not isinstance(value, (dict, list)):
            return value
        part = part_for(cast("Any", value), schema, self.root)
        if isinstance(value, list):
            items = enumerate(items_of(cast("list[Any]", value), part))
            return [self.of(one, inner, f"{path}[{place}]") for place, (one, inner) in items]
        properties, rest = part.get("properties", {}), part.get("additionalProperties")
        return {
            name: self.of(one, properties.get(name, rest), f"{path}.{name}".removeprefix("."))
            for name, one in cast("Json", value).items()
        }

    def _decoded(self, text: str, schema: Any, path: str) -> Any:
        """What a text holds where only an object or array fits; the text itself if it holds neither."""
        kinds = kinds_of(schema, self.root)
        if "string" in kinds or not kinds & {"object", "array"}:
            return text
        try:
            value: Any = from_json(text)
        except ValueError:
            return text
        if kind_of(value) not in kinds & {"object", "array"}:
            return text
        self.repairs.append(f"decoded `{path}` from a JSON string")
        return value
