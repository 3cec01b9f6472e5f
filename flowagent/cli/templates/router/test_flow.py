"""The graph without a model: every answer is scripted."""

from __future__ import annotations

from flow import Message, graph

from flowagent.agents import using
from flowagent.testing import Scripted, say


def test_a_message_goes_to_its_desk() -> None:
    """The desk that is chosen replies, and no other model is asked."""
    with using(desk=Scripted(say({"answer": "billing"})), billing=Scripted("We look into it."), technical=Scripted()):
        run = graph.run_sync(Message(text="I was charged twice."))
    assert run.state.reply == "We look into it."
    assert run.usage.requests == 2


def test_what_belongs_nowhere_goes_to_a_person() -> None:
    """A refusal is no crash and no guess."""
    with using(desk=Scripted(say("I cannot tell.", finish="refused"))):
        run = graph.run_sync(Message(text="???"))
    assert run.state.reply == "(a person must look at this)"


def test_a_message_is_data_and_no_template() -> None:
    """Braces in a message stay braces."""
    desk = Scripted(say({"answer": "technical"}))
    with using(desk=desk, technical=Scripted("Thank you.")):
        graph.run_sync(Message(text="It prints {reply} on every label."))
    assert desk.requests[0].messages[0].text == "It prints {reply} on every label."
