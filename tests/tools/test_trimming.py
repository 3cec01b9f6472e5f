from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowagent.models.estimating import tokens_about
from flowagent.tools.running import Running
from flowagent.tools.tool import tool
from flowagent.tools.trimming import trimmed
from tests.tools.calling import outcome

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=10), inner, max_size=20),
    max_leaves=60,
)


def test_what_fits_is_told_as_it_is() -> None:
    assert trimmed([1, 2], 2, "more") == "[1,2]"


def test_text_keeps_its_beginning_and_says_what_is_missing() -> None:
    text = trimmed("x" * 1000, 20, "ask again")
    assert text == "x" * 35 + "\n[965 of 1000 characters left out: ask again]"
    assert tokens_about(text) <= 20


def test_a_list_keeps_as_many_items_as_fit() -> None:
    kept = json.loads(trimmed(list(range(1000)), 40, "ask again"))
    assert kept[:3] == [0, 1, 2]
    count = len(kept) - 2
    assert kept[count:] == [f"[{1000 - count} of 1000 items left out]", "[ask again]"]
    assert count > 20


def test_long_texts_are_cut_before_many_items_are_dropped() -> None:
    rows = [{"id": number, "body": "y" * 5000} for number in range(8)]
    kept = json.loads(trimmed(rows, 800, "ask again"))
    assert [row["id"] for row in kept[:8]] == list(range(8))
    assert kept[0]["body"] == "y" * 250 + "[4750 characters left out]"
    assert kept[8:] == ["[ask again]"]


def test_an_object_says_at_its_end_how_to_get_the_rest() -> None:
    kept = json.loads(trimmed({"total": 500, "rows": list(range(500))}, 40, "ask again"))
    assert (kept["total"], kept["[cut]"]) == (500, "ask again")
    assert kept["rows"][-1].endswith("of 500 items left out]")


def test_an_object_of_many_entries_says_how_many_are_missing() -> None:
    kept = json.loads(trimmed({f"key{number}": number for number in range(500)}, 60, "ask again"))
    assert kept["[...]"] == f"{500 - (len(kept) - 2)} entries left out"


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ([{"a": 1}] * 9, ["[all 9 items left out: ask again]"]),
        ({"a": [{"b": 1}] * 9}, {"[cut]": "all 1 entries left out: ask again"}),
    ],
)
def test_where_nothing_fits_that_is_told(value: Any, left: Any) -> None:
    assert json.loads(trimmed(value, 3, "ask again")) == left


@given(values, st.integers(min_value=40, max_value=200))
def test_whatever_is_cut_stays_valid_and_fits(value: Any, most: int) -> None:
    text = trimmed(value, most, "ask again")
    if isinstance(value, (list, dict)):
        assert isinstance(json.loads(text), type(value))
    assert tokens_about(text) <= most


async def test_fa_075_a_result_larger_than_the_window_is_cut_before_it_enters_the_conversation() -> None:
    """FA-075: it is shortened with a mark that says how much is missing and where the whole is, which is kept."""

    def dump() -> str:
        return "z" * 700_000

    result = await outcome(tool(dump, max_result_tokens=1000), running=Running(rest="call `rest` with id {id}"))
    assert tokens_about(result.result.text) <= 1000
    assert result.result.text.endswith("of 700000 characters left out: call `rest` with id c1]")
    assert json.loads(result.value) == "z" * 700_000


async def test_the_cap_of_a_tool_goes_before_that_of_the_toolbox_and_tokens_can_be_counted_otherwise() -> None:
    def words() -> str:
        return "one two three four five six seven eight nine ten"

    running = Running(max_result_tokens=9, count=lambda text: len(text.split()), rest="ask")
    assert (await outcome(words, running=running)).result.text == "one two \n[40 of 48 characters left out: ask]"
    assert (await outcome(tool(words, max_result_tokens=10), running=running)).result.text == words()
