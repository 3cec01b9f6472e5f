"""Runs whose processes end at each of their points in turn, and pairs of those: one in the run, one in its recovery."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tests.kill.campaign import Campaign
from tests.kill.child import How
from tests.kill.play import Case, Tally

BEYOND = 8
"""How many points more are tried than were counted: which branch is faster decides how many commits are shared."""


def every_cut(campaign: Campaign, hows: Sequence[How], stride: int = 1, *, encrypted: bool = False) -> dict[str, Tally]:
    """What comes of ending at every point of each graph's run (or at every so many), by graph."""
    return campaign.play(
        [
            Case(0, number, subject, "step", (at,), how, encrypted)
            for subject in campaign.references
            for how in hows
            for number, at in enumerate(range(0, len(campaign.points(subject, how)) + BEYOND, stride))
        ]
    )


def pairs_of_cuts(
    campaign: Campaign, seed: int, pairs: int, hows: Sequence[How], *, encrypted: bool = False
) -> dict[str, Tally]:
    """What comes of ending at a point, and again at one of the recovery's, drawn evenly from all, by graph."""
    return campaign.play([replace(case, encrypted=encrypted) for case in _pairs(campaign, seed, pairs, hows)])


def _pairs(campaign: Campaign, seed: int, pairs: int, hows: Sequence[How]) -> Iterable[Case]:
    chance = random.Random(f"pairs {seed}")
    subjects = list(campaign.references)
    for number in range(pairs):
        subject, how = subjects[number % len(subjects)], chance.choice(hows)
        points = len(campaign.points(subject, how))
        first = chance.randrange(points)
        # A recovery has less to do, but reads and claims first.
        yield Case(seed, number, subject, "step", (first, chance.randrange(points - first + BEYOND)), how)
