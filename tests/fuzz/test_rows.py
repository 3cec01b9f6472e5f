"""A short share of the campaign `rows`."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.rows import campaign


def test_damage_is_told_or_harmless(tmp_path: Path) -> None:
    """Whatever one thing is damaged, runs are as they were, or an error names the row; mended, they go on."""
    faults, totals = campaign(tmp_path / "rows", rounds=30, seed=20261130)
    assert faults == []
    assert "rounds 30" in totals
