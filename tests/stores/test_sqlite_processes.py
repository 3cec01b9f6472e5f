"""Several processes on one file: they wait for each other, one owns a run, and the dead are replaced at once."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import apsw
import pytest

from flowagent.core.records import Record
from flowagent.errors import RunConflict, StoreError
from flowagent.stores import SQLiteStore
from tests.stores.children import Child

START = [Record(0, "started", b"{}")]

HOLDER = """
    async def main():
        store = SQLiteStore(path, lease=float(arguments[0]))
        lease = await store.create("r", "g", [Record(0, "started", b"{}")], blocking=True)
        lease.on_cancel = lambda: say("asked to cancel")
        say("held")
        heard()
        try:
            await store.append(lease, [Record(1, "done", b"{}")])
            say("appended")
        except RunConflict as error:
            say("refused", error)
        heard()

    asyncio.run(main())
"""


def whole(path: Path) -> bool:
    connection = apsw.Connection(str(path))
    try:
        return connection.pragma("integrity_check") == "ok"
    finally:
        connection.close()


async def test_two_writers_and_a_reader(tmp_path: Path) -> None:
    """Two processes append 200 records each while a third lists: no error, 400 records (FA-102)."""
    script = """
        async def main():
            store = SQLiteStore(path)
            blocking = arguments[1] == "True"
            lease = await store.create(arguments[0], "g", [Record(0, "started", b"{}")], blocking=blocking)
            for seq in range(1, 201):
                await store.append(lease, [Record(seq, "done", b"x" * 300)])
            await store.release(lease)
        asyncio.run(main())
        say("done")
    """
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    async with Child(script, path, "a", "True") as a, Child(script, path, "b", "False") as b:
        writing = asyncio.gather(a.line(), b.line())
        longest = 0.0
        while not writing.done():
            started = time.monotonic()
            for run in await store.runs():
                records = await store.read(run.run_id)
                assert [record.seq for record in records] == list(range(len(records)))
            longest = max(longest, time.monotonic() - started)
            await asyncio.sleep(0.01)
        assert await writing == ["done", "done"]
    assert [run.next_seq for run in await store.runs()] == [201, 201]
    assert longest < 10  # what a process waits for a lock, at most
    await store.close()
    assert whole(path)


async def test_read_then_append_never_fails_for_a_stale_read(tmp_path: Path) -> None:
    """Twenty tasks in two processes that read the latest record and then append all succeed (FA-103)."""
    script = """
        async def work(store, run_id):
            lease = await store.create(run_id, "g", [Record(0, "started", b"{}")])
            for _ in range(8):
                latest = (await store.read(run_id))[-1]
                await store.append(lease, [Record(latest.seq + 1, "done", b"{}")])

        async def main():
            store = SQLiteStore(path)
            await asyncio.gather(*(work(store, f"{arguments[0]}{n}") for n in range(10)))
        asyncio.run(main())
        say("done")
    """
    path = tmp_path / "runs.db"
    async with Child(script, path, "a") as a, Child(script, path, "b") as b:
        assert await asyncio.gather(a.line(), b.line()) == ["done", "done"]
    store = SQLiteStore(path)
    assert [run.next_seq for run in await store.runs()] == [9] * 20
    await store.close()


async def test_a_file_that_stays_locked_is_told(tmp_path: Path) -> None:
    """When another program keeps the file locked, the append says so after the timeout, and works afterwards."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path, busy_timeout=0.1)
    lease = await store.create("r", "g", START)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    for blocking in (True, False):
        lease.blocking = blocking
        with pytest.raises(StoreError, match=r"stayed locked by another process for 0\.1 s"):
            await store.append(lease, [Record(1, "done", b"{}")])
        assert [record.seq for record in await store.read("r")] == [0]
    other.execute("ROLLBACK")
    await store.append(lease, [Record(1, "done", b"{}")])
    other.close()
    await store.close()


async def test_of_several_processes_one_gets_the_run(tmp_path: Path) -> None:
    """When processes race for a run, exactly one has it each time, and its epoch is its own."""
    script = """
        async def main():
            store = SQLiteStore(path)
            await store.info("r")
            for _ in range(5):
                say("ready")
                heard()
                try:
                    lease = await store.claim("r", blocking=True)
                    say("won", lease.epoch)
                except RunConflict:
                    lease = None
                    say("lost")
                heard()
                if lease:
                    await store.release(lease)
        asyncio.run(main())
    """
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    await store.release(await store.create("r", "g", START))
    async with Child(script, path) as a, Child(script, path) as b, Child(script, path) as c:
        children = (a, b, c)
        for epoch in range(2, 7):
            assert [await child.line() for child in children] == ["ready"] * 3
            for child in children:
                child.tell()
            assert sorted([await child.line() for child in children]) == ["lost", "lost", f"won {epoch}"]
            for child in children:
                child.tell()
    await store.close()


async def test_the_run_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    """After kill -9 nothing acknowledged is lost and another process claims the run without waiting."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    async with Child(HOLDER, path, "3600") as child:
        assert await child.line() == "held"
        child.tell()
        assert await child.line() == "appended"
        assert (await store.info("r")).status == "running"
        with pytest.raises(RunConflict, match=f"is being advanced by process {child.pid}"):
            await store.claim("r")
        with pytest.raises(RunConflict, match="is being advanced by process"):
            await store.delete("r")
        child.signal(signal.SIGKILL)
        await child.end()
        info = await store.info("r")
        assert (info.status, info.next_seq) == ("interrupted", 2)
        assert [run.run_id for run in await store.runs(statuses=["interrupted"])] == ["r"]
        lease = await store.claim("r")
        assert (lease.epoch, lease.next_seq) == (2, 2)
    await store.release(lease)
    await store.close()


async def test_a_stopped_process_is_fenced(tmp_path: Path) -> None:
    """A process that was stopped longer than its lease finds its run taken: its append is refused."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    async with Child(HOLDER, path, "0.4") as child:
        assert await child.line() == "held"
        child.signal(signal.SIGSTOP)
        with pytest.raises(RunConflict):
            await store.claim("r")
        await asyncio.sleep((await store.info("r")).lease_until - time.time() + 0.05)
        lease = await store.claim("r")
        await store.append(lease, [Record(1, "done", b"ours")])
        child.signal(signal.SIGCONT)
        child.tell()
        answer = await child.line()
        assert answer.startswith("refused this call no longer holds run `r`")
        assert "its epoch was 1; it is 2 now" in answer
    assert await store.read("r", after=0) == [Record(1, "done", b"ours")]
    await store.close()


