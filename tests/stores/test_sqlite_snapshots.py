"""How a SQLite store keeps snapshots: one for each run, packed where that saves something."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from flowagent.core.records import Record, Snapshot
from flowagent.stores import SQLiteStore
from flowagent.stores.sqlite_runs import record_sum, run_sum

TEXT = b'{"text":"%b"}' % b" ".join(b"line %d" % number for number in range(5000))


async def kept(path: Path, *datas: bytes) -> SQLiteStore:
    """A store with a run that had these snapshots, one after the other; closed."""
    store = SQLiteStore(path)
    lease = await store.create("r", "g", [Record(0, "started", b"{}")])
    for seq, data in enumerate(datas, 1):
        await store.append(lease, [Record(seq, "done", b"{}")], snapshot=Snapshot(seq, data))
    await store.release(lease)
    await store.close()
    return store


def rows(path: Path) -> list[bytes]:
    """The data of all snapshots in the file, as it stands there."""
    connection = apsw.Connection(str(path))
    found = [data for (data,) in connection.execute("SELECT data FROM snapshots ORDER BY id")]
    connection.close()
    return found


def free_pages(path: Path) -> int:
    connection = apsw.Connection(str(path))
    free = int(connection.pragma("freelist_count"))
    connection.close()
    return free


@pytest.mark.parametrize(
    "data",
    [b'{"steps":1}', TEXT, b"\xfa\x01" + os.urandom(5000), b"x", b"x\x01 no stream of zlib", b""],
    ids=["short", "long", "encrypted", "mark", "mark and more", "empty"],
)
async def test_a_snapshot_comes_back_as_it_was(data: bytes, tmp_path: Path) -> None:
    """Whatever its bytes are, those that a packed one begins with included."""
    store = await kept(tmp_path / "runs.db", data)
    assert await store.snapshot("r") == Snapshot(1, data)
    await store.close()


async def test_a_long_snapshot_is_packed(tmp_path: Path) -> None:
    """The position of a long history is text, and takes less than half its bytes."""
    await kept(tmp_path / "runs.db", TEXT)
    (data,) = rows(tmp_path / "runs.db")
    assert len(data) * 2 < len(TEXT)


@pytest.mark.parametrize(
    "data", [b'{"steps":1}', b"\xfa\x01" + bytes(5000)], ids=["it is short", "it may be encrypted"]
)
async def test_a_snapshot_is_kept_as_it_is_where(data: bytes, tmp_path: Path) -> None:
    """Packing a short one saves no page; and how short an encrypted one becomes must not depend on what it holds."""
    await kept(tmp_path / "runs.db", data)
    assert rows(tmp_path / "runs.db") == [data]


async def test_the_newest_snapshot_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """One is kept, in the pages of its predecessor: no page of the file stands empty."""
    random = [b"\xfa\x01" + os.urandom(50_000) for _ in range(4)]
    await kept(tmp_path / "runs.db", *random)
    assert (rows(tmp_path / "runs.db"), free_pages(tmp_path / "runs.db")) == (random[-1:], 0)


async def test_a_snapshot_that_cannot_be_unpacked_is_passed_over(tmp_path: Path) -> None:
    """One that looks packed and is not is no snapshot, even where its checksum fits."""
    store = await kept(tmp_path / "runs.db", TEXT)
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    key = int(connection.execute("SELECT key FROM runs").get)
    data = rows(tmp_path / "runs.db")[0][:-1]
    total = record_sum(run_sum(key, "r"), 1, 0, "snapshot", data)
    connection.execute("UPDATE snapshots SET data = ?, sum = ?", (data, total))
    connection.close()
    assert await store.snapshot("r") is None
    await store.close()
