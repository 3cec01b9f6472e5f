"""Writes a run's records: gathers them, commits them in order, and adds a snapshot when one is due."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic_core import to_json

from flowagent.core.machine import Machine
from flowagent.core.policies import Durability
from flowagent.core.position import export
from flowagent.core.records import Record, RecordKind, Snapshot, Status

if TYPE_CHECKING:
    from flowagent.stores.base import Lease, Store

_LIGHTEST_SNAPSHOT = 16_384
"""Below so many bytes of records, replaying them is cheaper than a snapshot."""


class Recorder:
    """The pen of one run: what is noted goes into the store with the next commit.

    Args:
        store: where records go.
        lease: the right to append them.
        machine: whose position a snapshot holds; it has been told what is noted.
        durability: what is stored when.
        weight: the bytes of records since the last snapshot, and of that snapshot.

    Attributes:
        noted: how many records there are, stored or not.
    """

    def __init__(
        self, store: Store, lease: Lease, machine: Machine, durability: Durability, weight: tuple[int, int]
    ) -> None:
        self.noted = lease.next_seq
        self._store = store
        self._lease = lease
        self._machine = machine
        self._durability: Durability = durability
        self._pending: list[Record] = []
        self._since_snapshot, self._snapshot_bytes = weight
        self._flushing: asyncio.Future[None] | None = None

    @property
    def must_wait(self) -> bool:
        """Whether something noted has to be stored before user code that may follow from it is called."""
        return bool(self._pending) and self._durability != "exit"

    def note(self, kind: RecordKind, data: bytes) -> None:
        """Add a record to the next commit."""
        self._pending.append(Record(self.noted, kind, data))
        self.noted += 1
        self._since_snapshot += len(data)

    async def flush(self, *, status: Status | None = None, at_once: bool = False) -> None:
        """Have all records in the store, if this run's durability asks for it now."""
        while self._flushing is not None:
            # Shielded, for all who wait share it: one of them that is cancelled must not cancel the others.
            await asyncio.shield(self._flushing)
        if not (self._pending or status) or (self._durability == "exit" and not (status or at_once)):
            return
        durable = self._durability != "fast" or at_once
        # The record that ends a call says why it stopped, so it stands after the last snapshot, where it is found.
        snapshot = None if status else self._snapshot_if_due()
        batch, self._pending = self._pending, []
        if not self._lease.blocking:
            # Others may note and flush more meanwhile: they wait above, so that batches stay in order.
            self._flushing = asyncio.get_running_loop().create_future()
        try:
            await self._store.append(self._lease, batch, status=status, snapshot=snapshot, durable=durable)
        except BaseException:
            # Even a cancelled append is decided when it raises, and the lease says how.
            if batch and self._lease.next_seq <= batch[0].seq:
                self._pending = batch + self._pending
            raise
        finally:
            if self._flushing is not None:
                self._flushing.set_result(None)
                self._flushing = None

    def _snapshot_if_due(self) -> Snapshot | None:
        if self._since_snapshot < max(_LIGHTEST_SNAPSHOT, self._snapshot_bytes):
            return None
        data = to_json(export(self._machine))
        self._since_snapshot, self._snapshot_bytes = 0, len(data)
        return Snapshot(self.noted - 1, data)

    def forget(self) -> None:
        """Drop what is not stored: somebody else owns the run, or it cannot be stored."""
        self._pending.clear()

    async def let_go(self) -> None:
        """Release the run."""
        await self._store.release(self._lease)
