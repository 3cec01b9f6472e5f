"""Which schemas can be sent as strict, in which form, and what is lost by it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter

from flowagent.models.strict import DIALECTS, Dialect, report_on, strict_form, without_nulls

both = pytest.mark.parametrize("dialect", DIALECTS)


class Opts(BaseModel):
    deep: bool = False


class Where(BaseModel):
    city: str
    unit: str = "C"
    opts: Opts | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Pets(BaseModel):
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]]


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


def objects(schema: Any) -> list[dict[str, Any]]:
    """All objects in a schema."""
    if isinstance(schema, list):
        return [found for part in schema for found in objects(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" else []
    return own + [found for part in schema.values() for found in objects(part)]


def test_in_openais_form_every_object_is_closed_and_all_is_required_and_optional_takes_null() -> None:
    """FA-057: where strict is claimed the schema keeps it."""
    form = strict_form(Where.model_json_schema(), "openai")
    assert form.lossless
    assert form.schema is not None
    found = objects(form.schema)
    assert len(found) == 2
    for part in found:
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
    unit = form.schema["properties"]["unit"]
    assert unit == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert form.nulls == ("$.unit", "$defs.Opts.deep")
    assert form.report == "strict; null stands for left out: $.unit, $defs.Opts.deep"


@pytest.mark.parametrize("written", [{"city": "X"}, {"city": "X", "unit": None, "opts": None}])
def test_null_for_a_property_with_a_default_means_the_default(written: dict[str, Any]) -> None:
    """FA-057: both calls run with unit C."""
    read = Where.model_validate(without_nulls(written, Where.model_json_schema()))
    assert read == Where(city="X")


def test_in_anthropics_form_what_is_optional_stays_so() -> None:
    form = strict_form(Where.model_json_schema(), "anthropic")
    assert form.lossless
    assert form.schema is not None
    assert form.schema["required"] == ["city"]
    assert form.nulls == ()
    assert form.report == "strict"


@both
def test_variants_told_apart_by_a_constant_lose_nothing(dialect: Dialect) -> None:
    form = strict_form(Pets.model_json_schema(), dialect)
    assert form.lossless
    assert form.schema is not None
    assert form.schema["properties"]["pets"]["items"]["anyOf"] == [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]


def test_nulls_in_variants_are_taken_out_by_the_variant_that_fits() -> None:
    data = {"pets": [{"kind": "cat", "lives": None}, {"kind": "dog", "tricks": None}]}
    assert without_nulls(data, Pets.model_json_schema()) == {"pets": [{"kind": "cat"}, {"kind": "dog"}]}


def test_a_schema_that_refers_to_itself_is_strict_where_that_is_known() -> None:
    schema = Tree.model_json_schema()
    assert strict_form(schema, "openai").lossless
    form = strict_form(schema, "anthropic")
    assert (form.schema, form.lossless) == (None, False)
    assert "refers to itself" in form.report


@both
def test_an_open_object_has_no_strict_form(dialect: Dialect) -> None:
    form = strict_form(TypeAdapter(dict[str, int]).json_schema(), dialect)
    assert (form.schema, form.lossless) == (None, False)
    assert form.report == "not strict:\n  - $: an object with any properties cannot be closed"


@both
def test_a_value_of_any_kind_has_no_strict_form(dialect: Dialect) -> None:
    class Holder(BaseModel):
        anything: Any
        several: list[Any]

    form = strict_form(Holder.model_json_schema(), dialect)
    assert form.schema is None
    assert form.blocked == ("$.anything: a value of any kind", "$.several[]: a value of any kind")


def test_what_strict_mode_cannot_say_is_lost_by_name() -> None:
    class Limited(BaseModel):
        name: Annotated[str, Field(min_length=2)]
        count: Annotated[int, Field(ge=1)]
        link: Annotated[str, Field(json_schema_extra={"format": "iri"})]

    openai = strict_form(Limited.model_json_schema(), "openai")
    assert openai.lost == ("$.name: minLength 2", "$.link: format 'iri'")
    assert openai.schema is not None
    assert openai.schema["properties"]["count"] == {"type": "integer", "minimum": 1}
    anthropic = strict_form(Limited.model_json_schema(), "anthropic")
    assert anthropic.lost == ("$.name: minLength 2", "$.count: minimum 1", "$.link: format 'iri'")


def test_the_whole_must_be_an_object_for_openai() -> None:
    schema = TypeAdapter(list[int]).json_schema()
    assert "must be one object" in strict_form(schema, "openai").report
    assert strict_form(schema, "anthropic").lossless


@both
def test_a_tool_without_parameters_is_strict(dialect: Dialect) -> None:
    closed = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert strict_form({"type": "object"}, dialect).schema == closed


@both
def test_words_for_the_model_are_kept(dialect: Dialect) -> None:
    class Told(BaseModel):
        """What is told."""

        where: Annotated[Opts, Field(description="Where from.")]
        mode: Annotated[Literal["a", "b"], Field(description="Which.")]

    schema = strict_form(Told.model_json_schema(), dialect).schema
    assert schema is not None
    assert schema["description"] == "What is told."
    assert schema["properties"]["where"] == {"anyOf": [{"$ref": "#/$defs/Opts"}], "description": "Where from."}
    assert schema["properties"]["mode"] == {"type": "string", "description": "Which.", "enum": ["a", "b"]}


@both
def test_a_list_of_types_becomes_a_union(dialect: Dialect) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"], "description": "A."}},
        "required": ["a"],
    }
    written = strict_form(schema, dialect).schema
    assert written is not None
    assert written["properties"]["a"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "A."}


@both
def test_an_enumeration_gets_the_type_of_its_values(dialect: Dialect) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"const": "x"}}, "required": ["a", "b"]}
    written = strict_form(schema, dialect).schema
    assert written is not None
    assert written["properties"] == {"a": {"type": "integer", "enum": [1, 2]}, "b": {"type": "string", "const": "x"}}


def test_older_ways_of_writing_schemas_are_understood() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"allOf": [{"$ref": "#/definitions/A"}], "default": {}}},
        "definitions": {"A": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    }
    form = strict_form(schema, "openai")
    assert form.lossless
    assert form.schema is not None
    assert form.schema["properties"]["a"] == {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}
    assert form.schema["$defs"]["A"]["additionalProperties"] is False


def test_nulls_in_lists_are_taken_out_through_unions_and_references() -> None:
    class Level(BaseModel):
        several: list[Where] | None = None
        either: dict[str, int] | Where | str = ""

    data = {"several": [{"city": "X", "unit": None}], "either": {"city": "Y", "opts": None, "unit": None}}
    expected = {"several": [{"city": "X"}], "either": {"city": "Y", "opts": None}}
    assert without_nulls(data, Level.model_json_schema()) == expected


def test_a_null_that_fits_one_member_of_a_union_has_a_meaning_of_its_own() -> None:
    class Set(BaseModel):
        level: int = 0

    class Unset(BaseModel):
        level: int | None

    schema = TypeAdapter(list[Set | Unset]).json_schema()
    assert without_nulls([{"level": None}], schema) == [{"level": None}]


def test_nulls_are_taken_out_behind_what_has_keys_of_any_name_and_at_fixed_places() -> None:
    schema = TypeAdapter(dict[str, tuple[int, Where]]).json_schema()
    assert without_nulls({"a": [1, {"city": "X", "unit": None}]}, schema) == {"a": [1, {"city": "X"}]}


def test_variants_are_told_apart_by_what_a_mark_may_be() -> None:
    """A mark may be a list of values, and stand in a definition of its own."""
    kind = {"type": "string", "enum": ["big", "huge"]}
    schema = {
        "$defs": {"Kind": kind},
        "oneOf": [
            {"properties": {"kind": {"enum": ["small"]}, "size": {"type": "integer"}}, "required": ["kind"]},
            {"properties": {"kind": {"$ref": "#/$defs/Kind"}, "size": {"type": ["integer", "null"]}}},
        ],
    }
    assert without_nulls({"kind": "huge", "size": None}, schema) == {"kind": "huge", "size": None}
    assert without_nulls({"kind": "small", "size": None}, schema) == {"kind": "small"}


def test_nulls_are_taken_out_of_schemas_that_go_round() -> None:
    schema = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}, "$ref": "#/$defs/a"}
    assert without_nulls({"x": None}, schema) == {"x": None}


@both
def test_an_enumeration_of_several_kinds_is_a_union(dialect: Dialect) -> None:
    value = {"enum": ["a", 1, None], "description": "Any."}
    schema = {"type": "object", "properties": {"value": value}, "required": ["value"]}
    form = strict_form(schema, dialect)
    assert form.lossless
    assert form.schema is not None
    assert form.schema["properties"]["value"] == {
        "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}, {"type": "null"}],
        "description": "Any.",
    }


@both
def test_a_reference_to_what_is_no_definition_blocks_strict_mode(dialect: Dialect) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}}
    assert strict_form(schema, dialect).blocked == ("$.b: a reference to '#/properties/a', which is no definition",)


def test_what_travels_is_decided_in_one_place() -> None:
    """A demand drops words, `auto` does not, and what has no strict form travels as it is, whatever was wanted."""
    limited = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "required": ["a"]}
    wide = {"type": "object", "additionalProperties": {"type": "integer"}}
    told = [
        (report.strict, report.schema == schema)
        for schema in (limited, wide)
        for report in (report_on(schema, "openai:gpt", wanted) for wanted in (True, "auto", False))
    ]
    assert told == [(True, False), (False, True), (False, True), (False, True), (False, True), (False, True)]


def test_nulls_that_mean_something_stay() -> None:
    data = {"city": None, "opts": None, "unknown": None, "unit": "K"}
    assert without_nulls(data, Where.model_json_schema()) == data


SIMPLE: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "null"}, {"enum": ["a", "b"]}]
)


def closed_object(properties: dict[str, Any], required: set[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name in required],
    }


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(lambda items: {"type": "array", "items": items}),
        st.builds(
            closed_object,
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.sets(st.sampled_from("abc")),
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda variants: {"anyOf": variants}),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["a", "z"])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)


@given(SCHEMAS, VALUES)
def test_a_value_that_keeps_anthropics_form_keeps_the_schema(schema: dict[str, Any], value: Any) -> None:
    form = strict_form(schema, "anthropic")
    if form.lossless and form.schema is not None and Draft202012Validator(form.schema).is_valid(value):
        assert Draft202012Validator(schema).is_valid(value)


@given(st.dictionaries(st.sampled_from("abc"), SIMPLE, max_size=3), st.sets(st.sampled_from("abc")), VALUES)
def test_a_value_that_keeps_openais_form_keeps_the_schema_without_its_nulls(
    properties: dict[str, Any], required: set[str], value: Any
) -> None:
    schema = closed_object(properties, required)
    form = strict_form(schema, "openai")
    assert form.lossless
    assert form.schema is not None
    if Draft202012Validator(form.schema).is_valid(value):
        assert Draft202012Validator(schema).is_valid(without_nulls(value, schema))
