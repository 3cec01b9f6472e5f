"""What nodes, routers, gates, maps and nested graphs may hand back, and what is refused with its reason."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic import model_validator

from flowagent import END, START, Context, Graph, Replace, Send, State, Update, add, append, reducer
from flowagent.errors import AnswerError, UnstorableError
from flowagent.stores import Store
from tests.scenarios import Caller, problems


class Bag(State):
    items: list[int] = [1, 2]
    found: Annotated[list[str], append] = []
    total: Annotated[int, add] = 0
    last: str = ""
    whole: list[int] = []


def mixed(old: int, new: int) -> int:
    """A reducer whose updates can only be applied one after the other."""
    return old * 10 + new


def routed(returned: Any, to: Any, **options: Any) -> Graph[Bag]:
    graph = Graph("routed", Bag)
    graph.node(lambda state: {"last": "a"}, name="a")
    graph.node(lambda item: {"found": [str(item)]}, name="b", item=True)
    graph.router(lambda state: returned, name="r", to=to, **options)
    graph.chain(START, "r")
    graph.chain("a", END)
    graph.chain("b", END)
    return graph


@pytest.mark.parametrize(
    ("returned", "to", "told"),
    [
        ([["a"]], {"left": "a", "right": "b"}, "which its to= does not list: it lists 'left', 'right'"),
        ("b", ["a", "b"], "named `b`, which takes items: return Send('b', item)"),
        (Send("a", 1), ["a", "b"], "sent an item to `a`, which takes none: declare it with item=True"),
        ([], ["a", "b"], "declare where to go without one with empty=..."),
    ],
)
async def test_a_router_that_returns_no_way_on_is_told_what_to_return(
    returned: Any, to: Any, told: str, caller: Caller
) -> None:
    """It fails with a routing error, and nothing is guessed."""
    assert told in problems(await caller.fails(routed(returned, to)))["r"]


async def test_a_router_with_a_table_returns_labels_and_with_empty_may_return_nothing(caller: Caller) -> None:
    """A label leads where the table says; an empty list leads to `empty=`."""
    for returned in ("left", ["left"]):
        assert (await caller.run(routed(returned, {"left": "a", "right": "b"}))).state.last == "a"
    assert (await caller.run(routed([], ["a", "b"], empty="a"))).state.last == "a"


async def test_an_item_that_does_not_fit_or_cannot_be_stored_is_refused_where_it_is_sent(caller: Caller) -> None:
    """The router fails, with the name of the target."""
    graph = routed([Send("b", object())], ["a", "b"])
    assert "an item for `b`" in problems(await caller.fails(graph))["r"]

    def numbered(sent: Any) -> Graph[Bag]:
        graph = Graph("numbered", Bag)

        @graph.node(item=True)
        def take(item: int) -> Update:
            return {"total": item}

        graph.router(lambda state: [Send("take", sent)], name="r", to=["take"])
        graph.chain(START, "r")
        graph.chain(take, END)
        return graph

    assert "does not fit its first parameter" in problems(await caller.fails(numbered("x")))["r"]
    assert (await caller.run(numbered(3))).state.total == 3


async def test_a_node_that_declares_targets_has_to_return_a_goto(caller: Caller) -> None:
    """Without one nobody knows where it leads."""
    graph = Graph("jumps", Bag)
    graph.node(lambda state: {"last": "x"}, name="n", to=["END"])
    graph.chain(START, "n")
    assert "must return a Goto(target, update), not {'last': 'x'}" in problems(await caller.fails(graph))["n"]


async def test_a_node_may_return_any_mapping(caller: Caller) -> None:
    """Not only a dict."""
    graph = Graph("mapped", Bag)

    @graph.node
    def n(state: Bag) -> Mapping[str, Any]:
        return types.MappingProxyType({"last": "x"})

    graph.chain(START, n, END)
    assert (await caller.run(graph)).state.last == "x"


async def test_a_result_of_a_map_that_no_store_can_hold_is_refused(caller: Caller) -> None:
    """The item fails, with the field that it was meant for."""

    class Anything(State):
        items: list[int] = [1]
        results: list[Any] = []

    graph = Graph("results", Anything)
    graph.map(lambda item: object(), name="m", over="items", into="results")
    graph.chain(START, "m", END)
    assert "its result for `results`" in problems(await caller.fails(graph))["m[0]"]


@pytest.mark.parametrize(("items", "results"), [({3, 1, 2}, [1, 2, 3]), (None, [])])
async def test_a_map_goes_over_sets_in_one_order_and_over_nothing_at_all(
    items: Any, results: list[int], caller: Caller, store: Store
) -> None:
    """The order of a set is the same in every process; no collection is an empty one."""

    class Some(State):
        items: set[int] | None
        results: list[int] = []

    graph = Graph("some", Some)
    graph.map(lambda item: item, name="m", over="items", into="results")
    graph.chain(START, "m", END)
    run = await caller.run(graph, Some(items=items), run_id="r", store=store)
    assert (run.state.results, (await graph.load("r", store=store)).state) == (results, run.state)


async def test_an_item_of_a_map_may_be_the_input_of_its_graph_and_a_failed_one_is_left_out(
    caller: Caller, store: Store
) -> None:
    """Without `input=` the item itself is the child's state; `skip` leaves no trace of what failed."""

    class One(State):
        number: int

    class All(State):
        ones: list[One] = [One(number=1), One(number=2), One(number=3)]
        results: list[One] = []

    one = Graph("one", One)

    @one.node
    def double(state: One) -> Update:
        if state.number == 2:
            raise ValueError("two")
        return {"number": state.number * 2}

    one.chain(START, double, END)
    graph = Graph("all", All)
    graph.map(one, name="m", over="ones", into="results", on_item_error="skip")
    graph.chain(START, "m", END)
    run = await caller.run(graph, run_id="r", store=store)
    assert [result.number for result in run.state.results] == [2, 6]


