"""What released versions stored is read, gone on with, and ends as it was noted when it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowagent.stores import sqlite_schema
from tests.fuzz.golden import expected, formats, read, shape, unpacked
from tests.fuzz.making import made


def test_there_are_golden_stores_of_every_format() -> None:
    """Whoever makes a new format makes golden stores of it: `python -m tests.fuzz.golden`."""
    assert [folder.name for folder in formats()] == [str(number + 1) for number in range(sqlite_schema.newest())]


def test_the_present_format_is_the_one_of_its_golden_store(tmp_path: Path) -> None:
    """Whoever changes what is written, be it a column or a name in a record, makes a new format of it."""
    made(tmp_path / "new.db")
    assert shape(tmp_path / "new.db") == shape(unpacked(formats()[-1], tmp_path / "golden.db"))


@pytest.mark.parametrize(
    ("folder", "name"),
    [pytest.param(folder, name, id=f"{folder.name}-{name}") for folder in formats() for name in expected(folder)],
)
def test_a_golden_run_ends_as_ever(folder: Path, name: str, tmp_path: Path) -> None:
    """State, questions, errors, history and picture, before and after going on, and what was called for that."""
    assert read(unpacked(folder, tmp_path / "runs.db"), name) == expected(folder)[name]
