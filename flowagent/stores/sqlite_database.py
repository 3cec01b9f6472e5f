"""One database file in one process: the connection that writes, those that read, and the leases held through it.

All stores of a process that name one file share one `Database`, so exactly one connection writes to it and
checkpoints it. Every write is a `Write`; several are committed together when they come from event loops that must
not be blocked, and one alone, on the calling thread, when its caller may wait.
"""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

import apsw

from flowagent.core import loops
from flowagent.core.records import Status
from flowagent.errors import RunConflict, StoreError
from flowagent.stores import heartbeat, owner, sqlite_file, sqlite_journal, sqlite_runs
from flowagent.stores.base import Lease
from flowagent.stores.sqlite_file import Place, identity
from flowagent.stores.sqlite_journal import RecordRow
from flowagent.stores.sqlite_readers import Read, Readers
from flowagent.stores.threads import Call, Job, Threads

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_LOOK_EVERY: Final = 0.25
"""How often an append looks whether the file still has its name, in seconds: at every one that would be dear."""


class HeldLease(Lease):
    """A lease and what is needed to write by it.

    Attributes:
        database: where the run is.
        grip: the run's key and the epoch.
        status: the run's status as it was last stored.
        unsure: whether a commit failed that may have landed: what it left must be undone before the next one.
    """

    __slots__ = ("database", "grip", "status", "unsure")

    def __init__(self, database: Database, grip: sqlite_runs.Grip, next_seq: int, *, blocking: bool) -> None:
        super().__init__(grip.run_id, grip.epoch, next_seq, blocking=blocking)
        self.database = database
        self.grip = grip
        self.status: Status = "running"
        self.unsure = False


class Write(Job[T]):
    """A write to one database.

    Attributes:
        durable: whether a power cut may not lose it.
        holds: whether it takes hold of a run, for which this process must be signed in as an owner.
        makes: whether it makes the file, if there is none.
    """

    durable: bool = False
    holds: bool = False
    makes: bool = False

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def looks(self) -> bool:
        """Whether it must be seen before that the file still has its name; else that is looked at now and then."""
        return True

    @property
    def single(self) -> bool:
        """Whether it is one statement, which SQLite itself does whole or not at all."""
        return False

    def __call__(self) -> None:
        """Commit it, alone."""
        self.database.commit([self])

    @abstractmethod
    def work(self, cursor: apsw.Cursor) -> T:
        """Execute its statements; inside a transaction, maybe among others. May be rolled back afterwards."""

    def rows(self) -> Sequence[RecordRow] | None:
        """The records that it inserts, if they may as well be inserted together with others'; `rest` follows then."""

    def rest(self, cursor: apsw.Cursor) -> None:
        """What it executes after its rows."""

    def landed(self) -> None:
        """Called when it is stored."""

    def doubted(self) -> Write[None] | None:
        """Called when its commit failed, and may have landed all the same; what is to be done about that."""
        return None


