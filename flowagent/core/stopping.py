"""Where a stored run is left: how one is let go of, and how one is cancelled wherever it is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from flowagent.core import journal, loops, reasons
from flowagent.core.records import Record, Status
from flowagent.errors import RunConflict, StoreError

if TYPE_CHECKING:
    from flowagent.stores.base import Lease, Store


async def let_go(store: Store, lease: Lease, status: Status | None) -> None:
    """Leave a run as it stands; it is released even if that cannot be stored, or nobody could go on with it."""
    try:
        await store.append(lease, [], status=status)
    finally:
        await store.release(lease)


def settled(status: Status) -> Status | None:
    """A status that a run may be left with; None for that of one that was interrupted."""
    return None if status in ("interrupted", "running") else status


async def stop(store: Store, run_id: str, timeout: float) -> None:
    """Cancel a run wherever it is, unless it is over; returns when it has stopped.

    Raises:
        RunNotFound: there is no such run.
        RunConflict: its owner did not stop in time.
    """
    asked, wait, until = 0, 0.005, time.monotonic() + timeout
    while (info := await store.info(run_id)).status not in ("completed", "cancelled"):
        if info.status != "running" or info.epoch != asked:  # an owner that was asked may have died, or come to wait
            if await store.request_cancel(run_id):
                asked = info.epoch
            elif await _has_cancelled(store, run_id):
                return
        if time.monotonic() > until:
            raise RunConflict(f"run `{run_id}` was asked to stop and has not within {timeout:g} s")
        await asyncio.sleep(wait)
        wait = min(wait * 1.5, 0.5)


async def _has_cancelled(store: Store, run_id: str) -> bool:
    """Cancel a run that nobody holds, unless it is over; False if somebody has taken hold of it meanwhile."""
    try:
        lease, past = await store.resume(run_id, blocking=loops.own_loop.get())
    except RunConflict:
        return False
    if lease is not None:
        await _note_cancelled(store, lease, settled(past.info.status))
    return True


async def _note_cancelled(store: Store, lease: Lease, stood: Status | None) -> None:
    """Store that a run is cancelled; if that cannot be, it is let go of as it stood."""
    first = lease.next_seq
    try:
        last = (await store.read(lease.run_id, after=first - 2))[-1]
        if last.kind == "ended" and journal.read(lease.run_id, last).get("status") == "completed":
            await store.append(lease, [], status="completed")  # whoever has held it since has done nothing
        else:
            body = journal.plain(time.time(), status="cancelled", reason=reasons.CANCELLED)
            await store.append(lease, [Record(first, "ended", body)], status="cancelled")
    except BaseException:
        with contextlib.suppress(RunConflict, StoreError):  # the error that is raised is the one to tell
            await let_go(store, lease, stood if lease.next_seq == first else None)
        raise
    await store.release(lease)
