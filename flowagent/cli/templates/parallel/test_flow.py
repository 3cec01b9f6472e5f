"""The graph without a model: every answer is scripted."""

from __future__ import annotations

from flow import Finding, Review, graph

from flowagent.agents import using
from flowagent.testing import Scripted, say


def found(*findings: tuple[str, str]) -> Scripted:
    """A reviewer that finds this."""
    return Scripted(say({"answer": [{"passage": passage, "problem": problem} for passage, problem in findings]}))


def test_findings_meet_in_the_order_of_the_sides_and_the_editor_sees_all_of_them() -> None:
    """Whichever reviewer is faster."""
    editor = Scripted("Two things.")
    with using(
        facts=found(("2 + 2 = 5", "it is 4")), clarity=found(), safety=found(("key=abc", "a key")), editor=editor
    ):
        run = graph.run_sync(Review(text="2 + 2 = 5, key=abc"))
    assert run.state.findings == [
        Finding(passage="2 + 2 = 5", problem="it is 4"),
        Finding(passage="key=abc", problem="a key"),
    ]
    assert run.state.summary == "Two things."
    assert "it is 4" in editor.requests[0].messages[0].text
    assert run.usage.requests == 4


def test_an_answer_of_another_shape_goes_back_to_its_reviewer() -> None:
    """The others are not asked again."""
    facts = Scripted("Nothing to report.", say({"answer": []}))
    with using(facts=facts, clarity=found(), safety=found(), editor=Scripted("Nothing.")):
        run = graph.run_sync(Review(text="Fine."))
    assert run.state.findings == []
    assert run.usage.requests == 5
