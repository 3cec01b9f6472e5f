"""What is particular to the store in memory; the rest is in the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pytest

from flowagent import START as BEGIN
from flowagent import Graph, State, Update
from flowagent.core.records import Record
from flowagent.errors import RunConflict, RunFailed, StoreError
from flowagent.stores import Lease, MemoryStore, PrivateStore

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


class Count(State):
    n: int = 0


class Unlooked(Sequence[Record]):
    """Records that nobody may look at yet."""

    def __init__(self) -> None:
        self.may_be_looked_at = False

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __iter__(self) -> Iterator[Record]:
        assert self.may_be_looked_at, "nobody has asked for them"
        return iter([Record(1, "done", b"{}")])


async def test_a_private_store_looks_at_records_when_they_are_read() -> None:
    """They need not even have been written as JSON before; all else is as in any store."""
    store = PrivateStore()
    lease = await store.create("r", "g", START)
    records = Unlooked()
    await store.append(lease, records, status="completed")
    assert lease.next_seq == 2
    records.may_be_looked_at = True
    assert await store.read("r") == [*START, Record(1, "done", b"{}")]
    assert ((await store.info("r")).next_seq, (await store.info("r")).status) == (2, "completed")


async def test_a_private_store_refuses_who_has_lost_the_run() -> None:
    """A lease that was released appends nothing."""
    store = PrivateStore()
    lease = await store.create("r", "g", START)
    await store.release(lease)
    with pytest.raises(RunConflict):
        await store.append(lease, [Record(1, "done", b"{}")])
    assert await store.read("r") == START


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_without_a_store_tells_the_same_as_one_with(fails: bool) -> None:
    """Its records are kept as facts and written when somebody asks: history and picture, also of a failed run."""
    graph = Graph("count", Count)

    @graph.node
    def add(state: Count) -> Update:
        if fails and state.n == 2:
            raise ValueError("two")
        return {"n": state.n + 1}

    @graph.router
    def again(state: Count) -> Literal["add", "END"]:
        return "add" if state.n < 4 else "END"

    graph.chain(BEGIN, add, again)

    def told(**options: Any) -> Any:
        try:
            run = graph.run_sync(Count(), run_id="r", **options)
        except RunFailed as error:
            run = error.run
        steps = [(step.seq, step.kind, step.task, step.writes, step.to, step.errors) for step in run.history]
        return run.status, run.state, steps, str(run.draw(times=False)), run.state_at(3)

    assert told() == told(store=MemoryStore())
