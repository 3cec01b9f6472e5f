"""Probes 1 to 18: joins, routing and order."""

from __future__ import annotations

import asyncio
import itertools
from typing import Annotated, Any, Literal

import pytest

from flowagent import END, START, Goto, Graph, Send, State, Update, append
from flowagent.core.events import TaskDone
from flowagent.errors import GraphError, RunFailed
from flowagent.stores import Store
from tests.patience import PATIENCE
from tests.scenarios import Caller, Trail, Walk, problems, tasks


class Parcels(State):
    parcels: list[str] = []
    seen: Annotated[list[str], append] = []


# -- joins ---------------------------------------------------------------------------------------------------------


async def test_probe_01_a_join_of_a_short_and_a_long_branch_runs_once(caller: Caller) -> None:
    """What two branches of unequal length lead to runs once, after both."""
    walk = Walk("START a b e END", "a c d e")
    run = await caller.run(walk.graph)
    assert (run.state.seen, tasks(run)[-1], walk.calls.count("e")) == (["a", "b", "c", "d", "e"], "e", 1)


async def test_probe_02_the_join_mode_can_be_declared(caller: Caller) -> None:
    """`join="all"` says the default aloud; `join="each"` runs the node once for each arrival, with ids of its own."""
    everyone, each = Walk(), Walk()
    everyone.node("e", join="all")
    each.node("e", join="each")
    for walk in (everyone, each):
        walk.follow(["START", "a", "b", "e", "END"])
        walk.follow(["a", "c", "d", "e"])
    assert (await caller.run(everyone.graph)).state.seen == ["a", "b", "c", "d", "e"]
    run = await caller.run(each.graph)
    assert run.state.seen == ["a", "b", "e", "c", "d", "e"]
    assert {task for task in tasks(run) if task.startswith("e")} == {"e@~(b)", "e@~(d)"}


async def test_probe_03_a_branch_that_was_not_taken_does_not_hold_a_join(caller: Caller) -> None:
    """A join of b and c runs when the router chose b alone."""
    walk = Walk("START a ?pick", "b e END", "c e")

    @walk.graph.router
    def pick(state: Trail) -> Literal["b", "c"]:
        return "b"

    assert (await caller.run(walk.graph)).state.seen == ["a", "b", "e"]


async def test_probe_04_a_join_in_a_cycle_runs_once_a_lap() -> None:
    """Three laps through a fork and its join: three visits, numbered, and nothing left over."""
    walk = Walk("START head a join ?again", "head b join")

    @walk.graph.router
    def again(state: Trail) -> Literal["head", "END"]:
        return "head" if state.seen.count("join") < 3 else "END"

    run = await walk.graph.run()
    assert run.state.seen == ["head", "a", "b", "join"] * 3
    assert [task for task in tasks(run) if task.startswith("join")] == ["join@1", "join@2", "join@3"]


async def test_probe_05_a_join_waits_for_the_last_round_of_a_branch_that_loops() -> None:
    """Beside b, c repeats itself three times: the join comes after the last, on the second lap too."""
    walk = Walk("START head b join ?again", "head c ?more")

    @walk.graph.router
    def more(state: Trail) -> Literal["c", "join"]:
        return "c" if state.seen.count("c") % 3 else "join"

    @walk.graph.router
    def again(state: Trail) -> Literal["head", "END"]:
        return "head" if state.seen.count("join") < 2 else "END"

    assert (await walk.graph.run()).state.seen == ["head", "b", "c", "c", "c", "join"] * 2


# -- routing -------------------------------------------------------------------------------------------------------


async def test_probe_06_a_target_named_twice_runs_once(caller: Caller) -> None:
    """A router that returns one name twice has named it."""
    walk = Walk("START a ?pick", "b END")

    @walk.graph.router(to=["b"])
    def pick(state: Trail) -> list[str]:
        return ["b", "b"]

    assert (await caller.run(walk.graph)).state.seen == ["a", "b"]


