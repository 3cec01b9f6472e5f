from __future__ import annotations

from flowagent.tools import telling


def test_arguments_are_shown_as_plain_data_and_what_has_no_json_form_by_its_type() -> None:
    shown = telling.shown({"a": (1, b"\xff"), "b": object(), "c": "hidden"}, ["c"])
    assert shown == {"a": [1, "_w=="], "b": "<object>", "c": "**********"}


def test_parameters_are_told_in_one_line() -> None:
    schema = {
        "properties": {"a": {"type": "string"}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "c": {}},
        "required": ["a"],
    }
    assert telling.parameters(schema) == "`a` (string), `b` (integer or null, optional), `c` (anything, optional)"
    assert telling.parameters({"properties": {}}) == "none"