async def test_a_busy_process_keeps_its_runs(tmp_path: Path) -> None:
    """A process whose event loop is blocked for longer than the lease keeps it: the heartbeat has its own thread."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    async with Child(HOLDER, path, "1.0") as child:
        assert await child.line() == "held"
        await asyncio.sleep(1.3)
        with pytest.raises(RunConflict, match="is being advanced by process"):
            await store.claim("r")
        child.tell()
        assert await child.line() == "appended"
    await store.close()


async def test_a_request_to_cancel_reaches_another_process(tmp_path: Path) -> None:
    """The owner is asked at its next heartbeat, once; a dead owner is not asked."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    async with Child(HOLDER, path, "0.9") as child:
        assert await child.line() == "held"
        assert await store.request_cancel("r") is True
        assert await child.line() == "asked to cancel"
        assert await store.request_cancel("r") is True
        await asyncio.sleep(0.4)
        child.tell()
        assert await child.line() == "appended"
        child.signal(signal.SIGKILL)
        await child.end()
        assert await store.request_cancel("r") is False
    await store.close()


@pytest.mark.parametrize("how", ["return", "raise", "interrupt"])
async def test_an_open_store_never_keeps_a_process_alive(tmp_path: Path, how: str) -> None:
    """A script that closes nothing ends at once, with its own exit code, and what it stored is there (FA-106)."""
    script = """
        import signal

        async def main():
            global store, lease
            store = SQLiteStore(path)
            lease = await store.create("r", "g", [Record(0, "started", b"{}")])
            await store.append(lease, [Record(1, "done", b"{}")])
            await store.read("r")
            say("stored")
            if arguments[0] == "raise":
                raise ValueError("on purpose")
            if arguments[0] == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(60)

        asyncio.run(main())
    """
    path = tmp_path / "runs.db"
    async with Child(script, path, how) as child:
        assert await child.line() == "stored"
        code = await child.end()
        assert code == {"return": 0, "raise": 1, "interrupt": -signal.SIGINT}[how]
        wanted = {"return": "", "raise": "ValueError: on purpose", "interrupt": "KeyboardInterrupt"}[how]
        assert wanted in await child.errors()
    assert [entry.name for entry in path.parent.iterdir()] == ["runs.db"]
    store = SQLiteStore(path)
    assert len(await store.read("r")) == 2
    assert (await store.info("r")).status == "interrupted"
    await store.close()


async def test_a_forked_child_opens_its_own(tmp_path: Path) -> None:
    """A child made by fork cannot write by its parent's lease, has a working store, and harms its parent in nothing."""
    script = """
        import warnings

        async def parent():
            lease = await store.create("r", "g", [Record(0, "started", b"{}")])
            await store.append(lease, [Record(1, "done", b"{}")])
            await store.read("r")
            return lease

        async def child(lease):
            try:
                await store.append(lease, [Record(2, "done", b"the child's")])
            except StoreError as error:
                say("child:", error)
            try:
                await store.claim("r")
            except RunConflict:
                say("child: the run is its parent's")
            say("child: reads", len(await store.read("r")))
            own = await store.create("child", "g", [Record(0, "started", b"{}")])
            await store.append(own, [Record(1, "ended", b"{}")], status="completed")
            await store.release(own)

        async def afterwards(lease):
            for seq in range(2, 50):
                await store.append(lease, [Record(seq, "done", b"{}")])
            say("parent:", (await store.info("child")).status, len(await store.read("r")))

        store = SQLiteStore(path)
        lease = asyncio.run(parent())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            asyncio.run(child(lease))
            sys.exit(0)
        say("parent: child ended with", os.waitpid(pid, 0)[1])
        asyncio.run(afterwards(lease))
    """
    path = tmp_path / "runs.db"
    async with Child(script, path) as child:
        assert "was not granted by SQLite store" in await child.line()
        assert await child.line() == "child: the run is its parent's"
        assert await child.line() == "child: reads 2"
        assert await child.line() == "parent: child ended with 0"
        assert await child.line() == "parent: completed 50"
        assert await child.end() == 0
    assert whole(path)


async def test_a_child_may_outlive_its_parent(tmp_path: Path) -> None:
    """A forked child that ends after its parent leaves the file whole, with all that others wrote meanwhile."""
    script = """
        import warnings

        store = SQLiteStore(path)
        asyncio.run(store.create("r", "g", [Record(0, "started", b"{}")]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            os._exit(0)
        say("child: alone")
        heard()
    """
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    async with Child(script, path) as child:
        assert await child.line() == "child: alone"
        lease = await store.create("other", "g", START)
        for seq in range(1, 30):
            await store.append(lease, [Record(seq, "done", b"x" * 2000)])
        child.tell()
        await child.errors()
        await store.append(lease, [Record(30, "ended", b"{}")], status="completed")
    assert len(await store.read("other")) == 31
    await store.release(lease)
    await store.close()
    assert whole(path)
