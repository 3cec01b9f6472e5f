"""What the campaigns found, each in the smallest form."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from flowagent import Context, Graph, Retry, State, Update
from flowagent.core.loops import run_blocking
from flowagent.core.records import Record
from flowagent.errors import RunConflict, RunNotFound, StoreError
from flowagent.stores import SQLiteStore, owner, sqlite_runs
from flowagent.stores.owner import Owner
from flowagent.stores.sqlite_file import Place, told
from tests.chaos.layer import Layer, Operation
from tests.chaos.processes import Worker
from tests.chaos.workers import sleep


class Count(State):
    n: int = 0


class Full(Layer):
    """A disk that is full while `is_full`, which may be for one write alone."""

    def __init__(self, *, once: bool = False) -> None:
        super().__init__()
        self.is_full = False
        self._once = once

    def do(self, operation: Operation, go: Callable[..., Any]) -> Any:
        if self.is_full and operation.kind == "write":
            self.is_full = not self._once
            raise apsw.FullError("injected: no space left")
        return go()


def test_whoever_holds_the_error_can_go_on(quick_path: Path) -> None:
    """The end of a run could not be stored: the caller frees space where it handles the error, and goes on there."""
    disk = Full()
    store = SQLiteStore(quick_path / "runs.db", vfs=disk.name)
    told: list[str] = []
    g = Graph("count", Count)

    @g.node
    def up(count: Count) -> Update:
        disk.is_full = not told
        return {"n": count.n + 1}

    g.chain("START", up, "END")
    try:
        g.run_sync(run_id="r", store=store)
    except StoreError as error:
        told.append(str(error))
        disk.is_full = False
        assert g.resume_sync("r", store=store).status == "completed"
    assert "free some space" in told[0]
    assert run_blocking(store.info("r")).status == "completed"
    run_blocking(store.close())


@pytest.mark.parametrize("how", ["step", "sleep", "ask"])
def test_what_a_node_could_not_record_is_no_failure_of_the_node(quick_path: Path, how: str) -> None:
    """A full disk in the middle of a node is told as such; the node is neither failed nor tried again."""
    disk = Full(once=True)
    store = SQLiteStore(quick_path / "runs.db", vfs=disk.name)
    calls: list[int] = []
    g = Graph("middle", Count)

    @g.node(retry=Retry(attempts=3, backoff=0))
    async def work(count: Count, ctx: Context[Any, Count]) -> Update:
        calls.append(ctx.attempt)
        disk.is_full = len(calls) == 1
        match how:
            case "step":
                await ctx.step("one", lambda: 1)
            case "sleep":
                await ctx.sleep(0.001)
            case _:
                await ctx.ask("enough", "is it enough?", bool)
        return {"n": 1}

    g.chain("START", work, "END")
    with pytest.raises(StoreError, match="free some space"):
        g.run_sync(run_id="r", store=store)
    disk.is_full = False
    run = g.resume_sync("r", store=store)
    if how == "ask":
        run = g.resume_sync(run, answers={question.id: True for question in run.questions})
    assert (run.status, run.state.n) == ("completed", 1)
    assert [step.kind for step in run.history if step.kind == "failed"] == []
    assert set(calls) == {1}
    run_blocking(store.close())


def test_a_process_that_holds_nothing_keeps_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is a day ahead clears away no living process of this machine; one whose lease ran out it does."""
    here = Owner.parse(owner.this_process())
    assert here is not None
    alive, late = (str(here._replace(started=name)) for name in ("alive", "late"))

    def is_dead(name: str) -> bool:
        return False

    monkeypatch.setattr(owner, "is_dead", is_dead)
    store = SQLiteStore(tmp_path / "runs.db")
    run_blocking(store.create("r", "g", [Record(0, "started", b"{}")], blocking=True))
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    cursor = connection.cursor()
    sqlite_runs.keep_alive(cursor, alive, 30.0)
    sqlite_runs.keep_alive(cursor, late, -1.0)
    now = time.time()
    monkeypatch.setattr(sqlite_runs.time, "time", lambda: now + 86400)
    sqlite_runs.sign_in(cursor, "another/machine/1/1", 30.0)
    names = {name for (name,) in connection.execute("SELECT owner FROM owners")}
    assert names == {owner.this_process(), alive, "another/machine/1/1"}
    connection.close()
    run_blocking(store.close())


