"""Guesses of how many tokens something has, where nobody has counted them: one for four characters."""

from __future__ import annotations

from flowagent.models.base import ModelRequest


def tokens_about(text: str) -> int:
    """How many tokens a text has, about: a quarter of its characters, rounded up.

    Example:
        >>> tokens_about("What is 19 + 23?")
        4
    """
    return -(-len(text) // 4)


def request_about(request: ModelRequest) -> int:
    """How many tokens a request has, about: counted as JSON text, tools and their schemas included."""
    return tokens_about(request.model_dump_json(include={"system", "messages", "tools", "output"}))
