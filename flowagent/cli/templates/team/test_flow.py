"""The team without a model: every answer is scripted, the tools are real."""

from __future__ import annotations

from pathlib import Path

from flow import team

from flowagent.agents import using
from flowagent.testing import Scripted, call, calls, say


def test_the_lead_answers_from_what_the_others_bring(tmp_path: Path) -> None:
    """Each agent sees its own task and nothing else; usage is counted over all of them."""
    (tmp_path / "offer-a.txt").write_text("12 desks, 240 EUR each", encoding="utf-8")
    lead = Scripted(
        call("researcher", task="What does offer A cost?"),
        call("analyst", task="12 times 240"),
        say("Offer A costs 2880 EUR (offer-a.txt)."),
    )
    researcher = Scripted(call("read_file", path="offer-a.txt"), say("12 desks at 240 EUR each (offer-a.txt)."))
    analyst = Scripted(call("calculate", expression="12 * 240"), lambda asked: str(asked.tool_results["calculate"]))
    with using(lead=lead, researcher=researcher, analyst=analyst):
        result = team(tmp_path).run_sync("What does offer A cost in all?")
    assert result.output == "Offer A costs 2880 EUR (offer-a.txt)."
    assert lead.requests[2].tool_results == {"analyst": 2880}
    assert [message.text for message in analyst.requests[0].messages] == ["12 times 240"]
    assert result.usage.requests == 7


def test_two_tasks_of_one_reply_run_side_by_side(tmp_path: Path) -> None:
    """Results come back in the order of the calls."""
    lead = Scripted(
        calls(call("researcher", task="A"), call("analyst", task="B")),
        lambda asked: " and ".join(asked.tool_results.values()),
    )
    with using(lead=lead, researcher=Scripted("a"), analyst=Scripted("b")):
        assert team(tmp_path).run_sync("?").output == "a and b"
