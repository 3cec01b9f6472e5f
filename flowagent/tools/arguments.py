"""Reads the arguments that a model wrote. What is mended is mended by the schema alone, never by looks, and is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_core import from_json, to_json

from flowagent.core.fields import short
from flowagent.tools.body import ArgumentsError
from flowagent.tools.strict import Json, kind_of, kinds_of, resolved, takes_null


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
    fitted = _Fitting(schema, repairs).fitted(plain, schema, "")
    return Written(to_json(fitted, inf_nan_mode="constants"), tuple(repairs))


def _parsed(text: str | None) -> Any:
    if text is None or not text.strip():
        return {}
    try:
        return from_json(text)
    except ValueError as error:
        raise ArgumentsError([f"the arguments are no valid JSON: {error}"]) from error


@dataclass(slots=True)
class _Fitting:
    """One walk through arguments, along their schema."""

    root: Json
    repairs: list[str] = field(default_factory=list[str])

    def fitted(self, value: Any, schema: Any, path: str) -> Any:
        if isinstance(value, str):
            value = self._decoded(value, schema, path)
        match value:
            case dict():
                return self._object(cast("Json", value), self._branch(schema, "object"), path)
            case list():
                return self._array(cast("list[Any]", value), self._branch(schema, "array"), path)
            case _:
                return value

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

    def _object(self, value: Json, schema: Json, path: str) -> Json:
        properties = cast("Json", schema.get("properties", {}))
        required = schema.get("required", ())
        rest = schema.get("additionalProperties")
        made: Json = {}
        for name, item in value.items():
            part = properties.get(name, rest)
            unset = item is None and name in properties and name not in required
            if unset and not takes_null(part, self.root):
                continue
            made[name] = self.fitted(item, part, f"{path}.{name}".removeprefix("."))
        return made

    def _array(self, value: list[Any], schema: Json, path: str) -> list[Any]:
        first = cast("list[Any]", schema.get("prefixItems", []))
        rest = schema.get("items")
        return [
            self.fitted(item, first[number] if number < len(first) else rest, f"{path}[{number}]")
            for number, item in enumerate(value)
        ]

    def _branch(self, schema: Any, kind: str, depth: int = 0) -> Json:
        """The part of a schema that is about objects or arrays, if it is only one; else an empty one."""
        if not isinstance(schema, dict) or depth > 32:
            return {}
        one = cast("Json", schema)
        if "$ref" in one:
            return self._branch(resolved(one, self.root), kind, depth + 1)
        for word in ("anyOf", "oneOf"):
            if word in one:
                fitting = [part for part in one[word] if kind in kinds_of(part, self.root)]
                return self._branch(fitting[0], kind, depth + 1) if len(fitting) == 1 else {}
        return one
