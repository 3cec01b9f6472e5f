"""How what people write is read."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import TypeAdapter

from flowagent import State
from flowagent.cli.values import choices, read_answers, read_input, written
from flowagent.core.facts import Question
from flowagent.core.schema import Schema


def question(kind: Any, name: str = "q") -> Question:
    """A question whose answers are of that type."""
    return Question(id=name, task=name, node=name, name="", text="?", schema=TypeAdapter(kind).json_schema())


@pytest.mark.parametrize(
    ("kind", "text", "answer"),
    [
        (Literal["approve", "deny"], "approve", "approve"),
        (Literal["approve", "deny"], '"approve"', "approve"),
        (str, "12", "12"),
        (str, "true", "true"),
        (str, '"12"', "12"),
        (str, "", ""),
        (str, "a=b", "a=b"),
        (int, "12", 12),
        (bool, "true", True),
        (float | str, "12", 12),
        (list[int], "[1, 2]", [1, 2]),
        (Any, "12", 12),
        (Any, "twelve", "twelve"),
        (int, "twelve", "twelve"),
        (int, '{"a": 1}', {"a": 1}),
    ],
)
def test_answer_is_json_if_it_parses_and_fits_else_text(kind: Any, text: str, answer: object) -> None:
    """What fits neither way is passed on as it was read, for the engine to refuse."""
    assert read_answers([f"q={text}"], [question(kind)]) == {"q": answer}


def test_answer_may_go_to_an_id_with_an_equals_sign() -> None:
    """An open question is recognised before the text is taken apart; a node's name serves too."""
    open_questions = [question(int, "a=b"), question(str, "a")]
    assert read_answers(["a=b=1", "a=2"], open_questions) == {"a=b": 1, "a": "2"}


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (Literal["a", "b"], ("a", "b")),
        (Literal["a"], ("a",)),
        (bool, (True, False)),
        (str, ()),
        (Literal["a", "b", "c", "d", "e", "f", "g"], ()),
    ],
)
def test_few_choices_are_listed(kind: Any, allowed: tuple[Any, ...]) -> None:
    """So that each can be shown as a command."""
    assert choices(question(kind).schema) == allowed
    assert choices(None) == ()


@pytest.mark.parametrize("value", ["approve", "12", "true", '"', "null", 12, True, None], ids=repr)
def test_written_answer_is_read_back_as_the_same(value: object) -> None:
    """A text that looks like JSON is quoted."""
    assert read_answers([f"q={written(value)}"], [question(Any)]) == {"q": value}


class Strict(State, strict=True):
    """A state that takes no near misses."""

    data: bytes = b""
    pairs: tuple[int, ...] = ()


def test_input_is_read_as_json_has_its_types() -> None:
    """Bytes are base64, a list may be a tuple, even for a strict model; what does not fit stays as it is."""
    given = '{"data": "aGk=", "pairs": [1, 2], "other": [1]}'
    assert read_input(given, Schema(Strict)) == {
        "data": b"hi",
        "pairs": (1, 2),
        "other": [1],
    }
    assert read_input('{"pairs": "no"}', Schema(Strict)) == {"pairs": "no"}
