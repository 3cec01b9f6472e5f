"""A short share of the campaign `names`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fuzz.names import campaign


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed here")
def test_hostile_definitions_are_refused_or_run(tmp_path: Path) -> None:
    """Whatever things are called: a typed error, or a run that is read back and drawn."""
    faults, totals = campaign(tmp_path / "names", rounds=40, seed=20261130)
    assert faults == []
    assert "completed" in totals
