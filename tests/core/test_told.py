"""What records of finished tasks say, and what they leave out because it goes without saying."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowagent import END, START, Graph, Retry, Run, State, Update
from flowagent.errors import RunFailed
from flowagent.stores import MemoryStore


class Count(State):
    n: int = 0


def up(state: Count) -> Update:
    return {"n": state.n + 1}


def still(state: Count) -> Update:
    return {}


def told(run: Run[Count]) -> list[dict[str, Any]]:
    """The records of finished tasks, without times."""
    datas = [json.loads(record.data) for record in run.records if record.kind in ("done", "item")]
    return [{name: value for name, value in data.items() if name not in ("at", "s")} for data in datas]


@pytest.fixture(params=[MemoryStore, type(None)], ids=["stored", "never stored"])
def store(request: pytest.FixtureRequest) -> MemoryStore | None:
    """A store that each record is written to at once, and none, where all are written when somebody looks."""
    return request.param()


async def test_in_a_chain_a_record_follows_the_one_before(store: MemoryStore | None) -> None:
    """Its parent is told by the first one alone, and an empty update by none."""
    graph = Graph("chain", Count)
    graph.node(up, name="a")
    graph.node(still, name="b")
    graph.node(up, name="c")
    graph.chain(START, "a", "b", "c", END)
    assert told(await graph.run(store=store)) == [
        {"task": "a", "parents": ["START"], "writes": {"n": ["set", [1]]}, "to": ["b"]},
        {"task": "b", "to": ["c"]},
        {"task": "c", "writes": {"n": ["set", [2]]}, "to": ["END"]},
    ]


async def test_where_a_graph_forks_and_joins_parents_are_told(store: MemoryStore | None) -> None:
    """A branch that comes second, and a join, do not follow the record before, or not it alone."""
    graph = Graph("fork", Count)
    for name in ("split", "left", "right", "meet"):
        graph.node(still, name=name)
    graph.chain(START, "split", "left", "meet", END)
    graph.chain("split", "right", "meet")
    assert told(await graph.run(store=store)) == [
        {"task": "split", "parents": ["START"], "to": ["left", "right"]},
        {"task": "left", "to": ["meet"]},
        {"task": "right", "parents": ["split"], "to": ["meet"]},
        {"task": "meet", "parents": ["left", "right"], "to": ["END"]},
    ]


async def test_a_later_attempt_is_told(store: MemoryStore | None) -> None:
    """And the record after a failure tells its parent, as what stands before it is no finished task."""
    graph, tries = Graph("again", Count), iter([OSError("once")])

    @graph.node(retry=Retry(attempts=2, on=OSError))
    def work(state: Count) -> Update:
        for error in tries:
            raise error
        return {}

    graph.chain(START, graph.node(still, name="a"), work, END)
    assert told(await graph.run(store=store)) == [
        {"task": "a", "parents": ["START"], "to": ["work"]},
        {"task": "work", "parents": ["a"], "attempt": 2, "to": ["END"]},
    ]


async def test_a_resumed_run_tells_the_parent_of_its_first_record() -> None:
    """It does not know which record was the last one before it."""
    graph, tries = Graph("resumed", Count), iter([OSError("once")])

    @graph.node
    def work(state: Count) -> Update:
        for error in tries:
            raise error
        return {}

    graph.node(still, name="a")
    graph.node(still, name="b")
    graph.chain(START, "a", work, "b", END)
    store = MemoryStore()
    with pytest.raises(RunFailed):
        await graph.run(store=store, run_id="r")
    assert told(await graph.resume("r", store=store)) == [
        {"task": "a", "parents": ["START"], "to": ["work"]},
        {"task": "work", "parents": ["a"], "attempt": 2, "to": ["b"]},
        {"task": "b", "to": ["END"]},
    ]


async def test_an_item_tells_its_task_and_value_alone(store: MemoryStore | None) -> None:
    """Its node is named by its id."""

    class Items(State):
        items: list[int] = [3]
        results: list[int] = []

    graph = Graph("map", Items)

    @graph.map(over="items", into="results")
    def double(item: int) -> int:
        return 2 * item

    graph.chain(START, double, END)
    run = await graph.run(store=store)
    assert [json.loads(record.data)["value"] for record in run.records if record.kind == "item"] == [6]
    assert [(step.kind, step.node) for step in run.history] == [("item", "double"), ("done", "double")]
