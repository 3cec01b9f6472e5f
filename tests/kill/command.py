"""Kill runs at random moments, resume them, and hold each against a run that nobody disturbed.

    python -m tests.kill --kills 5000 --seed 7              a campaign of random and aimed kills
    python -m tests.kill --seed 7 --case 123 --times 20     one of its cases again, twenty times
    python -m tests.kill cuts                               a process ends at each of its points in turn
    python -m tests.kill cuts --pairs 2000 --seed 7         and again at one of its recovery's, drawn at random
    python -m tests.kill cuts --graph map --how run --at 31 4    one of these again
    python -m tests.kill --kills 500 --encrypted            all stores encrypted, with another key in each process

A case is one run: started in some way, killed at a moment drawn evenly from the time that an undisturbed run takes, or
right before or after one of its commits; resumed in some way, perhaps killed again meanwhile, until it is over. One
store in four is encrypted, and each process that uses it brings a new key. All that is drawn follows from the seed and
the number of the case. What a seed cannot fix is how fast the machine is, and so where exactly a kill hits.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, get_args

from tests.kill.campaign import Campaign, cases_of
from tests.kill.child import How
from tests.kill.cuts import every_cut, pairs_of_cuts
from tests.kill.graphs import SUBJECTS
from tests.kill.play import STARTS, Case, Tally

COLUMNS: Final = {
    "runs": "cases",
    "kills": "kills",
    "aimed": "aimed",
    "in recovery": "recovery_kills",
    "not yet stored": "unstored",
    "waiting": "waiting",
    "over": "over",
    "snapshot": "from_snapshot",
    "encrypted": "encrypted",
    "calls": "calls",
    "repeated": "repeated",
}


def table_of(sums: dict[str, Tally]) -> str:
    """The figures of a campaign."""
    rows = {**sums, "all": sum(sums.values(), Tally())}
    lines = [f"{'graph':<10}" + "".join(f"{title:>15}" for title in COLUMNS) + f"{'faults':>15}"]
    for name, tally in rows.items():
        figures = [getattr(tally, attribute) for attribute in COLUMNS.values()]
        lines.append(f"{name:<10}" + "".join(f"{figure:>15}" for figure in [*figures, len(tally.faults)]))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign and print what came of it; 1 if anything went wrong."""
    options = _parser().parse_args(arguments)
    if options.kind == "cuts":
        subjects = [options.graph] if options.graph else list(SUBJECTS)
        return _report(options, subjects, lambda campaign: _cut(campaign, options))
    encrypted = options.encrypted or None
    if options.case is None:
        return _report(
            options,
            list(SUBJECTS),
            lambda campaign: campaign.play_kills(options.seed, options.kills, encrypted=encrypted),
        )
    cases = cases_of(options.seed, [options.case] * options.times, encrypted=encrypted)
    return _report(options, {case.subject for case in cases}, lambda campaign: campaign.play(cases))


def _cut(campaign: Campaign, options: argparse.Namespace) -> dict[str, Tally]:
    hows: Sequence[How] = [options.how] if options.how else STARTS
    encrypted: bool = options.encrypted
    if options.at:
        return campaign.play([Case(options.seed, 0, options.graph, "step", tuple(options.at), options.how, encrypted)])
    if options.pairs:
        return pairs_of_cuts(campaign, options.seed, options.pairs, hows, encrypted=encrypted)
    return every_cut(campaign, hows, options.stride, encrypted=encrypted)


def _report(
    options: argparse.Namespace, subjects: Sequence[str] | set[str], work: Callable[[Campaign], dict[str, Tally]]
) -> int:
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="flowagent-kill-", dir=options.folder))
    with Campaign(folder, jobs=options.jobs, subjects=subjects) as campaign:
        sums = work(campaign)
    faults = [fault for tally in sums.values() for fault in tally.faults]
    print("\n\n".join([*faults, table_of(sums)]))
    total = sum(sums.values(), Tally())
    print(
        f"{options.kind}: {total.cases} runs of {len(sums)} graphs ({total.encrypted} encrypted), {total.kills} kills "
        f"({total.aimed} aimed, {total.recovery_kills} in recovery), {total.calls} calls, {total.repeated} repeated "
        f"before they were recorded, {len(faults)} faults, seed {options.seed}, {time.monotonic() - began:.0f} s"
    )
    if faults:
        print(f"the files of what went wrong are in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description="Kill runs and resume them.")
    parser.add_argument("kind", nargs="?", choices=["kills", "cuts"], default="kills", help="what is done")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--folder", help="where the files go; by default the system's place for such")
    parser.add_argument("--kills", type=int, default=100, help="how many kills, in turns over the graphs")
    parser.add_argument("--case", type=int, help="play only the case of this number")
    parser.add_argument("--times", type=int, default=1, help="with --case: play it so often")
    parser.add_argument("--encrypted", action="store_true", help="all stores are; else one in four, and none of cuts")
    parser.add_argument("--graph", choices=list(SUBJECTS), help="cuts: only of this graph")
    parser.add_argument("--how", choices=get_args(How), help="cuts: only of runs that start in this way")
    parser.add_argument("--at", type=int, nargs="+", help="cuts: the points of one case")
    parser.add_argument("--stride", type=int, default=1, help="cuts: only every so many points")
    parser.add_argument("--pairs", type=int, default=0, help="cuts: so many pairs, instead of each point")
    return parser
