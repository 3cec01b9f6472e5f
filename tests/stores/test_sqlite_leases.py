"""How a SQLite store keeps its leases: one line and one beat for all of a process."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from flowagent.core.records import Record
from flowagent.errors import RunConflict
from flowagent.stores import SQLiteStore, heartbeat
from flowagent.stores.heartbeat import Heartbeat
from tests.patience import PATIENCE
from tests.stores.faults import Disk

START = [Record(0, "started", b"{}")]


def lines(path: Path, question: str) -> Sequence[Sequence[object]]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


async def test_a_heartbeat_costs_one_row(tmp_path: Path) -> None:
    """However many runs are held, a beat renews one row and flushes nothing."""
    disk = Disk()
    path = tmp_path / "runs.db"
    store = SQLiteStore(path, vfs=disk.name)
    leases = await asyncio.gather(*(store.create(f"r{n}", "g", START) for n in range(50)))
    before = (await store.info("r0")).lease_until
    connection = store._database()._connection
    assert connection is not None
    changes, syncs = connection.total_changes(), disk.syncs
    assert store._database().beat() == 10.0
    assert connection.total_changes() - changes == 1
    assert disk.syncs == syncs
    assert (await store.info("r49")).lease_until > before
    assert len(lines(path, "SELECT * FROM owners")) == 1
    await asyncio.gather(*(store.release(lease) for lease in leases))  # before their disk goes away
    await store.close()


async def test_a_dropped_lease_is_given_back(tmp_path: Path) -> None:
    """A lease that nobody refers to is given back at the next beat, so that other processes can have the run."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", START)
    await store.append(lease, [Record(1, "done", b"{}")])
    del lease
    gc.collect()
    assert lines(path, "SELECT owner IS NULL FROM runs") == [(0,)]
    assert store._database().beat() == 10.0
    assert lines(path, "SELECT owner IS NULL FROM runs") == [(1,)]
    assert store._database().beat() is None
    await store.close()


async def test_a_late_give_back_does_not_touch_the_new_owner(tmp_path: Path) -> None:
    """When the run of a dropped lease was claimed again before the beat, the beat leaves the new lease alone."""
    store = SQLiteStore(tmp_path / "runs.db")
    lease = await store.create("r", "g", START)
    del lease
    gc.collect()
    new = await store.claim("r")
    store._database().beat()
    with pytest.raises(RunConflict):
        await store.claim("r")
    await store.append(new, [Record(1, "done", b"{}")])
    await store.release(new)
    await store.close()


async def test_an_idle_store_empties_its_log(tmp_path: Path) -> None:
    """When nothing is held any more, the beat moves the log into the file and asks for no other."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", START)
    await store.release(lease)
    log = path.with_name("runs.db-wal")
    assert size(log) > 0
    assert store._database().beat() is None
    assert size(log) == 0
    await store.close()
    assert store._database().beat() is None


def size(path: Path) -> int:
    return path.stat().st_size


async def test_the_lines_of_the_dead_are_removed(tmp_path: Path) -> None:
    """A process that signs in removes the lines of those that hold nothing, and keeps the others'."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    await store.release(await store.create("r", "g", START))
    await store.close()
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO owners VALUES ('old', 1.0, 1.0), ('holder', 1.0, 1.0), ('new', 1e12, 1.0)")
    connection.execute("UPDATE runs SET owner = 'holder'")
    connection.close()
    store._database().renew_at = 0.0
    await store.create("q", "g", START)
    owners = {name for (name,) in lines(path, "SELECT owner FROM owners")}
    assert owners == {"holder", "new", store._database().me}
    await store.close()


