"""A store that fails, is slow and is taken over as a seed says, and a ledger of what it has promised."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flowagent.core.records import Past, Record, RunInfo, Snapshot, Status
from flowagent.errors import RunConflict, StoreError
from flowagent.stores import Store
from flowagent.stores.base import Lease
from tests.kill.checks import kept_of


@dataclass
class Ledger:
    """What a store has acknowledged of one run, and what was wrong with what was asked of it.

    Attributes:
        acknowledged: by number, the records that somebody was told are stored.
        tried: the records that somebody tried to store, by number and content.
        stored: the tasks, steps and beginnings of graphs among the acknowledged.
        failed: the tasks of which it is acknowledged that they failed; they may be called again, or a handler may be.
        epoch: the newest.
        is_over: whether the run was stored as completed.
        faults: what was wrong.
    """

    acknowledged: dict[int, Record] = field(default_factory=dict[int, Record])
    tried: set[Record] = field(default_factory=set[Record])
    stored: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])
    epoch: int = 0
    is_over: bool = False
    faults: list[str] = field(default_factory=list[str])

    def granted(self, lease: Lease) -> None:
        """A lease was granted."""
        if lease.epoch <= self.epoch:
            self.faults.append(f"epoch {lease.epoch} was granted after {self.epoch}")
        self.epoch = lease.epoch

    def begin(self, records: Sequence[Record]) -> int:
        """Somebody tries to store records; the epoch that it is then."""
        self.tried.update(records)
        return self.epoch

    def acknowledge(self, lease: Lease, records: Sequence[Record], status: Status | None, *, began: int) -> None:
        """Somebody is told that they are stored. Whoever hears of it late may meanwhile have lost the run."""
        if lease.epoch != began and (records or status is not None):  # else there was nothing to take
            self.faults.append(f"an append by epoch {lease.epoch} was taken when it was {began}")
        if self.is_over and (records or status not in (None, "completed")):
            self.faults.append(f"{[record.kind for record in records]} and {status} were stored after the end")
        for record in records:
            if self.acknowledged.setdefault(record.seq, record) != record:
                self.faults.append(f"record {record.seq} was acknowledged twice, with other content")
            self._keep(record)
        self.is_over = self.is_over or status == "completed"

    def _keep(self, record: Record) -> None:
        data: dict[str, Any] = json.loads(record.data)
        match record.kind:
            case "started":
                self.stored.add("START")
            case "opened":
                self.stored.add(f"{data['task']}/START")
            case "memo":
                self.stored.add(f"{data['task']}#{data['name'].removeprefix('step:')}")
            case "done" | "item":
                self.stored.add(data["task"])
            case "failed" if data["final"]:
                self.failed.add(data["task"])
            case "failed":
                self.stored.add(f"{data['task']}#attempt {data['attempt']}")
            case _:
                pass

    def adopt(self, records: Sequence[Record]) -> None:
        """Hold what a store holds now against what it has promised.

        What is there beyond that may not be lost from now on either.
        """
        if [record.seq for record in records] != list(range(len(records))):
            self.faults.append(f"the records are numbered {[record.seq for record in records]}")
        lost = [seq for seq, record in self.acknowledged.items() if seq >= len(records) or records[seq] != record]
        if lost:
            self.faults.append(f"the acknowledged records {lost} are lost or changed")
        foreign = [record.seq for record in records if record not in self.tried]
        if foreign:
            self.faults.append(f"nobody tried to store the records {foreign}")
        kept = [kept for record in records if (kept := kept_of(record.kind, json.loads(record.data))) is not None]
        self.faults += [f"{one} was recorded twice" for one in {one for one in kept if kept.count(one) > 1}]
        for record in records:
            self.acknowledged[record.seq] = record
            self._keep(record)


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad things are: shares of the operations, from 0 to 1, and a time in seconds.

    Args:
        failing: that raise `StoreError`, with nothing stored.
        taken: appends before which another owner takes the run over, and lets go of it.
        held: claims that find another owner.
        slow: that take their time.
        longest: how long, at most.
    """

    failing: float = 0.0
    taken: float = 0.0
    held: float = 0.0
    slow: float = 0.0
    longest: float = 0.02


CALM = Weather()


