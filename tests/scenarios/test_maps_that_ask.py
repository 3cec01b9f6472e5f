"""Maps with `at_most` whose items wait for people, fail, or die with their process: nobody waits without need."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from flowagent import END, START, Context, Graph, State, Update
from flowagent.stores import SQLiteStore, Store
from tests.patience import PATIENCE
from tests.scenarios import Caller, tasks

ROOT = Path(__file__).parents[2]
TEN = list(range(10))


class Orders(State):
    numbers: list[int] = TEN
    results: list[str] = []


class Order(State):
    number: int
    price: int = 0
    text: str = ""


class Desk:
    """Counts how many items are worked on at a time."""

    def __init__(self) -> None:
        self.busy = 0
        self.most = 0
        self.done: list[int] = []

    async def work(self, number: int) -> None:
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        self.done.append(number)


def of_graphs(desk: Desk) -> Graph[Orders]:
    """A map over a graph with a gate."""
    order = Graph("order", Order)
    order.gate("price", question="What does {number} cost?", schema=int, into="price")

    @order.node
    async def write(one: Order) -> Update:
        await desk.work(one.number)
        return {"text": f"{one.number} costs {one.price}"}

    order.chain(START, "price", write, END)
    orders = Graph("orders", Orders)
    orders.map(order, name="m", over="numbers", into="results", input="number", output="text", at_most=2)
    orders.chain(START, "m", END)
    return orders


def of_functions(desk: Desk) -> Graph[Orders]:
    """A map over a function that asks."""
    orders = Graph("orders", Orders)

    @orders.map(name="m", over="numbers", into="results", at_most=2)
    async def write(number: int, ctx: Context[object, Orders]) -> str:
        price = await ctx.ask("price", f"What does {number} cost?", int)
        await desk.work(number)
        return f"{number} costs {price}"

    orders.chain(START, "m", END)
    return orders


@pytest.mark.parametrize(("made", "question"), [(of_graphs, "m[{}]/price"), (of_functions, "m[{}]?price")])
async def test_every_item_of_a_map_with_at_most_asks_and_waits_for_nobody_else(
    made: Any, question: str, caller: Caller, store: Store
) -> None:
    """All questions are there at once; answered in any order, no more than two go on at a time, results in order."""
    desk = Desk()
    graph = made(desk)
    run = await caller.run(graph, run_id="r", store=store)
    assert (run.status, [one.id for one in run.questions]) == ("waiting", [question.format(at) for at in TEN])
    left = [question.format(at) for at in TEN]
    random.Random(1).shuffle(left)
    for count in (1, 4, 5):
        answered, left = left[:count], left[count:]
        answers = {name: 100 + TEN.index(int(name[2])) for name in answered}
        run = await caller.resume(graph, "r", answers=answers, store=store)
        assert sorted(one.id for one in run.questions) == sorted(left)
    assert (run.status, run.state.results) == ("completed", [f"{at} costs {100 + at}" for at in TEN])
    assert (sorted(desk.done), desk.most) == (TEN, 2)


class Batches(State):
    batches: list[list[int]] = [[0, 1], [2], [3, 4]]
    results: list[list[str]] = []


class Batch(State):
    numbers: list[int]
    results: list[str] = []


async def test_maps_with_at_most_inside_maps_with_at_most_ask_all_and_go_on_one_by_one(
    caller: Caller, store: Store
) -> None:
    """One slot outside and one in each item: each answer is given in a call of its own, which reads what was stored."""
    desk = Desk()
    batch = Graph("batch", Batch)

    @batch.map(name="n", over="numbers", into="results", at_most=1)
    async def write(number: int, ctx: Context[object, Batch]) -> str:
        price = await ctx.ask("price", f"What does {number} cost?", int)
        await desk.work(number)
        return f"{number} costs {price}"

    batch.chain(START, "n", END)
    graph = Graph("batches", Batches)
    graph.map(batch, name="m", over="batches", into="results", input="numbers", output="results", at_most=1)
    graph.chain(START, "m", END)
    run = await caller.run(graph, run_id="r", store=store)
    asked = ["m[0]/n[0]?price", "m[0]/n[1]?price", "m[1]/n[0]?price", "m[2]/n[0]?price", "m[2]/n[1]?price"]
    assert [one.id for one in run.questions] == asked
    for name in ("m[2]/n[1]?price", "m[0]/n[1]?price", "m[1]/n[0]?price"):
        run = await caller.resume(graph, "r", answers={name: 1}, store=store)
    assert (run.status, desk.done) == ("waiting", [4, 1, 2])
    run = await caller.resume(graph, "r", answers={"m[2]/n[0]?price": 1, "m[0]/n[0]?price": 1}, store=store)
    assert (run.status, desk.done, desk.most) == ("completed", [4, 1, 2, 3, 0], 1)
    assert run.state.results == [["0 costs 1", "1 costs 1"], ["2 costs 1"], ["3 costs 1", "4 costs 1"]]


# -- several processes -----------------------------------------------------------------------------------------------


def dying(folder: str, *, broken: str = "", deadly: str = "") -> Graph[Orders]:
    """A map over a function that asks for the price of 1, which raises or kills the process for some numbers."""
    orders = Graph("orders", Orders)

    @orders.map(name="m", over="numbers", into="results", at_most=1)
    def write(number: int, ctx: Context[object, Orders]) -> str:
        price = ctx.ask_sync("price", f"What does {number} cost?", int) if number == 1 else 0
        if str(number) in broken:
            raise ValueError(f"{number} is broken")
        if str(number) in deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        with Path(folder, "effects").open("a", encoding="utf-8") as effects:
            effects.write(f"{number}\n")
        return f"{number} costs {price}"

    orders.chain(START, "m", END)
    return orders


def effects_of(folder: Path) -> list[str]:
    """The items that were done, in the order in which they were."""
    return (folder / "effects").read_text(encoding="utf-8").split()


def start_and_be_killed(folder: str, numbers: list[int], **what: str) -> None:
    """What a child of a test below does."""
    dying(folder, **what).run_sync(Orders(numbers=numbers), run_id="r", store=f"{folder}/runs.db")


def resume_and_be_killed(folder: str, answers: dict[str, Any], **what: str) -> None:
    """What the children of the tests below do."""
    dying(folder, **what).resume_sync("r", store=f"{folder}/runs.db", answers=answers)


async def killed(call: str) -> None:
    script = f"from tests.scenarios import test_maps_that_ask as maps; maps.{call}"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, cwd=ROOT)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGKILL


async def test_an_item_that_was_answered_and_then_killed_goes_on_in_the_next_process(tmp_path: Path) -> None:
    """One slot: the answered item is run by a process that dies in it, and again by the next, which needs no answer."""
    store, numbers = SQLiteStore(tmp_path / "runs.db"), Orders(numbers=[0, 1, 2])
    run = await dying(str(tmp_path)).run(numbers, run_id="r", store=store)
    assert (run.status, tasks(run), [one.id for one in run.questions]) == ("waiting", ["m[0]", "m[2]"], ["m[1]?price"])
    await killed(f"resume_and_be_killed({str(tmp_path)!r}, {{'m[1]?price': 7}}, deadly='1')")
    run = await dying(str(tmp_path)).resume("r", store=store)
    assert (run.status, run.state.results) == ("completed", ["0 costs 0", "1 costs 7", "2 costs 0"])
    assert effects_of(tmp_path) == ["0", "2", "1"]
    await store.close()


async def test_an_item_that_failed_and_was_done_out_of_turn_is_not_run_once_more_after_a_kill(tmp_path: Path) -> None:
    """Which item had the slot follows from what is recorded, whoever was resumed and killed in between."""
    folder = str(tmp_path)
    await killed(f"start_and_be_killed({folder!r}, [0, 2, 3, 4], broken='0', deadly='2')")
    await killed(f"resume_and_be_killed({folder!r}, {{}}, deadly='3')")
    store = SQLiteStore(tmp_path / "runs.db")
    run = await dying(folder).resume("r", store=store)
    assert (run.status, run.state.results) == ("completed", ["0 costs 0", "2 costs 0", "3 costs 0", "4 costs 0"])
    assert effects_of(tmp_path) == ["2", "0", "3", "4"]
    await store.close()
