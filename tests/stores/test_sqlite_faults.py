"""A disk that fails: nothing acknowledged is lost, nothing unacknowledged stays, and the store goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import apsw
import pytest

from flowagent.core.records import Record, Snapshot, Status
from flowagent.errors import StoreError
from flowagent.stores import SQLiteStore
from tests.stores.children import Child
from tests.stores.faults import Disk


def broken() -> apsw.Error:
    return apsw.IOError("injected: the disk does not answer")


def full() -> apsw.Error:
    return apsw.FullError("injected: no space left")


async def persist(call: Callable[[], Awaitable[object]], failures: list[StoreError]) -> None:
    """Ask again until it works, as a caller would that was told what is wrong."""
    for _ in range(50):
        try:
            await call()
            return
        except StoreError as error:
            failures.append(error)
    raise AssertionError("it never worked")


async def write_a_run(store: SQLiteStore, *, blocking: bool, failures: list[StoreError]) -> list[Record]:
    """Nine records in six appends; after each, what is acknowledged is what is stored."""
    for _ in range(50):
        try:
            lease = await store.create("r", "g", [Record(0, "started", b"{}")], blocking=blocking)
            break
        except StoreError as error:
            failures.append(error)
    else:
        raise AssertionError("it was never made")
    expected = [Record(0, "started", b"{}")]
    for size in (1, 2, 1, 3, 1):
        first = lease.next_seq
        records = [Record(first + n, "done", b"x" * 3000) for n in range(size)]
        status: Status | None = "waiting" if size == 3 else None
        snapshot = Snapshot(first + size - 1, b"s" * 2000) if size == 2 else None
        await persist(lambda: store.append(lease, records, status=status, snapshot=snapshot), failures)  # noqa: B023
        expected += records
        assert lease.next_seq == len(expected)
        assert await store.read("r") == expected
    assert (await store.info("r")).status == "waiting"
    await persist(lambda: store.append(lease, [], status="completed"), failures)
    await persist(lambda: store.release(lease), failures)
    return expected


def whole(path: Path) -> bool:
    connection = apsw.Connection(str(path))
    try:
        return connection.pragma("integrity_check") == "ok"
    finally:
        connection.close()


@pytest.mark.parametrize(("error", "blocking"), [(broken, True), (full, False)])
async def test_each_write_fails_once(
    quick_path: Path, error: Callable[[], apsw.Error], blocking: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever write, flush or cut fails: an error at most, then the same call works, and the journal is whole."""
    told = 0
    number = 0
    while True:
        number += 1
        disk = Disk()

        def fault(touch: int, what: str, number: int = number) -> None:
            if touch == number:
                raise error()

        disk.fault = fault
        store = SQLiteStore(quick_path / f"{number}.db", vfs=disk.name)
        failures: list[StoreError] = []
        expected = await write_a_run(store, blocking=blocking, failures=failures)
        disk.fault = lambda touch, what: None
        assert await store.read("r") == expected
        assert (await store.info("r")).status == "completed"
        await store.close()
        assert whole(quick_path / f"{number}.db")
        assert all(f"SQLite store `{quick_path / str(number)}.db`" in str(failure) for failure in failures)
        told += len(failures)
        if disk.touches < number:
            break
    assert number > 30
    assert told >= number // 2


async def test_a_storm_of_errors_ends(quick_path: Path) -> None:
    """While writes fail at random, nothing acknowledged is lost; when it ends, everything works."""
    for seed in range(8):
        disk = Disk()
        chance = random.Random(seed)

        def fault(touch: int, what: str, chance: random.Random = chance) -> None:
            if chance.random() < 0.03:
                raise broken()

        disk.fault = fault
        store = SQLiteStore(quick_path / f"{seed}.db", vfs=disk.name)
        failures: list[StoreError] = []
        expected = await write_a_run(store, blocking=bool(seed % 2), failures=failures)
        disk.fault = lambda touch, what: None
        await store.close()
        assert await store.read("r") == expected
        assert failures
        await store.close()


async def test_a_failed_flush_leaves_nothing_behind(quick_path: Path) -> None:
    """A record whose flush failed is not there afterwards, for any reader, though its bytes had been written."""
    disk = Disk()
    path = quick_path / "runs.db"
    store = SQLiteStore(path, vfs=disk.name)
    lease = await store.create("r", "g", [Record(0, "started", b"{}")], blocking=True)
    await store.close()
    armed = True

    def fault(touch: int, what: str) -> None:
        nonlocal armed
        if what == "sync" and armed:
            armed = False
            raise broken()

    disk.fault = fault
    with pytest.raises(StoreError, match="the disk reported an error"):
        await store.append(lease, [Record(1, "done", b"lost")], status="completed")
    assert lease.next_seq == 1
    await store.close()
    assert [record.seq for record in await store.read("r")] == [0]
    assert (await store.info("r")).status == "running"
    await store.append(lease, [Record(1, "failed", b"another")])
    assert (await store.read("r", after=0)) == [Record(1, "failed", b"another")]
    await store.close()


