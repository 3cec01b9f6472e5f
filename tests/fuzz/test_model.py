"""A short share of the campaign `model`."""

from __future__ import annotations

from tests.fuzz.model import played


def test_runs_do_what_the_model_does() -> None:
    """Started, stopped, killed, answered, cancelled and deleted in any order, runs stand where they should."""
    faults, totals = played(rounds=12, seed=20261130, steps=25)
    assert faults == []
    assert "deaths" in totals
