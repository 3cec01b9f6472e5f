"""The graph without a model: every answer is scripted."""

from __future__ import annotations

from pathlib import Path

import pytest
from flow import Article, graph

from flowagent.agents import using
from flowagent.errors import RunFailed
from flowagent.testing import Scripted, fail, say

OUTLINE = say({"title": "Backups", "points": ["why", "when"]})


def test_each_step_sees_what_the_one_before_it_wrote() -> None:
    """The outline reaches the writer, the draft the editor."""
    writer, editor = Scripted("A long text."), Scripted("A text.")
    with using(planner=Scripted(OUTLINE), writer=writer, editor=editor):
        run = graph.run_sync(Article(subject="backups"))
    assert run.state.text == "A text."
    assert '"points"' in writer.requests[0].messages[0].text
    assert editor.requests[0].messages[0].text == "A long text."


def test_a_run_that_failed_goes_on_and_asks_nobody_twice(tmp_path: Path) -> None:
    """The planner and the writer were paid; only the editor is asked again."""
    broken = Scripted(fail("server"))
    with using(planner=Scripted(OUTLINE), writer=Scripted("A long text."), editor=broken), pytest.raises(RunFailed):
        graph.run_sync(Article(subject="backups"), store=tmp_path / "runs.db", run_id="r")
    with using(planner=Scripted(), writer=Scripted(), editor=Scripted("A text.")):
        run = graph.run_sync(Article(subject="backups"), store=tmp_path / "runs.db", run_id="r")
    assert run.state.text == "A text."
