"""A store without a disk: the journal lives as long as the object."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Sequence

from flowagent.core.records import Past, Record, RunInfo, Snapshot, Status
from flowagent.errors import StoreError
from flowagent.stores import owner, rules
from flowagent.stores.base import Lease


class _Run:
    """One run: its own records, which come after those that it shares with its parent."""

    __slots__ = (
        "created",
        "epoch",
        "first",
        "graph",
        "held",
        "number",
        "parent",
        "records",
        "run_id",
        "snapshot",
        "status",
        "unread",
        "updated",
    )

    def __init__(self, run_id: str, graph: str, number: int, parent: _Run | None, first: int) -> None:
        self.run_id = run_id
        self.graph = graph
        self.number = number
        self.parent = parent
        self.first = first
        self.records: list[Record] = []
        self.unread: list[Sequence[Record]] = []
        self.snapshot: Snapshot | None = None
        self.status: Status = "running"
        self.epoch = 1
        self.held: weakref.ref[_MemoryLease] | None = None
        self.created = self.updated = time.time()

    @property
    def next_seq(self) -> int:
        return self.first + len(self.records)

    def holder(self) -> _MemoryLease | None:
        """The lease that holds this run. One that was dropped without release counts as none."""
        return self.held() if self.held is not None else None


class _MemoryLease(Lease):
    __slots__ = ("run",)

    def __init__(self, run: _Run, *, blocking: bool) -> None:
        super().__init__(run.run_id, run.epoch, run.next_seq, blocking=blocking)
        self.run = run


class MemoryStore:
    """Keeps runs in memory: the same contract as a store on disk, and gone with the process.

    Example:
        >>> import asyncio
        >>> from flowagent.core.records import Record
        >>> async def main() -> list[Record]:
        ...     store = MemoryStore()
        ...     lease = await store.create("r-1", "triage", [Record(0, "started", b"{}")])
        ...     await store.append(lease, [Record(1, "ended", b"{}")], status="completed")
        ...     await store.release(lease)
        ...     return await store.read("r-1", after=0)
        >>> asyncio.run(main())
        [Record(seq=1, kind='ended', data=b'{}')]
    """

    keeps_secrets = True  # nothing leaves the process

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._made = 0
        # Guards what takes several steps; an append needs none, because its lease holds the run.
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._runs)} runs)"

    @property
    def name(self) -> str:
        """What to call this store in messages."""
        return "the memory store"

    async def create(
        self,
        run_id: str,
        graph: str,
        records: Sequence[Record],
        *,
        blocking: bool = False,
        durable: bool = True,  # noqa: ARG002 - no power cut spares a memory
        parent: str | None = None,
        parent_seq: int = -1,
    ) -> Lease:
        """Insert a new run with its first records and hold it; see `Store.create`."""
        rules.check_run_id(run_id)
        with self._lock:
            if run_id in self._runs:
                raise rules.exists(self.name, run_id)
            trunk = None if parent is None else self._find(parent)
            if trunk is not None:
                rules.check_parent(run_id, trunk.run_id, parent_seq, trunk.next_seq)
            first = 0 if trunk is None else parent_seq + 1
            rules.check_numbers(run_id, records, first)
            run = _Run(run_id, graph, self._made, trunk, first)
            run.records.extend(records)
            self._made += 1
            self._runs[run_id] = run
            return self._hold(run, blocking=blocking)

    async def claim(self, run_id: str, *, blocking: bool = False) -> Lease:
        """Take hold of a stored run; see `Store.claim`."""
        with self._lock:
            return self._claim(self._find(run_id), blocking=blocking)

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        """Take hold of a stored run and read it; see `Store.resume`."""
        with self._lock:
            run = self._find(run_id)
            past = self._past(run)
            return None if run.status == "completed" else self._claim(run, blocking=blocking), past

    async def append(
        self,
        lease: Lease,
        records: Sequence[Record],
        *,
        status: Status | None = None,
        snapshot: Snapshot | None = None,
        durable: bool = True,  # noqa: ARG002 - no power cut spares a memory
    ) -> None:
        """Append records, all or none; see `Store.append`. Never suspends: the engine calls it at every step."""
        if not isinstance(lease, _MemoryLease):
            raise StoreError(f"the lease on run `{lease.run_id}` was granted by another store than {self.name}")
        run = lease.run
        if lease.epoch != run.epoch or run.held is None:
            raise rules.taken_over(self.name, run.run_id, lease.epoch, f"it is {run.epoch} now, or it was released")
        seq = lease.next_seq
        for record in records:
            if record[0] != seq:
                raise rules.misnumbered(run.run_id, record[0], seq)
            seq += 1
        run.records.extend(records)
        lease.next_seq = seq
        if status is not None:
            run.status = status
            run.updated = time.time()
        if snapshot is not None:
            run.snapshot = snapshot

    async def release(self, lease: Lease) -> None:
        """Let go of a run; see `Store.release`."""
        if isinstance(lease, _MemoryLease):
            with self._lock:
                if lease.run.holder() is lease:
                    lease.run.held = None

    async def info(self, run_id: str) -> RunInfo:
        """What is known of one run; see `Store.info`."""
        with self._lock:
            return self._info(self._find(run_id))

    async def past(self, run_id: str) -> Past:
        """What is needed to know where a run stands; see `Store.past`."""
        with self._lock:
            return self._past(self._find(run_id))

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        """The records of a run, those shared with a parent included; see `Store.read`."""
        with self._lock:
            return self._read(self._find(run_id), after, upto)

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """The newest snapshot of a run, or None."""
        with self._lock:
            return self._find(run_id).snapshot

    async def runs(
        self, *, graph: str | None = None, statuses: Sequence[Status] = (), limit: int | None = None
    ) -> list[RunInfo]:
        """The runs of this store, the newest first; see `Store.runs`."""
        with self._lock:
            infos = [self._info(run) for run in reversed(self._runs.values()) if graph in (None, run.graph)]
        return [info for info in infos if not statuses or info.status in statuses][:limit]

    async def request_cancel(self, run_id: str) -> bool:
        """Ask the owner of a run to cancel it; see `Store.request_cancel`."""
        with self._lock:
            lease = self._find(run_id).holder()
        # Outside the lock: the callback is the engine's, and may well call this store.
        if lease is not None:
            lease.ask_to_cancel()
        return lease is not None

    async def delete(self, run_id: str) -> None:
        """Remove a run; see `Store.delete`."""
        with self._lock:
            run = self._find(run_id)
            if run.holder() is not None:
                raise rules.held(self.name, run_id, "another call in this process")
            children = sorted(child.run_id for child in self._runs.values() if child.parent is run)
            if children:
                raise rules.shared(self.name, run_id, children)
            del self._runs[run_id]

    async def close(self) -> None:
        """Does nothing: there is nothing to let go of, and the runs stay readable."""

    def _find(self, run_id: str) -> _Run:
        run = self._runs.get(run_id)
        if run is None:
            raise rules.not_found(self.name, run_id)
        return run

    def _claim(self, run: _Run, *, blocking: bool) -> Lease:
        if run.holder() is not None:
            raise rules.held(self.name, run.run_id, "another call in this process")
        run.epoch += 1
        run.status = "running"
        run.updated = time.time()
        return self._hold(run, blocking=blocking)

    def _past(self, run: _Run) -> Past:
        first = self._read(run, -1, 0)
        if not first:
            raise rules.damaged(self.name, run.run_id, 0, "is missing")
        snapshot = run.snapshot
        return Past(self._info(run), first[0], snapshot, self._read(run, 0 if snapshot is None else snapshot.seq, None))

    @staticmethod
    def _read(run: _Run, after: int, upto: int | None) -> list[Record]:
        parts: list[list[Record]] = []
        until = run.next_seq if upto is None else min(run.next_seq, upto + 1)
        while True:
            start = max(after + 1 - run.first, 0)
            parts.append(run.records[start : max(until - run.first, 0)])
            if run.parent is None or run.first <= after + 1:
                break
            until = min(until, run.first)
            run = run.parent
        return [record for part in reversed(parts) for record in part]

    @staticmethod
    def _hold(run: _Run, *, blocking: bool) -> Lease:
        lease = _MemoryLease(run, blocking=blocking)
        run.held = weakref.ref(lease)
        return lease

    @staticmethod
    def _info(run: _Run) -> RunInfo:
        held = run.holder() is not None
        return RunInfo(
            run_id=run.run_id,
            graph=run.graph,
            status="interrupted" if run.status == "running" and not held else run.status,
            epoch=run.epoch,
            next_seq=run.next_seq,
            owner=owner.this_process() if held else None,
            lease_until=math.inf if held else 0.0,
            created=run.created,
            updated=run.updated,
            parent=None if run.parent is None else run.parent.run_id,
            parent_seq=-1 if run.parent is None else run.first - 1,
        )


class PrivateStore(MemoryStore):
    """Where a run is kept that was given no store: only its own `Run` will ever read it.

    So what is appended is not looked at until then, and need not have been written as JSON before.
    """

    async def append(
        self,
        lease: Lease,
        records: Sequence[Record],
        *,
        status: Status | None = None,
        snapshot: Snapshot | None = None,
        durable: bool = True,
    ) -> None:
        """Keep records for whoever reads them; see `Store.append`."""
        first = lease.next_seq
        await super().append(lease, (), status=status, snapshot=snapshot, durable=durable)
        if isinstance(lease, _MemoryLease):
            lease.run.unread.append(records)
            lease.next_seq = first + len(records)

    def _find(self, run_id: str) -> _Run:
        run = super()._find(run_id)
        while run.unread:
            run.records.extend(run.unread.pop(0))
        return run
