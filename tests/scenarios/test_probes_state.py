"""Probes 19 to 33: what nodes may write, what is stored, and what the next node sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import pytest
from pydantic import BaseModel, Field, field_validator

from flowagent import (
    END,
    START,
    Context,
    Graph,
    Replace,
    Run,
    State,
    Update,
    add,
    append,
    last,
    merge,
    messages,
    reducer,
    replace,
    union,
)
from flowagent.core.events import Warned
from flowagent.errors import ConflictError, GraphError, RunFailed, StateError
from flowagent.stores import Store
from tests.scenarios import Caller, problems, tasks


class Desk(State):
    """A state of most kinds of fields."""

    topic: str = "none"
    count: int = 0
    note: str | None = "unset"
    seen: Annotated[list[str], append] = []


class Calls(list[str]):
    """The names of nodes that were called."""

    def writer(self, graph: Graph[Any], name: str, update: Any) -> str:
        """Declare a node that returns an update, made by a function if it is one."""

        def write(state: Any) -> Any:
            self.append(name)
            return update(state) if callable(update) else update

        graph.node(write, name=name)
        return name


Given: TypeAlias = "Callable[[Any], Any] | dict[str, Any] | str | int | None"


def chained(state: type[State], *updates: Given) -> tuple[Graph[Any], Calls]:
    """A graph of nodes "1", "2", ... in a line that return these updates."""
    graph, calls = Graph("line", state), Calls()
    names = [calls.writer(graph, str(number), update) for number, update in enumerate(updates, 1)]
    graph.chain(START, names[0], *names[1:], END)
    return graph, calls


def forked(state: type[State], **updates: Given) -> tuple[Graph[Any], Calls]:
    """A graph of nodes side by side that return these updates and meet in "meet"."""
    graph, calls = Graph("fork", state), Calls()
    calls.writer(graph, "meet", None)
    for name, update in updates.items():
        graph.chain(START, calls.writer(graph, name, update), "meet")
    graph.chain("meet", END)
    return graph, calls


# -- conflicts and refusals ----------------------------------------------------------------------------------------


async def test_probe_19_two_parallel_writes_of_a_plain_field_are_told_and_settled_without_a_rerun(
    caller: Caller, store: Store
) -> None:
    """The conflict names field, both tasks and remedy; both writes stay stored, and `resolve=` goes on from them."""
    graph, calls = forked(Desk, b={"topic": "b"}, c={"topic": "c", "count": 1})
    failure = await caller.failure(graph, run_id="r", store=store)
    conflict = failure.errors[0].__cause__
    assert isinstance(conflict, ConflictError)
    assert (conflict.field, conflict.tasks) == ("topic", ("b", "c"))
    assert all(word in str(conflict) for word in ("`topic`", "`b`", "`c`", "reducer", "resolve="))
    stored = await graph.load("r", store=store)
    assert (stored.status, stored.state, stored.unmerged) == ("failed", Desk(count=1), ("topic",))
    run = await caller.resume(graph, "r", resolve={"topic": "both"}, store=store)
    assert (run.state, sorted(calls)) == (Desk(topic="both", count=1), ["b", "c", "meet"])


async def test_probe_19_a_reducer_added_in_code_settles_the_conflict_too(store: Store) -> None:
    """The stored values are offered to the new reducer, in declared order; no node runs again."""
    graph, calls = forked(Desk, b={"topic": "b"}, c={"topic": "c"})
    assert (await Caller(is_async=True).fails(graph, run_id="r", store=store)).status == "failed"

    class Desk2(Desk):
        topic: Annotated[str, last] = "none"

    mended, mended_calls = forked(Desk2, b={"topic": "b"}, c={"topic": "c"})
    run = await mended.resume("r", store=store)
    assert (run.state, calls, mended_calls) == (Desk2(topic="c"), ["b", "c"], ["meet"])


async def test_probe_19_the_second_write_is_warned_of_when_it_is_recorded() -> None:
    """Long before the branches meet, an event says that they will not agree; so does `check`, where it can see it."""
    graph = Graph("warned", Desk)
    events: list[Any] = []

    @graph.node
    def b(state: Desk) -> Update:
        return {"topic": "b"}

    @graph.node
    def c(state: Desk) -> Update:
        return {"topic": "c"}

    @graph.node
    def meet(state: Desk) -> Update:
        return None

    graph.chain(START, b, meet, END)
    graph.chain(START, c, meet)
    assert [("`b`" in line, "`c`" in line, "`topic`" in line) for line in graph.check()] == [(True, True, True)]
    async with graph.stream() as watch:
        try:
            async for event in watch:
                events.append(event)  # noqa: PERF401  # those before the failure count
        except RunFailed:
            pass
    assert [event.task_id for event in events if isinstance(event, Warned)] == ["c"]


def picky(old: list[str], delta: list[str]) -> list[str]:
    """A reducer that fails on one update, and on lists that are too long."""
    if "bad" in delta or len(old) + len(delta) > 2:
        raise ValueError("that is bad")
    return [*old, *delta]


def generous(old: list[str], delta: list[str]) -> list[str]:
    return [*old, *delta]


class Picky(State):
    kept: Annotated[list[str], reducer(picky)] = []


class Generous(State):
    kept: Annotated[list[str], reducer(generous)] = []


async def test_probe_20_a_reducer_that_fails_on_an_update_fails_the_node_that_wrote_it(
    caller: Caller, store: Store
) -> None:
    """The error names field and node, the bad update is never stored, and the rest can be read and gone on with."""
    graph, _ = chained(Picky, {"kept": ["good"]}, {"kept": ["bad"]})
    run = await caller.fails(graph, run_id="r", store=store)
    assert problems(run) == {
        "2": "StateError: its update was refused: `kept`: its reducer failed: ValueError: that is bad"
    }
    assert (await graph.load("r", store=store)).state == Picky(kept=["good"])
    mended, calls = chained(Generous, {"kept": ["good"]}, {"kept": ["bad"]})
    run = await caller.resume(mended, "r", store=store)
    assert (run.state, calls) == (Generous(kept=["good", "bad"]), ["2"])


async def test_probe_20_a_reducer_that_fails_where_branches_meet_is_applied_again_without_running_them(
    caller: Caller, store: Store
) -> None:
    """Each branch alone was fine, so both are stored; after a code fix only what follows runs."""
    updates: dict[str, Any] = {"b": {"kept": ["1", "2"]}, "c": {"kept": ["3"]}}
    graph, calls = forked(Picky, **updates)
    run = await caller.fails(graph, run_id="r", store=store)
    (error,) = run.errors
    assert (error.node, error.kind, sorted(calls)) == ("meet", "ConflictError", ["b", "c"])
    assert error.message.startswith(
        "the reducer of field `kept` failed on the writes of `b` and `c` together: ValueError: that is bad; mend the "
    )
    stored = await graph.load("r", store=store)
    assert (stored.status, stored.state, stored.unmerged) == ("failed", Picky(), ("kept",))
    mended, calls = forked(Generous, **updates)
    run = await caller.resume(mended, "r", store=store)
    assert (run.state, calls) == (Generous(kept=["1", "2", "3"]), ["meet"])


async def test_probe_21_an_unknown_field_is_refused_at_the_node(caller: Caller, store: Store) -> None:
    """A key that is no field is an error with node, key and a near name; nothing of the update is stored."""
    graph, calls = chained(Desk, {"count": 1}, {"topick": "x", "count": 2}, {"topic": "y"})
    run = await caller.fails(graph, store=store)
    assert problems(run) == {
        "2": "StateError: its update was refused: `topick` is no field of `Desk`; did you mean `topic`?"
    }
    assert (run.state, calls) == (Desk(count=1), ["1", "2"])


def test_probe_21_an_unknown_field_that_the_source_shows_is_a_fault_of_the_definition() -> None:
    """A literal key is found before anything runs, with its line."""
    graph = Graph("typo", Desk)

    @graph.node
    def write(state: Desk) -> Update:
        return {"topick": "x"}

    graph.chain(START, write, END)
    with pytest.raises(GraphError, match=r"node `write` \(line \d+\) returns `topick`.*did you mean `topic`"):
        graph.check()


@pytest.mark.parametrize("wrong", [{"count": "many"}, {"seen": "abc"}, {"count": None}, {"seen": [1]}, "text", 7])
async def test_probe_22_a_wrong_type_from_the_last_node_is_refused_there(
    wrong: Any, caller: Caller, store: Store
) -> None:
    """It is not returned, not saved, and the node that wrote it is to blame."""
    graph, _ = chained(Desk, {"topic": "x"}, wrong)
    run = await caller.fails(graph, run_id="r", store=store)
    assert [(error.node, error.kind) for error in run.errors] == [("2", "StateError")]
    stored = await graph.load("r", store=store)
    assert (stored.status, stored.state, tasks(stored)) == ("failed", Desk(topic="x"), ["1"])


async def test_probe_23_a_wrong_type_from_a_middle_node_blames_the_writer(caller: Caller, store: Store) -> None:
    """The reader is never called with it; the stored run can be read, and goes on once the writer is mended."""
    graph, calls = chained(Desk, {"topic": "x"}, {"count": "many"}, lambda state: {"count": state.count + 1})
    run = await caller.fails(graph, run_id="r", store=store)
    assert problems(run) == {
        "2": "StateError: its update was refused: `count`: Input should be a valid integer, unable to parse string as "
        "an integer (got 'many')"
    }
    assert ((await graph.load("r", store=store)).state, calls) == (Desk(topic="x"), ["1", "2"])
    mended, calls = chained(Desk, {"topic": "x"}, {"count": 41}, lambda state: {"count": state.count + 1})
    run = await caller.resume(mended, "r", store=store)
    assert (run.state, calls) == (Desk(topic="x", count=42), ["2", "3"])


# -- validation and defaults ---------------------------------------------------------------------------------------


class Normal(State):
    mail: str = ""
    tags: Annotated[list[str], append] = []
    age: int = Field(default=0, ge=0)

    @field_validator("mail")
    @classmethod
    def lower(cls, value: str) -> str:
        return value.strip().lower()

    @field_validator("tags")
    @classmethod
    def unique(cls, value: list[str]) -> list[str]:
        return sorted({tag.lower() for tag in value})


async def test_probe_24_what_a_validator_made_of_a_value_is_what_is_stored_and_seen(
    caller: Caller, store: Store
) -> None:
    """Of input, plain fields and reducer fields alike; a later read gives the same."""
    handed: list[Normal] = []

    def look(state: Normal) -> Update:
        handed.append(state)
        return {"tags": ["a", "C"]}

    graph, _ = chained(Normal, {"mail": " ADA@Example.com ", "tags": ["B"]}, look)
    run = await caller.run(graph, Normal(tags=["X", "x"]), run_id="r", store=store)
    assert handed == [Normal(mail="ada@example.com", tags=["b", "x"])]
    assert run.state == Normal(mail="ada@example.com", tags=["a", "b", "c", "x"])
    assert (await graph.load("r", store=store)).state == run.state
    stored = [step.writes for step in run.history]
    assert stored[0]["mail"] == ("set", ["ada@example.com"])
    assert stored[0]["tags"][1] == [["b", "x"]]


@pytest.mark.parametrize("given", [None, {}, Desk()])
async def test_probe_25_a_state_of_defaults_starts_without_input(given: Any, caller: Caller) -> None:
    """No input, an empty one and an empty model all give the defaults, to the node and in the result."""
    handed: list[Any] = []
    graph, _ = chained(Desk, handed.append)
    run = await caller.run(graph, given)
    assert (handed, run.state) == ([Desk()], Desk())


class Address(BaseModel):
    city: str


class Customer(State):
    address: Address = Address(city="Oslo")
    seen: Annotated[list[str], append] = ["start"]
    table: dict[str, list[int]] = {"a": [1]}


def _append(state: Customer) -> None:
    state.seen.append("mutated")


def _nest(state: Customer) -> None:
    state.table["a"].append(2)


def _assign(state: Customer) -> None:
    state.table = {}  # pyright: ignore[reportAttributeAccessIssue]  # what a checker forbids, a user may do


def _reach(state: Customer) -> None:
    state.address.city = "Rome"


@pytest.mark.parametrize("change", [_append, _nest, _assign, _reach])
async def test_probe_26_changing_the_input_in_place_is_an_error_and_reaches_nobody(
    change: Any, caller: Caller, store: Store
) -> None:
    """It raises and says what to return instead; siblings, store and the caller's own object are as they were."""
    mine, siblings = Customer(), list[Customer]()

    def look(state: Customer) -> Update:
        siblings.append(state)
        return None

    graph, _ = forked(Customer, bad=change, good=look)
    run = await caller.fails(graph, mine, run_id="r", store=store)
    assert [(error.node, error.kind) for error in run.errors] == [("bad", "StateError")]
    assert "return" in run.errors[0].message
    assert (siblings, mine, run.state) == ([Customer()], Customer(), Customer())
    assert (await graph.load("r", store=store)).state == Customer()


