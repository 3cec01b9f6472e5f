"""How a store is named: `store=` takes a store or a path, and SQLite is loaded when it is first needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import flowagent.stores
from flowagent.stores import MemoryStore, SQLiteStore, open_store


def test_a_path_names_a_sqlite_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string or a path gives a SQLite store, the same one each time; a relative one starts where we are."""
    store = open_store(str(tmp_path / "runs.db"))
    assert isinstance(store, SQLiteStore)
    assert open_store(tmp_path / "runs.db") is store
    assert store.name == f"SQLite store `{tmp_path / 'runs.db'}`"
    assert repr(store) == f"SQLiteStore('{tmp_path / 'runs.db'}')"
    monkeypatch.chdir(tmp_path)
    assert open_store("runs.db") is store
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    near = open_store("runs.db")
    assert near is not store
    assert near.name == "SQLite store `runs.db`"


def test_a_store_names_itself() -> None:
    """What is a store already is given back; anything else is told what `store=` takes."""
    store = MemoryStore()
    assert open_store(store) is store
    with pytest.raises(TypeError, match="store= takes a path or a store"):
        open_store(7)  # pyright: ignore[reportArgumentType]


def test_sqlite_is_loaded_when_it_is_named() -> None:
    """Importing the stores loads no apsw; naming `SQLiteStore` does; another name is an error."""
    script = (
        "import sys, flowagent.stores as stores; assert 'apsw' not in sys.modules; "
        "stores.open_store(stores.MemoryStore()); assert 'apsw' not in sys.modules; "
        "stores.SQLiteStore; assert 'apsw' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
    with pytest.raises(AttributeError, match="no attribute 'RedisStore'"):
        flowagent.stores.RedisStore  # noqa: B018
