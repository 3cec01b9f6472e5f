"""Reading JSON out of replies: fences, prose, several blocks, faults of syntax; values are never invented."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from flowagent.agents.reading import found_in
from flowagent.models.mending import Mended

A = {"a": 1}
FENCE = "took it out of a code fence"
AROUND = "left out the text around it"

EXACT: dict[str, Any] = {
    '{"a": 1}': A,
    ' \n{"a": 1}\n': A,
    '\ufeff{"a": 1}': A,
    "[1, 2]": [1, 2],
    '"text"': "text",
    "3": 3,
    "null": None,
    '{"a": "{not json}"}': {"a": "{not json}"},
    '{"a": "``` json"}': {"a": "``` json"},
    '{"a": "é北🤖"}': {"a": "é北🤖"},
    '{"a": "\\u00e9"}': {"a": "é"},
    "{}": {},
    "[]": [],
    '{"a": {"b": [1, {"c": null}]}}': {"a": {"b": [1, {"c": None}]}},
    '{"a": 1e3}': {"a": 1000.0},
    '{"a": "line\\nbreak"}': {"a": "line\nbreak"},
}

FENCED: dict[str, Any] = {
    '```json\n{"a": 1}\n```': A,
    '```\n{"a": 1}\n```': A,
    '```JSON\n{"a": 1}\n```': A,
    'Here you are:\n```json\n{"a": 1}\n```\nAnything else?': A,
    '```json\r\n{"a": 1}\r\n```': A,
    '``` json\n{"a": 1}```': A,
    '```python\nprint()\n```\n```json\n{"a": 1}\n```': A,
    "```json\n[1, 2]\n```": [1, 2],
    'First ```json\n{"a": 1}\n``` then ```json\n{"b": 2}\n```': A,
    '```json5\n{"a": 1}\n```': A,
}

SURROUNDED: dict[str, Any] = {
    'Sure! {"a": 1}': A,
    '{"a": 1} I hope this helps.': A,
    'The answer is {"a": 1}, as you see.': A,
    'Thinking about {braces} first... {"a": 1}': A,
    "I found [1, 2] for you": [1, 2],
    '<answer>{"a": 1}</answer>': A,
    'Answer:\n\n{\n  "a": 1\n}\n\nDone.': A,
    '{"a": 1}\n{"a": 2}': A,
    'It says "quoted" and then {"a": "b \\" c"}': {"a": 'b " c'},
    'json {"a": 1}': A,
}

REPAIRED: dict[str, Any] = {
    '{"a": 1,}': A,
    "{a: 1}": A,
    "{'a': 1}": A,
    "{'a': 'x'}": {"a": "x"},
    '{"a": 1 // one\n}': A,
    '{"a": 1 /* one */}': A,
    '{"a": True}': {"a": True},
    '{"a": None}': {"a": None},
    '{"a": False, "b": "x"}': {"a": False, "b": "x"},
    '{"a": "one\ntwo"}': {"a": "one\ntwo"},
    '{"a": 1 "b": 2}': {"a": 1, "b": 2},
    "[1, 2,]": [1, 2],
    '{"a": [1, 2,],}': {"a": [1, 2]},
    "{“a”: “x”}": {"a": "x"},
    '```json\n{"a": 1,}\n```': A,
    "Sure: {'a': 1}": A,
    '{"a": "he said "hi" to me"}': {"a": 'he said "hi" to me'},
    '{"a": 01}': None,
    '{\n"a": 1;\n}': None,
}

NOTHING = [
    "",
    "   \n ",
    "I cannot do that.",
    "{",
    '{"a": ',
    '{"a": 1',
    '{"a": "cut off in the mid',
    '[1, 2, {"a":',
    '```json\n{"a": 1',
    'Sure: {"a": [1, 2',
    '{"a": }',
    '{"a": 1, "b": }',
    "```",
    "}{",
    "no { json } here",
    "a: 1",
]


def _first(text: str) -> Mended | None:
    return next(found_in(text), None)


@pytest.mark.parametrize("text", EXACT)
def test_json_is_read_as_it_is(text: str) -> None:
    assert _first(text) == Mended(EXACT[text])


@pytest.mark.parametrize("text", FENCED)
def test_a_fence_is_taken_off(text: str) -> None:
    assert _first(text) == Mended(FENCED[text], (FENCE,))


@pytest.mark.parametrize("text", SURROUNDED)
def test_prose_around_is_left_out(text: str) -> None:
    assert _first(text) == Mended(SURROUNDED[text], (AROUND,))


@pytest.mark.parametrize("text", [text for text, value in REPAIRED.items() if value is not None])
def test_syntax_is_repaired_and_the_edits_are_told(text: str) -> None:
    found = _first(text)
    assert found is not None
    assert found.value == REPAIRED[text]
    assert found.repairs[-1].startswith("repaired its syntax")


@pytest.mark.parametrize("text", NOTHING)
def test_what_is_missing_is_never_invented(text: str) -> None:
    """A cut object is not closed, a missing value is not made up, and prose is no JSON."""
    assert [found for found in found_in(text) if isinstance(found.value, (dict, list))] == []


def test_all_blocks_are_offered_so_that_the_fitting_one_can_be_taken() -> None:
    text = 'First {"x": 1}, then:\n```json\n{"a": 1}\n```'
    assert [found.value for found in found_in(text)][:2] == [{"a": 1}, {"x": 1}]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_read_as_it_is(value: Any) -> None:
    """Whatever is valid needs no edit and comes back equal."""
    assert _first(to_json(value).decode()) == Mended(value)


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=3))
def test_a_cut_object_never_reads_as_that_object(value: dict[str, Any]) -> None:
    """Cut anywhere before its end, an object is not completed."""
    text = to_json(value).decode()
    for end in range(1, len(text)):
        assert all(found.value != value for found in found_in(text[:end]))


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    list(found_in(text))
