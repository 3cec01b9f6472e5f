"""Everything that a SQLite store can be asked to write, each as one `Write`."""

# ruff: noqa: D102 - what `work`, `landed` and `doubted` are for is told in `Write`
# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TypeVar

import apsw

from flowagent.core.records import Past, Record, Snapshot, Status
from flowagent.errors import RunConflict
from flowagent.stores import owner, rules, sqlite_journal, sqlite_runs, sqlite_snapshots
from flowagent.stores.sqlite_database import Database, HeldLease, Write
from flowagent.stores.sqlite_journal import Birth, RecordRow
from flowagent.stores.sqlite_runs import Grip, Row

T = TypeVar("T")


class _Hold(Write[T]):
    """A write that ends in a lease."""

    holds = True

    def __init__(self, database: Database, *, blocking: bool) -> None:
        super().__init__(database)
        self._blocking = blocking
        self._grip: Grip | None = None

    def hold(self, grip: Grip, next_seq: int) -> HeldLease:
        # Before the commit: a claim in the same transaction must find it held.
        self._grip = grip
        return self.database.hold(grip, next_seq, blocking=self._blocking)

    def doubted(self) -> Write[None] | None:
        if self._grip is None:
            return None
        self.database.forget(self._grip.key)
        return GiveBack(self.database, self._grip)


class Create(_Hold[HeldLease]):
    """Make a run and hold it."""

    makes = True

    def __init__(self, database: Database, birth: Birth, *, blocking: bool, durable: bool) -> None:
        super().__init__(database, blocking=blocking)
        self._birth = birth
        self.durable = durable

    @property
    def size(self) -> int:
        return _size(self._birth.records, None)

    def work(self, cursor: apsw.Cursor) -> HeldLease:
        return self.hold(*sqlite_journal.create(cursor, self.database.label, self._birth, self.database.me))


class Claim(_Hold[HeldLease]):
    """Hold a run that nobody alive holds."""

    def __init__(self, database: Database, run_id: str, *, blocking: bool) -> None:
        super().__init__(database, blocking=blocking)
        self._run_id = run_id

    def work(self, cursor: apsw.Cursor) -> HeldLease:
        label = self.database.label
        row = sqlite_runs.find(cursor, label, self._run_id)
        rules.check_format(label, row.run_id, row.format)
        refuse_held(self.database, row)
        seq = sqlite_journal.next_seq(cursor, label, row)
        return self.hold(sqlite_runs.claim(cursor, label, row, seq, self.database.me), seq)


class Resume(_Hold[tuple[HeldLease | None, Past]]):
    """Hold a run that nobody alive holds and read it; one that is completed is read alone."""

    def __init__(self, database: Database, run_id: str, *, blocking: bool) -> None:
        super().__init__(database, blocking=blocking)
        self._run_id = run_id

    def work(self, cursor: apsw.Cursor) -> tuple[HeldLease | None, Past]:
        database = self.database
        row = sqlite_runs.find(cursor, database.label, self._run_id)
        rules.check_format(database.label, row.run_id, row.format)
        if row.status != "completed":
            refuse_held(database, row)
        seq = sqlite_journal.next_seq(cursor, database.label, row)
        past = sqlite_journal.past(cursor, database.label, row, seq, held=database.is_held(row))
        if row.status == "completed":
            return None, past
        return self.hold(sqlite_runs.claim(cursor, database.label, row, seq, database.me), seq), past


