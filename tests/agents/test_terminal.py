"""A terminal obeys nothing that a model or a tool wrote."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from flowagent.agents import Agent, Guard
from flowagent.agents.printing import print_request, print_result, print_stream
from flowagent.models import ModelRequest, UserMessage, user
from flowagent.testing import Scripted, call, say

OBEYED = "a\x1b[2Jb\x9b2Jc\u202ed"
SHOWN = r"a\x1b[2Jb\x9b2Jc\u202ed"


def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def text_of(made: Console) -> str:
    assert isinstance(made.file, io.StringIO)
    return made.file.getvalue()


def echo(text: str) -> str:
    """Say it again."""
    return text


async def test_a_terminal_obeys_neither_a_model_nor_a_tool() -> None:
    """Escape sequences of a stream are shown and not sent."""
    out = console()
    agent = Agent(Scripted(call("echo", text=OBEYED), say(OBEYED), chunk=3), tools=[echo])
    async with agent.stream("go") as events:
        await print_stream(events, console=out)
    assert text_of(out).splitlines() == [
        r'→ echo({"text":"a\u001b[2Jb\x9b2Jc\u202ed"})',
        f"← echo: {SHOWN}",
        SHOWN,
    ]


@pytest.mark.parametrize(
    ("output", "step", "markdown", "shown"),
    [
        (str, OBEYED, False, SHOWN),
        (str, f"*{OBEYED}*", True, SHOWN),
        (list[str], say({"answer": [OBEYED]}), False, '[\n  "a\\u001b[2Jb\\u009b2Jc\\u202ed"\n]'),
    ],
    ids=["text", "markdown", "json"],
)
def test_nor_does_it_obey_an_answer(output: Any, step: Any, markdown: bool, shown: str) -> None:
    out = console()
    print_result(Agent(Scripted(step), output=output).run_sync("go"), console=out, markdown=markdown)
    answer, _, cost = "\n".join(line.rstrip() for line in text_of(out).splitlines()).rpartition("\n")
    assert answer == shown
    assert cost.startswith("1 request, 0 tool calls, ")


def test_nor_does_it_obey_a_request_that_is_shown() -> None:
    out = console()
    print_request("a", ModelRequest(messages=(user(OBEYED),)), out)
    assert "\\u001b[2Jb\\u009b2Jc\\u202ed" in text_of(out)
    assert not set(text_of(out)) & set("\x1b\x9b\u202e")


def test_a_run_that_was_blocked_says_why_and_that_nothing_was_spent() -> None:
    def manners(message: UserMessage) -> str:
        return f"too rude: {message.text}"

    out = console()
    print_result(Agent(Scripted(), guards=[Guard(manners, "input")]).run_sync("You!"), console=out)
    assert text_of(out).splitlines() == [
        "ended without an answer (blocked): manners: too rude: You!",
        "nothing was spent",
    ]