async def test_a_failed_claim_signs_in_all_the_same(tmp_path: Path) -> None:
    """A process is signed in even when the first claim of its transaction is refused."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", START)
    store._database().renew_at = 0.0
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM owners")
    connection.close()
    with pytest.raises(RunConflict):
        await store.claim("r")
    assert len(lines(path, "SELECT * FROM owners")) == 1
    assert (await store.info("r")).lease_until > 0
    await store.release(lease)
    await store.close()


async def test_a_beat_that_fails_is_logged_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the leases cannot be renewed it is logged, nothing is lost, and the next beat does it."""
    disk = Disk()
    store = SQLiteStore(tmp_path / "runs.db", vfs=disk.name)
    lease = await store.create("r", "g", START)

    def fault(touch: int, what: str) -> None:
        raise apsw.IOError("injected")

    disk.fault = fault
    assert store._database().beat() == 10.0
    assert f"the leases in {store.name} could not be renewed" in caplog.text
    disk.fault = lambda touch, what: None
    caplog.clear()
    assert store._database().beat() == 10.0
    assert store.name not in caplog.text
    await store.append(lease, [Record(1, "done", b"{}")])
    await store.close()


async def test_a_beat_makes_no_file(tmp_path: Path) -> None:
    """When the file was removed, the heartbeat does not bring it back."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", START)
    await store.close()
    remove(path)
    assert store._database().beat() == 10.0
    del lease
    gc.collect()
    assert store._database().beat() is None
    assert not exists(path)


async def test_a_request_left_by_another_process_is_found(tmp_path: Path) -> None:
    """A beat passes on the requests to cancel that others left in the file, and forgets none."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    lease = await store.create("r", "g", START)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE runs SET cancel = 1")
    connection.close()
    calls: list[str] = []
    store._database().beat()
    lease.on_cancel = lambda: calls.append("asked")
    store._database().beat()
    assert calls == ["asked"]
    assert lease.on_cancel is not None
    await store.release(lease)
    assert lines(path, "SELECT cancel FROM runs") == [(0,)]
    await store.close()


def remove(path: Path) -> None:
    path.unlink()


def exists(path: Path) -> bool:
    return path.exists()


class Counter:
    """Something that beats a few times."""

    def __init__(self, beats: int) -> None:
        self.left = beats
        self.done = threading.Event()
        self.threads: set[int] = set()

    def beat(self) -> float | None:
        self.threads.add(threading.get_ident())
        self.left -= 1
        if self.left == 1:
            raise RuntimeError("a bug somewhere")
        if self.left > 0:
            return 0.001
        self.done.set()
        return None


def test_one_thread_beats_for_all(caplog: pytest.LogCaptureFixture) -> None:
    """One daemon thread serves whatever is watched, outlives an error, and can be asked again later."""
    beating = Heartbeat()
    counters = [Counter(4), Counter(0), Counter(3)]
    for counter in counters:
        beating.watch(counter, 0.0)
        beating.watch(counter, 0.0)
    for counter in counters:
        assert counter.done.wait(PATIENCE)
    assert len({thread for counter in counters for thread in counter.threads}) == 1
    assert caplog.text.count("a heartbeat failed") == 2
    again = Counter(1)
    again.left = 0
    beating.watch(again, 0.0)
    assert again.done.wait(PATIENCE)
    assert beating._thread is not None
    assert beating._thread.daemon


def test_the_thread_is_woken_for_what_comes_sooner() -> None:
    """While it waits for one that is due much later, another that is due now is not kept waiting."""
    beating, later, now = Heartbeat(), Counter(0), Counter(0)
    beating.watch(later, 3600.0)
    beating.watch(now, 0.0)
    assert now.done.wait(PATIENCE)
    assert not later.done.is_set()


def test_a_forked_child_has_a_heartbeat_of_its_own() -> None:
    """What a child does after fork is to start anew: its parent's thread does not exist there."""
    process = heartbeat._Process()
    old = process.heartbeat
    process.renew()
    assert process.heartbeat is not old


async def test_a_store_that_is_dropped_ends_its_threads(tmp_path: Path) -> None:
    """A store that was neither closed nor is referred to any more leaves no thread and no open file."""
    store = SQLiteStore(tmp_path / "runs.db")
    lease = await store.create("r", "g", START)
    await store.release(lease)
    await store.read("r")
    database = store._database()
    threads = [*database._writing._threads, *database.readers._threads._threads]
    assert len(threads) == 2
    connection = database._connection
    heartbeat._PROCESS.heartbeat._due.pop(database, None)
    del store, database, lease
    gc.collect()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()
    assert connection is not None
