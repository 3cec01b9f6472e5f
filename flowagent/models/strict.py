"""Whether and how a JSON schema can be sent as strict, and what would be lost by it.

A provider that holds a model to a schema takes only part of what JSON schema can say. Unless it is demanded, a schema
is sent as strict only if its strict form says the same; else it is sent as it is, and what comes back is checked here
alone. The rules are data, one row for each dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from flowagent.models.schemas import (
    Json,
    items_of,
    kind_of,
    members_of,
    merged,
    part_for,
    resolved,
    takes_null,
    unset_in,
)

Dialect = Literal["openai", "anthropic"]
"""Whose rules for strict schemas are meant."""

Wanted = bool | Literal["auto"]
"""Whether strict mode is demanded (then words are dropped for it), refused, or taken where it loses nothing."""

_SILENT: Final = frozenset(
    {"title", "description", "default", "examples", "example", "discriminator", "deprecated", "readOnly", "writeOnly"}
    | {"$schema", "$id", "$comment", "$defs", "definitions"}
)
"""Keywords that restrict nothing."""

_SHAPE: Final = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum", "const"})
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


DIALECTS: Final[tuple[Dialect, ...]] = tuple(_RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictForm:
    """A schema in the form that strict mode demands.

    Args:
        schema: the strict form, or None if there is none.
        lost: what it does not say any more; one line for each, with its path.
        blocked: why there is none, likewise.
        nulls: the paths of optional properties that had to take null; there, null means that it was left out.
    """

    schema: Json | None
    lost: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()

    @property
    def lossless(self) -> bool:
        """Whether it says all that the schema said."""
        return self.schema is not None and not self.lost

    @property
    def report(self) -> str:
        """Whether it says all, and if not, why."""
        if self.lossless:
            return "strict" + (f"; null stands for left out: {', '.join(self.nulls)}" if self.nulls else "")
        return "not strict:\n" + "\n".join(f"  - {line}" for line in (*self.blocked, *self.lost))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a provider is told of a schema.

    Args:
        provider: whose rules were applied.
        strict: whether the provider holds the model to it.
        schema: the JSON schema as it is sent.
        lost: what strict mode would lose, or loses where it was demanded, one line each.
        blocked: why strict mode cannot be had at all, one line each.
    """

    provider: str
    strict: bool
    schema: Json
    lost: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


def report_on(schema: Mapping[str, Any], provider: str, wanted: Wanted) -> Report:
    """What becomes of a schema: whether it travels in its strict form, or as it is.

    Args:
        schema: a JSON schema.
        provider: its name; the part before a `:` counts. Others than Anthropic took over OpenAI's dialect.
        wanted: whether strict mode is demanded, refused, or taken where it loses nothing.
    """
    form = strict_form(schema, dialect_of(provider))
    taken = wanted is True or (wanted == "auto" and form.lossless)
    sent = form.schema if taken else None
    return Report(
        provider=provider,
        strict=sent is not None,
        schema=dict(schema) if sent is None else sent,
        lost=form.lost,
        blocked=form.blocked,
    )


def dialect_of(provider: str) -> Dialect:
    """Whose rules for schemas a provider follows."""
    return "anthropic" if provider.partition(":")[0] == "anthropic" else "openai"


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
    rules = _RULES[dialect]
    writing = _Writing(rules, dict(schema))
    root = _resolved_root(schema)
    written = writing.node(root, "$")
    known = _definitions(schema)
    definitions = {name: writing.node(part, f"$defs.{name}") for name, part in known.items()}
    if rules.object_root and ("anyOf" in written or written.get("type") != "object"):
        writing.blocked.append("$: the whole must be one object, no union and nothing else")
    if not rules.recursive:
        writing.blocked += [f"$defs.{name}: refers to itself" for name in _circles(known)]
    if definitions:
        written["$defs"] = definitions
    return StrictForm(
        schema=None if writing.blocked else written,
        lost=tuple(dict.fromkeys(writing.lost)),
        blocked=tuple(dict.fromkeys(writing.blocked)),
        nulls=tuple(writing.nulls),
    )


