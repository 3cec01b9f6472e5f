"""A step costs no more than its bounds, on any machine; `bounds.py` has them all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flowagent.stores import Store
from tests.cost.bounds import BOUNDS, DEEP, KEPT_PER_BYTE
from tests.cost.cases import CASES, Case, history, line, loop
from tests.cost.measure import COUNTS, Cost, cost_of

PAGE = 4096
"""What a SQLite file grows by."""

UNMEASURED = (3, 14)
"""From this Python on, asyncio and the interpreter may make other calls of their own; ours stay what they are."""


def slack(count: str) -> float:
    """By how much a bound is widened for a Python on which nobody has counted yet."""
    return 1.2 if count in {"python", "native"} and sys.version_info >= UNMEASURED else 1.0


def broken(cost: Cost, most: Cost) -> list[str]:
    """The counts that are beyond their bounds."""
    return [
        f"{count}: {getattr(cost, count):.2f}, at most {getattr(most, count):g}"
        for count in COUNTS
        if getattr(cost, count) > getattr(most, count) * slack(count)
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_step_costs_no_more_than_its_bounds(name: str, quick_path: Path) -> None:
    """Calls, statements, flushes and bytes that one more step adds."""
    assert broken(cost_of(CASES[name], quick_path), BOUNDS[name]) == []


@pytest.mark.parametrize(("name", "syncs"), [("loop, stored", 1), ("loop, stored, fast", 0)])
def test_a_lap_of_sync_nodes_is_flushed_as_its_durability_says(name: str, syncs: int, quick_path: Path) -> None:
    """With "step" once, for a node and the router behind it share a transaction; with "fast" never.

    So few laps that the log need not be moved into the file, which takes two more, every three hundred laps or so.
    """
    assert cost_of(replace(CASES[name], n=60), quick_path).syncs == syncs


@pytest.mark.parametrize(
    ("work", "stored"),
    [(loop(), False), (line, False), (loop(), True), (history(200), True)],
    ids=["loop", "line", "loop, stored", "history, stored"],
)
def test_a_step_far_into_a_run_costs_what_the_first_ones_did(
    work: Callable[[int, Store | None], None], stored: bool, quick_path: Path
) -> None:
    """Nothing is done again for what was done before: neither calls nor statements nor bytes grow with the run."""
    early, late = (
        cost_of(Case(n=n, stored=stored, work=work), quick_path / str(n)) for n in ((100, 400) if stored else (50, 800))
    )
    limits = Cost(**{count: getattr(early, count) * DEEP for count in COUNTS})
    # Files grow by whole pages, one of which is much for a hundred short records.
    page = PAGE / 100
    assert broken(late, replace(limits, stored=limits.stored + page, written=limits.written + page)) == []


def test_an_appended_byte_is_kept_little_more_than_twice(quick_path: Path) -> None:
    """The cost of long messages less that of short ones, for each byte that they are longer."""
    short, long = (
        cost_of(Case(n=300, stored=True, work=history(size)), quick_path / str(size)).stored for size in (6, 1206)
    )
    assert 1 < (long - short) / 1200 <= KEPT_PER_BYTE
