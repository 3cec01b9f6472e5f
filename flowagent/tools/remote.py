"""What tools from elsewhere have in common: schemas that nobody here wrote."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (A schema from elsewhere may hold anything: it is looked at here.)

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any


def reference_faults(schema: Mapping[str, Any]) -> list[str]:
    """What a schema refers to and is not in it; nothing is ever fetched to find out.

    Example:
        >>> reference_faults({"items": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": {"A": True}})
        ['its schema refers to `#/$defs/B`, which is not in it']
    """
    refs = sorted(set(_references(schema)))
    if not refs:
        return []
    referencing = importlib.import_module("referencing")
    unknown: type[Exception] = importlib.import_module("referencing.exceptions").Unresolvable
    specification = importlib.import_module("referencing.jsonschema").DRAFT202012
    resource = referencing.Resource(contents=dict(schema), specification=specification)
    resolver = referencing.Registry().with_resource("", resource).resolver("")
    faults: list[str] = []
    for ref in refs:
        try:
            resolver.lookup(ref)
        except unknown:
            faults.append(f"its schema refers to `{ref[:100]}`, which is not in it")
    return faults


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)