def without_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value without the nulls that stand for left out: those of optional properties that take no null.

    Args:
        value: what a model wrote to the strict form of the schema, as plain data.
        schema: the schema as it was before.

    Example:
        >>> without_nulls({"unit": None}, {"type": "object", "properties": {"unit": {"type": "string"}}})
        {}
    """
    return _stripped(value, dict(schema), dict(schema))


# -- writing ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writing:
    """One schema on its way into strict form."""

    rules: _Rules
    root: Json
    lost: list[str] = field(default_factory=list[str])
    blocked: list[str] = field(default_factory=list[str])
    nulls: list[str] = field(default_factory=list[str])

    def node(self, schema: Any, path: str) -> Json:
        """The strict form of a part."""
        part = merged(schema)
        if "$ref" in part:
            return self._reference(part, path)
        if union := members_of(part) or _by_kind(part):
            return self._union(part, union, path)
        return self._plain(part, path)

    def _reference(self, part: Json, path: str) -> Json:
        self._lose(part, path, known={"$ref"})
        named = str(part["$ref"]).replace("#/definitions/", "#/$defs/")
        if named.removeprefix("#/$defs/") not in _definitions(self.root):
            self.blocked.append(f"{path}: a reference to {part['$ref']!r}, which is no definition")
        # Strict mode takes no neighbours of a reference, but of a union.
        return {"anyOf": [{"$ref": named}], **_words(part)} if _words(part) else {"$ref": named}

    def _union(self, part: Json, members: Sequence[Any], path: str) -> Json:
        split = not members_of(part)
        self._lose({} if split else part, path, known={"anyOf", "oneOf", "type"})
        written: Json = {"anyOf": [self.node(one, f"{path}|{place}") for place, one in enumerate(members)]}
        return written | _words(part)

    def _plain(self, part: Json, path: str) -> Json:
        kind = part.get("type") or _kind_of_values(part) or ("object" if "properties" in part else None)
        if kind is None:
            self.blocked.append(f"{path}: a value of any kind")
            return {}
        self._lose(part, path, known=_SHAPE | {"format"})
        written: Json = {"type": kind} | _words(part)
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

    def _format(self, part: Json, path: str) -> Json:
        if "format" not in part or part.get("type") != "string":
            return {}
        if part["format"] in self.rules.formats:
            return {"format": part["format"]}
        self.lost.append(f"{path}: format {part['format']!r}")
        return {}

    def _object(self, part: Json, path: str) -> Json:
        is_open = part.get("additionalProperties", "properties" not in part and path != "$")
        if is_open is not False:
            self.blocked.append(f"{path}: an object with any properties cannot be closed")
        properties: Json = part.get("properties", {})
        required = [name for name in properties if name in part.get("required", ())]
        written = {name: self.node(value, f"{path}.{name}") for name, value in properties.items()}
        if self.rules.all_required:
            for name in [name for name in properties if name not in required]:
                written[name] = self._nullable(written[name], properties[name], f"{path}.{name}")
            required = list(properties)
        return {"properties": written, "required": required, "additionalProperties": False}

    def _nullable(self, written: Json, plain: Any, path: str) -> Json:
        """A property that need not be there, as one that may be null instead, which then means its default."""
        if takes_null(plain, self.root):
            if merged(plain).get("default") is not None:
                self.blocked.append(f"{path}: null would mean null and its default")
            return written
        self.nulls.append(path)
        bare = {key: value for key, value in written.items() if key != "description"}
        members = bare["anyOf"] if set(bare) == {"anyOf"} else [bare]
        return {"anyOf": [*members, {"type": "null"}]} | _words(written)

    def _lose(self, part: Json, path: str, *, known: frozenset[str] | set[str]) -> None:
        for key in part:
            if key not in known and key not in _SILENT and key not in self.rules.kept:
                self.lost.append(f"{path}: {key} {part[key]!r}")


def _by_kind(part: Json) -> list[Json]:
    """What takes values of several kinds as a union, each member with what concerns it."""
    values: list[Any] | None = [part["const"]] if "const" in part else part.get("enum")
    kinds = part.get("type") or list(dict.fromkeys(map(kind_of, values or ())))
    if not isinstance(kinds, list) or len(cast("list[str]", kinds)) < 2:
        return []
    bare = {key: value for key, value in part.items() if key not in ("description", "title", "default")}
    return [_of_kind(bare, kind, values) for kind in cast("list[str]", kinds)]


def _of_kind(bare: Json, kind: str, values: Sequence[Any] | None) -> Json:
    if kind == "null":
        return {"type": "null"}
    of_kind = {} if values is None else {"enum": [value for value in values if kind_of(value) == kind]}
    return bare | {"type": kind} | of_kind


def _words(part: Json) -> Json:
    return {"description": part["description"]} if "description" in part else {}


def _kind_of_values(part: Json) -> str | None:
    """The type of an enumeration that does not say it."""
    values: list[Any] = [part["const"]] if "const" in part else part.get("enum", [])
    kinds = set(map(kind_of, values))
    return kinds.pop() if len(kinds) == 1 else None


def _definitions(schema: Mapping[str, Any]) -> Json:
    return {**schema.get("definitions", {}), **schema.get("$defs", {})}


def _resolved_root(schema: Mapping[str, Any]) -> Json:
    """The whole, also where it only names one of its definitions, as it does for models that hold themselves."""
    root = dict(schema)
    return merged(resolved(root, root)) or root if "$ref" in root else root


def _circles(definitions: Mapping[str, Any]) -> Iterator[str]:
    """The definitions that refer to themselves."""
    uses = {name: set(_references(part)) for name, part in definitions.items()}
    for name, direct in uses.items():
        reached, ahead = set[str](), list(direct)
        while ahead:
            here = ahead.pop()
            if here not in reached:
                reached.add(here)
                ahead += uses.get(here, ())
        if name in reached:
            yield name


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in cast("Json", part).items():
            if key == "$ref":
                yield str(value).rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for one in cast("list[Any]", part):
            yield from _references(one)


# -- reading ---------------------------------------------------------------------------------------------------------


def _stripped(value: Any, schema: Any, root: Json) -> Any:
    if not isinstance(value, (dict, list)):
        return value
    part = part_for(cast("Any", value), schema, root)
    if isinstance(value, list):
        return [_stripped(one, inner, root) for one, inner in items_of(cast("list[Any]", value), part)]
    data = cast("Json", value)
    unset, rest = unset_in(data, part, root), part.get("additionalProperties")
    properties: Json = part.get("properties", {})
    return {name: _stripped(one, properties.get(name, rest), root) for name, one in data.items() if name not in unset}