async def test_probe_07_an_edge_and_a_router_that_lead_to_one_node_run_it_once(caller: Caller) -> None:
    """A fork into b and into a router that chooses b too: they meet at b."""
    walk = Walk("START a b END", "a ?pick")

    @walk.graph.router
    def pick(state: Trail) -> Literal["b", "END"]:
        return "b"

    assert (await caller.run(walk.graph)).state.seen == ["a", "b"]


async def test_probe_08_end_ends_only_its_own_path(caller: Caller) -> None:
    """A router that returns END and a node lets the node run."""
    walk = Walk("START a ?pick", "b END")

    @walk.graph.router(to=["b", END])
    def pick(state: Trail) -> list[str]:
        return [END, "b"]

    assert (await caller.run(walk.graph)).state.seen == ["a", "b"]


async def test_probe_09_an_undeclared_target_fails_at_the_router_and_can_be_mended(
    caller: Caller, store: Store
) -> None:
    """The error names router, choice, known targets and a near one; nothing of it is stored, and resume asks again."""
    walk = Walk("START a ?pick", "billing END", "technical END")
    choice = "biling"

    @walk.graph.router(to=["billing", "technical"])
    def pick(state: Trail) -> str:
        return choice

    run = await caller.fails(walk.graph, run_id="r", store=store)
    assert problems(run) == {
        "pick": "RoutingError: `pick` chose 'biling', which it does not declare: `billing`, `technical`; "
        "did you mean `billing`?"
    }
    assert (tasks(run), run.state) == (["a"], Trail(seen=["a"]))
    choice = "billing"
    run = await caller.resume(walk.graph, "r", store=store)
    assert (run.state.seen, walk.calls) == (["a", "billing"], ["a", "billing"])


async def test_probe_09_an_undeclared_jump_fails_at_the_node_that_jumps(caller: Caller, store: Store) -> None:
    """A `Goto` to nowhere is refused with its update: nothing of the node is stored."""
    walk = Walk("START ?decide", "b END")

    @walk.graph.node(to=["b"])
    def decide(state: Trail) -> Goto:
        return Goto("nowhere", {"seen": ["decide"]})

    run = await caller.fails(walk.graph, store=store)
    assert problems(run) == {"decide": "RoutingError: `decide` chose 'nowhere', which it does not declare: `b`"}
    assert (tasks(run), run.state) == ([], Trail())


async def test_probe_09_items_sent_to_nowhere_fail_at_the_router(caller: Caller, store: Store) -> None:
    """A `Send` to an undeclared node is refused like any other choice; so is one to a node that takes no items."""
    walk = Walk("START a ?deal", "b END")
    target = "nowhere"

    @walk.graph.router(to=["b"])
    def deal(state: Trail) -> list[Send]:
        return [Send(target, "item")]

    run = await caller.fails(walk.graph, store=store, run_id="r")
    assert problems(run) == {"deal": "RoutingError: `deal` chose 'nowhere', which it does not declare: `b`"}
    target = "b"
    with pytest.raises(RunFailed, match=r"sent an item to `b`, which takes none: declare it with item=True"):
        await caller.resume(walk.graph, "r", store=store)
    assert walk.calls == ["a"]


@pytest.mark.parametrize("returned", [None, [], "perhaps"])
async def test_probe_10_a_router_that_chooses_nothing_fails_and_can_be_mended(
    returned: Any, caller: Caller, store: Store
) -> None:
    """None, an empty list and a label that is not mapped are errors of the router; once mended, the run goes on."""
    walk = Walk("START a ?pick", "b END", "c END")
    answers = [returned, "yes"]

    @walk.graph.router(to={"yes": "b", "no": "c"})
    def pick(state: Trail) -> Any:
        return answers.pop(0)

    run = await caller.fails(walk.graph, run_id="r", store=store)
    known = (
        f"router `pick` returned {returned!r}: name a target (`b`, `c`), or declare where to go without one with "
        "empty=..."
        if not returned
        else "router `pick` returned 'perhaps', which its to= does not list: it lists 'yes', 'no'"
    )
    assert problems(run) == {"pick": f"RoutingError: {known}"}
    run = await caller.resume(walk.graph, "r", store=store)
    assert (run.status, run.state.seen, walk.calls) == ("completed", ["a", "b"], ["a", "b"])


