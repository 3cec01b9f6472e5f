"""The counters see what they are there for: work that costs more is counted as more."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from flowagent import Limits, Update
from flowagent.stores import SQLiteStore, Store
from tests.cost.cases import Case, Counter, count_up, looped
from tests.cost.counting import calls_counted
from tests.cost.measure import Cost, cost_of
from tests.cost.test_cost import broken


def test_calls_are_counted_on_the_threads_that_start_meanwhile() -> None:
    """A call of ours, one of Python, one of C."""

    def work() -> None:
        len("four")
        Limits(steps=4)

    with calls_counted() as calls:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    with calls_counted() as alone:
        work()
    assert alone.native >= 1
    assert alone.python >= 2
    assert calls.python > alone.python
    assert calls.native > alone.native


def test_a_step_that_does_more_costs_more(quick_path: Path) -> None:
    """A node that calls two functions more, and a step that is stored once more, break bounds that held before."""

    def dear(state: Counter) -> Update:
        assert len("one more") == 8
        return count_up(state)

    def twice(n: int, store: Store | None) -> None:
        for run_id in "ab":
            looped(count_up).run_sync(Counter(limit=n), store=store, run_id=run_id, limits=Limits(steps=None))

    def once(n: int, store: Store | None) -> None:
        looped(count_up).run_sync(Counter(limit=n), store=store, run_id="a", limits=Limits(steps=None))

    def dearer(n: int, store: Store | None) -> None:
        looped(dear).run_sync(Counter(limit=n), store=store, run_id="a", limits=Limits(steps=None))

    costs = {
        work.__name__: cost_of(Case(n=50, stored=True, work=work), quick_path / work.__name__)
        for work in (once, twice, dearer)
    }
    more = costs["dearer"]
    assert (round(more.python - costs["once"].python), round(more.native - costs["once"].native)) == (1, 1)
    assert broken(costs["once"], costs["once"]) == []
    assert {line.partition(":")[0] for line in broken(costs["twice"], costs["once"])} == {
        "own", "python", "native", "statements", "syncs", "stored", "written",
    }  # fmt: skip


def test_what_a_run_costs_once_is_no_cost_of_a_step(quick_path: Path) -> None:
    """A node that is called once more, whatever the size, adds nothing."""

    def fixed(n: int, store: Store | None) -> None:
        for number in range(30):
            Counter(count=number)
            str(number)

    assert cost_of(Case(n=10, stored=False, work=fixed), quick_path) == Cost(own=0, python=0, native=0)


def test_a_store_that_is_closed_is_measured_whole(tmp_path: Path) -> None:
    """Its log has gone into the file, whose size then is what is kept."""
    store = SQLiteStore(tmp_path / "runs.db")
    looped(count_up).run_sync(Counter(limit=3), store=store, run_id="r")
    assert (tmp_path / "runs.db-wal").stat().st_size > 0
    asyncio.run(store.close())
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]