class Append(Write[None]):
    """Append records, and a status and a snapshot with them."""

    def __init__(
        self,
        lease: HeldLease,
        records: Sequence[Record],
        status: Status | None,
        snapshot: Snapshot | None,
        *,
        durable: bool,
    ) -> None:
        self.database = lease.database
        self.durable = durable
        self._lease = lease
        self._records = records
        self._status: Status | None = status
        self._snapshot = snapshot

    @property
    def looks(self) -> bool:
        return self._status is not None  # nobody is told of an end that is in no file

    @property
    def single(self) -> bool:
        is_short = len(self._records) <= sqlite_journal.MOST_AT_ONCE
        return is_short and self._status is None and self._snapshot is None and not self._lease.unsure

    @property
    def size(self) -> int:
        return _size(self._records, self._snapshot)

    def work(self, cursor: apsw.Cursor) -> None:
        lease = self._lease
        if lease.unsure:
            sqlite_journal.undo(cursor, lease.grip, lease.next_seq, lease.status)
        sqlite_journal.insert(cursor, lease.grip, self._records, lease.next_seq)
        if self._status is not None or self._snapshot is not None:
            self.rest(cursor)

    def rows(self) -> Sequence[RecordRow] | None:
        lease = self._lease
        return None if lease.unsure else sqlite_journal.rows_of(lease.grip, self._records, lease.next_seq)

    def rest(self, cursor: apsw.Cursor) -> None:
        lease = self._lease
        if self._status is not None:
            sqlite_journal.set_status(cursor, lease.grip, self._status, lease.next_seq + len(self._records))
        if self._snapshot is not None:
            sqlite_snapshots.save(cursor, lease.grip, self._snapshot)

    def landed(self) -> None:
        # Here, and not where the outcome is awaited: nobody may be waiting any more.
        lease = self._lease
        lease.unsure = False
        lease.next_seq += len(self._records)
        if self._status is not None:
            lease.status = self._status

    def doubted(self) -> Write[None]:
        self._lease.unsure = True
        return Undo(self._lease)


class Undo(Write[None]):
    """Make true that nothing was stored by an append whose commit failed."""

    durable = True

    def __init__(self, lease: HeldLease) -> None:
        super().__init__(lease.database)
        self._lease = lease

    def work(self, cursor: apsw.Cursor) -> None:
        sqlite_journal.undo(cursor, self._lease.grip, self._lease.next_seq, self._lease.status)

    def landed(self) -> None:
        self._lease.unsure = False


class GiveBack(Write[None]):
    """Let go of a run that may have been taken hold of by a write whose commit failed."""

    def __init__(self, database: Database, grip: Grip) -> None:
        super().__init__(database)
        self._grip = grip

    def work(self, cursor: apsw.Cursor) -> None:
        sqlite_runs.release(cursor, self._grip.key, self._grip.epoch, 0)


class Release(Write[None]):
    """Let go of a run."""

    def __init__(self, lease: HeldLease) -> None:
        super().__init__(lease.database)
        self._lease = lease

    def work(self, cursor: apsw.Cursor) -> None:
        lease = self._lease
        if lease.unsure:
            with contextlib.suppress(RunConflict):  # Taken over: it is the new owner's now, with all that is in it.
                sqlite_journal.undo(cursor, lease.grip, lease.next_seq, lease.status)
        sqlite_runs.release(cursor, lease.grip.key, lease.grip.epoch, lease.next_seq)

    def landed(self) -> None:
        self.database.let_go(self._lease)


class AskToCancel(Write[Row | None]):
    """Leave a request to cancel for a run's owner; the run, or None when nobody holds it."""

    def __init__(self, database: Database, run_id: str) -> None:
        super().__init__(database)
        self._run_id = run_id

    def work(self, cursor: apsw.Cursor) -> Row | None:
        row = sqlite_runs.find(cursor, self.database.label, self._run_id)
        if not self.database.is_held(row):
            return None
        if row.owner != self.database.me:
            sqlite_runs.ask_to_cancel(cursor, row.key)
        return row


class Delete(Write[None]):
    """Remove a run that nobody holds."""

    durable = True

    def __init__(self, database: Database, run_id: str) -> None:
        super().__init__(database)
        self._run_id = run_id

    def work(self, cursor: apsw.Cursor) -> None:
        row = sqlite_runs.find(cursor, self.database.label, self._run_id)
        refuse_held(self.database, row)
        sqlite_runs.delete(cursor, self.database.label, row)


class Vacuum(Write[bool]):
    """Give some free pages back to the disk; whether there are more. In small parts, so that others get between."""

    def work(self, cursor: apsw.Cursor) -> bool:
        cursor.execute("PRAGMA incremental_vacuum(500)").fetchall()
        return bool(cursor.execute("PRAGMA freelist_count").get)


def refuse_held(database: Database, row: Row) -> None:
    """Refuse to touch a run that a live owner holds.

    Raises:
        RunConflict: somebody does, in this process or another.
    """
    if database.is_held(row):
        mine = row.owner == database.me
        holder = "another call in this process" if mine else owner.describe(row.owner or "")
        raise rules.held(database.label, row.run_id, holder)


def _size(records: Sequence[Record], snapshot: Snapshot | None) -> int:
    return sum([len(record.data) for record in records]) + (0 if snapshot is None else len(snapshot.data))
