"""Schemas that a provider can hold a model to, and what is lost when one is made of a plain JSON schema.

Strict mode is a claim about a schema: every object is closed, and only words that the provider knows stand in it. It
is made only where a model is told the same as without it. The rules are data, one row for each provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

Json = dict[str, Any]

_COMMON = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"}
    | {"description", "title"}
)
_WORDLESS = frozenset({"default", "examples", "discriminator", "writeOnly", "readOnly", "deprecated", "$schema", "$id"})
"""Words that hold nobody to anything: they may go without loss. A default is given by flowagent, not by the model."""


_MOST_INLINED = 500
"""How often parts are put in the place of references to them. A schema from elsewhere could ask for it without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a provider's strict mode takes.

    Args:
        words: the words of JSON schema that it knows.
        formats: the formats of strings that it knows.
        all_required: whether every property must be required, so that one with a default has to take null.
        recursion: whether a schema may refer to itself.
    """

    words: frozenset[str]
    formats: frozenset[str]
    all_required: bool
    recursion: bool


_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_OPENAI = Rules(
    words=_COMMON
    | {"pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minItems", "maxItems"},
    formats=_FORMATS,
    all_required=True,
    recursion=True,
)
_ANTHROPIC = Rules(words=_COMMON | {"format", "allOf"}, formats=_FORMATS | {"uri"}, all_required=False, recursion=False)
RULES: Mapping[str, Rules] = {"openai": _OPENAI, "anthropic": _ANTHROPIC}
"""By the name of the provider; others are held to OpenAI's, whose dialect they speak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a provider is told of a tool.

    Args:
        provider: whose rules were applied.
        strict: whether the provider holds the model to the schema.
        schema: the JSON schema as it is sent.
        lost: what strict mode would lose, or loses where it was demanded, one line each.
        blocked: why strict mode cannot be had at all, one line each.
    """

    provider: str
    strict: bool
    schema: Json
    lost: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


def report_on(schema: Json, provider: str, wanted: bool | Literal["auto"]) -> Report:
    """What becomes of a schema.

    Args:
        schema: the JSON schema of an object.
        provider: its name; the part before a `:` counts.
        wanted: whether strict mode is demanded (then words are dropped for it), refused, or taken where it loses
            nothing.
    """
    rules = RULES.get(provider.partition(":")[0], _OPENAI)
    made = _Strict(rules, schema)
    closed = made.closed(schema, "")
    if not rules.recursion:
        made.blocked += list(_circles(schema))
    strict = not made.blocked and (wanted is True or (wanted == "auto" and not made.lost))
    return Report(
        provider=provider,
        strict=strict,
        schema=closed if strict else schema,
        lost=tuple(dict.fromkeys(made.lost)),
        blocked=tuple(dict.fromkeys(made.blocked)),
    )


@dataclass(slots=True)
class _Strict:
    """One walk through a schema."""

    rules: Rules
    root: Json
    lost: list[str] = field(default_factory=list[str])
    blocked: list[str] = field(default_factory=list[str])
    inside: list[str] = field(default_factory=list[str])
    inlined: int = 0

    def closed(self, schema: Any, where: str) -> Any:
        """A part of the schema as strict mode takes it."""
        if not isinstance(schema, dict):
            self.blocked.append(f"{where or 'the whole'} takes anything")
            return schema
        one = self._known(cast("Json", schema), where)
        if "$ref" in one:
            return self._inlined(one, where)
        if not one.keys() & {"type", "anyOf", "allOf", "enum", "const"}:
            self.blocked.append(f"{where or 'the whole'} takes anything")
        for key in ("anyOf", "allOf"):
            if key in one:
                one[key] = [self.closed(part, where) for part in one[key]]
        if "items" in one:
            one["items"] = self.closed(one["items"], f"{where}[]")
        elif one.get("type") == "array":
            self.blocked.append(f"the items of {where} may be anything")
        if "$defs" in one:
            one["$defs"] = {name: self.closed(part, name) for name, part in one["$defs"].items()}
        return self._object(one, where) if one.get("type") == "object" or "properties" in one else one

    def _known(self, schema: Json, where: str) -> Json:
        """Without the words that the provider does not know."""
        one = dict(schema)
        if "oneOf" in one and "anyOf" not in one:  # as its parts exclude one another by what they say of themselves
            one["anyOf"] = one.pop("oneOf")
        for word in [word for word in one if word not in self.rules.words]:
            value = one.pop(word)
            if word not in _WORDLESS:
                self.lost.append(f"`{word}: {value}` of {where or 'the whole'} is not told")
        if "format" in one and one["format"] not in self.rules.formats:
            self.lost.append(f"`format: {one.pop('format')}` of {where} is not told")
        return one

    def _inlined(self, one: Json, where: str) -> Json:
        """A reference stands alone: what it refers to takes its place where more is said than that."""
        reference = one["$ref"]
        if len(one) == 1:
            return one
        if reference in self.inside:
            self.lost.append(f"`description: {one.get('description')}` of {where} is not told")
            return {"$ref": reference}
        self.inlined += 1
        if self.inlined > _MOST_INLINED:
            self.blocked.append("it refers to its own parts too often")
            return {"$ref": reference}
        self.inside.append(reference)
        whole = {**cast("Json", resolved(one, self.root)), **one}
        made = self.closed({key: value for key, value in whole.items() if key != "$ref"}, where)
        self.inside.pop()
        return made

    def _object(self, one: Json, where: str) -> Json:
        if one.get("additionalProperties") not in (None, False):
            self.blocked.append(f"{where or 'the whole'} takes keys of any name")
        properties = cast("Json", one.get("properties", {}))
        required = list(one.get("required", ()))
        made = {name: self.closed(part, f"{where}.{name}".lstrip(".")) for name, part in properties.items()}
        if self.rules.all_required:
            for name in [name for name in made if name not in required]:
                made[name] = self._nullable(made[name], properties[name], f"{where}.{name}".lstrip("."))
            required = list(made)
        return {**one, "properties": made, "required": required, "additionalProperties": False}

    def _nullable(self, made: Any, plain: Any, where: str) -> Any:
        """A property that need not be there, as one that may be null instead, which then means its default."""
        if not takes_null(plain, self.root):
            inner = dict(cast("Json", made))
            told = {"description": inner.pop("description")} if "description" in inner else {}
            return {"anyOf": [inner, {"type": "null"}], **told}
        if isinstance(plain, dict) and cast("Json", plain).get("default") is not None:
            self.blocked.append(f"null for {where} would mean null and its default")
        return made


def takes_null(schema: Any, root: Json) -> bool:
    """Whether null fits a schema."""
    return "null" in kinds_of(schema, root)


_KINDS = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


def kinds_of(schema: Any, root: Json) -> frozenset[str]:
    """The kinds of JSON values that may fit a schema; all of them where it does not say.

    Args:
        schema: a part of a JSON schema.
        root: the whole, in which references are looked up.
    """
    return _kinds(schema, root, set()) or _KINDS


def _kinds(schema: Any, root: Json, seen: set[str]) -> frozenset[str]:
    """The same; references that were followed before add nothing, so that no schema takes long."""
    if not isinstance(schema, dict):
        return _KINDS
    one = cast("Json", schema)
    if "$ref" in one:
        if one["$ref"] in seen:
            return frozenset()
        seen.add(one["$ref"])
        return _kinds(resolved(one, root), root, seen)
    if "const" in one:
        return frozenset({kind_of(one["const"])})
    if "enum" in one:
        return frozenset(map(kind_of, one["enum"]))
    if "type" in one:
        kind = one["type"]
        return frozenset([kind] if isinstance(kind, str) else kind)
    for word in ("anyOf", "oneOf"):
        if word in one:
            return frozenset[str]().union(*(_kinds(part, root, seen) for part in one[word]))
    return frozenset({"object"}) if "properties" in one else _KINDS


def resolved(schema: Json, root: Json) -> Any:
    """The part that a reference within the schema names; an empty one where there is none."""
    found: Any = root
    for name in str(schema["$ref"]).removeprefix("#").strip("/").split("/"):
        key = name.replace("~1", "/").replace("~0", "~")
        found = cast("Json", found).get(key, {}) if isinstance(found, dict) else {}
    return found


def kind_of(value: Any) -> str:
    """The kind of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _circles(schema: Json) -> Iterator[str]:
    """The definitions that refer to themselves."""
    defs = cast("Json", schema.get("$defs", {}))
    reach = {name: set(_references(part)) for name, part in defs.items()}
    for name in defs:
        todo, seen = list(reach[name]), set[str]()
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += reach.get(one, ())
        if name in seen:
            yield f"`{name}` refers to itself"


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in cast("Json", part).items():
            if key == "$ref":
                yield str(value).rpartition("/")[2]
            yield from _references(value)
    elif isinstance(part, list):
        for one in cast("list[Any]", part):
            yield from _references(one)
