from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pytest

from flowagent.core.figures import spent
from flowagent.core.picture import Arrow, Marks
from flowagent.core.usage import Usage
from flowagent.render.words import arrow_label, box_notes, box_tooltip, caption, duration
from tests.render.pictures import box, picture, rich_run


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "<1 ms"),
        (-0.5, "<1 ms"),
        (0.0006, "1 ms"),
        (0.4124, "412 ms"),
        (0.9996, "1.0 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (125, "2 min 5 s"),
        (3599.6, "1 h 0 min"),
        (11_100, "3 h 5 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_a_duration_reads_well(seconds: float, words: str):
    """A duration is written with the two units that matter, and never as `60 s`."""
    assert duration(seconds) == words


def test_a_box_of_a_definition_says_how_it_is_used():
    """Only what changes how often a node runs stands below its name."""
    assert box_notes(box("a"), times=True) == ()
    assert box_notes(box("a", "map", join="each"), times=True) == ("for each item", "once per arrival")
    assert box_notes(box("a", "agent", mapped=True), times=True) == ("for each item",)


def test_a_box_of_a_run_tells_its_story():
    """Order, visits, items, time, failures, retries, status and error, each where there is something to tell."""
    marks = Marks(
        status="failed",
        visits=5,
        order=(2, 4, 6, 8, 9),
        seconds=1.25,
        failures=2,
        retries=1,
        items=(3, 4),
        error="E: x",
    )
    notes = ("#2, #4, #6, … · ×5 · 3/4 items · 1.2 s", "2 failures · 1 retry", "failed: E: x")
    assert box_notes(box("a", marks=marks), times=True) == notes
    assert box_notes(box("a", marks=marks), times=False)[0] == "#2, #4, #6, … · ×5 · 3/4 items"


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (Usage(), []),
        (Usage(tool_calls=3), []),
        (Usage(requests=1, input=1, output=0, cost=Decimal(0)), ["1 token", "$0.00"]),
        (Usage(requests=2, input=1000, output=234, cost=Decimal("0.0123")), ["1,234 tokens", "$0.012"]),
        (Usage(requests=2, output=7, cost=Decimal("0.5"), unmeasured=1, unpriced=1), ["≥ 7 tokens", "≥ $0.50"]),
        (Usage(requests=1, unmeasured=1, unpriced=1), ["tokens unknown", "cost unknown"]),
        (Usage(cost=Decimal("1234.567")), ["$1,234.57"]),
        (Usage(cost=Decimal("0.000034")), ["$0.000034"]),
    ],
    ids=str,
)
def test_what_was_spent_reads_well(usage: Usage, words: list[str]):
    """What is not known is never shown as nothing, and a sum that lacks a part says that it is at least that."""
    assert spent(usage) == words


def test_a_box_tells_what_it_spent_whether_times_are_shown_or_not():
    """Tokens and cost stand in a line of their own; the caption has those of the whole run."""
    usage = Usage(requests=1, input=1000, output=500, cost=Decimal("0.02"))
    marks = Marks(status="done", visits=1, order=(1,), seconds=2.0, usage=usage)
    assert box_notes(box("a", marks=marks), times=True) == ("#1 · 2.0 s", "1,500 tokens · $0.020")
    assert box_notes(box("a", marks=marks), times=False) == ("#1", "1,500 tokens · $0.020")
    made = replace(rich_run(), usage=usage)
    assert caption(made, times=False) == "run t-1 · waiting · 1,500 tokens · $0.020"


def test_what_never_ran_says_nothing():
    """An idle box has no notes; nor has a number that is no time."""
    assert box_notes(box("a", marks=Marks()), times=True) == ()
    assert box_notes(box("a", marks=Marks(status="done", visits=1, order=(1,), seconds=math.nan)), times=True) == (
        "#1",
    )


def test_a_waiting_box_shows_its_questions():
    """What a run waits for is written down; of many questions the first three."""
    marks = Marks(status="waiting", waiting=("one?", "two?", "three?", "four?", "five?"))
    assert box_notes(box("a", marks=marks), times=True) == ("waiting", "one?", "two?", "three?", "and 2 more")


def test_a_tooltip_holds_what_the_label_has_no_room_for():
    """The whole name, the kind, the documentation and the tags stand in the tooltip."""
    long = "x" * 100
    assert box_tooltip(box(long, doc="One.\n\nTwo.", tags=("a", "b"))) == f"{long} (node)\nOne.\n\nTwo.\ntags: a, b"
    assert box_tooltip(box("START", "start")) == "START"


@pytest.mark.parametrize(
    ("label", "taken", "shown"),
    [("", None, ""), ("yes", None, "yes"), ("yes", 0, "yes"), ("yes", 1, "yes"), ("yes", 3, "yes ×3"), ("", 2, "×2")],
)
def test_an_arrow_tells_how_often_it_was_taken(label: str, taken: int | None, shown: str):
    """A count stands beside an arrow that was taken more than once; colour tells taken from not taken."""
    assert arrow_label(Arrow(tail=("a",), head=("b",), kind="choice", label=label, taken=taken)) == shown


def test_the_caption_of_a_run():
    """A run is named with its status and total time; a definition has no caption."""
    assert caption(rich_run(), times=True) == "run t-1 · waiting · 1 min 24 s"
    assert caption(rich_run(), times=False) == "run t-1 · waiting"
    assert caption(picture(), times=True) == ""