class Database:
    """See the module. Make one by `shared`."""

    def __init__(self, place: Place, ttl: float) -> None:
        self.place = place
        self.ttl = ttl
        self._where = str(place.path)
        self.pid = os.getpid()
        self.me = owner.this_process()
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._cursor: apsw.Cursor | None = None
        self._file: tuple[int, int] | None = None
        self._look_at = 0.0
        self._is_durable = True
        self._writing = Threads("flowagent-writer", most=1, together=_commit_together)
        self._closing = Threads("flowagent-closer", most=1)
        self.readers = Readers(place)
        self._held: dict[int, weakref.ref[HeldLease]] = {}
        # Key, epoch and next number of the runs whose lease was dropped without release.
        self.dropped: list[tuple[int, int, int]] = []
        self.renew_at = 0.0

    @property
    def label(self) -> str:
        """What to call the store in messages."""
        return self.place.label

    # ---------------------------------------------------------------------------------------------------- writing

    async def write(self, write: Write[T], *, blocking: bool) -> T:
        """Commit a write: on this thread, or together with others on the writer's.

        Raises:
            StoreError: it could not be saved.
        """
        return self.write_here(write) if blocking else await self.write_beside(write)

    def write_here(self, write: Write[T]) -> T:
        """Commit a write on this thread."""
        self.commit([write])
        return write.result()

    def write_beside(self, write: Write[T]) -> Awaitable[T]:
        """Have a write committed on the writer's thread, to which it goes in this turn of the loop."""
        return self._writing.do(write, gathers=len(self._held) > 1)

    def commit(self, writes: Sequence[Write[Any]]) -> None:
        """Commit writes in one transaction; each notes its own outcome, and none spoils another's."""
        with self._lock:
            mends = self._commit(writes)
            if mends:
                # At once if it can be, or else with the next write by that lease.
                self._commit(mends)

    def _commit(self, writes: Sequence[Write[Any]]) -> list[Write[Any]]:
        try:
            if len(writes) == 1 and writes[0].single:
                self._alone(writes[0])
            else:
                self._together(writes)
        except apsw.Error as error:
            return self._failed(writes, error)
        except StoreError as error:
            for write in writes:
                write.fail(_again(error))
            return []
        except BaseException:
            # Ctrl-C in the middle, on a thread that commits for itself.
            self._doubt(writes)
            raise
        return []

    def _alone(self, write: Write[Any]) -> None:
        # One statement is a transaction by itself, and takes the lock for writing when it begins, as the others do.
        now = time.monotonic()
        if now >= self._look_at:
            self._look(now)
        cursor = self._ready(durable=write.durable)
        try:
            write.work(cursor)
        except apsw.TooBigError as error:  # its own fault, not the file's
            write.fail(sqlite_file.told(self.place, error))
        except apsw.Error:
            raise
        except Exception as error:  # noqa: BLE001  # it is raised where the outcome is awaited
            write.fail(error)
        else:
            write.landed()

    def _together(self, writes: Sequence[Write[Any]]) -> None:
        now = time.monotonic()
        first = writes[0]
        durable, holds, makes, looks = first.durable, first.holds, first.makes, first.looks
        for write in writes[1:]:
            durable, holds = durable or write.durable, holds or write.holds
            makes, looks = makes or write.makes, looks or write.looks
        if looks or now >= self._look_at:
            self._look(now)
        cursor = self._ready(durable=durable, make=makes)
        cursor.execute("BEGIN IMMEDIATE")
        signing = holds and now >= self.renew_at
        if signing:
            # Not a part of any one write: it must stand even if that one is undone.
            sqlite_runs.sign_in(cursor, self.me, self.ttl)
        if len(writes) == 1 and not signing:
            self._attempt_alone(cursor, first)
        elif signing or not self._attempt_all(cursor, writes):
            for write in writes:
                self._attempt(cursor, write)
        cursor.execute("COMMIT")
        if signing:
            self.renew_at = now + self.ttl / 3
        for write in writes:
            if write.error is None:
                write.landed()

    def _attempt_alone(self, cursor: apsw.Cursor, write: Write[Any]) -> None:
        """With nobody else in the transaction, what it did is undone with the transaction: that saves a savepoint."""
        try:
            write.succeed(write.work(cursor))
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, apsw.TooBigError):
                raise
            write.fail(sqlite_file.told(self.place, error) if isinstance(error, apsw.Error) else error)
            cursor.execute("ROLLBACK")
            cursor.execute("BEGIN")

    def _attempt_all(self, cursor: apsw.Cursor, writes: Sequence[Write[Any]]) -> bool:
        """Insert the rows of all by one call and without savepoints, as hardly ever one fails.

        Returns:
            False if that cannot be, or one failed; then nothing has been done.
        """
        rows: list[RecordRow] = []
        try:
            for write in writes:
                own = write.rows()
                if own is None:
                    return False
                rows.extend(own)
        except (RunConflict, StoreError):
            return False  # its numbers are wrong: it is told so when it is tried alone
        try:
            if sqlite_journal.insert_rows(cursor, rows):
                for write in writes:
                    write.rest(cursor)
                    write.succeed(None)
                return True
        except (RunConflict, apsw.ConstraintError, apsw.TooBigError):
            pass  # one of them has lost its run, or is too big; which one shows when each is tried alone
        cursor.execute("ROLLBACK")
        cursor.execute("BEGIN IMMEDIATE")
        return False

    def _attempt(self, cursor: apsw.Cursor, write: Write[Any]) -> None:
        try:
            cursor.execute("SAVEPOINT one")
            write.succeed(write.work(cursor))
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, apsw.TooBigError):
                raise
            # Its own fault, not the file's: it alone is undone.
            write.fail(sqlite_file.told(self.place, error) if isinstance(error, apsw.Error) else error)
            cursor.execute("ROLLBACK TO one")
        cursor.execute("RELEASE one")

    def _failed(self, writes: Sequence[Write[Any]], error: apsw.Error) -> list[Write[Any]]:
        for write in writes:
            if write.error is None:
                write.fail(sqlite_file.told(self.place, error))
        if isinstance(error, apsw.BusyError) and self._connection and not self._connection.in_transaction:
            return []  # It never began.
        return self._doubt(writes)

    def _doubt(self, writes: Sequence[Write[Any]]) -> list[Write[Any]]:
        """Never go on with a connection that failed: its cache may hold what the disk does not."""
        mends = [mend for write in writes if (mend := write.doubted()) is not None]
        self.renew_at = 0.0
        self._let_go()
        return mends

    def _look(self, now: float) -> None:
        """Let go of a file that somebody removed or replaced: what is written to it has no name any more."""
        self._look_at = now + _LOOK_EVERY
        if self._file is not None and identity(self._where) != self._file:
            self._let_go()

    def _ready(self, *, durable: bool, make: bool = False) -> apsw.Cursor:
        cursor = self._cursor
        if cursor is None:
            self._connection = sqlite_file.open_writer(self.place, make=make)
            self._cursor = cursor = self._connection.cursor()
            self._file = identity(self._where)
            self._is_durable = True
        if durable != self._is_durable:
            cursor.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._is_durable = durable
        return cursor

    def _let_go(self) -> None:
        connection, self._connection, self._cursor, self._file = self._connection, None, None, None
        if connection is not None:
            sqlite_file.close(connection)

    async def read(self, work: Callable[[apsw.Connection], T], *, absent: Callable[[], T]) -> T:
        """What `work` gives on a connection that only reads, in one view of the file.

        It is done on a thread, but where the running loop is the engine's own: nobody else waits there.

        Args:
            work: the reading.
            absent: called instead when there is no file yet. (Reading makes none.)

        Raises:
            StoreError: the file could not be read.
        """
        read = Read(work, absent, self._bring_up_to_date)
        return self.readers.read_here(read) if loops.own_loop.get() else await self.readers.read(read)

    def _bring_up_to_date(self) -> None:
        with self._lock, sqlite_file.telling(self.place):
            self._ready(durable=True)  # Opening the file for writing brings it to our format.

    # ----------------------------------------------------------------------------------------------------- leases

    def hold(self, grip: sqlite_runs.Grip, next_seq: int, *, blocking: bool) -> HeldLease:
        """The lease for a run that is being made or claimed, kept alive from now on."""
        lease = HeldLease(self, grip, next_seq, blocking=blocking)
        key = grip.key

        def dropped(ref: weakref.ref[HeldLease], line: tuple[int, int, int] = (key, grip.epoch, next_seq)) -> None:
            # Called in the middle of anything: takes no lock.
            if self._held.get(key) is ref:
                del self._held[key]
                self.dropped.append(line)

        self._held[key] = weakref.ref(lease, dropped)
        heartbeat.watch(self, self.ttl / 3)
        return lease

    def lease_of(self, key: int) -> HeldLease | None:
        """The lease by which this process holds a run."""
        ref = self._held.get(key)
        return ref() if ref is not None else None

    def let_go(self, lease: HeldLease) -> None:
        """Forget a lease that was released, and let it fit no run any more."""
        if self.lease_of(lease.grip.key) is lease:
            self.forget(lease.grip.key)
        lease.grip = lease.grip._replace(key=sqlite_runs.NO_RUN)

    def drop(self, lease: HeldLease) -> None:
        """Hold a run no more whose release could not be stored; the next beat gives it back."""
        if self.lease_of(lease.grip.key) is lease:
            self.forget(lease.grip.key)
            self.dropped.append((lease.grip.key, lease.epoch, lease.next_seq))

    def forget(self, key: int) -> None:
        """Hold a run no more."""
        self._held.pop(key, None)

    def is_held(self, row: sqlite_runs.Row) -> bool:
        """Whether somebody holds a run: here, a lease that is still referred to; elsewhere, a process."""
        if row.owner == self.me:
            return self.lease_of(row.key) is not None
        return row.is_held()

    def beat(self) -> float | None:
        """Keep the leases alive, give back those that nobody refers to, and pass on requests to cancel."""
        if sqlite_file.is_absent(self.place):
            self.dropped.clear()
        if not self._held and not self.dropped:
            self._tidy()
            return None
        self._renew()
        return self.ttl / 3

    def _renew(self) -> None:
        if sqlite_file.is_absent(self.place):
            return  # They went with the file; those who hold a lease are told when they use it.
        beat = Beat(self)
        self.commit([beat])
        if beat.error is not None:
            # The leases may run out; whoever takes a run over is told apart by its epoch, so nothing is harmed.
            _LOG.warning("the leases in %s could not be renewed: %s", self.label, beat.error)
        for key in beat.asked:
            lease = self.lease_of(key)
            if lease is not None:
                lease.ask_to_cancel()

    def _tidy(self) -> None:
        """Nothing is going on: move what is in the log into the file, unless somebody else is at it."""
        with self._lock:
            if self._connection is not None:
                with contextlib.suppress(apsw.Error):  # It is for neatness alone; the next commit may do it.
                    self._connection.set_busy_timeout(0)
                    self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self._connection.set_busy_timeout(int(self.place.busy_timeout * 1000))

    def stretch(self, busy_timeout: float, ttl: float) -> None:
        """Wait as long as the most patient store of this file does."""
        self.ttl = max(ttl, self.ttl)
        if busy_timeout > self.place.busy_timeout:
            self.place = replace(self.place, busy_timeout=busy_timeout)
            with self._lock:
                if self._connection is not None:
                    self._connection.set_busy_timeout(int(busy_timeout * 1000))

    # ---------------------------------------------------------------------------------------------------- closing

    async def close(self) -> None:
        """Commit what is queued, close all connections and end the threads. The next use opens it again."""
        await self._closing.do(Call(self._close))
        self._closing.stop()

    def _close(self) -> None:
        for thread in self._writing.stop():
            thread.join()
        if self.dropped:
            self._renew()
        self.readers.close()
        # Last, so that it is the one to empty the log into the file.
        with self._lock:
            self._let_go()

    def leave(self) -> None:
        """Close at the end of the process, unless a thread is stuck in a commit."""
        if self._lock.acquire(timeout=1.0):
            try:
                self.readers.close()
                self._let_go()
            finally:
                self._lock.release()

    def abandon(self) -> None:
        """Make a child's copies of its parent's connections immortal: to close them there would harm the parent."""
        for held in (*self.readers.idle(), self._connection, self._cursor):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


class Beat(Write[None]):
    """What the heartbeat writes: one row for all leases of the process."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked: list[int] = []
        self._dropped = tuple(database.dropped)
        self._until = time.monotonic() + database.ttl

    def work(self, cursor: apsw.Cursor) -> None:
        """Renew, give back, and look for requests to cancel."""
        for key, epoch, seq in self._dropped:
            sqlite_runs.release(cursor, key, epoch, seq)
        sqlite_runs.keep_alive(cursor, self.database.me, self.database.ttl)
        self.asked = sqlite_runs.asked_to_cancel(cursor, self.database.me)

    def landed(self) -> None:
        """Remember what was done."""
        del self.database.dropped[: len(self._dropped)]
        self.database.renew_at = self._until - self.database.ttl * 2 / 3


def _again(error: StoreError) -> StoreError:
    """The same error for another caller: one object raised in two places would mix up their tracebacks."""
    copy = StoreError(str(error))
    copy.__cause__ = error.__cause__
    return copy


def _commit_together(jobs: Sequence[Job[object]]) -> None:
    writes = cast("Sequence[Write[Any]]", jobs)
    writes[0].database.commit(writes)
