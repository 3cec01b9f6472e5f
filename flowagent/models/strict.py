"""Whether and how a JSON schema can be sent as strict, and what would be lost by it.

A provider that holds a model to a schema takes only part of what JSON schema can say. A schema is sent as strict only
if its strict form says the same; else it is sent as it is, and what comes back is checked here alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

Dialect = Literal["openai", "anthropic"]
"""Whose rules for strict schemas are meant."""

Schema: TypeAlias = dict[str, Any]

_SILENT: Final = frozenset(
    {"title", "description", "default", "examples", "example", "discriminator", "deprecated", "readOnly", "writeOnly"}
    | {"$schema", "$id", "$comment", "$defs", "definitions"}
)
"""Keywords that restrict nothing."""

_SHAPE: Final = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum", "const"})
_DEEPEST: Final = 100
"""How many references are followed one after another; one that leads to itself ends there."""

_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a provider's strict mode can express.

    Args:
        kept: the restricting keywords that it knows beside those of shape.
        formats: the formats of strings that it knows.
        all_required: whether every property must be required, so that an optional one has to take null.
        recursive: whether a schema may refer to itself.
        object_root: whether the whole must be one object and no union.
    """

    kept: frozenset[str]
    formats: frozenset[str]
    all_required: bool
    recursive: bool
    object_root: bool


