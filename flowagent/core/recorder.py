"""Writes a run's records: gathers them, commits them in order, and adds a snapshot when one is due."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, overload

from pydantic_core import to_json

from flowagent.core import journal
from flowagent.core.facts import Way
from flowagent.core.journal import Done
from flowagent.core.machine import Machine
from flowagent.core.policies import Durability
from flowagent.core.position import export
from flowagent.core.records import Record, RecordKind, Snapshot, Status
from flowagent.core.scope import Task
from flowagent.core.usage import Usage
from flowagent.core.writes import Writes, tupled

if TYPE_CHECKING:
    from flowagent.stores.base import Lease, Store

_LIGHTEST_SNAPSHOT = 8_192
"""Below so many bytes of records, replaying them is cheaper than a snapshot."""


Noted: TypeAlias = "tuple[RecordKind, bytes] | Done"


class Batch(Sequence[Record]):
    """Noted records, written as JSON when they are first looked at.

    Args:
        first: the number of the first.
        noted: kind and JSON of each, or the facts of a finished task.
    """

    def __init__(self, first: int, noted: Sequence[Noted]) -> None:
        self._first = first
        self._noted = noted
        self._records: list[Record] = []

    def __len__(self) -> int:
        return len(self._noted)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._written())

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._written()[index]

    def _written(self) -> list[Record]:
        if not self._records:
            self._records, *_ = _written(self._first, self._noted)
        return self._records


def _written(seq: int, noted: Sequence[Noted], before: str = "") -> tuple[list[Record], int, str]:
    """What was noted as records.

    Args:
        seq: the number of the first.
        noted: kind and JSON of each, or the facts of a finished task.
        before: the task that the record before the first tells to be done, if it tells that.

    Returns:
        The records, how many bytes they are, and `before` for what follows.
    """
    records: list[Record] = []
    size = 0
    for one in noted:
        if len(one) == 2:
            (kind, data), before = one, ""
        else:
            kind, data, before = "done", journal.done_json(one, before), one[0]
        records.append(tupled(Record, (seq, kind, data)))
        size += len(data)
        seq += 1
    return records, size, before


class Recorder:
    """The pen of one run: what is noted goes into the store with the next commit.

    Args:
        store: where records go.
        lease: the right to append them.
        machine: whose position a snapshot holds; it has been told what is noted.
        durability: what is stored when.
        weight: the bytes of records since the last snapshot, and of that snapshot.

    Attributes:
        pending: those that are not stored yet.
        is_ahead: whether they have to be stored before user code that may follow from them is called.
    """

    def __init__(
        self, store: Store, lease: Lease, machine: Machine, durability: Durability, weight: tuple[int, int]
    ) -> None:
        self._first = lease.next_seq
        self._store = store
        self._lease = lease
        self._machine = machine
        self._durability: Durability = durability
        self.is_ahead = durability != "exit"
        self.pending: list[Noted] = []
        self._since_snapshot, last = weight
        self._snapshot_at = max(_LIGHTEST_SNAPSHOT, last)
        self._before = ""
        self._is_flushing = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def noted(self) -> int:
        """How many records there are, stored or not."""
        return self._first + len(self.pending)

    def note(self, kind: RecordKind, data: bytes) -> None:
        """Add a record to the next commit."""
        self.pending.append((kind, data))

    def note_done(
        self, task: Task, writes: Writes, ways: Sequence[Way], at: float, seconds: float, usage: Usage | None
    ) -> None:
        """Add to the next commit that a task is done; see `Done`."""
        parents = task.parents
        ids = (parents[0].id,) if len(parents) == 1 else tuple([parent.id for parent in parents])
        self.pending.append(
            (task.id, task.place, task.scope.topology, ids, task.attempt, writes, ways, at, seconds, usage)
        )

    async def flush(self, *, status: Status | None = None, at_once: bool = False) -> None:
        """Have all records in the store, if this run's durability asks for it now."""
        while self._is_flushing:  # others may note and flush more meanwhile, and batches stay in order
            await self._flushed()
        if not (self.pending or status) or not (self.is_ahead or status or at_once):
            return
        durable = self._durability != "fast" or at_once
        first, snapshot = self._lease.next_seq, None
        batch: Sequence[Record]
        if self.is_ahead:
            batch, size, self._before = _written(first, self.pending, self._before)
            self._since_snapshot += size
            # The record that ends a call says why it stopped, so it stands after the last snapshot, and is found there.
            if self._since_snapshot >= self._snapshot_at and not status:
                snapshot = self._snapshot()
        else:
            batch = Batch(first, self.pending)
        self._first += len(self.pending)
        self.pending = []  # what was noted need not be kept any longer than its record
        self._is_flushing = True
        try:
            await self._store.append(self._lease, batch, status=status, snapshot=snapshot, durable=durable)
        except BaseException:
            # Even a cancelled append is decided when it raises, and the lease says how.
            if self._lease.next_seq <= first:
                again: list[Noted] = [(kind, data) for _, kind, data in batch]
                self.pending = again + self.pending
                self._first = first
            raise
        finally:
            self._is_flushing = False
            while self._waiting:
                waiting = self._waiting.pop()
                if not waiting.done():
                    waiting.set_result(None)

    async def _flushed(self) -> None:
        """Wait until the flush that is under way is over."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _snapshot(self) -> Snapshot:
        data = to_json(export(self._machine))
        self._since_snapshot, self._snapshot_at = 0, max(_LIGHTEST_SNAPSHOT, len(data))
        return Snapshot(self.noted - 1, data)

    def forget(self) -> None:
        """Drop what is not stored: somebody else owns the run, or it cannot be stored."""
        self.pending.clear()

    async def let_go(self) -> None:
        """Release the run."""
        await self._store.release(self._lease)
