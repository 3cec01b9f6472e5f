"""Guesses of tokens."""

from __future__ import annotations

from flowagent.models.base import ModelRequest, ToolSpec
from flowagent.models.estimating import request_about, tokens_about
from flowagent.models.messages import user


def test_four_characters_are_a_token_and_a_part_of_them_is_one_too() -> None:
    assert [tokens_about(text) for text in ("", "a", "four", "fives")] == [0, 1, 1, 2]


def test_what_is_sent_of_tools_counts_and_settings_do_not() -> None:
    plain = ModelRequest(messages=(user("hi"),))
    with_tool = plain.model_copy(update={"tools": (ToolSpec(name="add", parameters={"type": "object"}),)})
    assert request_about(with_tool) > request_about(plain)
    assert request_about(plain.model_copy(update={"settings": {"max_tokens": 1000}})) == request_about(plain)
