"""Play all campaigns one after the other, each for about as long as the others.

    python -m tests.campaigns --rounds 100                 all of them; a round is about a second of each
    python -m tests.campaigns --rounds 500 power kills     some of them

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


def part(whole: int, parts: int) -> int:
    """One of so many parts of a number, at least 1."""
    return max(whole // parts, 1)


def play(name: str, rounds: int) -> bool:
    """Play one campaign and print what came of it; whether all was well."""
    words = CAMPAIGNS[name](rounds)
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
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(CAMPAIGNS)):
        parser.error(f"no campaign is called {', '.join(unknown)}; there are {', '.join(CAMPAIGNS)}")
    if options.rounds < 1:
        parser.error("give at least one round")
    began = time.monotonic()
    names = options.names or list(CAMPAIGNS)
    wrong = [name for name in names if not play(name, options.rounds)]
    said = f"faults in {', '.join(wrong)}" if wrong else "no faults"
    print(f"{len(names)} campaigns, {said}, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
