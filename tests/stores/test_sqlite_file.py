"""What a SQLite store opens and makes, and what it refuses without touching it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from flowagent.core.records import Record
from flowagent.errors import RunConflict, RunNotFound, StoreError
from flowagent.stores import SQLiteStore, sqlite_file
from flowagent.stores.sqlite_schema import APPLICATION_ID
from tests.stores.children import Child

START = [Record(0, "started", b"{}")]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def change_mode(path: Path, mode: int) -> None:
    path.chmod(mode)


async def filled(path: Path, records: int = 200) -> None:
    """A store of ours with some pages, closed."""
    store = SQLiteStore(path)
    lease = await store.create("r", "g", START, blocking=True)
    await store.append(lease, [Record(seq, "done", b"x" * 500) for seq in range(1, records)])
    await store.release(lease)
    await store.close()


def foreign(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_settings_are_as_documented(tmp_path: Path) -> None:
    """The writing connection has the settings that its promises rest on; the file bears our mark."""
    store = SQLiteStore(tmp_path / "runs.db")
    await store.create("r", "g", START)
    connection = store._database()._connection
    assert connection is not None
    settings = {
        "journal_mode": "wal",
        "synchronous": 2,
        "busy_timeout": 10000,
        "foreign_keys": 1,
        "temp_store": 2,
        "cache_size": -16000,
        "cell_size_check": 1,
        "trusted_schema": 0,
        "auto_vacuum": 2,
        "journal_size_limit": 16 * 1024 * 1024,
        "wal_autocheckpoint": 400,
        "application_id": APPLICATION_ID,
        "user_version": 1,
    }
    assert {name: connection.pragma(name) for name in settings} == settings
    await store.create("fast", "g", START, durable=False)
    assert connection.pragma("synchronous") == 1
    await store.close()
    assert (tmp_path / "runs.db").read_bytes()[68:72] == b"flow"


async def test_file_and_directory_are_its_owners_alone(tmp_path: Path) -> None:
    """A new file is made with mode 0600 in directories of mode 0700, and nothing is left beside it when closed."""
    path = tmp_path / "a" / "b" / "runs.db"
    store = SQLiteStore(path)
    await store.create("r", "g", START)
    beside = [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]
    assert [stat.S_IMODE(file.stat().st_mode) for file in beside] == [0o600] * 3
    assert [stat.S_IMODE(directory.stat().st_mode) for directory in path.parents[:2]] == [0o700] * 2
    await store.close()
    assert names(path.parent) == ["runs.db"]


async def test_asking_makes_no_file(tmp_path: Path) -> None:
    """Reading, claiming or deleting what is not there says so and leaves no file behind."""
    store = SQLiteStore(tmp_path / "deep" / "runs.db")
    for ask in (store.info, store.read, store.snapshot, store.claim, store.delete, store.request_cancel):
        with pytest.raises(RunNotFound, match=r"no run `r` in SQLite store `.*runs\.db`"):
            await ask("r")
    assert await store.runs() == []
    await store.close()
    assert names(tmp_path) == []


async def test_reading_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    """A store that only reads changes no byte and leaves no file when it is closed."""
    path = tmp_path / "runs.db"
    await filled(path)
    before = digest(path)
    store = SQLiteStore(path)
    assert len(await store.read("r")) == 200
    await store.close()
    assert digest(path) == before
    assert names(tmp_path) == ["runs.db"]


async def test_a_stored_file_is_read_where_nothing_can_be_written(open_path: Path) -> None:
    """A file without write permission can be read, and refuses to be written."""
    path = open_path / "runs.db"
    await filled(path)
    change_mode(open_path, 0o777)
    change_mode(path, 0o444)
    before = digest(path)
    script = """
        async def main():
            if os.getuid() == 0:
                os.setuid(65534)
            store = SQLiteStore(path)
            say(len(await store.read("r")))
            for call in (store.claim("r"), store.create("q", "g", [])):
                try:
                    await call
                except StoreError as error:
                    say(error)
            await store.close()
        asyncio.run(main())
    """
    async with Child(script, path) as child:
        assert await child.line() == "200"
        for _ in range(2):
            assert "is read-only; make it writable, or use another path" in await child.line()
        assert await child.end() == 0
    assert digest(path) == before


async def test_a_file_that_cannot_be_read_is_told(open_path: Path) -> None:
    """A file that the system does not let us read is an error that says so."""
    path = open_path / "runs.db"
    await filled(path)
    change_mode(open_path, 0o777)
    script = """
        async def main():
            if os.getuid() == 0:
                os.setuid(65534)
            for call in (SQLiteStore(path).read("r"), SQLiteStore(path).claim("r")):
                try:
                    await call
                except StoreError as error:
                    say(error)
        asyncio.run(main())
    """
    change_mode(path, 0o222)
    async with Child(script, path) as child:
        for _ in range(2):
            assert "cannot be reached: Permission denied; use a path that you may use" in await child.line()
    change_mode(open_path, 0o700)
    async with Child(script, path) as child:
        for _ in range(2):
            assert "cannot be reached: Permission denied; use a path that you may use" in await child.line()


async def test_a_directory_that_cannot_be_written_is_refused(open_path: Path) -> None:
    """SQLite needs files beside its own: a read-only directory is told, and nothing is made."""
    change_mode(open_path, 0o555)
    script = """
        async def main():
            if os.getuid() == 0:
                os.setuid(65534)
            try:
                await SQLiteStore(path).create("q", "g", [])
            except StoreError as error:
                say(error)
        asyncio.run(main())
    """
    for name, words in (
        ("runs.db", "is in a directory that cannot be written to"),
        ("new/runs.db", "cannot be reached"),
    ):
        async with Child(script, open_path / name) as child:
            assert words in await child.line()
    change_mode(open_path, 0o755)
    assert names(open_path) == []


def text(path: Path) -> None:
    path.write_text("dear diary")


def header(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def garbage(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)


def other(path: Path) -> None:
    foreign(path, "CREATE TABLE bookmarks(url)")


def other_in_wal_mode(path: Path) -> None:
    foreign(path, "PRAGMA journal_mode=WAL", "PRAGMA application_id=7", "CREATE TABLE t(x)")


def lookalike(path: Path) -> None:
    foreign(path, "CREATE TABLE runs(run_id)", "PRAGMA user_version=1")


def newer(path: Path) -> None:
    foreign(path, f"PRAGMA application_id={APPLICATION_ID}", "PRAGMA user_version=99", "CREATE TABLE runs(x)")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (text, "is not a SQLite database"),
        (header, "is damaged"),
        (garbage, "is damaged"),
        (other, "is the database of another program"),
        (other_in_wal_mode, "is the database of another program"),
        (lookalike, "is the database of another program"),
        (newer, r"was written by a newer flowagent \(format 99, this one knows 1\); upgrade flowagent"),
    ],
)
async def test_a_file_of_another_kind_is_refused_untouched(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    """What is not ours, or newer than we are, is neither read nor written, byte for byte; the error names it."""
    path = tmp_path / "precious.db"
    make(path)
    before = digest(path)
    store = SQLiteStore(path)
    for call in (store.create("r", "g", START), store.claim("r"), store.read("r"), store.runs()):
        with pytest.raises(StoreError, match=why) as caught:
            await call
        assert str(path) in str(caught.value)
    await store.close()
    assert digest(path) == before


@pytest.mark.parametrize("keep", [30, 4096, 20000])
async def test_a_truncated_file_is_refused_untouched(tmp_path: Path, keep: int) -> None:
    """A file that was cut short is told as damaged, and kept as it is for a rescue."""
    path = tmp_path / "runs.db"
    await filled(path)
    os.truncate(path, keep)
    before = digest(path)
    store = SQLiteStore(path)
    for call in (store.create("q", "g", START), store.read("r")):
        with pytest.raises(StoreError, match="is damaged; restore it from a backup"):
            await call
    await store.close()
    assert digest(path) == before


async def test_a_damaged_page_is_told(tmp_path: Path) -> None:
    """Garbage in the middle of the file is an error of the read that meets it, and never other data."""
    path = tmp_path / "runs.db"
    await filled(path)
    data = bytearray(path.read_bytes())
    for page in range(12, len(data) // 4096):
        data[page * 4096 : page * 4096 + 512] = os.urandom(512)
    path.write_bytes(data)
    store = SQLiteStore(path)
    with pytest.raises(StoreError, match="is damaged"):
        await store.read("r")
    await store.close()


async def test_places_that_hold_no_file_are_refused(tmp_path: Path) -> None:
    """A directory, a pipe, and SQLite's special names are refused with the remedy."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "file").write_text("")
    for path, why in (
        (tmp_path, "is a directory; give the path of a file in it"),
        (pipe, "is not a regular file"),
        (tmp_path / "file" / "runs.db", "cannot be reached"),
    ):
        with pytest.raises(StoreError, match=why):
            await SQLiteStore(path).create("r", "g", START)
    for name in ("", ":memory:", "a\0b"):
        with pytest.raises(StoreError, match="is no path of a file"):
            SQLiteStore(name)