# -- updates -------------------------------------------------------------------------------------------------------


async def test_probe_27_a_returned_model_writes_only_what_is_different(caller: Caller) -> None:
    """A list that is echoed is not added again; one that grew gives what was added; the rest is untouched."""
    graph, _ = chained(
        Desk,
        lambda state: replace(state, count=1),
        lambda state: state,
        lambda state: replace(state, seen=[*state.seen, "more"]),
    )
    run = await caller.run(graph, Desk(seen=["first"]))
    assert run.state == Desk(count=1, seen=["first", "more"])
    assert [step.writes for step in run.history] == [
        {"count": ("set", [1])},
        {},
        {"seen": ("delta", [["more"]])},
    ]


async def test_probe_27_a_returned_model_that_is_no_addition_says_what_to_return(caller: Caller) -> None:
    """A shortened list is no delta of `append`."""
    graph, _ = chained(Desk, lambda state: replace(state, seen=[]))
    run = await caller.fails(graph, Desk(seen=["first"]))
    assert "return a mapping, or {'seen': Replace(value)}" in run.errors[0].message


async def test_probe_28_nothing_returned_writes_nothing(caller: Caller) -> None:
    """None, an empty mapping and the state itself: done, without a write."""
    graph, _ = chained(Desk, None, {}, lambda state: state)
    run = await caller.run(graph, Desk(topic="kept"))
    assert (run.state, [dict(step.writes) for step in run.history]) == (Desk(topic="kept"), [{}, {}, {}])


