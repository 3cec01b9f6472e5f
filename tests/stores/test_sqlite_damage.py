"""Damaged rows: an error that names run and number, never another history."""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest

from flowagent.core.records import Record, Snapshot
from flowagent.errors import StoreError
from flowagent.stores import SQLiteStore

RECORDS = [Record(seq, "done" if seq else "started", f'{{"n":{seq}}}'.encode()) for seq in range(6)]


async def stored(path: Path) -> SQLiteStore:
    """A store with two finished runs and a fork, closed."""
    store = SQLiteStore(path)
    for run_id in ("r", "other"):
        lease = await store.create(run_id, "g", RECORDS[:1])
        for record in RECORDS[1:]:
            await store.append(lease, [record], snapshot=Snapshot(record.seq, b"at %d" % record.seq))
        await store.append(lease, [], status="completed")
        await store.release(lease)
    await store.release(await store.create("fork", "g", [], parent="r", parent_seq=5))
    await store.close()
    return store


def damage(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))

    def base(*_: object) -> int:
        return key(connection, "r")

    def other_base(*_: object) -> int:
        return key(connection, "other")

    connection.create_scalar_function("base", base)
    connection.create_scalar_function("other_base", other_base)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def key(connection: apsw.Connection, run_id: str) -> int:
    return connection.execute("SELECT key << 32 FROM runs WHERE run_id = ?", (run_id,)).get


@pytest.mark.parametrize(
    ("statements", "seq", "what"),
    [
        (["UPDATE records SET data = x'7B7D' WHERE id = base() + 2"], 2, "is damaged"),
        (["UPDATE records SET data = substr(data, 1, 3) WHERE id = base() + 2"], 2, "is damaged"),
        (["UPDATE records SET kind = 'failed' WHERE id = base() + 3"], 3, "is damaged"),
        (["UPDATE records SET epoch = 2 WHERE id = base() + 3"], 3, "is damaged"),
        (["UPDATE records SET sum = sum + 1 WHERE id = base() + 4"], 4, "is damaged"),
        (["DELETE FROM records WHERE id = base()"], 0, "is missing"),
        (["DELETE FROM records WHERE id = base() + 3"], 3, "is missing"),
        (["DELETE FROM records WHERE id = base() + 5"], 5, "is missing"),
        (["DELETE FROM records WHERE run = base() >> 32"], 0, "is missing"),
        (
            [
                "UPDATE records SET id = base() + 99 WHERE id = base() + 1",
                "UPDATE records SET id = base() + 1 WHERE id = base() + 2",
                "UPDATE records SET id = base() + 2 WHERE id = base() + 99",
            ],
            1,
            "is damaged",
        ),
        (
            [
                "DELETE FROM records WHERE id = base() + 2",
                "UPDATE records SET id = base() + 2 WHERE id = other_base() + 2",
            ],
            2,
            "is damaged",
        ),
    ],
    ids=["other", "cut", "kind", "epoch", "sum", "first", "middle", "last", "all", "swapped", "foreign"],
)
async def test_a_damaged_row_is_named(tmp_path: Path, statements: list[str], seq: int, what: str) -> None:
    """A row that was changed, lost, swapped or brought in from another run is told by run and number."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    damage(path, *statements)
    for run_id in ("r", "fork"):
        with pytest.raises(StoreError, match=rf"record {seq} of run `r` in SQLite store .* {what}"):
            await store.read(run_id)
    assert await store.read("other", after=2) == RECORDS[3:]
    await store.close()


async def test_a_flipped_bit_is_never_read(quick_path: Path) -> None:
    """Whatever single bit of a record's bytes is flipped, reading it is an error."""
    path = quick_path / "runs.db"
    store = await stored(path)
    chance = random.Random(4)
    for _ in range(40):
        seq = chance.randrange(6)
        data = bytearray(RECORDS[seq].data)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        damage(path, f"UPDATE records SET data = x'{data.hex()}' WHERE id = base() + {seq}")
        with pytest.raises(StoreError, match=f"record {seq} of run `r`"):
            await store.read("r")
        damage(path, f"UPDATE records SET data = x'{RECORDS[seq].data.hex()}' WHERE id = base() + {seq}")
    assert await store.read("r") == RECORDS
    await store.close()


async def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    """The newest two snapshots are kept; a damaged one gives way to the other, and then to none."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    assert await store.snapshot("r") == Snapshot(5, b"at 5")
    damage(path, "UPDATE snapshots SET data = x'00' WHERE id = base() + 5")
    assert await store.snapshot("r") == Snapshot(4, b"at 4")
    damage(path, "UPDATE snapshots SET sum = 0 WHERE id = base() + 4")
    assert await store.snapshot("r") is None
    await store.close()


async def test_a_damaged_line_of_a_run_is_told(tmp_path: Path) -> None:
    """A status that no run can have is an error, not a status."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    damage(path, "UPDATE runs SET status = 'complated' WHERE run_id = 'r'")
    with pytest.raises(StoreError, match=r"the line of run `r` in SQLite store .* is damaged"):
        await store.info("r")
    with pytest.raises(StoreError, match="the line of run `r`"):
        await store.runs()
    await store.close()


async def test_records_of_a_newer_format_are_not_touched(tmp_path: Path) -> None:
    """A run written by a newer version is neither read nor claimed; the others are."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    damage(path, "UPDATE runs SET format = 99 WHERE run_id = 'r'")
    with pytest.raises(StoreError, match=r"run `r` .* was written by a newer flowagent .* upgrade flowagent"):
        await store.read("r")
    with pytest.raises(StoreError, match="was written by a newer flowagent"):
        await store.claim("r")
    assert (await store.info("r")).format == 99
    assert await store.read("other") == RECORDS
    await store.close()
