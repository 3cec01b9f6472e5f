"""How a SQLite store commits: alone at the price of one flush, together at the price of one for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from flowagent.core.records import Record, Snapshot
from flowagent.errors import RunConflict, StoreError
from flowagent.stores import Lease, SQLiteStore
from tests.patience import PATIENCE
from tests.stores.faults import Disk


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
async def store(disk: Disk, tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "runs.db", vfs=disk.name)
    yield store
    disk.open_gate.set()
    await store.close()


def line(seq: int, data: bytes = b"{}") -> list[Record]:
    return [Record(seq, "done", data)]


async def many(store: SQLiteStore, count: int) -> list[Lease]:
    return [await store.create(f"r{number}", "g", line(0)) for number in range(count)]


async def hold_up(store: SQLiteStore, disk: Disk, lease: Lease) -> asyncio.Future[None]:
    """Have the writer stand in a flush, so that what comes now gathers behind it."""
    disk.open_gate.clear()
    disk.at_gate.clear()
    first = asyncio.ensure_future(store.append(lease, line(lease.next_seq)))
    await asyncio.to_thread(disk.at_gate.wait, 10)
    return first


async def test_an_append_on_the_calling_thread_flushes_once(store: SQLiteStore, disk: Disk) -> None:
    """With durable=True each append costs exactly one flush; with durable=False none."""
    lease = await store.create("r", "g", line(0), blocking=True)
    before = disk.syncs
    for seq in range(1, 11):
        await store.append(lease, line(seq))
    await store.append(lease, [*line(11), *line(12)], status="waiting", snapshot=Snapshot(12, b"{}"))
    assert disk.syncs - before == 11
    for seq in range(13, 20):
        await store.append(lease, line(seq), durable=False)
    assert disk.syncs - before == 11
    await store.append(lease, line(20))
    assert disk.syncs - before == 12


async def test_appends_that_meet_share_a_flush(store: SQLiteStore, disk: Disk) -> None:
    """What arrives while a flush runs is committed together by the next one."""
    leases = await many(store, 40)
    first = await hold_up(store, disk, leases[0])
    before = disk.syncs
    others = [asyncio.ensure_future(store.append(lease, line(1))) for lease in leases[1:]]
    await asyncio.sleep(0)
    disk.open_gate.set()
    await asyncio.gather(first, *others)
    assert disk.syncs - before == 1
    assert [lease.next_seq for lease in leases] == [2] * 40


async def test_a_bad_batch_spoils_no_other(store: SQLiteStore, disk: Disk) -> None:
    """Of appends committed together, the one that is refused is undone alone, whatever it had written."""
    leases = await many(store, 4)
    await store.release(leases[2])
    first = await hold_up(store, disk, leases[0])
    good = [asyncio.ensure_future(store.append(leases[n], line(1), status="waiting")) for n in (1, 3)]
    lost = asyncio.ensure_future(store.append(leases[2], line(1)))
    gap = [*line(2), *line(3), *line(5)]
    await asyncio.sleep(0)
    disk.open_gate.set()
    outcomes = await asyncio.gather(first, *good, lost, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), type(None), type(None), RunConflict]
    with pytest.raises(StoreError, match="would leave a gap"):
        await store.append(leases[1], gap)
    assert [record.seq for record in await store.read("r1")] == [0, 1]
    assert (leases[1].next_seq, leases[2].next_seq) == (2, 1)


async def test_a_wrong_value_is_its_callers_error(store: SQLiteStore, disk: Disk) -> None:
    """A value that no record can hold raises in its caller alone; nobody else's append is touched."""
    leases = await many(store, 2)
    first = await hold_up(store, disk, leases[0])
    wrong = asyncio.ensure_future(store.append(leases[1], [*line(1), Record(2, "done", "text")]))  # pyright: ignore[reportArgumentType]
    await asyncio.sleep(0)
    disk.open_gate.set()
    with pytest.raises(TypeError):
        await wrong
    await first
    await store.append(leases[1], line(1))


async def test_cancellation_waits_for_the_outcome(store: SQLiteStore, disk: Disk) -> None:
    """A caller cancelled in the middle of a commit, even twice, is told when it is decided; the lease is right."""
    (lease,) = await many(store, 1)
    task = await hold_up(store, disk, lease)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    disk.open_gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lease.next_seq == 2
    await store.append(lease, line(2))
    assert [record.seq for record in await store.read("r0")] == [0, 1, 2]


async def test_cancellation_of_what_fails_raises_no_second_error(store: SQLiteStore, disk: Disk) -> None:
    """When the append of a cancelled caller is refused, the caller sees its cancellation and the lease stays."""
    lease, gone = await many(store, 2)
    await store.release(gone)
    first = await hold_up(store, disk, lease)
    task = asyncio.ensure_future(store.append(gone, line(1)))
    await asyncio.sleep(0)
    task.cancel()
    disk.open_gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await first
    assert gone.next_seq == 1


async def test_a_loop_that_closed_does_not_stop_the_writer(store: SQLiteStore, disk: Disk) -> None:
    """When a loop closes while its append is being written, the append lands and others go on."""
    lease, other = await many(store, 2)

    def leave() -> None:
        loop = asyncio.new_event_loop()
        coroutine = store.append(lease, line(1))
        loop.call_soon(lambda: coroutine.send(None))
        loop.call_soon(lambda: loop.call_soon(loop.stop))  # what one turn writes is handed over at its end
        loop.run_forever()
        loop.close()
        coroutine.close()

    first = await hold_up(store, disk, other)
    await asyncio.to_thread(leave)
    disk.open_gate.set()
    await first
    await store.append(other, line(2))
    assert lease.next_seq == 2


