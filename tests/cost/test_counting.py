"""The counters see what they are there for: work that costs more is counted as more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from flowagent import Limits, Update
from flowagent.stores import SQLiteStore, Store
from tests.cost.cases import NO_LIMITS, Case, Counter, count_up, looped
from tests.cost.counting import calls_counted
from tests.cost.measure import COUNTS, Cost, cost_of
from tests.cost.test_cost import broken


def running(node: Callable[[Counter], Update], *run_ids: str) -> Callable[[int, Store | None], None]:
    """Work that loops over a node, once for each id."""
    graph = looped(node)

    def work(n: int, store: Store | None) -> None:
        for run_id in run_ids or ("a",):
            graph.run_sync(Counter(limit=n), store=store, run_id=run_id, limits=NO_LIMITS)

    return work


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
    assert alone.python >= 1
    assert calls.python > alone.python
    assert calls.native > alone.native


def test_a_call_more_in_a_step_is_counted(tmp_path: Path) -> None:
    """A node that calls one function of Python and one of C more."""

    def dearer(state: Counter) -> Update:
        assert len("one more") == 8
        return count_up(state)

    cheap, dear = (
        cost_of(Case(n=20, stored=False, work=running(node)), tmp_path / node.__name__) for node in (count_up, dearer)
    )
    assert (dear.own - cheap.own, dear.python - cheap.python, dear.native - cheap.native) == (0, 1, 1)


def test_a_step_that_is_stored_twice_breaks_every_bound_that_held_for_one(quick_path: Path) -> None:
    """Each count sees that there is more."""
    once = cost_of(Case(n=50, stored=True, work=running(count_up)), quick_path / "once")
    twice = cost_of(Case(n=50, stored=True, work=running(count_up, "a", "b")), quick_path / "twice")
    assert [line.partition(":")[0] for line in broken(twice, once)] == list(COUNTS)


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
