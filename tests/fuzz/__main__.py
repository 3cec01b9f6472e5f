"""`python -m tests.fuzz rows --rounds 3000 --seed 7` plays a campaign.

It prints its seed, what went wrong, and one line of totals.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.fuzz import model, names, rows, values

Campaign = Callable[[Path, int, int, int], tuple[list[str], str]]

CAMPAIGNS: Final[Mapping[str, Campaign]] = {
    "rows": rows.campaign,
    "names": names.campaign,
    "model": model.campaign,
    "values": values.campaign,
}
_MEMORY: Final = Path("/dev/shm")


def main(arguments: Sequence[str] | None = None) -> int:
    """Play one campaign; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz what flowagent reads and runs.")
    parser.add_argument("name", choices=CAMPAIGNS)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--from", type=int, default=0, dest="first", help="the number of the first round")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="flowagent-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
    faults, totals = CAMPAIGNS[options.name](folder, options.rounds, options.seed, options.first)
    print("\n".join(faults))
    seconds = time.monotonic() - began
    print(
        f"{options.name}: {options.rounds} rounds, seed {options.seed}, {len(faults)} faults, {seconds:.0f} s: {totals}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
