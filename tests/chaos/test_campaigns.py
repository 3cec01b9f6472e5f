"""A short share of each campaign, with another seed each time; `make chaos` plays more."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos import faults, space
from tests.chaos.campaign import Tally, campaign_of, played
from tests.kill.graphs import SUBJECTS

SEED = random.SystemRandom().randrange(1_000_000)

RARE = {"truncate eio"}
"""Most runs are too short to have their log cut."""

pytestmark = pytest.mark.slow


def hold(name: str, cases: Sequence[str], folder: Path, *, loses: bool = True) -> Tally:
    """Play cases, and fail with what went wrong; `loses`: whether the campaign counts what was lost."""
    tally = played(name, SEED, cases, folder)
    assert not tally.faults, "\n\n".join(tally.faults)
    assert ("lost" in tally.figures, tally.figures["lost"]) == (loses, 0)
    return tally


@pytest.mark.parametrize("name", faults.possible())
def test_whatever_fails_on_a_disk_costs_no_step(quick_path: Path, name: str) -> None:
    """One operation fails: a `StoreError` with the remedy at most, and resuming ends as if nothing had happened."""
    chance = random.Random(f"{SEED} {name}")
    numbers = [1, chance.randint(2, 20), chance.randint(21, 60)]
    cases = [f"{chance.choice(list(SUBJECTS))} {name} once {number}" for number in numbers]
    tally = hold("faults", cases, quick_path)
    assert tally.figures["runs"] == 3
    assert tally.figures["operations failed"] >= (name not in RARE)


def test_a_storm_of_errors_costs_no_step(quick_path: Path) -> None:
    """While any operation may fail: the same."""
    tally = hold("faults", [f"{subject} storm {n}" for n in range(2) for subject in SUBJECTS], quick_path)
    assert tally.figures["runs"] == 2 * len(SUBJECTS)


def test_a_power_cut_costs_no_acknowledged_step(quick_path: Path) -> None:
    """With "step" what was acknowledged is there; else what is there is a beginning; each run is resumed to its end."""
    tally = hold("power", list(campaign_of("power", SEED).cases(20)), quick_path)
    assert tally.figures["cuts"] >= 15


def test_a_disk_that_is_full_costs_no_step(tmp_path: Path) -> None:
    """A limit on file sizes and a file system without room: when there is some again, the run is resumed."""
    cases = campaign_of("space", SEED).cases(4)
    assert hold("space", list(cases), tmp_path).figures["runs"] == 4


def test_a_full_file_system_is_among_the_cases() -> None:
    """Where file systems can be made, one of them is filled."""
    if why := space.why_not_mounted():
        pytest.skip(why)
    assert any(case.endswith("disk") for case in campaign_of("space", SEED).cases(2))


def test_of_rivals_one_is_at_work(quick_path: Path) -> None:
    """Processes race to start one run, and for it when one of them dies: each step is recorded once."""
    tally = hold("race", list(campaign_of("race", SEED).cases(3)), quick_path)
    assert tally.figures["races"] == 3


def test_a_process_that_was_frozen_records_nothing(quick_path: Path) -> None:
    """It was stopped for longer than its lease: when it wakes it is refused, and says so."""
    tally = hold("frozen", list(campaign_of("frozen", SEED).cases(3)), quick_path)
    assert tally.figures["stopped"] == 3


def test_a_clock_that_jumps_steals_no_run_and_stops_no_timer(quick_path: Path) -> None:
    """A day ahead or behind, in the process that has a run, in its rival, or between two that sleep."""
    tally = hold("clock", list(campaign_of("clock", SEED).cases(5)), quick_path)
    assert (tally.figures["early steals"], tally.figures["stuck timers"]) == (0, 0)


def test_an_upgrade_is_done_or_not(quick_path: Path) -> None:
    """The power or the disk fails in it, or processes race for it: the file has one format or the other, and all."""
    tally = hold("upgrade", list(campaign_of("upgrade", SEED).cases(6)), quick_path, loses=False)
    assert tally.figures["cuts"] >= 2
    assert tally.figures["processes"] >= 4


def test_a_run_is_deleted_or_not(quick_path: Path) -> None:
    """Whatever fails meanwhile, it is there with all its records or gone, and the others are as they were."""
    tally = hold("remove", list(campaign_of("remove", SEED).cases(6)), quick_path, loses=False)
    assert tally.figures["cuts"] >= 3


def test_a_crowd_of_runs_gets_through(quick_path: Path) -> None:
    """All at once in one process, which is killed in the middle or is not: each step is recorded, none is run again."""
    tally = hold("crowd", ["0 300 calm", "1 300 killed"], quick_path, loses=False)
    assert tally.figures["runs"] == 600
    assert tally.figures["steps recorded before a kill"] > 0


def test_a_long_run_goes_on_soon(quick_path: Path) -> None:
    """Killed near its end, it is gone on with at once, and takes no more room than its steps."""
    tally = hold("long", ["0 4000 counting", "1 1000 growing"], quick_path, loses=False)
    assert tally.figures["steps"] == 5000


def test_nothing_grows_while_processes_die(quick_path: Path) -> None:
    """For three seconds: what is begun is brought to its end by whoever lives."""
    tally = hold("soak", ["0 3"], quick_path, loses=False)
    assert tally.figures["kills"] >= 1
    assert tally.figures["runs"] >= 1
