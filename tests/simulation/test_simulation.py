"""Two hundred simulated runs; `python -m tests.simulation --seeds 5000` makes more of them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from flowagent import END, START, Context, Graph, Retry, State, Update
from flowagent.core.records import Past, Record
from flowagent.stores import MemoryStore
from flowagent.stores.base import Lease
from tests.kill.graphs import SUBJECTS
from tests.simulation.awaits import SLOW, every_await
from tests.simulation.case import go, known, played
from tests.simulation.hands import Hands
from tests.simulation.life import Life, Options, Tally
from tests.simulation.loop import Clock, Deadlock, Livelock, SimulatedLoop
from tests.simulation.store import CALM, FaultyStore, Ledger
from tests.simulation.trouble import Trouble
from tests.simulation.witness import Witness
from tests.simulation.world import simulated

FIRST = 4711
"""The same seeds every time: what CI finds must be found again. `make chaos` plays others."""

SEEDS = 160
PARTS = 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_trouble_changes_how_a_run_ends(part: int) -> None:
    """Whatever fails, is slow, is cancelled, crashes or comes between: each run ends as an undisturbed one."""
    share = SEEDS // PARTS
    tallies = [played(FIRST + part * share + number) for number in range(share)]
    faults = [fault for tally in tallies for fault in tally.faults]
    assert not faults, "\n\n".join(faults)
    assert sum((tally.troubles for tally in tallies), start=type(tallies[0].troubles)()).total() > share


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["parallel", "waiting", "mixed", "alone"])
def test_a_call_may_be_cancelled_at_any_await(subject: str) -> None:
    """It stops, is resumable, and ends as if nothing had happened; `python -m tests.simulation awaits` tries all."""
    total = Tally()
    for tally in every_await([subject], stride=6):
        total += tally
    assert not total.faults, "\n\n".join(total.faults)
    assert total.troubles["cancel"] > 8


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_is_replayed_exactly(seed: int) -> None:
    """The same calls in the same order, the same records at the same times, as many callbacks."""
    assert played(seed).trace == played(seed).trace
    assert played(seed).trace != played(seed + 10).trace


def test_nothing_really_waits() -> None:
    """A thousand virtual seconds, in sleeps of coroutines and of threads, are over at once and in order."""
    clock, told = Clock(), list[str]()
    begin = clock.now
    with simulated(clock, random.Random(0), "asked") as loop:

        async def sleeper() -> None:
            await asyncio.sleep(500.0)
            told.append("coroutine")

        hands = Hands(loop, clock, random.Random(0))

        def thread() -> None:
            hands.sleep(400.0)
            told.append("thread")

        hands.submit(thread)
        loop.run_until_complete(sleeper())
        loop.run_until_complete(asyncio.sleep(500.0))
        hands.end()
    assert told == ["thread", "coroutine"]
    assert clock.now == pytest.approx(begin + 1000.0)


def test_a_run_that_would_wait_for_ever_is_told() -> None:
    """Where nothing is ready and no timer is set, nobody will ever go on."""
    loop = SimulatedLoop(random.Random(0), "asked", Clock())
    try:
        waiting = loop.create_future()
        with pytest.raises(Deadlock, match="would wait for ever"):
            loop.run_until_complete(waiting)
    finally:
        loop.close()


def test_a_run_that_would_be_busy_for_ever_is_told() -> None:
    """Where callbacks follow each other and no time passes, nothing will ever change."""
    with simulated(Clock(), random.Random(0), "asked") as loop:

        def busy() -> None:
            loop.call_soon(busy)

        busy()
        with pytest.raises(Livelock, match="busy for ever"):
            loop.run_until_complete(loop.create_future())


# -- what is wrong is seen -------------------------------------------------------------------------------------------


class Forgetful(MemoryStore):
    """Acknowledges records, and forgets the last one when it is asked again."""

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        self._runs[run_id].records.pop()
        return await super().resume(run_id, blocking=blocking)


@pytest.mark.parametrize(
    ("store", "trouble", "fault"),
    [
        (Forgetful(), Trouble("cancel", 5), "are lost or changed"),
        (Forgetful(), Trouble("crash", 40), "are lost or changed"),
    ],
)
def test_a_store_that_breaks_its_promise_is_found(store: MemoryStore, trouble: Trouble, fault: str) -> None:
    """What was acknowledged and is gone is missed, at the latest when it is done again."""
    found = known("sequence")
    life = Life(SUBJECTS["sequence"], store, random.Random(0), found.reference)
    faults = go(life, found, [Options(weather=SLOW, trouble=trouble)]).faults
    assert any(fault in one for one in faults), faults


def test_a_ledger_tells_what_must_not_be() -> None:
    """An epoch that falls, a number left out, a record that changed, one that nobody wrote, one written twice."""
    ledger = Ledger()
    lease = Lease("r-1", 2, 0, blocking=False)
    done = [Record(seq, "done", b'{"task":"a","parents":[]}') for seq in range(2)]
    ledger.granted(lease)
    ledger.granted(Lease("r-1", 1, 0, blocking=False))
    ledger.acknowledge(lease, done[:1], None, began=ledger.begin(done[:1]))
    ledger.adopt(done[1:])
    ledger.adopt(done)
    assert ledger.faults == [
        "epoch 1 was granted after 2",
        "an append by epoch 2 was taken when it was 1",
        "the records are numbered [1]",
        "the acknowledged records [0] are lost or changed",
        "nobody tried to store the records [1]",
        "nobody tried to store the records [1]",
        "`a` was recorded twice",
    ]


class One(State):
    number: int = 0


class Dawdling(Witness):
    """The first attempt of each task takes five seconds before it does anything, the others no time at all."""

    def _pauses(self, ctx: Context[Any, Any], part: str) -> tuple[float, float]:
        return (5.0, 0.0) if ctx.attempt == 1 else (0.0, 0.0)


@pytest.mark.parametrize(("stored", "fault"), [(None, set()), ("work", {"`work` was recorded, and was called again"})])
def test_a_call_is_held_against_what_is_stored_when_it_begins(stored: str | None, fault: set[str]) -> None:
    """What an attempt that has timed out does in its thread comes after the record, and was called before it."""
    g: Graph[One, Any] = Graph("g", One)

    @g.node(timeout=1.0, retry=Retry(attempts=2, on=TimeoutError, backoff=0.0))
    def work(state: One, ctx: Context[Any, One]) -> Update:
        ctx.deps.work(ctx)
        return {}

    @g.node
    async def beside(state: One) -> Update:
        await asyncio.sleep(10.0)
        return {}

    g.chain(START, work, END)
    g.chain(START, beside, END)
    clock, ledger, store = Clock(), Ledger(), MemoryStore()
    witness = Dawdling(ledger, "", lambda _: (), ())
    with simulated(clock, random.Random(0), "asked") as loop:
        kept = FaultyStore(store, ledger, random.Random(0), CALM)
        if stored is not None:
            ledger.stored.add(stored)
        run = loop.run_until_complete(g.run(run_id="r-1", store=kept, deps=witness))
    assert (run.status, witness.calls) == ("completed", ["work", "work"])
    assert set(ledger.faults) == fault