@pytest.mark.parametrize(("before", "after"), [(1.0, 0.0), (0.0, -1.0), (-1.0, 1.0)])
def test_a_sleep_is_never_longer_than_it_was_to_be(quick_path: Path, before: float, after: float) -> None:
    """A process recorded its wake time by a clock that was a day ahead: another one does not wait for that day."""
    with Worker(sleep, quick_path, before, 0.0) as sleeper:
        store = SQLiteStore(quick_path / "runs.db")
        while not (quick_path / "runs.db").exists() or not asleep(store):
            time.sleep(0.002)
        sleeper.kill()
    run_blocking(store.close())
    with Worker(sleep, quick_path, after, 0.0) as sleeper:
        assert sleeper.hear() == ("completed", "1")


def asleep(store: SQLiteStore) -> bool:
    infos = run_blocking(store.runs())
    return any(record.kind == "memo" for info in infos for record in run_blocking(store.read(info.run_id)))


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (apsw.ProtocolError(), "raise busy_timeout="),
        (apsw.NoMemError(), "free some memory"),
        (apsw.SQLError(), "make the call again"),
    ],
)
def test_every_error_of_sqlite_says_what_to_do(tmp_path: Path, error: apsw.Error, remedy: str) -> None:
    """Locks that could not be had, memory that ran out, and what nobody thought of."""
    place = Place(path=tmp_path / "runs.db", label="SQLite store `runs.db`", busy_timeout=1.0, vfs=None)
    assert remedy in str(told(place, error))


def test_a_release_that_cannot_be_stored_lets_go_all_the_same(quick_path: Path) -> None:
    """This process may claim the run again at once; the heartbeat gives it back for the others."""
    disk = Full()
    store = SQLiteStore(quick_path / "runs.db", vfs=disk.name)
    lease = run_blocking(store.create("r", "g", [Record(0, "started", b"{}")], blocking=True))
    disk.is_full = True
    with pytest.raises(StoreError, match="free some space"):
        run_blocking(store.release(lease))
    disk.is_full = False
    assert run_blocking(store.info("r")).status == "interrupted"
    store._database().beat()
    assert run_blocking(store.info("r")).owner is None
    again = run_blocking(store.claim("r"))
    with pytest.raises(RunConflict, match="no longer holds run `r`"):
        run_blocking(store.append(lease, [Record(1, "done", b"{}")]))
    run_blocking(store.release(again))
    run_blocking(store.close())


def test_a_file_that_was_being_made_when_the_power_failed_is_made_anew(tmp_path: Path) -> None:
    """Its length had reached the disk and its bytes had not; beside it SQLite's journal says that it had no page."""
    path = tmp_path / "runs.db"
    path.write_bytes(bytes(4096))
    with pytest.raises(StoreError, match="is not a SQLite database"):
        run_blocking(SQLiteStore(path).info("r"))
    numbers = (0, 0xC89321F9, 0, 512, 4096)  # records, nonce, pages before, sector, page
    journal = bytes.fromhex("d9d505f920a163d7") + b"".join(number.to_bytes(4, "big") for number in numbers)
    (tmp_path / "runs.db-journal").write_bytes(journal.ljust(512, b"\0"))
    with pytest.raises(RunNotFound):
        run_blocking(SQLiteStore(path).info("r"))
    store = SQLiteStore(path)
    lease = run_blocking(store.create("r", "g", [Record(0, "started", b"{}")], blocking=True))
    run_blocking(store.release(lease))
    assert run_blocking(store.read("r")) == [Record(0, "started", b"{}")]
    run_blocking(store.close())
    assert [file.name for file in tmp_path.iterdir()] == ["runs.db"]


def test_a_file_whose_first_journal_is_torn_is_made_anew(tmp_path: Path) -> None:
    """The journal of its making had six bytes when the disk failed: SQLite takes nothing back and goes on."""
    path = tmp_path / "runs.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (x); DROP TABLE t; VACUUM")
    connection.close()
    (tmp_path / "runs.db-journal").write_bytes(bytes.fromhex("d9d505f920a1").ljust(4616, b"\0"))
    with pytest.raises(RunNotFound):
        run_blocking(SQLiteStore(path).info("r"))
    store = SQLiteStore(path)
    run_blocking(store.release(run_blocking(store.create("r", "g", [Record(0, "started", b"{}")], blocking=True))))
    assert run_blocking(store.read("r")) == [Record(0, "started", b"{}")]
    run_blocking(store.close())
    assert [file.name for file in tmp_path.iterdir()] == ["runs.db"]
