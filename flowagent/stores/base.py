"""What a store must do. A store only stores: it knows records, runs and leases, and nothing of graphs.

Write your own by satisfying `Store`, then run `flowagent.testing.conformance` against it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from flowagent.core.records import Past, Record, RunInfo, Snapshot, Status

_ASKING: Final = threading.Lock()
"""Held while a request to cancel is handed over: one lock for all leases, because it hardly ever happens."""


class Lease:
    """The right to append to one run, held by one owner since one epoch.

    The store that granted it keeps it alive until `Store.release`; it is lost when the process dies, or when
    another owner takes the run over, which bumps the epoch: then the next append raises `RunConflict`. A lease
    that nobody refers to any more is given back in time, but do not wait for that: release it.

    Attributes:
        run_id: the run.
        epoch: the owner's number; it goes into every record.
        next_seq: the number of the next record; `Store.append` moves it.
        blocking: whether the store may commit on the calling thread. True where the loop is the engine's own
            and nothing else runs on it; False where a commit must never block the loop.
    """

    __slots__ = ("__weakref__", "_asked", "_on_cancel", "_told", "blocking", "epoch", "next_seq", "run_id")

    def __init__(self, run_id: str, epoch: int, next_seq: int, *, blocking: bool) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.next_seq = next_seq
        self.blocking = blocking
        self._asked = False
        self._told = False
        self._on_cancel: Callable[[], None] | None = None

    @property
    def on_cancel(self) -> Callable[[], None] | None:
        """Called (from any thread, at most once) when somebody asks to cancel the run; at once if it was asked."""
        return self._on_cancel

    @on_cancel.setter
    def on_cancel(self, callback: Callable[[], None] | None) -> None:
        self._on_cancel = callback
        if self._asked:
            self.ask_to_cancel()

    def ask_to_cancel(self) -> None:
        """Pass on a request to cancel; for stores. One that comes before there is a callback waits for it."""
        with _ASKING:
            self._asked = True
            callback = None if self._told else self._on_cancel
            self._told = self._told or callback is not None
        if callback is not None:
            callback()


class Store(Protocol):
    """Where journals are kept. All methods may be called from any event loop and any thread.

    A store with an attribute `keeps_secrets` that is true says that nobody can read what it keeps: because it encrypts
    it, or because it never leaves the process. States with secret fields are kept in no other.
    """

    @property
    def name(self) -> str:
        """What to call this store in messages, such as "SQLite store `runs.db`"."""
        ...

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
        """Insert a new run with its first records, status `running`, and hold it.

        Raises:
            RunExists: the id is taken; nothing was changed.
            StoreError: the store cannot save.
        """
        ...

    async def claim(self, run_id: str, *, blocking: bool = False) -> Lease:
        """Take hold of a stored run: its epoch goes up by one and its status becomes `running`.

        A lease that a live process holds is respected; one whose process is known to be dead, or which ran
        out, is taken over at once.

        Raises:
            RunNotFound: there is no such run here.
            RunConflict: a live owner holds it, in this process or another.
            StoreError: the run was written in a newer format, or the store is damaged.
        """
        ...

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        """Take hold of a stored run, as `claim` does, and read what is needed to go on with it, in one transaction.

        Nothing can follow in a run that is completed: it is read alone, whoever holds it, and there is no lease.

        Returns:
            The lease, and the run as it was just before: status and epoch of `Past.info` are those of the last owner.

        Raises:
            RunNotFound: there is no such run here.
            RunConflict: a live owner holds it, in this process or another.
            StoreError: a record is missing or damaged, or of a newer format; the run is not held, nothing was changed.
        """
        ...

    async def append(
        self,
        lease: Lease,
        records: Sequence[Record],
        *,
        status: Status | None = None,
        snapshot: Snapshot | None = None,
        durable: bool = True,
    ) -> None:
        """Append records numbered from `lease.next_seq`, all or none; returns when they are stored.

        Whenever it returns or raises, even cancelled, it is decided: `lease.next_seq` says whether they are stored.

        Args:
            lease: moved on by the number of records.
            records: the lines to append; may be empty when only the status or a snapshot is stored.
            status: the run's new status, in the same transaction.
            snapshot: the position after the last record, in the same transaction.
            durable: whether a power cut may not lose them. (A killed process never loses them.)

        Raises:
            RunConflict: the epoch is not the lease's any more, or the next number is taken; nothing was stored.
            StoreError: the store could not save; nothing was stored, and the lease is good for another try.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """Let go of a run. Letting go of one that was taken over does nothing."""
        ...

    async def info(self, run_id: str) -> RunInfo:
        """What is known of one run.

        Raises:
            RunNotFound: there is no such run here.
        """
        ...

    async def past(self, run_id: str) -> Past:
        """What is needed to know where a run stands: `info` and records, in one view of them.

        Raises:
            RunNotFound: there is no such run here.
            StoreError: a record is missing or damaged; the text names the run and the number.
        """
        ...

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        """The records of a run above number `after` (and not above `upto`), in order; shared ones included.

        Raises:
            RunNotFound: there is no such run here.
            StoreError: a record is missing or damaged; the text names the run and the number.
        """
        ...

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """The newest snapshot of a run, or None."""
        ...

    async def runs(
        self, *, graph: str | None = None, statuses: Sequence[Status] = (), limit: int | None = None
    ) -> list[RunInfo]:
        """The runs of this store, the newest first; `statuses` are alternatives, empty means any."""
        ...

    async def request_cancel(self, run_id: str) -> bool:
        """Ask the owner of a run to cancel it.

        The owner's `lease.on_cancel` is called: at once when it is in this process, else when it next renews
        its lease.

        Returns:
            Whether a live owner was asked. False means that nobody holds the run.
        """
        ...

    async def delete(self, run_id: str) -> None:
        """Remove a run with all its records and snapshots.

        Raises:
            RunNotFound: there is no such run here.
            RunConflict: a live owner holds it, or another run shares its records.
        """
        ...

    async def close(self) -> None:
        """Release what the store holds: files, connections, threads. A closed store may be opened again by use."""
        ...
