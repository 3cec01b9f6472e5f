"""Simulate runs with all kinds of trouble, each following from a seed.

python -m tests.simulation --seeds 5000                 many, from a seed drawn at random or given by --first
python -m tests.simulation --seed 4711                  one of them again, exactly as it was
python -m tests.simulation awaits                       a call is cancelled at each of its awaits in turn
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Iterable, Sequence

from tests.simulation.awaits import every_await
from tests.simulation.case import played
from tests.simulation.life import Tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign and print what came of it; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulate runs with trouble.")
    parser.add_argument("kind", nargs="?", choices=["seeds", "awaits"], default="seeds", help="what is done")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=random.SystemRandom().randrange(1_000_000), help="the first one")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--stride", type=int, default=1, help="awaits: only every so many")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    gc.freeze()
    if options.kind == "awaits":
        total = _sum(every_await(stride=options.stride))
    else:
        seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
        total = _sum(map(played, seeds))
    for fault in total.faults:
        print(fault, end="\n\n")
    if options.seed is not None:
        print(f"trace {total.trace}")
    troubles = ", ".join(f"{number} {kind}" for kind, number in sorted(total.troubles.items()))
    first = "" if options.kind == "awaits" or options.seed is not None else f", first seed {options.first}"
    print(
        f"{options.kind}: {total.cases} runs in {total.processes} simulated processes ({troubles}), "
        f"{total.steps} callbacks, {total.awaits} awaits, {total.calls} calls, {total.repeated} repeated before they "
        f"were recorded, {len(total.faults)} faults{first}, {time.monotonic() - began:.0f} s"
    )
    return 1 if total.faults else 0


def _sum(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total += tally
    return total


if __name__ == "__main__":
    sys.exit(main())