@pytest.mark.parametrize("result", [None, 0, "", False, [], {}], ids=repr)
async def test_probe_28_a_recorded_step_with_a_falsy_result_is_done(result: Any, store: Store) -> None:
    """What `ctx.step` gave is replayed on resume, whatever it was."""
    graph = Graph("falsy", Desk)
    done: list[str] = []
    given: list[Any] = []

    def work() -> Any:
        done.append("work")
        return result

    @graph.node
    async def node(state: Desk, ctx: Context[object, Desk]) -> Update:
        given.append(await ctx.step("work", work))
        if len(given) == 1:
            raise ValueError("after the step")
        return None

    graph.chain(START, node, END)
    await Caller(is_async=True).fails(graph, run_id="r", store=store)
    run = await graph.resume("r", store=store)
    assert (run.status, done, given) == ("completed", ["work"], [result, result])


class Mapped(State):
    items: list[int] = []
    results: list[Any] = []


async def test_probe_28_items_with_falsy_results_are_done(store: Store) -> None:
    """A map resumed after one item failed runs that item alone, though the others gave None, 0 and an empty list."""
    graph = Graph("falsy map", Mapped)
    calls: list[int] = []
    results: list[Any] = [None, 0, [], "mended"]

    @graph.map(over="items", into="results")
    def work(item: int) -> Any:
        calls.append(item)
        if item == 3 and calls.count(3) == 1:
            raise ValueError("once")
        return results[item]

    graph.chain(START, work, END)
    await Caller(is_async=True).fails(graph, Mapped(items=[0, 1, 2, 3]), run_id="r", store=store)
    run = await graph.resume("r", store=store)
    assert (run.state.results, sorted(calls)) == ([None, 0, [], "mended"], [0, 1, 2, 3, 3])