async def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    """A file of no bytes, and a database without a table, are made into stores: nothing can be lost in them."""
    (tmp_path / "touched.db").touch()
    foreign(tmp_path / "begun.db", "PRAGMA journal_mode=WAL")
    for name in ("touched.db", "begun.db"):
        store = SQLiteStore(tmp_path / name)
        assert await store.runs() == []
        await store.create("r", "g", START)
        assert await store.read("r") == START
        await store.close()


async def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system says that a directory is on a network, nothing is made there."""
    mounts = tmp_path / "mountinfo"
    shared = tmp_path / "shared disk"
    shared.mkdir()
    point = str(shared).replace(" ", "\\040")
    mounts.write_text(
        "22 1 8:1 / / rw - ext4 /dev/root rw\n"
        f"30 22 0:40 / {point} rw,relatime shared:1 - nfs4 server:/export rw\n"
        f"31 22 0:41 / {tmp_path}/share rw - tmpfs none rw\n"
    )
    monkeypatch.setattr(sqlite_file, "_MOUNTS", mounts)
    with pytest.raises(StoreError, match=r"is on a network file system \(nfs4\).*use a local disk"):
        await SQLiteStore(shared / "runs.db").create("r", "g", START)
    assert names(shared) == []
    store = SQLiteStore(tmp_path / "runs.db")
    await store.create("r", "g", START)
    await store.close()
    monkeypatch.setattr(sqlite_file, "_MOUNTS", tmp_path / "none")
    await store.info("r")
    await store.close()


async def test_a_file_system_without_shared_memory_is_refused(tmp_path: Path) -> None:
    """Where SQLite cannot keep the write-ahead log, the store says so instead of going on without it."""

    class NoSharedMemory(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("no-shm", "unix-dotfile")

    vfs = NoSharedMemory()
    with pytest.raises(StoreError, match=r"cannot be kept in WAL mode .SQLite says `delete`.; use a local disk"):
        await SQLiteStore(tmp_path / "runs.db", vfs="no-shm").create("r", "g", START)
    vfs.unregister()


async def test_a_log_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    """When SQLite cannot have its files beside the database, the error says which must be writable."""
    path = tmp_path / "runs.db"
    await filled(path)
    path.with_name("runs.db-wal").mkdir()
    for call in (SQLiteStore(path).claim("r"), SQLiteStore(path).read("r")):
        with pytest.raises(StoreError, match="cannot be opened; its file and directory must be writable"):
            await call


async def test_a_file_that_turns_out_read_only_is_refused(tmp_path: Path) -> None:
    """SQLite falls back to reading where it may not write, without a word; the store says so."""

    class ReadOnly(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("read-only", "")

        def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
            file = apsw.VFSFile("", name, flags)
            flags[1] |= apsw.SQLITE_OPEN_READONLY
            return file

    vfs = ReadOnly()
    with pytest.raises(StoreError, match="is read-only; make it and its directory writable"):
        await SQLiteStore(tmp_path / "runs.db", vfs="read-only").create("r", "g", START)
    vfs.unregister()


async def test_an_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library with the WAL-reset bug is refused with the way to a better one; those mended are taken."""
    for version in ("3.40.1", "3.51.2", "3.50.6"):
        monkeypatch.setattr(apsw, "sqlite_lib_version", lambda version=version: version)
        with pytest.raises(StoreError, match=f"SQLite {version} can lose commits .*pip install -U apsw"):
            await SQLiteStore(tmp_path / "runs.db").create("r", "g", START)
    for number, version in enumerate(("3.44.6", "3.50.7", "3.51.3", "3.54.0")):
        monkeypatch.setattr(apsw, "sqlite_lib_version", lambda version=version: version)
        store = SQLiteStore(tmp_path / "runs.db")
        await store.create(f"r{number}", "g", START)
        await store.close()


