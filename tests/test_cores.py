"""Tests are played in as many processes as there are cores to be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cores import MOST, cores


def show(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let the system show so many cores."""

    def affinity(process: int) -> set[int]:
        return {*range(count)}

    monkeypatch.setattr("os.sched_getaffinity", affinity, raising=False)


@pytest.mark.parametrize(
    ("told", "allowed"),
    [("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("max 100000", 5), ("9900000 100000", 5)],
)
def test_what_a_container_may_use_is_not_exceeded(
    told: str, allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows five cores of the machine, and allows some time of them."""
    show(monkeypatch, 5)
    quota = tmp_path / "cpu.max"
    quota.write_text(f"{told}\n", encoding="ascii")
    assert cores(quota) == allowed


def test_a_large_machine_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is limited, we limit ourselves."""
    show(monkeypatch, 64)
    assert cores(tmp_path / "absent") == MOST
