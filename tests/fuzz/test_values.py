"""A short share of the campaign `values`."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.values import campaign


def test_values_come_back_or_are_refused(tmp_path: Path) -> None:
    """A value of any type is read as it was written, or refused with nothing of it stored."""
    faults, totals = campaign(tmp_path / "values", rounds=60, seed=20261130)
    assert faults == []
    assert "came back" in totals