async def test_home_is_where_tilde_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home directory, not a directory of that name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    store = SQLiteStore("~/runs.db")
    await store.create("r", "g", START)
    await store.close()
    assert (tmp_path / "runs.db").exists()


async def test_a_removed_file_is_noticed(tmp_path: Path) -> None:
    """After somebody removed the file, a new run starts a new file and the old lease writes nowhere."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    old = await store.create("r", "g", START)
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink()
    with pytest.raises(StoreError, match="is gone: it was removed while it was in use"):
        await store.append(old, [Record(1, "ended", b"{}")], status="completed")
    assert await store.runs() == []
    await store.create("r", "g", START)
    with pytest.raises(RunConflict, match="the run was deleted"):
        await store.append(old, [Record(1, "ended", b"{}")])
    assert await store.read("r") == START
    await store.close()


@pytest.mark.parametrize("at_once", [1, 2, 3])
async def test_a_removed_file_is_noticed_by_a_run_that_goes_on(tmp_path: Path, at_once: int) -> None:
    """A run that only adds steps, one statement each or several, is soon told that its file has no name any more."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", START)

    async def go_on() -> None:
        for first in range(1, 1_000_000, at_once):
            await store.append(lease, [Record(first + more, "done", b"{}") for more in range(at_once)])

    path.unlink()
    with pytest.raises(StoreError, match="is gone: it was removed while it was in use"):
        await go_on()
    await store.close()


async def test_processes_make_one_file_together(tmp_path: Path) -> None:
    """Processes that open a new file at the same moment all get a good store."""
    script = """
        async def main():
            for number in range(4):
                say("ready")
                heard()
                store = SQLiteStore(f"{path}/{number}.db")
                await store.release(await store.create(arguments[0], "g", [Record(0, "started", b"{}")], blocking=True))
                await store.close()
        asyncio.run(main())
        say("done")
    """
    async with Child(script, tmp_path, "a") as a, Child(script, tmp_path, "b") as b, Child(script, tmp_path, "c") as c:
        for _ in range(4):
            for child in (a, b, c):
                assert await child.line() == "ready"
            for child in (a, b, c):
                child.tell()
        for child in (a, b, c):
            assert await child.line() == "done"
    for number in range(4):
        store = SQLiteStore(tmp_path / f"{number}.db")
        assert sorted(run.run_id for run in await store.runs()) == ["a", "b", "c"]
        await store.close()
