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
    """A snapshot whose checksum does not fit counts as none, as the records tell the same."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    assert await store.snapshot("r") == Snapshot(5, b"at 5")
    damage(path, "UPDATE snapshots SET data = x'00' WHERE id = base() + 5")
    assert await store.snapshot("r") is None
    await store.close()


@pytest.mark.parametrize(
    "column",
    [
        "status = 'complated'",
        "status = 'failed'",
        "graph = 'another'",
        "run_id = 's'",
        "epoch = epoch + 1",
        "known = 3",
        "created = 0.0",
        "parent = key",
        "parent_seq = 2",
        "format = 0",
        "sum = 0",
    ],
)
async def test_a_damaged_line_of_a_run_is_told(tmp_path: Path, column: str) -> None:
    """No column of a run's line is believed that is not as it was written, be it one that could be."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    damage(path, f"UPDATE runs SET {column} WHERE run_id = 'r'")
    name = "s" if column.startswith("run_id") else "r"
    told = f"the line of run `{name}` in SQLite store .* is damaged"
    for call in (
        store.info(name),
        store.read(name),
        store.claim(name),
        store.resume(name),
        store.past(name),
        store.runs(),
    ):
        with pytest.raises(StoreError, match=told):
            await call
    await store.close()


async def test_a_record_that_is_gone_is_told_to_whoever_takes_the_run(tmp_path: Path) -> None:
    """A run whose last records are gone is not claimed: it would write others in their place."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    damage(path, "DELETE FROM records WHERE id >= base() + 4 AND id < base() + 100")
    for call in (store.info("r"), store.claim("r"), store.resume("r"), store.past("r"), store.read("r")):
        with pytest.raises(StoreError, match=r"record 4 of run `r` in SQLite store .* is missing"):
            await call
    assert [info.run_id for info in await store.runs()] == ["fork", "other", "r"]
    await store.close()


async def test_a_snapshot_tells_of_records_that_are_gone(tmp_path: Path) -> None:
    """What a killed process wrote last is noted nowhere but in its snapshot, which was stored together with it."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", RECORDS[:1])
    for record in RECORDS[1:]:
        snapshot = Snapshot(record.seq, b"at %d" % record.seq) if record.seq == 4 else None
        await store.append(lease, [record], snapshot=snapshot)
    del lease  # The process dies without a word.
    damage(path, "DELETE FROM records WHERE id >= base() + 3 AND id < base() + 100", "UPDATE runs SET owner = NULL")
    for call in (store.info("r"), store.claim("r"), store.resume("r"), store.past("r")):
        with pytest.raises(StoreError, match=r"record 3 of run `r` in SQLite store .* is missing"):
            await call
    await store.close()


async def test_a_record_of_the_same_run_of_another_file_does_not_fit(tmp_path: Path) -> None:
    """Two files with the same run in them cannot lend each other records."""
    path, other = tmp_path / "runs.db", tmp_path / "other.db"
    store = await stored(path)
    await (await stored(other)).close()
    damage(
        path,
        f"ATTACH '{other}' AS other",
        "DELETE FROM records WHERE id = base() + 2",
        "INSERT INTO records(id, epoch, kind, data, sum) SELECT base() + 2, epoch, kind, data, sum "
        "FROM other.records WHERE seq = 2 AND run = (SELECT key FROM other.runs WHERE run_id = 'r')",
    )
    with pytest.raises(StoreError, match=r"record 2 of run `r` .* is damaged"):
        await store.read("r")
    await store.close()


async def test_text_that_is_none_is_told(tmp_path: Path) -> None:
    """Bytes that are no text, where there must be some, are damage like any other."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    damage(path, "UPDATE records SET kind = CAST(x'ff00' AS TEXT) WHERE id = base() + 3")
    with pytest.raises(StoreError, match=r"record 3 of run `r` .* is damaged"):
        await store.read("r")
    damage(path, "UPDATE records SET kind = CAST(x'ff00' AS TEXT) WHERE id = base() + 5")
    for call in (store.claim("r"), store.resume("r"), store.past("r")):
        with pytest.raises(StoreError, match=r"record 5 of run `r` .* is damaged"):
            await call
    damage(path, "UPDATE runs SET graph = CAST(x'ff00' AS TEXT) WHERE run_id = 'r'")
    for call in (store.info("r"), store.claim("r"), store.delete("r"), store.runs()):
        with pytest.raises(StoreError, match=r"the line of run .* in SQLite store .* is damaged"):
            await call
    await store.close()


async def test_records_of_a_newer_format_are_not_touched(tmp_path: Path) -> None:
    """A run written by a newer version is neither read nor claimed; the others are."""
    path = tmp_path / "runs.db"
    store = await stored(path)
    damage(path, "UPDATE runs SET format = 99 WHERE run_id = 'r'")
    with pytest.raises(StoreError, match=r"run `r` .* was written by a newer flowagent .* upgrade flowagent"):
        await store.read("r")
    for call in (store.claim("r"), store.resume("r"), store.past("r")):
        with pytest.raises(StoreError, match="was written by a newer flowagent"):
            await call
    assert (await store.info("r")).format == 99
    assert await store.read("other") == RECORDS
    await store.close()


@pytest.mark.parametrize("seq", [0, 1, 3, 5])
async def test_a_run_with_a_damaged_record_is_not_taken_hold_of(tmp_path: Path, seq: int) -> None:
    """Whichever record is damaged, the first, the last or between: it is told, and the run stands as it did."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", RECORDS)
    await store.append(lease, [], status="waiting")
    await store.release(lease)
    before = await store.info("r")
    damage(path, f"UPDATE records SET data = x'00' WHERE id = base() + {seq}")
    for call in (store.resume("r"), store.past("r"), store.resume("r", blocking=True)):
        with pytest.raises(StoreError, match=f"record {seq} of run `r` in SQLite store .* is damaged"):
            await call
    await store.close()
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT status, epoch, owner FROM runs").fetchall() == [("waiting", before.epoch, None)]
    connection.close()