async def test_while_the_disk_stays_broken_the_lease_stays_good(quick_path: Path) -> None:
    """Errors go on for a while, close included; the append that works at last stores exactly its records."""
    disk = Disk()
    store = SQLiteStore(quick_path / "runs.db", vfs=disk.name)
    lease = await store.create("r", "g", [Record(0, "started", b"{}")], blocking=True)

    def fault(touch: int, what: str) -> None:
        raise full()

    disk.fault = fault
    for attempt in range(3):
        with pytest.raises(StoreError, match="the disk is full; free some space"):
            await store.append(lease, [Record(1, "done", b"attempt %d" % attempt)])
    with pytest.raises(StoreError):
        await store.release(lease)
    await store.close()
    disk.fault = lambda touch, what: None
    await store.append(lease, [Record(1, "done", b"at last")])
    assert await store.read("r", after=0) == [Record(1, "done", b"at last")]
    await store.release(lease)
    await store.close()


async def test_a_claim_whose_commit_fails_holds_nothing(quick_path: Path) -> None:
    """After a claim that could not be saved, the same process can claim the run."""
    disk = Disk()
    store = SQLiteStore(quick_path / "runs.db", vfs=disk.name)
    await store.release(await store.create("r", "g", [Record(0, "started", b"{}")]))

    def fault(touch: int, what: str) -> None:
        raise broken()

    for blocking in (True, False):
        for take in (store.claim, store.resume):
            disk.fault = fault
            with pytest.raises(StoreError) as caught:
                await take("r", blocking=blocking)
            disk.fault = lambda touch, what: None
            lease = await store.claim("r")
            assert lease.next_seq == 1
            await store.release(lease)
            del caught
    await store.close()


async def test_a_completed_run_is_resumed_from_a_file_that_cannot_be_written(quick_path: Path) -> None:
    """It is only read, so it need not matter who holds the lock; a run that could go on is refused."""
    store = SQLiteStore(quick_path / "runs.db", busy_timeout=0.01)
    for run_id, status in (("done", "completed"), ("open", "waiting")):
        lease = await store.create(run_id, "g", [Record(0, "started", b"{}")])
        await store.append(lease, [], status=cast("Status", status))
        await store.release(lease)
    await store.close()
    other = apsw.Connection(str(quick_path / "runs.db"))
    other.execute("BEGIN IMMEDIATE")
    for blocking in (True, False):
        assert await store.resume("done", blocking=blocking) == (None, await store.past("done"))
        with pytest.raises(StoreError, match="stayed locked by another process"):
            await store.resume("open", blocking=blocking)
    other.execute("ROLLBACK")
    assert (await store.resume("open"))[0] is not None
    other.close()
    await store.close()


async def test_a_group_that_fails_fails_each_caller(quick_path: Path) -> None:
    """When a shared commit fails, each of its callers gets an error of its own, and each can go on."""
    disk = Disk()
    store = SQLiteStore(quick_path / "runs.db", vfs=disk.name)
    leases = [await store.create(f"r{n}", "g", [Record(0, "started", b"{}")]) for n in range(5)]

    def fault(touch: int, what: str) -> None:
        raise broken()

    disk.fault = fault
    tasks = [store.append(lease, [Record(1, "done", b"{}")]) for lease in leases]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    disk.fault = lambda touch, what: None
    assert [type(outcome) for outcome in outcomes] == [StoreError] * 5
    assert len({id(outcome) for outcome in outcomes}) == 5
    await asyncio.gather(*(store.append(lease, [Record(1, "done", b"{}")]) for lease in leases))
    assert [len(await store.read(f"r{n}")) for n in range(5)] == [2] * 5
    await store.close()


async def test_a_full_disk_is_told_and_survived(quick_path: Path) -> None:
    """When the system really refuses to let the file grow, the append raises; with room again, it works."""
    script = """
        import resource

        async def main():
            store = SQLiteStore(path)
            lease = await store.create("r", "g", [Record(0, "started", b"{}")], blocking=True)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
            try:
                while True:
                    await store.append(lease, [Record(lease.next_seq, "done", b"x" * 5000)])
            except StoreError as error:
                say(type(error).__name__, lease.next_seq > 10)
            stored = lease.next_seq
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            say(len(await store.read("r")) == stored)
            await store.append(lease, [Record(stored, "ended", b"{}")], status="completed")
            say(len(await store.read("r")) == stored + 1)

        asyncio.run(main())
    """
    async with Child(script, quick_path / "runs.db") as child:
        assert await child.line() == "StoreError True"
        assert await child.line() == "True"
        assert await child.line() == "True"
        assert await child.end() == 0
