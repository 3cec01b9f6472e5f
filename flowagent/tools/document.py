"""Reading an OpenAPI document: where it comes from, what its references mean, and its schemas as JSON schemas."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (A document may hold anything: it is looked at here.)
from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from flowagent.errors import ToolDefinitionError

Direction = Literal["request", "response"]
"""What a schema is of: what is only read is no part of requests, and what is only written none of responses."""

_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ONE: Final = frozenset(
    {"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedProperties"}
)
_DROPPED: Final = frozenset({"xml", "externalDocs", "discriminator", "example", "nullable", "readOnly"})
_HIDDEN: Final[Mapping[Direction, str]] = {"request": "readOnly", "response": "writeOnly"}
_DEEPEST: Final = 64


def parsed(text: str, name: str) -> Any:
    """A document as plain data, from JSON or YAML.

    Raises:
        ToolDefinitionError: it is neither.
        ImportError: it is no JSON, and there is no package to read YAML.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        if text.lstrip()[:1] in {"{", "["}:
            raise ToolDefinitionError(f"OpenAPI document `{name}`", [f"it is broken JSON: {error}"]) from error
    try:
        yaml = importlib.import_module("yaml")
    except ModuleNotFoundError as error:
        needed = f"OpenAPI document `{name}` is YAML, and the package that reads it is not installed"
        raise ImportError(f"{needed}: pip install 'flowagent[openapi]'", name="yaml") from error
    try:
        return yaml.load(text, Loader=_loader(yaml))
    except yaml.YAMLError as error:
        raise ToolDefinitionError(f"OpenAPI document `{name}`", [f"it is neither JSON nor YAML: {error}"]) from error


def _loader(yaml: Any) -> Any:
    """YAML as JSON means it: plain data only, dates stay texts, and numbers of responses become texts as keys."""

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            return {str(key): value for key, value in super().construct_mapping(node, deep=deep).items()}

    dated = {first: [one for one in found if "timestamp" not in one[0]] for first, found in _resolvers(yaml).items()}
    Loader.yaml_implicit_resolvers = dated
    return Loader


def _resolvers(yaml: Any) -> dict[str, list[Any]]:
    return yaml.SafeLoader.yaml_implicit_resolvers


def at(path: str) -> str:
    """The text of a document that is a file."""
    return Path(path).read_text(encoding="utf-8-sig")


class Fault(Exception):
    """One thing in a document that is wrong, with where it stands."""


def pointer(*parts: str | int) -> str:
    """A JSON pointer as a reference.

    Example:
        >>> pointer("paths", "/users/{id}", "get")
        '#/paths/~1users~1{id}/get'
    """
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


class Document:
    """An OpenAPI document of version 3.0 or 3.1.

    Args:
        data: it, as plain data.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.version = str(data.get("openapi", ""))
        referencing = importlib.import_module("referencing")
        self._unknown: type[Exception] = importlib.import_module("referencing.exceptions").Unresolvable
        specification = importlib.import_module("referencing.jsonschema").DRAFT202012
        resource = referencing.Resource(contents=dict(data), specification=specification)
        self._resolver = referencing.Registry().with_resource("", resource).resolver("")

    @property
    def has_nullable(self) -> bool:
        """Whether its schemas are of the kind before 3.1."""
        return self.version.startswith("3.0")

    def lookup(self, ref: str, where: str) -> Any:
        """What a reference means.

        Raises:
            Fault: it leads out of the document, or nowhere.
        """
        if not ref.startswith("#"):
            raise Fault(
                f"{where}: `{ref[:100]}` is another document, which is not read: put all into one document first"
            )
        try:
            return self._resolver.lookup(ref).contents
        except self._unknown as error:
            raise Fault(f"{where}: there is no `{ref}` in the document") from error

    def followed(self, found: Any, where: str) -> tuple[Mapping[str, Any], str]:
        """An object of the document and where it stands, where it may be a reference to one.

        Raises:
            Fault: it is no object, or a reference that ends in none.
        """
        for _ in range(_DEEPEST):
            if not isinstance(found, Mapping):
                raise Fault(f"{where}: an object should stand here, not {json.dumps(found, default=str)[:60]}")
            if not isinstance(found.get("$ref"), str):
                return found, where
            ref = found["$ref"]
            found, where = self.lookup(ref, where), ref
        raise Fault(f"{where}: references lead round in a circle")


class Schemas:
    """Schemas of one tool, each complete in itself: what is referred to comes along under `$defs`.

    Args:
        document: where they stand.
        direction: what they are of.
    """

    def __init__(self, document: Document, direction: Direction) -> None:
        self._document = document
        self._direction: Direction = direction
        self._names: dict[str, str] = {}
        self._made: dict[str, Any] = {}

    def with_definitions(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema with all that the ones read so far refer to."""
        return schema | {"$defs": dict(sorted(self._made.items()))} if self._made else schema

    def read(self, schema: Any, where: str) -> Any:
        """A schema of the document as a JSON schema.

        Raises:
            Fault: it is none, or refers to what is not there.
        """
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise Fault(f"{where}: a schema should stand here, not {json.dumps(schema, default=str)[:60]}")
        made: dict[str, Any] = {}
        for key, value in schema.items():
            if key not in _DROPPED and not key.startswith("x-"):
                made[key] = self._part(key, value, f"{where}/{key}")
        self._hide(schema, made)
        return _without_nullable(schema, made) if self._document.has_nullable else made

    def _part(self, key: str, value: Any, where: str) -> Any:
        if key == "$ref" and isinstance(value, str):
            return f"#/$defs/{self._defined(value, where)}"
        if key in _MAPS and isinstance(value, Mapping):
            return {name: self.read(one, f"{where}/{name}") for name, one in value.items()}
        if key in _LISTS and isinstance(value, list):
            return [self.read(one, f"{where}/{number}") for number, one in enumerate(value)]
        return self.read(value, where) if key in _ONE and isinstance(value, Mapping) else value

    def _defined(self, ref: str, where: str) -> str:
        if ref not in self._names:
            target = self._document.lookup(ref, where)
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", ref.rpartition("/")[2]) or "schema"
            while name in self._names.values():
                name += "_"
            self._names[ref] = name  # before it is read: a schema may refer to itself
            self._made[name] = self.read(target, ref)
        return self._names[ref]

    def _hide(self, schema: Mapping[str, Any], made: dict[str, Any]) -> None:
        """Leave out what is no part of this direction."""
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return
        mark = _HIDDEN[self._direction]
        hidden = {name for name, one in properties.items() if isinstance(one, Mapping) and one.get(mark) is True}
        made["properties"] = {name: one for name, one in made["properties"].items() if name not in hidden}
        if isinstance(made.get("required"), list):
            made["required"] = [name for name in made["required"] if name not in hidden]


def _without_nullable(schema: Mapping[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """A schema of 3.0 in the words of 3.1: null is a type, and an exclusive bound is a number."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if made.get(exclusive) is True and bound in made:
            made[exclusive] = made.pop(bound)
        elif isinstance(made.get(exclusive), bool):
            del made[exclusive]
    if schema.get("nullable") is not True:
        return made
    if "$ref" in made or not isinstance(made.get("type"), str):
        return {"anyOf": [made, {"type": "null"}]}
    made["type"] = [made["type"], "null"]
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


def variables(path: str) -> Iterator[str]:
    """The names in braces in a path."""
    return (found[1] for found in re.finditer(r"\{([^{}]*)\}", path))