def test_probe_11_a_node_has_one_rule_for_what_is_next() -> None:
    """A fixed edge beside a `Goto` or beside a router's choice is refused before anything runs."""
    walk = Walk("START ?jumper b END", "b ?pick b2 END")

    @walk.graph.node
    def jumper(state: Trail) -> Goto[Literal["b"]]:
        return Goto("b")

    @walk.graph.router
    def pick(state: Trail) -> Literal["END"]:
        return "END"

    with pytest.raises(GraphError) as raised:
        walk.graph.check()
    assert raised.value.faults[:2] == tuple(
        f"node `{node}` chooses its targets itself and also has a fixed edge to `{target}`; a node has one rule for "
        "what is next: drop the edge, or declare the target"
        for node, target in (("jumper", "b"), ("pick", "b2"))
    )


# -- fans ----------------------------------------------------------------------------------------------------------


async def test_probe_12_two_routers_that_deal_out_and_a_plain_branch_all_run_in_declared_order() -> None:
    """Items of both routers form one map, in merge order; the plain branch meets it where both lead."""
    graph = Graph("deals", Parcels)
    walk = Walk()

    @graph.router(to=["work"])
    def deal_one(state: Parcels) -> list[Send]:
        return [Send("work", "1a"), Send("work", "1b")]

    @graph.router(to=["work"])
    def deal_two(state: Parcels) -> list[Send]:
        return [Send("work", "2a"), Send("work", "2b")]

    @graph.node(item=True)
    def work(item: str) -> Update:
        walk.calls.append(item)
        return {"seen": [item]}

    @graph.node
    def plain(state: Parcels) -> Update:
        return {"seen": ["plain"]}

    @graph.node
    def gather(state: Parcels) -> Update:
        return {"seen": ["gather"]}

    graph.chain(START, deal_two)
    graph.chain(START, plain, gather, END)
    graph.chain(START, deal_one)
    graph.chain(work, gather)
    run = await graph.run()
    assert run.state.seen == ["plain", "2a", "2b", "1a", "1b", "gather"]
    assert sorted(walk.calls) == ["1a", "1b", "2a", "2b"]


async def test_probe_13_what_follows_items_is_asked_and_run_once(caller: Caller) -> None:
    """A router behind a node that ran for two items is asked once, and so is what it chooses."""
    graph = Graph("parcels", Parcels)
    asked: list[list[str]] = []

    @graph.router(to=["work"])
    def deal(state: Parcels) -> list[Send]:
        return [Send("work", parcel) for parcel in state.parcels]

    @graph.node(item=True)
    def work(item: str) -> Update:
        return {"seen": [item]}

    @graph.router
    def after(state: Parcels) -> Literal["d"]:
        asked.append(list(state.seen))
        return "d"

    @graph.node
    def d(state: Parcels) -> Update:
        return {"seen": ["d"]}

    graph.chain(START, deal)
    graph.chain(work, after)
    graph.chain(d, END)
    run = await caller.run(graph, Parcels(parcels=["x", "y"]))
    assert (run.state.seen, asked) == (["x", "y", "d"], [["x", "y"]])


# -- order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finishing", list(itertools.permutations("zma")), ids="".join)
async def test_probe_14_parallel_nodes_merge_in_declared_order_whoever_is_first(finishing: tuple[str, ...]) -> None:
    """The order of the edges out of the fork is the order of their writes, whatever the order of finishing."""
    graph = Graph("race", Trail)
    turns = {name: asyncio.Event() for name in finishing}
    turns[finishing[0]].set()
    following = dict(itertools.pairwise(finishing))

    def runner(name: str) -> None:
        async def run(state: Trail) -> Update:
            await turns[name].wait()
            return {"seen": [name]}

        graph.node(run, name=name)
        graph.chain(START, name, END)

    for name in "zma":
        runner(name)
    ended: list[str] = []
    async with graph.stream() as events:
        async for event in events:
            if isinstance(event, TaskDone):
                ended.append(event.node)
                if event.node in following:
                    turns[following[event.node]].set()
    assert (tuple(ended), events.run.state.seen) == (finishing, ["z", "m", "a"])