async def test_a_nested_graph_hands_on_deltas_replaces_and_wholes_as_the_outer_field_takes_them(
    caller: Caller, store: Store
) -> None:
    """Two deltas come one after the other; a replace stays one; a plain field of the outer state takes the whole."""

    class Inner(State):
        found: Annotated[list[str], append] = []
        total: Annotated[int, add] = 0
        numbers: Annotated[list[int], append] = []
        mix: Annotated[int, reducer(mixed)] = 0

    class Outer(Bag):
        mix: Annotated[int, reducer(mixed)] = 5

    inner = Graph("inner", Inner)
    inner.node(lambda state: {"found": ["one"], "total": 1, "numbers": [1], "mix": 1}, name="one")
    inner.node(lambda state: {"found": ["two"], "total": Replace(10), "numbers": [2], "mix": 2}, name="two")
    inner.chain(START, "one", "two", END)
    graph = Graph("outer", Outer)
    graph.node(inner, name="g", output={"found": "found", "total": "total", "whole": "numbers", "mix": "mix"})
    graph.chain(START, "g", END)
    run = await caller.run(graph, Outer(found=["zero"], total=5), run_id="r", store=store)
    assert run.state == Outer(found=["zero", "one", "two"], total=10, whole=[1, 2], mix=512)


# -- gates and questions -------------------------------------------------------------------------------------------


async def test_an_answer_that_leads_nowhere_fails_the_gate(caller: Caller, store: Store) -> None:
    """Its table says which answers lead on."""
    graph = Graph("gated", Bag)
    graph.gate("g", question="?", schema=str, to={"yes": "END"})
    graph.chain(START, "g")
    await caller.run(graph, run_id="r", store=store)
    with pytest.raises(Exception, match="gate `g` has no way for the answer 'no'"):
        await caller.resume(graph, "r", answers={"g": "no"}, store=store)


async def test_a_question_that_cannot_be_written_fails_the_gate(caller: Caller, store: Store) -> None:
    """Its text is a format string of the user's, which may not fit a value."""
    graph = Graph("gated", Bag)
    graph.gate("g", question="{last:d}?", schema=str)
    graph.chain(START, "g", END)
    assert problems(await caller.fails(graph, run_id="r", store=store))["g"].startswith("ValueError: ")


