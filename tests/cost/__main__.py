"""Print what one more step of each case costs, beside its bounds: `python -m tests.cost`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.cost.bounds import BOUNDS
from tests.cost.cases import CASES
from tests.cost.measure import COUNTS, cost_of


def main() -> int:
    """Print the table; 1 if a bound is broken."""
    print(f"{'a step of':<20}" + "".join(f"{name:>18}" for name in COUNTS))
    broken = False
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            cost = cost_of(case, Path(folder))
        most = BOUNDS[name]
        pairs = [(getattr(cost, count), getattr(most, count)) for count in COUNTS]
        broken |= any(counted > bound for counted, bound in pairs)
        print(f"{name:<20}" + "".join(f"{f'{counted:.2f} / {bound:g}':>18}" for counted, bound in pairs), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