async def test_probe_29_an_explicit_none_is_a_value(caller: Caller, store: Store) -> None:
    """It is stored, it is seen, and it counts where branches meet."""
    graph, _ = forked(Desk, b={"note": None}, c={"count": 1})
    run = await caller.run(graph, Desk(note="was"), run_id="r", store=store)
    assert run.state == Desk(note=None, count=1)
    assert (await graph.load("r", store=store)).state == run.state
    assert {step.task: dict(step.writes) for step in run.history}["b"] == {"note": ("set", [None])}


class Chat(State):
    said: Annotated[list[dict[str, Any]], messages] = []
    known: Annotated[set[str], union] = {"default"}
    log: Annotated[list[str], append] = ["default"]


async def test_probe_30_input_is_made_what_the_reducer_would_have_made_of_it(store: Store) -> None:
    """The input is the starting value in place of the default; messages get ids, and a repeated id is one message."""
    graph, _ = chained(Chat, {"said": [{"text": "new"}], "known": {"b"}, "log": ["l"]})
    given = {
        "said": [{"text": "one"}, {"text": "two"}, {"id": "x", "text": "old"}, {"id": "x", "text": "newer"}],
        "known": {"a"},
        "log": [],
    }
    run = await graph.run(given, run_id="r", store=store)
    assert [message["text"] for message in run.state.said] == ["one", "two", "newer", "new"]
    assert len({message["id"] for message in run.state.said}) == 4
    assert (run.state.known, run.state.log) == ({"a", "b"}, ["l"])
    again = await graph.run(given, run_id="r", store=store)
    assert (again.replayed, again.state) == (True, run.state)


