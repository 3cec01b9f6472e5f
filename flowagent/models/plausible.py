"""Values that fit a JSON schema, always the same ones: for models that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

Schema = Mapping[str, Any]

DEEPEST: Final = 12
"""How deep a value goes; what a schema only allows below that is left out, so that recursive ones end."""

_FORMATS: Final = {
    "date": "2024-01-01",
    "date-time": "2024-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "a@example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "https://example.com/",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "binary": "YQ==",
    "base64": "YQ==",
    "base64url": "YQ==",
}


def plausible(schema: Schema) -> Any:
    """The simplest value that fits a JSON schema, as far as its usual words say.

    Known are types, properties, items, enumerations, constants, defaults, examples, bounds, lengths, usual formats,
    references within the schema, and choices, of which the first is taken. Patterns and rules between fields are not.

    Example:
        >>> plausible({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]})
        {'n': 3}
    """
    return _Maker(schema).value(schema, 0)


class _Maker:
    def __init__(self, root: Schema) -> None:
        self._root = root

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping):  # `true`: anything fits.
            return "a"
        schema = self._resolved(cast("Schema", schema))
        for word in ("const", "default"):
            if word in schema:
                return schema[word]
        for word in ("enum", "examples"):
            if schema.get(word):
                return schema[word][0]
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                return self.value(self._shallowest(schema[word], depth), depth)
        return self._of_type(schema, depth)

    def _of_type(self, schema: Schema, depth: int) -> Any:
        kinds: Any = schema.get("type", "object" if "properties" in schema else "string")
        kind: str = kinds if isinstance(kinds, str) else kinds[0]
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer":
                return _integer(schema)
            case "number":
                return _number(schema)
            case "boolean":
                return False
            case "null":
                return None
            case _:
                return _text(schema)

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        return {name: self.value(properties.get(name, True), depth + 1) for name in schema.get("required", ())}

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        first = [self.value(one, depth + 1) for one in schema.get("prefixItems", ())]
        least = schema.get("minItems", 0 if depth >= DEEPEST or first else 1)
        rest = max(min(least, schema.get("maxItems", least)) - len(first), 0)
        return [*first, *(self.value(schema.get("items", True), depth + 1) for _ in range(rest))]

    def _resolved(self, schema: Schema) -> Schema:
        """A schema with what it refers to, and with all of `allOf`, put in its place."""
        merged: dict[str, Any] = dict(schema)
        if "$ref" in merged:
            merged = {**self._referred(merged.pop("$ref")), **merged}
            return self._resolved(merged)
        for part in merged.pop("allOf", ()):
            merged = _both(merged, self._resolved(part))
        return merged

    def _referred(self, reference: str) -> Schema:
        found: Any = self._root
        for name in reference.removeprefix("#").strip("/").split("/"):
            found = found[name.replace("~1", "/").replace("~0", "~")] if name else found
        return found

    def _shallowest(self, choices: list[Schema], depth: int) -> Schema:
        """The first choice; where it is deep, one that goes no deeper."""
        if depth < DEEPEST:
            return choices[0]
        flat = (one for one in choices if self._resolved(one).get("type") not in {"object", "array", None})
        return next(flat, choices[0])


def _both(one: Schema, other: Schema) -> dict[str, Any]:
    return {
        **one,
        **other,
        "properties": {**one.get("properties", {}), **other.get("properties", {})},
        "required": [*one.get("required", ()), *other.get("required", ())],
    }


def _text(schema: Schema) -> str:
    text = _FORMATS.get(schema.get("format", ""), "a")
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    return text.ljust(least, "a")[:most]


def _integer(schema: Schema) -> int:
    least = schema.get("minimum", schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else None)
    most = schema.get("maximum", schema["exclusiveMaximum"] - 1 if "exclusiveMaximum" in schema else None)
    start = int(least) if least is not None else 0 if most is None or most >= 0 else int(most)
    step = int(schema.get("multipleOf", 1))
    return -(-start // step) * step


def _number(schema: Schema) -> float:
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    low = least if least is not None else above
    high = most if most is not None else below
    if low is None:
        return 0.0 if high is None or high > 0 else float(high) - 1
    if high is None:
        return float(low) if above is None else float(above) + 1
    return float(low) if above is None else (float(low) + float(high)) / 2
