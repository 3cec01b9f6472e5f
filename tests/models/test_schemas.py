"""What is read out of JSON schemas."""

from __future__ import annotations

from typing import Any

import pytest

from flowagent.models.schemas import kinds_of


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"enum": [1, "a", None, True, 1.5, [], {}]},
         {"integer", "string", "null", "boolean", "number", "array", "object"}),
        ({"properties": {}}, {"object"}),
        ({"$ref": "#/$defs/a"}, {"integer"}),
        ({"$ref": "#/$defs/nowhere"}, {"null", "boolean", "integer", "number", "string", "array", "object"}),
        ({"oneOf": [{"type": "string"}, {"const": 3}]}, {"string", "integer"}),
        ({"allOf": [{"$ref": "#/$defs/a"}], "description": "older"}, {"integer"}),
        ({"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y"]}]}, {"object"}),
    ],
)  # fmt: skip
def test_the_kinds_of_values_that_fit_a_schema(schema: dict[str, Any], kinds: set[str]) -> None:
    assert kinds_of(schema, {"$defs": {"a": {"type": "integer"}}}) == kinds


def test_a_schema_that_goes_round_takes_anything() -> None:
    assert "null" in kinds_of({"$ref": "#/a"}, {"a": {"$ref": "#/a"}})