_RULES: Final[Mapping[Dialect, _Rules]] = {
    "openai": _Rules(
        kept=frozenset({"pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
        | {"minItems", "maxItems"},
        formats=_FORMATS,
        all_required=True,
        recursive=True,
        object_root=True,
    ),
    "anthropic": _Rules(
        kept=frozenset(), formats=_FORMATS | {"uri"}, all_required=False, recursive=False, object_root=False
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictForm:
    """A schema in the form that strict mode demands.

    Args:
        schema: the strict form, or None if there is none.
        lost: what it does not say any more, or why there is none; one line for each, with its path.
        nulls: the paths of optional properties that had to take null; there, null means that it was left out.
    """

    schema: Schema | None
    lost: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()

    @property
    def lossless(self) -> bool:
        """Whether it says all that the schema said."""
        return self.schema is not None and not self.lost

    @property
    def report(self) -> str:
        """Whether it is sent as strict, and if not, why."""
        if self.lossless:
            return "strict" + (f"; null stands for left out: {', '.join(self.nulls)}" if self.nulls else "")
        return "not strict:\n" + "\n".join(f"  - {line}" for line in self.lost)


def strict_form(schema: Mapping[str, Any], dialect: Dialect) -> StrictForm:
    """The strict form of a schema, with what is lost by it.

    Args:
        schema: a JSON schema, as pydantic makes them.
        dialect: whose strict mode.

    Example:
        >>> open_ended = {"type": "object", "additionalProperties": {"type": "integer"}}
        >>> print(strict_form(open_ended, "openai").report)
        not strict:
          - $: an object with any properties cannot be closed
    """
    known = _definitions(schema)
    writing = _Writing(_RULES[dialect], known)
    root = _resolved_root(schema)
    written = writing.node(root, "$")
    definitions = {name: writing.node(part, f"$defs.{name}") for name, part in known.items()}
    if _RULES[dialect].object_root and ("anyOf" in written or root.get("type") != "object"):
        writing.impossible.append("$: the whole must be one object, no union and nothing else")
    if not _RULES[dialect].recursive and _is_recursive(known):
        writing.impossible.append("$: a schema that refers to itself")
    if definitions:
        written["$defs"] = definitions
    lost = tuple(writing.impossible + writing.lost)
    return StrictForm(schema=None if writing.impossible else written, lost=lost, nulls=tuple(writing.nulls))


def without_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value without the nulls that stand for left out: those of optional properties that take no null.

    Args:
        value: what a model wrote to the strict form of the schema, as plain data.
        schema: the schema as it was before.

    Example:
        >>> without_nulls({"unit": None}, {"type": "object", "properties": {"unit": {"type": "string"}}})
        {}
    """
    return _stripped(value, schema, _definitions(schema))


# -- writing ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writing:
    """One schema on its way into strict form."""

    rules: _Rules
    definitions: Mapping[str, Any]
    lost: list[str] = field(default_factory=list[str])
    impossible: list[str] = field(default_factory=list[str])
    nulls: list[str] = field(default_factory=list[str])

    def node(self, schema: Any, path: str) -> Schema:
        """The strict form of a part."""
        if not isinstance(schema, dict):
            self.impossible.append(f"{path}: a value of any kind")
            return {}
        part = _merged(cast("Schema", schema))
        if "$ref" in part:
            return self._reference(part, path)
        union = part.get("anyOf") or part.get("oneOf") or _by_type(part)
        if union:
            return self._union(part, union, path)
        return self._plain(part, path)

    def _reference(self, part: Schema, path: str) -> Schema:
        self._lose(part, path, known={"$ref"})
        reference: Schema = {"$ref": str(part["$ref"]).replace("#/definitions/", "#/$defs/")}
        # Strict mode takes no neighbours of a reference, but of a union.
        return {"anyOf": [reference], "description": part["description"]} if "description" in part else reference

    def _union(self, part: Schema, variants: Sequence[Any], path: str) -> Schema:
        listed = isinstance(part.get("type"), list)
        self._lose({} if listed else part, path, known={"anyOf", "oneOf", "type"})
        written: Schema = {"anyOf": [self.node(one, f"{path}|{place}") for place, one in enumerate(variants)]}
        return written | _words(part)

    def _plain(self, part: Schema, path: str) -> Schema:
        kind = part.get("type") or _kind_of_values(part)
        if kind is None:
            self.impossible.append(f"{path}: a value of any kind")
            return {}
        self._lose(part, path, known=_SHAPE | {"format"})
        written: Schema = {"type": kind} | _words(part)
        written |= {key: part[key] for key in ("enum", "const") if key in part}
        written |= {key: part[key] for key in self.rules.kept if key in part}
        written |= self._format(part, path)
        match kind:
            case "object":
                return written | self._object(part, path)
            case "array":
                return written | {"items": self.node(part.get("items"), f"{path}[]")}
            case _:
                return written

    def _format(self, part: Schema, path: str) -> Schema:
        if "format" not in part or part.get("type") != "string":
            return {}
        if part["format"] in self.rules.formats:
            return {"format": part["format"]}
        self.lost.append(f"{path}: format {part['format']!r}")
        return {}

    def _object(self, part: Schema, path: str) -> Schema:
        is_open = part.get("additionalProperties", "properties" not in part and path != "$")
        if is_open is not False:
            self.impossible.append(f"{path}: an object with any properties cannot be closed")
        properties: dict[str, Any] = part.get("properties", {})
        required = [name for name in properties if name in part.get("required", ())]
        written = {name: self.node(value, f"{path}.{name}") for name, value in properties.items()}
        if self.rules.all_required:
            for name, value in properties.items():
                if name not in required and not _takes_null(value, self.definitions):
                    self.nulls.append(f"{path}.{name}")
                    written[name] = _nullable(written[name])
            required = list(properties)
        return {"properties": written, "required": required, "additionalProperties": False}

    def _lose(self, part: Schema, path: str, *, known: frozenset[str] | set[str]) -> None:
        for key in part:
            if key not in known and key not in _SILENT and key not in self.rules.kept:
                self.lost.append(f"{path}: {key} {part[key]!r}")


def _merged(schema: Schema) -> Schema:
    """Without an `allOf` of one part, which older schemas put around a reference."""
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(cast("list[Any]", parts)) == 1 and isinstance(parts[0], dict):
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        return cast("Schema", parts[0]) | rest
    return schema


def _by_type(part: Schema) -> list[Schema]:
    """A list of types as a union, each variant with what concerns it."""
    kinds = part.get("type")
    if not isinstance(kinds, list):
        return []
    bare = {key: value for key, value in part.items() if key not in ("description", "title", "default")}
    return [{"type": "null"} if kind == "null" else bare | {"type": kind} for kind in cast("list[str]", kinds)]


def _words(part: Schema) -> Schema:
    return {"description": part["description"]} if "description" in part else {}


def _kind_of_values(part: Schema) -> str | None:
    """The type of an enumeration that does not say it."""
    values: list[Any] = [part["const"]] if "const" in part else part.get("enum", [])
    kinds = {_KINDS.get(value.__class__) for value in values}
    return kinds.pop() if len(kinds) == 1 else None


_KINDS: Final[Mapping[type, str]] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def _nullable(written: Schema) -> Schema:
    words = _words(written)
    bare = {key: value for key, value in written.items() if key != "description"}
    variants = bare["anyOf"] if set(bare) == {"anyOf"} else [bare]
    return {"anyOf": [*variants, {"type": "null"}]} | words


def _takes_null(schema: Any, definitions: Mapping[str, Any]) -> bool:
    if not isinstance(schema, dict):
        return True
    part = _followed(schema, definitions)
    kinds = part.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds) or ("const" in part and part["const"] is None):
        return True
    variants: list[Any] = part.get("anyOf") or part.get("oneOf") or []
    return any(_takes_null(one, definitions) for one in variants)


# -- references ------------------------------------------------------------------------------------------------------


def _definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema.get("definitions", {}), **schema.get("$defs", {})}


def _resolved_root(schema: Mapping[str, Any]) -> Schema:
    """The whole, also where it only names one of its definitions, as it does for models that hold themselves."""
    reference = schema.get("$ref")
    found = _definitions(schema).get(str(reference).rpartition("/")[2]) if reference else None
    return dict(cast("Schema", found)) if isinstance(found, dict) else dict(schema)


def _is_recursive(definitions: Mapping[str, Any]) -> bool:
    uses = {name: set(_references(part)) for name, part in definitions.items()}
    for name, direct in uses.items():
        reached, ahead = set[str](), list(direct)
        while ahead:
            here = ahead.pop()
            if here not in reached:
                reached.add(here)
                ahead += uses.get(here, ())
        if name in reached:
            return True
    return False


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in cast("Schema", part).items():
            if key == "$ref":
                yield str(value).rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for one in cast("list[Any]", part):
            yield from _references(one)


# -- reading ---------------------------------------------------------------------------------------------------------


def _stripped(value: Any, schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        part = _fitting(value, schema, definitions)
        return [_stripped(one, part.get("items"), definitions) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    data = cast("dict[str, Any]", value)
    part = _fitting(data, schema, definitions)
    properties: Mapping[str, Any] = part.get("properties", {})
    kept = {*part.get("required", ()), *(name for name in data if _takes_null(properties.get(name), definitions))}
    return {
        name: _stripped(one, properties.get(name), definitions)
        for name, one in data.items()
        if one is not None or name in kept
    }


def _fitting(value: Any, schema: Any, definitions: Mapping[str, Any]) -> Schema:
    """The part of a schema that a value was written to: behind references, and the fitting variant of a union."""
    part = _followed(schema, definitions)
    variants: list[Any] = part.get("anyOf") or part.get("oneOf") or []
    return next((_fitting(value, one, definitions) for one in variants if _fits(value, one, definitions)), part)


def _fits(value: Any, schema: Any, definitions: Mapping[str, Any]) -> bool:
    part = _followed(schema, definitions)
    if "anyOf" in part or "oneOf" in part:
        return True
    if not isinstance(value, dict):
        return part.get("type") == "array"
    data = cast("dict[str, Any]", value)
    properties: dict[str, Any] = part.get("properties", {})
    marks = {name: one["const"] for name, one in properties.items() if "const" in _part(one)}
    return set(data) <= set(properties) and all(data[name] == mark for name, mark in marks.items() if name in data)


def _part(schema: Any) -> Schema:
    """A part as an object; `true` and `false` are schemas too."""
    return cast("Schema", schema) if isinstance(schema, dict) else {}


def _followed(schema: Any, definitions: Mapping[str, Any]) -> Schema:
    """A part behind its references."""
    part = _merged(_part(schema))
    for _ in range(_DEEPEST):
        if "$ref" not in part:
            break
        part = _merged(cast("Schema", definitions.get(str(part["$ref"]).rpartition("/")[2], {})))
    return part