async def test_a_name_of_several_open_questions_and_an_unstorable_answer_are_refused(
    caller: Caller, store: Store
) -> None:
    """The text says which ids there are, or what is wrong."""
    one = Graph("one", Bag)
    one.gate("g", question="?", schema=Any)
    one.chain(START, "g", END)
    graph = Graph("all", Bag)
    for name in ("a", "b"):
        graph.node(one, name=name)
        graph.chain(START, name, END)
    await caller.run(graph, run_id="r", store=store)
    with pytest.raises(AnswerError, match="`g` has 2 open questions; answer by id: `a/g`, `b/g`"):
        await caller.resume(graph, "r", answers={"g": 1}, store=store)
    with pytest.raises(AnswerError, match="the answer to `a/g`"):
        await caller.resume(graph, "r", answers={"a/g": object()}, store=store)
    run = await caller.resume(graph, "r", answers={"a/g": 1, "b/g": 2}, store=store)
    assert run.status == "completed"


async def test_two_questions_of_one_node_may_be_open_at_a_time(caller: Caller, store: Store) -> None:
    """When one is answered the node runs again, and its other question is not asked once more."""
    graph = Graph("both", Bag)

    @graph.node
    async def n(state: Bag, ctx: Context[object, Bag]) -> Update:
        found: list[str] = []
        for name in ("one", "two"):
            try:
                found.append(await ctx.ask(name, "?"))
            except BaseException:  # a node that catches everything still only waits
                pass
        return {"found": found}

    graph.chain(START, n, END)
    run = await caller.run(graph, run_id="r", store=store)
    assert [one.id for one in run.questions] == ["n?one", "n?two"]
    run = await caller.resume(graph, "r", answers={"n?one": "1"}, store=store)
    assert [one.id for one in run.questions] == ["n?two"]
    run = await caller.resume(graph, "r", answers={"n?two": "2"}, store=store)
    assert (run.state.found, [step.kind for step in run.history].count("asked")) == (["1", "2"], 2)


# -- the state's own rules -----------------------------------------------------------------------------------------


async def test_a_reducer_that_breaks_where_branches_meet_is_told_with_the_branches(caller: Caller) -> None:
    """It is user code, so the merge fails and names who wrote."""

    def picky(old: int, new: int) -> int:
        if old and new:
            raise ValueError("only one")
        return old or new

    class Picky(State):
        n: Annotated[int, reducer(picky)] = 0

    graph = Graph("picky", Picky)
    for name in ("a", "b"):
        graph.node(lambda state: {"n": 1}, name=name)
        graph.chain(START, name, END)
    told = problems(await caller.fails(graph))["END"]
    assert "`n`" in told
    assert "only one" in told


async def test_a_validator_of_the_state_that_changes_a_replaced_value_is_recorded_with_it(
    caller: Caller, store: Store
) -> None:
    """What is stored is what the next node sees."""

    class Even(State):
        n: Annotated[int, add] = 0

        @model_validator(mode="before")
        @classmethod
        def even(cls, data: Any) -> Any:
            return {**data, "n": data.get("n", 0) // 2 * 2}

    graph = Graph("even", Even)
    graph.node(lambda state: {"n": Replace(7)}, name="a")
    graph.chain(START, "a", END)
    run = await caller.run(graph, run_id="r", store=store)
    assert (run.state.n, (await graph.load("r", store=store)).state.n) == (6, 6)


async def test_an_input_whose_own_validator_leaves_out_a_field_is_refused(caller: Caller) -> None:
    """`model_construct` in a validator checks nothing, so the state would lack what its nodes read."""

    class Needs(State):
        n: int

        @model_validator(mode="wrap")
        @classmethod
        def anything(cls, data: Any, handler: Any) -> Any:
            return cls.model_construct()

    graph = Graph("needs", Needs)
    graph.node(lambda state: {}, name="a")
    graph.chain(START, "a", END)
    with pytest.raises(UnstorableError, match=r"`n` is missing \(was the model made by model_construct\?\)"):
        await caller.run(graph, Needs.model_construct())
