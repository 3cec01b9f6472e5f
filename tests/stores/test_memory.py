"""What is particular to the store in memory; the rest is in the conformance suite."""

from __future__ import annotations

import pytest

from flowagent.core.records import Record
from flowagent.errors import StoreError
from flowagent.stores import Lease, MemoryStore

START = [Record(0, "started", b"{}")]


async def test_an_append_never_suspends() -> None:
    """An append is done when it is first resumed: the engine can run it without a loop."""
    store = MemoryStore()
    lease = await store.create("r", "g", START)
    call = store.append(lease, [Record(1, "done", b"{}")])
    with pytest.raises(StopIteration):
        call.send(None)
    assert lease.next_seq == 2


async def test_a_lease_of_another_store_is_refused() -> None:
    """A lease that some other kind of store granted is no key to this one; to release it does nothing."""
    store = MemoryStore()
    stranger = Lease("r", 1, 0, blocking=True)
    with pytest.raises(StoreError, match="was granted by another store"):
        await store.append(stranger, START)
    await store.release(stranger)


async def test_runs_outlive_close() -> None:
    """Closing lets go of nothing: the runs stay readable, and the store tells how many it has."""
    store = MemoryStore()
    await store.create("r", "g", START)
    await store.close()
    assert await store.read("r") == START
    assert repr(store) == "MemoryStore(1 runs)"
