"""The agent without a model: every answer is scripted, the mail is a real file."""

from __future__ import annotations

from pathlib import Path

import pytest
from flow import OUTBOX, work

from flowagent.agents import using
from flowagent.testing import FunctionModel, call

MAIL = call("send_mail", to="ann@example.org", subject="Friday", body="At ten.")

# By the conversation and not step by step, for the run is resumed.
model = FunctionModel(lambda asked: str(asked.tool_results["send_mail"]) if asked.tool_results else MAIL)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)


def mails() -> list[str]:
    """What was sent."""
    return [file.read_text(encoding="utf-8") for file in OUTBOX.glob("*.eml")]


def nobody(question: str) -> str:
    """Nobody is there."""
    raise EOFError


def test_nothing_is_sent_before_a_person_has_said_yes_and_then_once() -> None:
    """The run waits in its store, and asking for it again goes on."""
    with using(model):
        with pytest.raises(EOFError):
            work("Write to Ann.", "r", ask=nobody)
        assert mails() == []
        assert work("Write to Ann.", "r", ask=lambda _: "y") == "sent to ann@example.org"
        assert work("Write to Ann.", "r", ask=nobody) == "sent to ann@example.org"
    (mail,) = mails()
    assert "To: ann@example.org" in mail


def test_the_person_sees_the_call_that_will_run() -> None:
    """Name and arguments, not what the model says about them."""
    asked: list[str] = []
    with using(model):
        work("Write to Ann.", "r", ask=lambda question: asked.append(question) or "y")
    assert '"to":"ann@example.org"' in asked[0]


def test_a_no_reaches_the_model_and_sends_nothing() -> None:
    """The model is told, and says so."""
    with using(model):
        assert "a person said no" in work("Write to Ann.", "r", ask=lambda _: "n")
    assert mails() == []
