"""The graph without a model: every answer is scripted."""

from __future__ import annotations

from flow import ROUNDS, Text, graph

from flowagent.agents import using
from flowagent.testing import Scripted, Step, say


def verdict(points: int, advice: str = "", *, ok: bool = False) -> Step:
    """What the critic says in one round."""
    return say({"ok": ok, "points": points, "advice": advice})


def test_it_ends_when_the_critic_is_content() -> None:
    """The advice of one round reaches the writer in the next."""
    writer = Scripted("long", "short")
    with using(write=writer, judge=Scripted(verdict(3, "Cut it."), verdict(9, ok=True))):
        state = graph.run_sync(Text(task="a note")).state
    assert (state.best, state.rounds) == ("short", 2)
    assert writer.requests[1].messages[0].text.endswith("Advice: Cut it.")


def test_it_ends_after_the_last_round_with_the_best_draft() -> None:
    """The last draft is not the best one here."""
    drafts = [f"draft {number}" for number in range(ROUNDS)]
    points = [2, 8, *[5] * (ROUNDS - 2)]
    with using(write=Scripted(*drafts), judge=Scripted(*(verdict(one, "Again.") for one in points))):
        state = graph.run_sync(Text(task="a note")).state
    assert (state.best, state.best_points, state.rounds) == ("draft 1", 8, ROUNDS)
