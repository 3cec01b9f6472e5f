"""Campaigns against a store: each round disturbs one run in one way and holds it against a run that nobody disturbed.

    python -m tests.chaos power --rounds 500 --seed 7         a campaign
    python -m tests.chaos power --seed 7 --case "12 map"      one of its cases again, as its report names it

All that is drawn follows from the seed and the name of the case. What a seed cannot fix is how threads and processes
take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import logging
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, Self

from tests.kill.graphs import SUBJECTS

NAMES: Final = ("faults", "power", "upgrade", "remove", "space", "race", "frozen", "clock", "crowd", "long", "soak")


@dataclass(slots=True)
class Tally:
    """What came of some cases.

    Attributes:
        figures: what is counted, by what it is called in the report.
        faults: what went wrong, each with its case; there should be none.
    """

    figures: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    def __iadd__(self, other: Tally) -> Self:
        # Not `Counter.__add__`, which drops what is zero: that none were lost is what the report is for.
        for name, figure in other.figures.items():
            most = max(self.figures[name], figure)
            self.figures[name] = most if name.startswith("most") else self.figures[name] + figure
        self.faults += other.faults
        return self


class Campaign(Protocol):
    """One way to disturb runs."""

    def cases(self, rounds: int) -> Iterable[str]:
        """The names of so many cases."""
        ...

    def play(self, case: str, folder: Path) -> Tally:
        """Play a case; `folder` is empty and its own."""
        ...


def by_turns(rounds: int) -> Iterable[str]:
    """So many cases, each named by its number and its graph: the eight graphs by turns."""
    return (f"{number} {subject}" for number, subject in zip(range(rounds), itertools.cycle(SUBJECTS), strict=False))


def campaign_of(name: str, seed: int) -> Campaign:
    """The campaign of that name."""
    return importlib.import_module(f"tests.chaos.{name}").Play(seed)


def played(name: str, seed: int, cases: Iterable[str], folder: Path) -> Tally:
    """Play cases one after the other; the files of those that went well are removed."""
    campaign = campaign_of(name, seed)
    total = Tally()
    for number, case in enumerate(cases):
        place = folder / str(number)
        place.mkdir(parents=True)
        try:
            tally = campaign.play(case, place)
        except Exception:
            tally = Tally(faults=[traceback.format_exc()])
        again = f'python -m tests.chaos {name} --seed {seed} --case "{case}"'
        tally.faults = [f"{fault}\n    in {place}; again: {again}" for fault in tally.faults]
        total += tally
        if not tally.faults:
            shutil.rmtree(place)
    return total


def line_of(name: str, tally: Tally, seconds: float, seed: int) -> str:
    """The totals, in one line."""
    figures = ", ".join(f"{figure} {what}" for what, figure in tally.figures.items())
    return f"{name}: {figures}, {len(tally.faults)} faults; {seconds:.0f} s, seed {seed}"


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Leases that cannot be renewed are what is asked for, so nobody need be told."""
    logger = logging.getLogger("flowagent")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign and print what came of it; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Disturb runs and resume them.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--rounds", type=int, default=100, help="how many cases are played")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no case is begun after so long")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--case", help="play only the case of this name")
    options = parser.parse_args(arguments)
    seed = options.seed
    cases = campaign_of(options.name, seed).cases(options.rounds) if options.case is None else [options.case]
    folder = Path(tempfile.mkdtemp(prefix="flowagent-chaos-"))
    began = time.monotonic()
    in_time = itertools.takewhile(lambda _: time.monotonic() - began < options.seconds, cases)
    with _quiet():
        tally = played(options.name, seed, in_time, folder)
    for fault in tally.faults:
        print(fault, end="\n\n")
    print(line_of(options.name, tally, time.monotonic() - began, seed))
    if not tally.faults:
        shutil.rmtree(folder)
    return 1 if tally.faults else 0
