"""What an agent does, as a terminal shows it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from flowagent.agents import Agent, Guard
from flowagent.agents.printing import print_request, print_result, print_stream
from flowagent.models import ModelRequest, UserMessage, user
from flowagent.models.base import TextDelta, Waiting
from flowagent.stores import MemoryStore
from flowagent.testing import Scripted, after, call, fail, say, think
from flowagent.tools import tool

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


async def test_a_stream_shows_what_was_waited_for_thought_and_asked() -> None:
    """What is asked for is shown, each on a line of its own."""

    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        return "paid"

    wait = after(TextDelta("He"), Waiting(1.5, fail("overloaded", "busy"), restarted=True), then=call("pay", cents=1))
    agent = Agent(Scripted((think("I pay."), call("echo", text="x")), wait), tools=[echo, pay])
    every, quiet = console(), console()
    async with agent.stream("go", store=MemoryStore()) as events:
        await print_stream(events, console=every, show_thinking=True)
    assert text_of(every).splitlines() == [
        "I pay.",
        '→ echo({"text":"x"})',
        "← echo: x",
        "He",
        "waits 1.5 s: busy",
        'asks: `pay` is to be called with {"cents":1} in `tools@2[0]`. Approve, deny, answer or abort?',
    ]
    other = agent.replace(model=Scripted((think("I say."), call("echo", text="x")), say("Hello.")))
    async with other.stream("go") as events:
        await print_stream(events, console=quiet, show_tools=False)
    assert text_of(quiet) == "Hello.\n"


def test_a_result_that_is_none_yet_says_what_it_waits_for() -> None:
    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        return "paid"

    out = console()
    print_result(Agent(Scripted(call("pay", cents=1)), tools=[pay]).run_sync("go", store=MemoryStore()), console=out)
    first, _ = text_of(out).splitlines()
    assert first == (
        'waits for a decision about call-1: `pay` is to be called with {"cents":1} in `tools@1[0]`. '
        "Approve, deny, answer or abort?"
    )


def test_a_result_without_an_answer_says_why_there_is_none() -> None:
    def manners(message: UserMessage) -> str:
        return f"too rude: {message.text}"

    out = console()
    print_result(Agent(Scripted(), guards=[Guard(manners, "input")]).run_sync("You!"), console=out)
    assert text_of(out).splitlines() == [
        "ended without an answer (blocked): manners: too rude: You!",
        "nothing was spent",
    ]
