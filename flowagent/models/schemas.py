"""Looks into JSON schemas, from wherever they come: what a reference names, and which values a part is about.

A schema may come from a server that nobody has reason to trust: none of this takes long, or goes round for ever.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at plain data of any shape.)
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

_KINDS: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


def resolved(schema: Json, root: Json) -> Any:
    """The part that a reference within the schema names; an empty one where there is none.

    Args:
        schema: a part that is a reference.
        root: the whole, in which references are looked up.
    """
    found: Any = root
    for name in filter(None, str(schema["$ref"]).removeprefix("#").split("/")):
        key = name.replace("~1", "/").replace("~0", "~")
        found = cast("Json", found).get(key, {}) if isinstance(found, dict) else {}
    return found


def variants(schema: Any, root: Json) -> Iterator[Json]:
    """The parts of which a value has to fit one: behind references, and all members of unions.

    What takes anything is an empty part. A reference that was followed before adds nothing.

    Args:
        schema: a part of a JSON schema.
        root: the whole, in which references are looked up.
    """
    todo, seen = [schema], set[str]()
    while todo:
        part = merged(todo.pop())
        if "$ref" in part:
            if part["$ref"] not in seen:
                seen.add(part["$ref"])
                todo.append(resolved(part, root))
        elif "type" not in part and (members := members_of(part)):
            todo += reversed(members)
        else:
            yield part


def members_of(part: Json) -> list[Any]:
    """The members of a union; none if it is no union."""
    return part.get("anyOf") or part.get("oneOf") or []


def merged(schema: Any) -> Json:
    """A part as an object (`true` is a schema, too), with the only member of an `allOf` of one as part of it."""
    if not isinstance(schema, dict):
        return {}
    part = cast("Json", schema)
    match part.get("allOf"):
        case [dict() as only]:
            return only | {key: value for key, value in part.items() if key != "allOf"}
        case _:
            return part


def kinds_of(schema: Any, root: Json) -> frozenset[str]:
    """The kinds of JSON values that may fit a schema; all of them where it does not say.

    Args:
        schema: a part of a JSON schema.
        root: the whole, in which references are looked up.
    """
    return frozenset[str]().union(*map(_kinds, variants(schema, root))) or _KINDS


def part_for(value: Json | list[Any], schema: Any, root: Json) -> Json:
    """The part of a schema that an object or array was written to; an empty one where there is none.

    Of the members of a union it is one that has the value's keys, and its marks (what `const` or `enum` list); one in
    which its nulls have a meaning of their own goes before one in which they stand for left out.

    Args:
        value: what was written.
        schema: a part of a JSON schema.
        root: the whole, in which references are looked up.
    """
    parts = [part for part in variants(schema, root) if kind_of(value) in kinds_of(part, root)]
    if len(parts) < 2:
        return parts[0] if parts else {}
    fitting = [part for part in parts if isinstance(value, list) or _fits(value, part, root)]
    return next((part for part in fitting if not unset_in(value, part, root)), fitting[0] if fitting else {})


def items_of(value: Sequence[Any], part: Json) -> Iterator[tuple[Any, Any]]:
    """The items of an array, each with the part of a schema for it."""
    first: list[Any] = part.get("prefixItems", [])
    for place, one in enumerate(value):
        yield one, first[place] if place < len(first) else part.get("items")


def unset_in(value: Json | list[Any], part: Json, root: Json) -> frozenset[str]:
    """The properties of an object that are null and cannot be: in strict schemas that stands for left out."""
    if isinstance(value, list):
        return frozenset()
    properties: Json = part.get("properties", {})
    return frozenset(
        name
        for name, one in value.items()
        if one is None and name in properties and name not in part.get("required", ())
        if not takes_null(properties[name], root)
    )


def _fits(data: Json, part: Json, root: Json) -> bool:
    """Whether an object may have been written to a part, by what its keys and its marks say."""
    properties: Json = part.get("properties", {})
    rest = part.get("additionalProperties", not properties)
    known = set(part.get("required", ())) <= set(data) and (rest is not False or set(data) <= set(properties))
    unset = unset_in(data, part, root)
    return known and all(
        _may_be(one, properties.get(name, rest), root) for name, one in data.items() if name not in unset
    )


def _may_be(value: Any, schema: Any, root: Json) -> bool:
    """Whether a value is one of those that are listed, where they are, and null only where that fits."""
    if value is None:
        return takes_null(schema, root)
    listed = [[one["const"]] if "const" in one else one.get("enum") for one in variants(schema, root)]
    return any(values is None or value in values for values in listed)


def takes_null(schema: Any, root: Json) -> bool:
    """Whether null fits a schema."""
    return "null" in kinds_of(schema, root)


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


def _kinds(part: Json) -> frozenset[str]:
    match part:
        case {"const": value}:
            return frozenset({kind_of(value)})
        case {"enum": list() as values}:
            return frozenset(map(kind_of, values))
        case {"type": str() as kind}:
            return frozenset({kind})
        case {"type": list() as kinds}:
            return frozenset(kinds)
        case {"properties": _}:
            return frozenset({"object"})
        case _:
            return _KINDS
