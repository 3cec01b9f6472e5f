from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def no_system_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the system's Graphviz, so that `graphviz-pure` has to do it."""
    empty = tmp_path / "empty-path"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))


@pytest.fixture(params=["graphviz-pure", "system dot"])
def layouter(request: pytest.FixtureRequest) -> str:
    """Each layouter in turn, as the one that is used; the system's only where it is installed."""
    if request.param == "graphviz-pure":
        request.getfixturevalue("no_system_dot")
    elif shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed here (`apt-get install graphviz`)")
    return str(request.param)
