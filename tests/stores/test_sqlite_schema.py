"""The way from an older format to the present one."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from flowagent.core.records import Record
from flowagent.errors import StoreError
from flowagent.stores import SQLiteStore, sqlite_schema

RECORDS = [Record(0, "started", b"{}"), Record(1, "done", b"{}")]

LABELS = (
    "ALTER TABLE runs ADD COLUMN label TEXT",
    "UPDATE runs SET label = upper(run_id)",
    "CREATE INDEX runs_by_label ON runs(label)",
)


async def written_by_version_1(path: Path) -> SQLiteStore:
    store = SQLiteStore(path)
    await store.release(await store.create("r", "g", RECORDS))
    await store.close()
    return store


def ask(path: Path, question: str) -> object:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(question).get
    finally:
        connection.close()


@pytest.mark.parametrize("first", ["read", "write"])
async def test_an_older_file_is_brought_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """A file of an older format gets the newer one at its first use, reading included, with all that is in it."""
    path = tmp_path / "runs.db"
    store = await written_by_version_1(path)
    assert ask(path, "PRAGMA user_version") == 1
    monkeypatch.setitem(sqlite_schema.MIGRATIONS, 2, LABELS)
    monkeypatch.setitem(sqlite_schema.MIGRATIONS, 3, ("CREATE TABLE notes(text TEXT) STRICT",))
    if first == "write":
        await store.release(await store.claim("r"))
    assert await store.read("r") == RECORDS
    await store.close()
    assert ask(path, "PRAGMA user_version") == 3
    assert ask(path, "SELECT label FROM runs") == "R"
    assert ask(path, "SELECT count(*) FROM notes") == 0
    assert ask(path, "PRAGMA integrity_check") == "ok"


async def test_a_new_file_goes_through_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is made today has what the steps since version 1 made."""
    monkeypatch.setitem(sqlite_schema.MIGRATIONS, 2, LABELS)
    store = SQLiteStore(tmp_path / "runs.db")
    await store.create("r", "g", RECORDS)
    await store.close()
    assert ask(tmp_path / "runs.db", "PRAGMA user_version") == 2
    assert ask(tmp_path / "runs.db", "SELECT label FROM runs") is None


async def test_a_step_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a step fails in the middle, the file is as it was, and the step can be tried again."""
    path = tmp_path / "runs.db"
    store = await written_by_version_1(path)
    before = path.read_bytes()
    monkeypatch.setitem(sqlite_schema.MIGRATIONS, 2, (*LABELS, "INSERT INTO nowhere VALUES (1)"))
    for call in (store.read("r"), store.claim("r"), store.create("q", "g", [])):
        with pytest.raises(StoreError, match="no such table: nowhere"):
            await call
    await store.close()
    assert ask(path, "PRAGMA user_version") == 1
    assert path.read_bytes() == before
    monkeypatch.setitem(sqlite_schema.MIGRATIONS, 2, LABELS)
    assert await store.read("r") == RECORDS
    await store.close()
    assert ask(path, "SELECT label FROM runs") == "R"


async def test_an_older_version_refuses_a_newer_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a file was brought up, a version that does not know the format leaves it alone."""
    path = tmp_path / "runs.db"
    store = await written_by_version_1(path)
    with monkeypatch.context() as newer:
        newer.setitem(sqlite_schema.MIGRATIONS, 2, LABELS)
        await store.release(await store.claim("r"))
        await store.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"was written by a newer flowagent \(format 2, this one knows 1\)"):
        await store.read("r")
    await store.close()
    assert path.read_bytes() == before