async def test_probe_15_a_router_sees_what_its_node_wrote_and_not_what_a_sibling_did() -> None:
    """State is causal: the sibling is done before the router is asked, and not in its history."""
    graph = Graph("causal", Trail)
    sibling_is_done = asyncio.Event()
    seen_by_router: list[list[str]] = []

    @graph.node
    async def sibling(state: Trail) -> Update:
        return {"seen": ["sibling"]}

    @graph.node
    async def own(state: Trail) -> Update:
        await sibling_is_done.wait()
        return {"seen": ["own"]}

    @graph.router
    def pick(state: Trail) -> Literal["END"]:
        seen_by_router.append(list(state.seen))
        return "END"

    graph.chain(START, sibling, END)
    graph.chain(START, own, pick)
    async with graph.stream() as events:
        async for event in events:
            if isinstance(event, TaskDone) and event.node == "sibling":
                sibling_is_done.set()
    assert (seen_by_router, events.run.state.seen) == ([["own"]], ["sibling", "own"])


async def test_probe_16_a_finaliser_behind_branches_of_one_and_three_hops_runs_once_and_last(caller: Caller) -> None:
    """It is an ordinary join; nothing has to be deferred."""
    walk = Walk("START a final END", "START b c d final")
    run = await caller.run(walk.graph)
    assert (run.state.seen, walk.calls[-1], walk.calls.count("final")) == (["a", "b", "c", "d", "final"], "final", 1)


async def test_probe_17_loops_and_several_entries_run_and_are_drawn() -> None:
    """A self-loop, a two-node loop and a router behind START that lets two nodes in: as declared, and as drawn."""
    walk = Walk("a ?self", "b c ?back", "d END")

    @walk.graph.router(to=["a", "b"])
    def enter(state: Trail) -> list[str]:
        return ["a", "b"]

    @walk.graph.router(name="self", to=["a", "d"])
    def self_(state: Trail) -> str:
        return "a" if state.seen.count("a") < 3 else "d"

    @walk.graph.router(to=["b", "d"])
    def back(state: Trail) -> str:
        return "b" if state.seen.count("b") < 2 else "d"

    walk.graph.chain(START, enter)
    run = await walk.graph.run()
    assert run.state.seen == ["a", "a", "a", "b", "c", "b", "c", "d"]
    edges = {
        *[("START", "enter"), ("enter", "a"), ("enter", "b"), ("a", "self"), ("self", "a"), ("self", "d")],
        *[("b", "c"), ("c", "back"), ("back", "b"), ("back", "d"), ("d", "END")],
    }
    assert set(walk.graph.to_networkx().edges()) == edges
    assert walk.graph.draw().mermaid().count("-->") == len(edges)


async def test_probe_18_a_branch_does_not_wait_for_an_unrelated_sibling() -> None:
    """`after` follows `fast` while `slow`, which waits for it, is still running."""
    graph = Graph("dataflow", Trail)
    after_has_run = asyncio.Event()

    @graph.node
    async def fast(state: Trail) -> Update:
        return {"seen": ["fast"]}

    @graph.node
    async def after(state: Trail) -> Update:
        after_has_run.set()
        return {"seen": ["after"]}

    @graph.node
    async def slow(state: Trail) -> Update:
        async with asyncio.timeout(PATIENCE):
            await after_has_run.wait()
        return {"seen": ["slow"]}

    graph.chain(START, slow, END)
    graph.chain(START, fast, after, END)
    run = await graph.run()
    assert (run.state.seen, tasks(run)) == (["slow", "fast", "after"], ["fast", "after", "slow"])