class FaultyStore(Store):
    """A store as one simulated process sees it.

    Args:
        inner: the store that keeps things.
        ledger: is told what is promised.
        chance: decides what goes wrong.
        weather: how much does.

    Attributes:
        lease: what this process holds.
        is_dead: whether the process has died, so that nothing of it reaches the store.
        failed_release: whether a lease could not be given back.
    """

    def __init__(self, inner: Store, ledger: Ledger, chance: random.Random, weather: Weather) -> None:
        self._inner = inner
        self._ledger = ledger
        self._chance = chance
        self._weather = weather
        self.lease: Lease | None = None
        self.is_dead = False
        self.failed_release = False

    @property
    def name(self) -> str:
        return self._inner.name

    async def create(self, run_id: str, graph: str, records: Sequence[Record], **options: Any) -> Lease:
        await self._trouble("create", may_wait=not options.get("blocking"))
        self._ledger.begin(records)
        lease = await self._inner.create(run_id, graph, records, **options)
        self.lease = lease
        self._ledger.granted(lease)
        self._ledger.acknowledge(lease, records, None, began=lease.epoch)
        return lease

    async def claim(self, run_id: str, *, blocking: bool = False) -> Lease:
        await self._trouble("claim", may_wait=not blocking)
        self._perhaps_held(run_id)
        lease = await self._inner.claim(run_id, blocking=blocking)
        self.lease = lease
        self._ledger.granted(lease)
        return lease

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        await self._trouble("resume", may_wait=not blocking)
        self._perhaps_held(run_id)
        lease, past = await self._inner.resume(run_id, blocking=blocking)
        if lease is not None:
            self.lease = lease
            self._ledger.granted(lease)
        return lease, past

    def _perhaps_held(self, run_id: str) -> None:
        if self._chance.random() < self._weather.held:
            raise RunConflict(f"run `{run_id}` is held by another process")

    async def append(
        self,
        lease: Lease,
        records: Sequence[Record],
        *,
        status: Status | None = None,
        snapshot: Snapshot | None = None,
        durable: bool = True,
    ) -> None:
        await self._trouble("append", may_wait=not lease.blocking)
        if self._chance.random() < self._weather.taken:
            await self._take_over(lease)
        began = self._ledger.begin(records)
        first = lease.next_seq
        try:
            await self._inner.append(lease, records, status=status, snapshot=snapshot, durable=durable)
        except asyncio.CancelledError:
            if lease.next_seq > first:  # decided all the same, and the lease says how
                self._ledger.acknowledge(lease, records, status, began=began)
            raise
        self._ledger.acknowledge(lease, records, status, began=began)
        await self._delay(may_wait=not lease.blocking)

    async def _take_over(self, lease: Lease) -> None:
        """Another process thinks that this one is dead, begins to advance its run, and goes away again."""
        if lease is not self.lease:
            return
        await self._inner.release(lease)
        other = await self._inner.claim(lease.run_id, blocking=lease.blocking)
        self._ledger.granted(other)
        await self._inner.release(other)

    async def release(self, lease: Lease) -> None:
        try:
            await self._trouble("release", may_wait=not lease.blocking)
        except BaseException:
            self.failed_release = True
            raise
        await self._inner.release(lease)

    async def info(self, run_id: str) -> RunInfo:
        await self._trouble("info", may_wait=True)
        return await self._inner.info(run_id)

    async def past(self, run_id: str) -> Past:
        await self._trouble("past", may_wait=True)
        return await self._inner.past(run_id)

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        await self._trouble("read", may_wait=True)
        return await self._inner.read(run_id, after=after, upto=upto)

    async def snapshot(self, run_id: str) -> Snapshot | None:
        await self._trouble("snapshot", may_wait=True)
        return await self._inner.snapshot(run_id)

    async def runs(
        self, *, graph: str | None = None, statuses: Sequence[Status] = (), limit: int | None = None
    ) -> list[RunInfo]:
        return await self._inner.runs(graph=graph, statuses=statuses, limit=limit)

    async def request_cancel(self, run_id: str) -> bool:
        await self._trouble("request_cancel", may_wait=True)
        return await self._inner.request_cancel(run_id)

    async def delete(self, run_id: str) -> None:
        await self._inner.delete(run_id)

    async def close(self) -> None:
        await self._inner.close()

    async def _trouble(self, what: str, *, may_wait: bool) -> None:
        if self.is_dead:
            raise StoreError("the process is dead")
        await self._delay(may_wait=may_wait)
        if self._chance.random() < self._weather.failing:
            raise StoreError(f"the simulated disk fails at `{what}`")

    async def _delay(self, *, may_wait: bool) -> None:
        if may_wait and self._chance.random() < self._weather.slow:
            await asyncio.sleep(self._chance.random() * self._weather.longest)
