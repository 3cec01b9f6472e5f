"""All campaigns are played by one command, which fails when one of them does."""

from __future__ import annotations

import re

import pytest

from tests import campaigns
from tests.campaigns import CAMPAIGNS, FULL, ROOT, Words, main


def test_each_campaign_of_each_package_is_among_them() -> None:
    """A campaign that is added has to be named here too, or nobody plays it."""
    from tests.chaos.campaign import NAMES
    from tests.fuzz.__main__ import CAMPAIGNS as FUZZ

    assert {*NAMES, *FUZZ} <= set(CAMPAIGNS)
    assert list(FULL) == list(CAMPAIGNS)


def test_a_full_campaign_has_the_size_of_the_plan(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever the rounds are, it is played as the table says."""
    monkeypatch.setattr(campaigns, "FULL", {"making": "this"})
    assert main(["--rounds", "3", "--full", "making"]) == 0
    assert capfd.readouterr().out.startswith("python -m this  (")


def test_a_campaign_prints_its_line_of_totals(capfd: pytest.CaptureFixture[str]) -> None:
    """The smallest share of two of them, in their own processes."""
    assert main(["--rounds", "1", "frozen", "seeds"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [re.sub(r"\d+", "N", line).split(" ", 5)[:5] for line in lines[::2]] == [
        ["python", "-m", "tests.chaos", "frozen", "--rounds"],
        ["python", "-m", "tests.simulation", "--seeds", "N"],
        ["N", "campaigns,", "no", "faults,", "N"],
    ]
    assert [line.strip().partition(":")[0] for line in lines[1::2]] == ["frozen", "seeds"]
    assert all(" 0 faults" in line for line in lines[1::2])


def test_a_campaign_with_faults_says_all_and_does_not_end_the_rest(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The exit code tells that something was wrong; the second one, which is well, prints its last line."""
    played: dict[str, Words] = {"wrong": lambda _: "tests.kill --kills", "well": lambda _: "this"}
    monkeypatch.setattr(campaigns, "CAMPAIGNS", played)
    assert main(["--rounds", "3"]) == 1
    printed = capfd.readouterr()
    assert "--kills: expected one argument" in printed.err
    assert "Namespaces are one honking great idea" in printed.out
    assert printed.out.splitlines()[-1].startswith("2 campaigns, faults in wrong")


@pytest.mark.parametrize("arguments", [["nonsense"], ["--rounds", "0"]])
def test_what_cannot_be_played_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown name is told with those that there are."""
    with pytest.raises(SystemExit):
        main(arguments)
    assert "error" in capsys.readouterr().err


def test_make_plays_them() -> None:
    """`make chaos` bounds them by ROUNDS."""
    assert "-m tests.campaigns --rounds $(ROUNDS) $(ARGS)" in (ROOT / "Makefile").read_text(encoding="utf-8")