async def test_probe_30_a_replaced_list_of_messages_has_ids_too() -> None:
    """`Replace` with new messages names them, so that the next update adds to them."""
    graph, _ = chained(Chat, {"said": Replace([{"text": "one"}, {"text": "two"}])}, {"said": [{"text": "three"}]})
    run = await graph.run(Chat(said=[{"text": "gone"}]))
    assert [message["text"] for message in run.state.said] == ["one", "two", "three"]


@pytest.mark.parametrize("order", ["bc", "cb"])
async def test_probe_31_a_reset_beside_another_write_wins_in_either_order(order: str, caller: Caller) -> None:
    """`Replace` drops the writes of its field that do not descend from it."""
    updates = {"b": {"seen": Replace(["reset"])}, "c": {"seen": ["added"]}}
    graph, _ = forked(Desk, **{name: updates[name] for name in order})
    assert (await caller.run(graph, Desk(seen=["old"]))).state.seen == ["reset"]


async def test_probe_31_two_resets_are_a_conflict(caller: Caller) -> None:
    """Even of equal values: nothing says which is meant."""
    graph, _ = forked(Desk, b={"seen": Replace([])}, c={"seen": Replace([])})
    failure = await caller.failure(graph)
    conflict = failure.errors[0].__cause__
    assert isinstance(conflict, ConflictError)
    assert (conflict.field, conflict.tasks) == ("seen", ("b", "c"))


class Sums(State):
    total: Annotated[int, add] = 0
    log: Annotated[list[str], append] = []
    table: Annotated[dict[str, int], merge] = {}


async def test_probe_32_several_writes_of_one_field_are_applied_in_order_and_shown(caller: Caller) -> None:
    """One mapping holds a field once; a nested graph may write it many times, and hands on all of it, in order."""
    child, _ = chained(
        Sums,
        {"total": 1, "log": ["one"], "table": {"k": 1}},
        {"total": 10, "log": ["two"], "table": {"k": 2}},
    )
    graph: Graph[Any] = Graph("outer", Sums)
    graph.node(child, name="inner")
    graph.chain(START, "inner", END)
    run: Run[Any] = await caller.run(graph, Sums(total=100, log=["zero"], table={"k": 0}))
    assert run.state == Sums(total=111, log=["zero", "one", "two"], table={"k": 2})
    assert [(step.task, step.writes["log"]) for step in run.history if step.kind == "done"] == [
        ("inner/1", ("delta", [["one"]])),
        ("inner/2", ("delta", [["two"]])),
        ("inner", ("delta", [["one", "two"]])),
    ]


class Public(State):
    question: str = ""
    answer: str = ""


class Private(State):
    question: str
    draft: str = ""
    answer: str = ""


async def test_probe_33_what_is_private_to_a_nested_graph_does_not_leak(caller: Caller, store: Store) -> None:
    """Its own fields are journaled under its path, and only the declared output reaches the parent."""
    child, _ = chained(Private, {"draft": "secret"}, lambda state: {"answer": state.question + state.draft})
    graph: Graph[Any] = Graph("outer", Public)
    graph.node(child, name="inner", output={"answer": "answer"})
    graph.chain(START, "inner", END)
    run = await caller.run(graph, Public(question="why? "), run_id="r", store=store)
    assert run.state.model_dump() == {"question": "why? ", "answer": "why? secret"}
    writes = {step.task: sorted(step.writes) for step in run.history if step.kind == "done"}
    assert writes == {"inner/1": ["draft"], "inner/2": ["answer"], "inner": ["answer"]}
    assert isinstance(run.state_of("inner/2"), Private)


async def test_probe_33_a_node_cannot_write_what_is_not_in_the_state() -> None:
    """There is no private channel from node to node: state is what is declared."""
    graph, _ = chained(Public, {"draft": "secret"})
    with pytest.raises(Exception, match="`draft` is no field of `Public`") as raised:
        await graph.run()
    assert isinstance(raised.value.__cause__, StateError)
