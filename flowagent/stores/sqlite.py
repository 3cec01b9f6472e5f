"""The store on disk: one SQLite file, safe against power cuts, full disks and other processes."""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

import apsw

from flowagent.core.records import Past, Record, RunInfo, Snapshot, Status
from flowagent.errors import StoreError
from flowagent.stores import rules, sqlite_journal, sqlite_runs, sqlite_snapshots, sqlite_writes
from flowagent.stores.base import Lease
from flowagent.stores.sqlite_database import Database, HeldLease
from flowagent.stores.sqlite_file import Place, is_absent
from flowagent.stores.sqlite_journal import Birth
from flowagent.stores.sqlite_shared import shared


class SQLiteStore:
    """Keeps runs in a SQLite file, which is made when the first run is.

    Several processes may use one file, on one machine. A record is on the disk before `append` returns (unless
    `durable=False`); a run whose process died can be taken over at once by any process of the same machine.

    Args:
        path: the file; `~` is the home directory. Its directories are made too, for its owner's eyes only.
        busy_timeout: how long to wait for another process's write, in seconds.
        lease: for how long a process that stopped answering keeps its runs, in seconds. Stores of one process
            that name one file keep to the longest of their times.
        vfs: the name of a registered SQLite file layer, for tests and for encryption; None is the system's.

    Example:
        >>> import asyncio, tempfile
        >>> from flowagent.core.records import Record
        >>> async def main(path: str) -> list[Record]:
        ...     store = SQLiteStore(path)
        ...     lease = await store.create("r-1", "triage", [Record(0, "started", b"{}")])
        ...     await store.append(lease, [Record(1, "ended", b"{}")], status="completed")
        ...     await store.release(lease)
        ...     await store.close()
        ...     return await store.read("r-1", after=0)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     asyncio.run(main(directory + "/runs.db"))
        [Record(seq=1, kind='ended', data=b'{}')]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 10.0,
        lease: float = 30.0,
        vfs: str | None = None,
    ) -> None:
        given = os.fspath(path)
        if given in {"", ":memory:"} or "\0" in given:
            raise StoreError(f"{given!r} is no path of a file; give one such as `runs.db`, or use MemoryStore()")
        place = Path(given).expanduser().resolve()
        self._place = Place(path=place, label=f"SQLite store `{given}`", busy_timeout=busy_timeout, vfs=vfs)
        self._lease = lease
        self._shared = shared(self._place, lease)

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self._place.path)!r})"

    @property
    def name(self) -> str:
        """What to call this store in messages."""
        return self._place.label

    async def create(
        self,
        run_id: str,
        graph: str,
        records: Sequence[Record],
        *,
        blocking: bool = False,
        durable: bool = True,
        parent: str | None = None,
        parent_seq: int = -1,
    ) -> Lease:
        """Insert a new run with its first records and hold it; see `Store.create`."""
        birth = Birth(run_id=run_id, graph=graph, records=records, parent=parent, parent_seq=parent_seq)
        database = self._database()
        create = sqlite_writes.Create(database, birth, blocking=blocking, durable=durable)
        return await database.write(create, blocking=blocking)

    async def claim(self, run_id: str, *, blocking: bool = False) -> Lease:
        """Take hold of a stored run; see `Store.claim`."""
        database = self._there(run_id)
        return await database.write(sqlite_writes.Claim(database, run_id, blocking=blocking), blocking=blocking)

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        """Take hold of a stored run and read it; see `Store.resume`."""
        database = self._there(run_id)
        try:
            return await database.write(sqlite_writes.Resume(database, run_id, blocking=blocking), blocking=blocking)
        except StoreError:
            # A completed run is only read, so it need not matter that the file is locked, full or read-only.
            with contextlib.suppress(StoreError):
                past = await self.past(run_id)
                if past.info.status == "completed":
                    return None, past
            raise

    async def append(
        self,
        lease: Lease,
        records: Sequence[Record],
        *,
        status: Status | None = None,
        snapshot: Snapshot | None = None,
        durable: bool = True,
    ) -> None:
        """Append records, all or none; see `Store.append`.

        A caller that is cancelled meanwhile is told so when the records are stored or refused, not before:
        `lease.next_seq` tells which.
        """
        append = sqlite_writes.Append(self._own(lease), records, status, snapshot, durable=durable)
        if lease.blocking:
            append.database.write_here(append)
        else:
            await append.database.write_beside(append)

    async def release(self, lease: Lease) -> None:
        """Let go of a run; see `Store.release`.

        When that cannot be stored, this process has let go of it all the same, and the heartbeat tells the others.
        """
        held = self._own(lease)
        try:
            await held.database.write(sqlite_writes.Release(held), blocking=lease.blocking)
        except StoreError:
            held.database.drop(held)
            raise

    async def info(self, run_id: str) -> RunInfo:
        """What is known of one run; see `Store.info`."""
        database = self._database()

        def work(connection: apsw.Connection) -> RunInfo:
            cursor = connection.cursor()
            row = sqlite_runs.find(cursor, self.name, run_id)
            return sqlite_runs.info(row, sqlite_journal.next_seq(cursor, self.name, row), held=database.is_held(row))

        return await database.read(work, absent=self._absent(run_id))

    async def past(self, run_id: str) -> Past:
        """What is needed to know where a run stands; see `Store.past`."""
        database = self._database()

        def work(connection: apsw.Connection) -> Past:
            cursor = connection.cursor()
            row = sqlite_runs.find(cursor, self.name, run_id)
            seq = sqlite_journal.next_seq(cursor, self.name, row)
            return sqlite_journal.past(cursor, self.name, row, seq, held=database.is_held(row))

        return await database.read(work, absent=self._absent(run_id))

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        """The records of a run, those shared with a parent included; see `Store.read`."""

        def work(connection: apsw.Connection) -> list[Record]:
            cursor = connection.cursor()
            return sqlite_journal.read(cursor, self.name, sqlite_runs.find(cursor, self.name, run_id), after, upto)

        return await self._database().read(work, absent=self._absent(run_id))

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """The newest snapshot of a run that is whole, or None."""

        def work(connection: apsw.Connection) -> Snapshot | None:
            cursor = connection.cursor()
            return sqlite_snapshots.newest(cursor, sqlite_runs.find(cursor, self.name, run_id))

        return await self._database().read(work, absent=self._absent(run_id))

    async def runs(
        self, *, graph: str | None = None, statuses: Sequence[Status] = (), limit: int | None = None
    ) -> list[RunInfo]:
        """The runs of this store, the newest first; see `Store.runs`."""
        database = self._database()
        query = sqlite_runs.Query(graph, tuple(statuses), limit)

        others: dict[str | None, bool] = {}

        def is_held(row: sqlite_runs.Row) -> bool:
            if row.owner == database.me:
                return database.is_held(row)
            if row.owner not in others:
                others[row.owner] = row.is_held()  # All runs of one process stand or fall together.
            return others[row.owner]

        def work(connection: apsw.Connection) -> list[RunInfo]:
            return sqlite_runs.listed(connection, self.name, query, is_held)

        return await database.read(work, absent=list)

    async def request_cancel(self, run_id: str) -> bool:
        """Ask the owner of a run to cancel it; see `Store.request_cancel`."""
        database = self._there(run_id)
        row = await database.write(sqlite_writes.AskToCancel(database, run_id), blocking=False)
        lease = None if row is None else database.lease_of(row.key)
        if lease is not None:
            lease.ask_to_cancel()
        return row is not None

    async def delete(self, run_id: str) -> None:
        """Remove a run, and give its space back to the disk; see `Store.delete`."""
        database = self._there(run_id)
        await database.write(sqlite_writes.Delete(database, run_id), blocking=False)
        while await database.write(sqlite_writes.Vacuum(database), blocking=False):
            pass

    async def close(self) -> None:
        """Close the file for this whole process; the next use opens it again, and leases stay good."""
        await self._database().close()

    def _database(self) -> Database:
        """The database of this process: after a fork, a child opens its own."""
        if self._shared.pid != os.getpid():
            self._shared = shared(self._place, self._lease)
        return self._shared

    def _own(self, lease: Lease) -> HeldLease:
        if not isinstance(lease, HeldLease) or lease.database is not self._database():
            raise StoreError(
                f"the lease on run `{lease.run_id}` was not granted by {self.name} in this process; claim the run here"
            )
        return lease

    def _absent(self, run_id: str) -> Callable[[], NoReturn]:
        def absent() -> NoReturn:
            raise rules.not_found(self.name, run_id)

        return absent

    def _there(self, run_id: str) -> Database:
        """The database, for what needs a stored run: asking after one that is not there makes no file."""
        if is_absent(self._place):
            raise rules.not_found(self.name, run_id)
        return self._database()


_STORES: Final[dict[str, SQLiteStore]] = {}


def store_at(path: str) -> SQLiteStore:
    """The store of a path, the same one each time it is asked for."""
    # By the path as it is written and where it starts from: to follow links each time would cost more.
    key = path if path.startswith("/") else f"{Path.cwd()}/{path}"
    store = _STORES.get(key)
    if store is None:
        store = _STORES[key] = SQLiteStore(path)
    return store
