"""Play all campaigns one after the other, each for about as long as the others.

    python -m tests.campaigns --rounds 100                 all of them; a round is about a second of each
    python -m tests.campaigns --rounds 500 power kills     some of them
    python -m tests.campaigns --full kills cuts            these at the sizes at which they are said to be done

Each is a process of its own and prints its line of totals; one with faults prints all that it has to say. The first
does not end the rest. `docs/reliability.md` tells what they attack.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

Words = Callable[[int], str]
"""The words after `python -m` of a campaign, for a number of rounds."""

CAMPAIGNS: Final[Mapping[str, Words]] = {
    "faults": lambda rounds: f"tests.chaos faults --rounds {rounds} --seconds {rounds}",
    "power": lambda rounds: f"tests.chaos power --rounds {rounds} --seconds {rounds}",
    "upgrade": lambda rounds: f"tests.chaos upgrade --rounds {rounds} --seconds {rounds}",
    "remove": lambda rounds: f"tests.chaos remove --rounds {rounds} --seconds {rounds}",
    "space": lambda rounds: f"tests.chaos space --rounds {rounds} --seconds {rounds}",
    "race": lambda rounds: f"tests.chaos race --rounds {rounds} --seconds {rounds}",
    "frozen": lambda rounds: f"tests.chaos frozen --rounds {rounds} --seconds {rounds}",
    "clock": lambda rounds: f"tests.chaos clock --rounds {rounds} --seconds {rounds}",
    "crowd": lambda rounds: f"tests.chaos crowd --rounds {rounds}",
    "long": lambda rounds: f"tests.chaos long --rounds {rounds}",
    "soak": lambda rounds: f"tests.chaos soak --rounds {rounds}",
    "kills": lambda rounds: f"tests.kill --kills {rounds}",
    "cuts": lambda rounds: f"tests.kill cuts --stride {part(6000, rounds)}",
    "pairs": lambda rounds: f"tests.kill cuts --pairs {part(rounds, 2)}",
    "making": lambda rounds: "tests.kill.making",
    "seeds": lambda rounds: f"tests.simulation --seeds {rounds}",
    "awaits": lambda rounds: f"tests.simulation awaits --stride {part(400, rounds)}",
    "rows": lambda rounds: f"tests.fuzz rows --rounds {rounds}",
    "names": lambda rounds: f"tests.fuzz names --rounds {rounds}",
    "model": lambda rounds: f"tests.fuzz model --rounds {part(rounds, 2)}",
    "values": lambda rounds: f"tests.fuzz values --rounds {5 * rounds}",
}

FULL: Final[Mapping[str, str]] = {
    "faults": "tests.chaos faults --rounds 2200",  # 10,000 operations
    "power": "tests.chaos power --rounds 4300",  # 5,000 cuts
    "upgrade": "tests.chaos upgrade --rounds 1000",
    "remove": "tests.chaos remove --rounds 1000",
    "space": "tests.chaos space --rounds 200",
    "race": "tests.chaos race --rounds 4600",  # 100,000 records
    "frozen": "tests.chaos frozen --rounds 500",
    "clock": "tests.chaos clock --rounds 200",
    "crowd": "tests.chaos crowd --rounds 1000",  # ten crowds of 10,000 runs
    "long": "tests.chaos long --rounds 100",  # 100,000 steps
    "soak": "tests.chaos soak --rounds 3600",
    "kills": "tests.kill --kills 5000",
    "cuts": "tests.kill cuts",  # every point
    "pairs": "tests.kill cuts --pairs 20000",
    "making": "tests.kill.making",
    "seeds": "tests.simulation --seeds 50000",
    "awaits": "tests.simulation awaits",  # every await
    "rows": "tests.fuzz rows --rounds 200000",
    "names": "tests.fuzz names --rounds 50000",
    "model": "tests.fuzz model --rounds 5000",
    "values": "tests.fuzz values --rounds 100000",
}
"""The words of each at the size of the plan: hours and hours, if all are played."""


def part(whole: int, parts: int) -> int:
    """One of so many parts of a number, at least 1."""
    return max(whole // parts, 1)


def play(words: str) -> bool:
    """Play one campaign and print what came of it; whether all was well."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", *words.split()], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    lines = done.stdout.strip().splitlines() or ["it printed nothing"]
    print(f"python -m {words}  ({time.monotonic() - began:.0f} s)")
    print("\n".join(f"    {line}" for line in (lines if done.returncode else lines[-1:])), flush=True)
    return done.returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what the command line asks for; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description="Play all campaigns.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of {', '.join(CAMPAIGNS)}")
    parser.add_argument("--rounds", type=int, default=100, help="how much of each")
    parser.add_argument("--full", action="store_true", help="as much of each as the plan says, and no bound")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(CAMPAIGNS)):
        parser.error(f"no campaign is called {', '.join(unknown)}; there are {', '.join(CAMPAIGNS)}")
    if options.rounds < 1:
        parser.error("give at least one round")
    began = time.monotonic()
    names = options.names or list(CAMPAIGNS)
    words = {name: FULL[name] if options.full else CAMPAIGNS[name](options.rounds) for name in names}
    wrong = [name for name in names if not play(words[name])]
    said = f"faults in {', '.join(wrong)}" if wrong else "no faults"
    print(f"{len(names)} campaigns, {said}, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
