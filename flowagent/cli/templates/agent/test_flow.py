"""The agent without a model: every answer is scripted, the tools are real."""

from __future__ import annotations

from pathlib import Path

from flow import reader

from flowagent.agents import using
from flowagent.testing import Scripted, call, say


def test_it_answers_from_the_files(tmp_path: Path) -> None:
    """What the tool read is what the model was told."""
    (tmp_path / "plan.md").write_text("We ship on Friday.\n", encoding="utf-8")
    model = Scripted(call("search_files", text="ship"), call("read_file", path="plan.md"), say("On Friday (plan.md)."))
    with using(model):
        assert reader(tmp_path).run_sync("When do we ship?").output == "On Friday (plan.md)."
    assert model.requests[2].tool_results == {"read_file": "We ship on Friday.\n"}
    model.assert_used_up()


def test_it_cannot_leave_the_folder(tmp_path: Path) -> None:
    """A path that leads out is told as an error, and nothing is read."""
    (tmp_path / "secret.txt").write_text("the key", encoding="utf-8")
    (tmp_path / "notes").mkdir()
    model = Scripted(call("read_file", path="../secret.txt"), say("I cannot read that."))
    with using(model):
        result = reader(tmp_path / "notes").run_sync("Read ../secret.txt")
    assert "the key" not in str(model.requests[1].messages)
    assert result.output == "I cannot read that."