async def test_a_commit_does_not_block_the_loop(store: SQLiteStore, disk: Disk) -> None:
    """While a flush hangs, the loop runs and other runs can be read."""
    lease, _ = await many(store, 2)
    task = await hold_up(store, disk, lease)
    assert len(await store.read("r1")) == 1
    assert (await store.info("r0")).next_seq == 1
    disk.open_gate.set()
    await task


async def test_two_stores_of_one_file_share_its_writer(store: SQLiteStore, disk: Disk, tmp_path: Path) -> None:
    """A second store object on the same file works on the same leases and waits as long as the more patient one."""
    link = tmp_path / "link.db"
    lease = await store.create("r", "g", line(0))
    link.symlink_to(tmp_path / "runs.db")
    twin = SQLiteStore(link, vfs=disk.name, busy_timeout=60)
    await twin.append(lease, line(1))
    with pytest.raises(RunConflict, match="another call in this process"):
        await twin.claim("r")
    await store.append(lease, line(2))
    assert await twin.read("r") == await store.read("r")
    assert store._database() is twin._database()
    assert store._database().place.busy_timeout == 60
    await twin.close()


async def test_a_lease_serves_only_the_store_that_granted_it(store: SQLiteStore, tmp_path: Path) -> None:
    """A lease of another file is refused, not written to a run that happens to have its key."""
    lease = await store.create("r", "g", line(0))
    other = SQLiteStore(tmp_path / "other.db")
    await other.create("r", "g", line(0))
    with pytest.raises(StoreError, match="was not granted by SQLite store"):
        await other.append(lease, line(1))
    await other.close()


async def test_an_interrupt_in_a_commit_leaves_a_true_lease(store: SQLiteStore, disk: Disk) -> None:
    """Ctrl-C in the middle of a commit on the calling thread: nothing is stored, and the lease is good."""
    lease = await store.create("r", "g", line(0), blocking=True)

    def fault(touch: int, what: str) -> None:
        if what == "sync":
            raise KeyboardInterrupt

    for records in (line(1), [*line(1), *line(2)]):
        disk.fault = fault
        with pytest.raises(KeyboardInterrupt):
            store.append(lease, records).send(None)
        disk.fault = lambda touch, what: None
        assert lease.next_seq == 1
    await store.append(lease, line(1, b"at last"))
    assert await store.read("r", after=0) == line(1, b"at last")


async def test_a_record_that_is_too_big_is_its_callers_error(store: SQLiteStore, disk: Disk) -> None:
    """A record beyond what SQLite keeps is refused with the remedy, alone or among others, which are stored."""
    leases = await many(store, 2)
    connection = store._database()._connection
    assert connection is not None
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, 10_000)
    first = await hold_up(store, disk, leases[0])
    big = asyncio.ensure_future(store.append(leases[1], [*line(1), *line(2, b"x" * 20_000)]))
    await asyncio.sleep(0)
    disk.open_gate.set()
    with pytest.raises(StoreError, match="cannot keep a record of over 1 GB; keep large data elsewhere"):
        await big
    await first
    leases[1].blocking = True
    with pytest.raises(StoreError, match="cannot keep a record of over 1 GB"):
        await store.append(leases[1], line(1, b"x" * 20_000))
    await store.append(leases[1], line(1))
    assert [len(await store.read(run_id)) for run_id in ("r0", "r1")] == [2, 2]


@pytest.mark.parametrize(("count", "taken"), [(1, 1), (2, 1), (2, 2), (3, 2)])
async def test_a_number_that_is_taken_is_refused(store: SQLiteStore, tmp_path: Path, count: int, taken: int) -> None:
    """Should one of the next numbers be taken after all, nothing is overwritten, and nothing is stored before it."""
    lease = await store.create("r", "g", line(0))
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    connection.execute(
        "INSERT INTO records(id, epoch, kind, data, sum) SELECT max(id) + ?, 1, 'done', x'00', 0 FROM records", (taken,)
    )
    with pytest.raises(RunConflict, match=f"record {taken} of run `r` is already stored"):
        await store.append(lease, [record for seq in range(1, count + 1) for record in line(seq)])
    assert connection.execute("SELECT seq, data FROM records ORDER BY id").fetchall()[1:] == [(taken, b"\x00")]
    connection.close()


async def test_a_big_journal_takes_the_space_of_what_changed(tmp_path: Path) -> None:
    """One large record and 200 small ones take about the room of their bytes, and delete gives it back (FA-030)."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", line(0, b"x" * 1_000_000), blocking=True)
    for seq in range(1, 201):
        await store.append(lease, line(seq, b"y" * 100))
    await store.release(lease)
    await store.close()
    assert path.stat().st_size < 1_200_000
    await store.delete("r")
    await store.close()
    assert path.stat().st_size < 100_000


async def test_many_runs_start_at_once(store: SQLiteStore, disk: Disk) -> None:
    """Runs that start together share flushes, and all are there."""
    started = time.monotonic()
    leases = await asyncio.gather(*(store.create(f"r{number}", "g", line(0)) for number in range(300)))
    assert len({lease.run_id for lease in leases}) == 300
    assert disk.syncs < 100
    assert time.monotonic() - started < PATIENCE
    assert len(await store.runs(statuses=["running"])) == 300
