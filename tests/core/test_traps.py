"""The traps that section 3 of the design names, and what the probes of joins come to on the pure machine.

Every run is told to the slow model as well (`Shell(..., model=True)`), which has to agree after every fact. What is
`slow` ends only when nothing else is left to do; so a task that is there before a slow one has ended did not wait.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from flowagent.core.graph import Graph
from flowagent.core.reducers import Replace
from flowagent.core.schema import Schema
from flowagent.core.writes import Write, merged
from flowagent.errors import ConflictError, GraphError
from tests.core.generate import ALWAYS, S, Script, Shell, built, drawn, sketched

CHECKED_LOOP = """
    START > head
    head > a, b
    a > check
    check ? a, j
    b > j
    j ! head, END
"""


def shell(graph: Graph[Any, Any], **script: Any) -> Shell:
    return Shell(graph, Script(**script), model=True)


def logs(told: Shell) -> dict[str, list[str]]:
    """What each task has seen happen, in fold order."""
    return {task: state["log"] for task, state in told.seen.states.items()}


# -- the traps ------------------------------------------------------------------------------------------------------


def test_a_starts_without_waiting_for_its_sibling() -> None:
    """`head -> a, b`: `a` and its inner loop go on while `b` is still at work."""
    run = shell(drawn(CHECKED_LOOP), routes={"check@1.1": ["a"], "check@1.2": ["j"], "j@1": ["END"]})
    run.hold("b@1")
    assert run.seen.done == ["head@1", "a@1.1", "check@1.1", "a@1.2", "check@1.2"]
    assert list(run.machine.tasks) == ["b@1"]


@pytest.mark.parametrize("shuffle", range(8))
def test_a_join_runs_once_a_lap_with_both_branches_in_any_declaration_order(shuffle: int) -> None:
    """`j` waits for the inner loop of its own lap, and for `b`; no order of declaration changes that."""
    plan = sketched(CHECKED_LOOP)
    routes = {"check@1.1": ["a"], "check@1.2": ["j"], "check@2.1": ["j"], "j@2": ["END"]}
    run = shell(built(plan, random.Random(shuffle)), routes=routes)
    run.play(*random.Random(shuffle).choice([("b@1", "a@2.1"), ("check@1.2", "b@2"), ("a@1.2",)]))
    lap = ["head@1", "a@1.1", "a@1.2", "b@1", "j@1"]
    assert run.seen.final["log"] == [*lap, "head@2", "a@2.1", "b@2", "j@2"]
    assert logs(run)["j@1"] == lap[:-1]
    assert logs(run)["j@2"] == [*lap, "head@2", "a@2.1", "b@2"]


def test_branches_that_may_each_leave_or_repeat_their_loop_are_warned_of() -> None:
    """`writer -> c1, c2`, each `-> writer | done`: the laps multiply, so `check` says to let them meet first."""
    graph = drawn("START > writer; writer > c1, c2; c1 ? writer, done; c2 ? writer, done; done > END")
    (warning,) = graph.check()
    assert warning == (
        "branches out of `writer` may each leave or repeat their loop (`c1`, `c2`): let them meet before they decide"
    )


def test_a_week_of_thinking_changes_no_merge() -> None:
    """A token that waits for an answer is live like any other: the join holds, and merges in the same order."""
    graph = drawn("START > gate, b; gate > j; b > j; j > END", gate={"kind": "gate"})
    run = shell(graph)
    run.hold("?gate")
    assert (run.seen.done, list(run.machine.tasks), len(run.machine.questions)) == (["b"], ["gate"], 1)
    assert run.play().final["log"] == ["gate", "b", "j"]


def test_a_lap_never_waits_for_another_lap() -> None:
    """Each lap's join merges the arrivals of its own visit of `head`, while the lap before is still at work."""
    graph = drawn("START > head; head > x, y, turn; x > j; y > j; j > END; turn ! head, END")
    run = shell(graph, routes={"turn@1": ["head"], "turn@2": ["END"]})
    run.hold("x@1")
    assert set(run.seen.done) == {"head@1", "y@1", "turn@1", "head@2", "x@2", "y@2", "turn@2", "j@2"}
    assert logs(run)["j@2"] == ["head@1", "turn@1", "head@2", "x@2", "y@2"]
    run.play()
    assert logs(run)["j@1"] == ["head@1", "x@1", "y@1"]


def test_the_run_is_over_when_nothing_is_live_and_end_merges_all_that_ended() -> None:
    """END has no tag: branches of whatever length, and of whatever lap, meet there."""
    run = shell(drawn("START > a, b; a > END; b > c; c > END"))
    run.hold("c")
    assert run.machine.final is None
    assert run.play().final["log"] == ["a", "b", "c"]


def test_a_token_at_the_dominator_has_passed_it() -> None:
    """A token that goes back to `d(j)` belongs to the next lap, so it does not hold the join of this one."""
    graph = drawn("START > head; head > a, b; a > j; b ? j, head; j > END")
    run = shell(graph, routes={"b@1": ["head"], "b@2": ["j"]})
    run.hold("head@2")
    assert run.seen.done == ["head@1", "a@1", "b@1", "j@1"]
    assert logs(run)["j@1"] == ["head@1", "a@1"]


TIED = "START > a, b; a > j1; b > j2; j1 ! j2, END; j2 ! j1, END"


def test_joins_that_can_wait_for_each_other_need_an_order() -> None:
    """`check` names them, and takes an order for each pair."""
    with pytest.raises(GraphError, match=r"the joins `j1`, `j2` can wait for each other: declare .* before"):
        drawn(TIED).check()
    assert drawn(TIED + "; j2 before j1").check() == ()


@pytest.mark.parametrize(
    ("order", "done"),
    [("j1 before j2", ["j1@1", "j2@1"]), ("j2 before j1", ["j2@1", "j1@1", "j2@2"])],
)
def test_of_joins_that_wait_only_for_each_other_the_first_fires_alone(order: str, done: list[str]) -> None:
    """The first by declared order fires; then all is asked again."""
    run = shell(drawn(f"{TIED}; {order}"), routes={"j1@1": ["j2"], "j2@1": ["END"], "j2@2": ["END"]})
    run.hold(done[0])
    assert list(run.machine.tasks) == done[:1]
    assert run.play().done == ["a", "b", *done]


def test_what_waits_only_for_joins_is_asked_again_when_the_last_other_token_is_gone() -> None:
    """Nothing frees a tie: it is found although the count of no join came down to nothing."""
    graph = drawn("START > a, b, c; a > j1; b > j2; c ? END, j1; j1 ! j2, END; j2 ! j1, END; j1 before j2")
    run = shell(graph, routes={"j1@1": ["END"], "j2@1": ["END"]})
    run.hold("c")
    assert list(run.machine.tasks) == ["c"]
    assert run.play().done == ["a", "b", "c", "j1@1", "j2@1"]


def test_a_join_that_fired_in_a_tie_and_is_reached_again_has_another_id() -> None:
    """The second firing need not descend from the first; still no two tasks share an id."""
    run = shell(drawn(f"{TIED}; j1 before j2"), routes={"j1@1": ["END"], "j2@1": ["j1"], "j1@2": ["END"]})
    assert run.play().done == ["a", "b", "j1@1", "j2@1", "j1@2"]


def test_a_router_with_several_edges_in_is_a_join() -> None:
    """It is asked once, with the state in which its branches meet."""
    run = shell(drawn("START > a, b; a > r; b > r; r ? c, END; c > END"))
    run.play("a")
    assert logs(run)["r"] == ["a", "b"]
    assert sorted(run.seen.done) == ["a", "b", "c", "r"]


def test_an_error_edge_holds_a_join_wherever_the_token_stands() -> None:
    """`b` leads to END, but if it fails its handler leads to `j`: so `j` waits for `b`, whichever it will be."""
    text = "START > head; head > a, b; a > j; b > END; h > j; j > END"
    fine, failed = (shell(drawn(text, b={"handler": "h"}), fails=fails) for fails in ({}, {"b": ALWAYS}))
    for run in (fine, failed):
        run.hold("b")
        assert run.seen.done == ["head", "a"]
        run.play()
    assert fine.seen.done == ["head", "a", "b", "j"]
    assert failed.seen.done == ["head", "a", "h@~(b)", "j"]
    assert logs(failed)["j"] == ["head", "a", "h@~(b)"]


def test_items_are_commits_side_by_side_and_children_of_all_arrows_that_met() -> None:
    """Items of two routers form one map, in merge order; each sees what both had done, and no other item."""
    graph = drawn("START > a, b; a > ra; b > rb; ra ? read; rb ? read; read > END", read={"kind": "item"})
    run = shell(graph, sends={"ra": [1], "rb": [2, 3]})
    run.play("a", "read[1]")
    seen = logs(run)
    assert seen["read[0]"] == seen["read[1]"] == seen["read[2]"] == ["a", "b"]
    assert [run.seen.states[f"read[{index}]"]["the item"] for index in range(3)] == [1, 2, 3]
    assert seen["read closing"] == ["a", "b", "read[0]", "read[1]", "read[2]"]
    assert run.seen.final["log"] == [*seen["read closing"], "read"]


def test_branches_see_one_another_only_where_they_meet() -> None:
    """However early `a` is done, its sibling's successors do not see it before the join."""
    run = shell(drawn("START > a, b; a > j; b > c; c > j; j > END"))
    run.play("b", "c")
    assert (logs(run)["c"], logs(run)["j"]) == (["b"], ["a", "b", "c"])


def test_the_fold_order_is_that_of_the_declared_arrows_whatever_was_faster() -> None:
    """First declared branch first, and a commit after its parents, even where branches cross."""
    graph = drawn("START > a; a > b, c; b > d, e; c > e; d > f; e > f; f > END")
    for slow in itertools.permutations(["b", "c", "d"]):
        run = shell(graph)
        assert run.play(*slow).final["log"] == ["a", "b", "d", "c", "e", "f"]


# -- ids ------------------------------------------------------------------------------------------------------------


def test_ids_tell_the_visit_of_the_dominator_and_the_time_round() -> None:
    """`a@2`, `check@2.3`: numbers come from the static graph and from causality."""
    laps = {"check@1.1": ["j"], "check@2.1": ["a"], "check@2.2": ["a"], "check@2.3": ["j"], "j@2": ["END"]}
    run = shell(drawn(CHECKED_LOOP), routes=laps)
    run.play()
    assert set(run.seen.done) == {
        *("head@1", "a@1.1", "check@1.1", "b@1", "j@1"),
        *("head@2", "a@2.1", "check@2.1", "a@2.2", "check@2.2", "a@2.3", "check@2.3", "b@2", "j@2"),
    }


def test_ids_of_items_nested_tasks_and_handlers_show_where_they_stand() -> None:
    """`read@1[2]`, `research@1/search@2`, `h@1~(read@1)`; names are encoded where ids have their own signs."""
    inner = sketched("START > look; look > search; search ! search, END")
    graph = drawn(
        "START > turn; turn > research; research > read, m(1); m(1) > turns; read > turns; h > END; turns ! turn, END",
        research={"kind": "graph", "child": inner},
        read={"handler": "h"},
        **{"m(1)": {"kind": "map"}},
    )
    routes = {"research@1/search@1": ["search"], "research@1/search@2": ["END"], "turns@1": ["END"]}
    run = shell(graph, routes=routes, fails={"read@1": ALWAYS})
    run.play()
    assert set(run.seen.done) == {
        *("turn@1", "research@1/look", "research@1/search@1", "research@1/search@2", "research@1"),
        *("m%281%29@1[0]", "m%281%29@1[1]", "m%281%29@1", "turns@1", "h@1~(read@1)"),
    }


def test_a_node_that_runs_once_for_each_arrival_is_told_apart_by_its_trigger() -> None:
    """`each` has no time round: its trigger stands in brackets, and what follows carries the number on."""
    run = shell(drawn("START > a, b; a > e; b > e; e > f; f > END", e={"each": True}))
    run.play("a")
    assert sorted(run.seen.done) == ["a", "b", "e@~(a)", "e@~(b)", "f@~(a)", "f@~(b)"]
    assert run.seen.final["log"] == ["a", "e@~(a)", "f@~(a)", "b", "e@~(b)", "f@~(b)"]


def test_a_trigger_that_is_too_long_becomes_a_hash() -> None:
    """A loop of `each` visits does not make ids grow for ever."""
    graph = drawn("START > e; e ! e, END", e={"each": True})
    run = shell(graph, routes={})
    while len(run.seen.done) < 40:
        run.act(next(iter(run.actions(1))))
    assert len(set(run.seen.done)) == 40
    assert max(map(len, run.seen.done)) <= 125


def test_whether_a_number_has_parts_does_not_depend_on_what_happened() -> None:
    """A node that can come round is `@1` even if it never does; START's number is empty."""
    run = shell(drawn("START > once; once > loop; loop ! loop, END"), routes={"loop@1": ["END"]})
    assert run.play().done == ["once", "loop@1"]


# -- conflicts ------------------------------------------------------------------------------------------------------

FORK = "START > a, b; a > c; b > j; c > j; j > END"


def test_a_write_is_superseded_by_one_that_descends_from_it() -> None:
    """`c` comes after `a` and overwrites it, so only `b` and `c` are compared; equal bytes are no conflict."""
    run = shell(drawn(FORK), writes={"a": {"a": "old"}, "c": {"a": "same"}, "b": {"a": "same"}})
    assert run.play().final["a"] == "same"


def test_two_writes_that_nobody_superseded_and_that_differ_are_a_conflict() -> None:
    """It names field and writers; settled, it goes on without running anything again."""
    run = shell(drawn(FORK), writes={"a": {"a": "old"}, "c": {"a": "one"}, "b": {"a": "two"}})
    run.hold("j")
    (failed,) = run.machine.failed_tasks()
    assert failed.failures[0].message.startswith("field `a` was written by `c` and `b`, which ran beside one another")
    run.play()
    assert (run.seen.final["a"], sorted(run.seen.done)) == ("settled j", ["a", "b", "c", "j"])


def test_a_replace_drops_the_writes_that_do_not_descend_from_it() -> None:
    """What came before it and what ran beside it is gone; what follows it counts."""
    writes = {"a": {"bag": Replace(["new"])}, "c": {"bag": ["after"]}, "b": {"bag": ["beside"]}, "j": {"bag": ["end"]}}
    assert shell(drawn(FORK), writes=writes).play().final["bag"] == ["new", "after", "end"]


def test_two_replaces_beside_one_another_are_a_conflict_even_if_they_are_equal() -> None:
    """Each would drop the other's; that one of them was followed by a delta changes nothing."""
    writes = {"a": {"bag": Replace(["x"])}, "c": {"bag": ["after"]}, "b": {"bag": Replace(["x"])}}
    run = shell(drawn(FORK), writes=writes)
    run.hold("j")
    (failed,) = run.machine.failed_tasks()
    assert failed.failures[0].message.startswith("field `bag` was written by ")


def test_a_plain_write_supersedes_the_replace_that_it_follows() -> None:
    """Two branches after one `Replace` of a plain field may still differ, and nothing may choose between them."""
    text = "START > top; top > a, b; a > j; b > j; j > END"
    run = shell(drawn(text), writes={"top": {"a": Replace("0")}, "a": {"a": "1"}, "b": {"a": "2"}})
    run.hold("j")
    (failed,) = run.machine.failed_tasks()
    assert failed.failures[0].message.startswith("field `a` was written by `a` and `b`")


def test_equal_sets_are_no_conflict_however_their_members_lie() -> None:
    """The JSON of a set has its members in no order of its own."""

    class Written:
        def __init__(self, name: str, members: list[str], data: bytes) -> None:
            self.id = name
            self.writes = {"tags": Write("set", [set(members)], [data])}

    one, two = Written("one", ["x", "y"], b'["x","y"]'), Written("two", ["y", "x"], b'["y","x"]')
    writes = merged({"tags": None}, [one, two], lambda a, b: False, lambda name, write: write.datas)
    assert writes["tags"].values == [{"x", "y"}]


def test_a_reducer_that_was_added_is_offered_all_that_was_set_in_merge_order() -> None:
    """Stored `set`s are deltas to it, and no delta that was written since is lost."""

    class Written:
        def __init__(self, name: str, kind: Any, value: list[str]) -> None:
            self.id = name
            self.writes = {"log": Write(kind, [value], [repr(value).encode()])}

    reducers = Schema(S).reducers
    one, two, three = Written("one", "set", ["1"]), Written("two", "delta", ["2"]), Written("three", "set", ["3"])
    follows = {(two, one)}
    writes = merged(reducers, [one, two, three], lambda a, b: (a, b) in follows, lambda name, write: write.datas)
    assert writes["log"] == Write("delta", [["1", "2", "3"]], [])
    with pytest.raises(ConflictError, match="`one` and `three`"):
        merged({}, [one, three], lambda a, b: False, lambda name, write: write.datas)


# -- probes ---------------------------------------------------------------------------------------------------------


def test_probe_01_a_join_of_a_short_and_a_long_branch_runs_once_after_both() -> None:
    """A→B, A→C→D, B→E, D→E: `E` runs once, with both, whichever is slow."""
    for slow in ("b", "c", "d"):
        run = shell(drawn("START > a; a > b, c; c > d; b > e; d > e; e > END"))
        run.play(slow)
        assert run.seen.done.count("e") == 1
        assert logs(run)["e"] == ["a", "b", "c", "d"]


def test_probe_02_the_join_mode_is_all_unless_each_is_declared() -> None:
    """The default is an all-join; `each` runs once for every arrival."""
    text = "START > a; a > b, c; c > d; b > e; d > e; e > END"
    assert shell(drawn(text)).play().done == ["a", "b", "c", "d", "e"]
    each = shell(drawn(text, e={"each": True})).play()
    assert sorted(each.done) == ["a", "b", "c", "d", "e@~(b)", "e@~(d)"]


def test_probe_03_a_branch_that_was_routed_elsewhere_does_not_hold_a_join() -> None:
    """A routes to B only; `e` joins B and C and runs with B alone."""
    run = shell(drawn("START > a; a ! b, c; b > e; c > e; e > END"), routes={"a": ["b"]})
    assert run.play().done == ["a", "b", "e"]


def test_probe_04_a_join_in_a_cycle_runs_once_a_lap_and_leaves_no_token_over() -> None:
    """Three laps: three firings, and at the end nothing is live."""
    graph = drawn("START > a; a > b, c; b > e; c > e; e ! a, END")
    run = shell(graph, routes={"e@1": ["a"], "e@2": ["a"], "e@3": ["END"]})
    run.play("b@1", "c@2")
    assert [task for task in run.seen.done if task.startswith("e")] == ["e@1", "e@2", "e@3"]
    assert (run.machine.root.groups, run.machine.root.holding, run.machine.tasks) == ({}, {}, {})


def test_probe_05_a_join_waits_for_the_last_visit_of_a_branch_that_loops() -> None:
    """B and C meet at `e`, where C loops on itself three times: `e` runs once, after C's last visit, in every lap."""
    graph = drawn("START > a; a > b, c; b > e; c ! c, e; e ! a, END")
    routes = {"c@1.1": ["c"], "c@1.2": ["c"], "c@1.3": ["e"], "c@2.1": ["e"], "e@1": ["a"], "e@2": ["END"]}
    run = shell(graph, routes=routes)
    run.play("c@1.3")
    assert logs(run)["e@1"] == ["a@1", "b@1", "c@1.1", "c@1.2", "c@1.3"]
    assert logs(run)["e@2"][6:] == ["a@2", "b@2", "c@2.1"]


def test_probe_07_an_edge_and_a_router_that_lead_to_one_node_run_it_once() -> None:
    """A→B and a router beside it that also chooses B: the two arrivals meet."""
    run = shell(drawn("START > a; a > b, r; r ? b, END; b > END"))
    assert sorted(run.play().done) == ["a", "b", "r"]


def test_probe_08_end_ends_only_its_own_path() -> None:
    """A router that chooses END and `b` runs `b`."""
    run = shell(drawn("START > a; a > r; r ? b, END; b > END"), routes={"r": ["END", "b"]})
    assert run.play().done == ["a", "r", "b"]


def test_probe_11_a_node_has_one_rule_for_what_is_next() -> None:
    """A fixed edge beside a jump is refused before anything runs."""
    graph = drawn("START > a; a ! b, END; b > END")
    graph.edge("a", "b")
    with pytest.raises(GraphError, match="`a` chooses its targets itself and also has a fixed edge to `b`"):
        graph.check()


def test_probe_12_two_routers_that_fan_out_beside_a_plain_edge_run_all_in_declared_order() -> None:
    """Items of both form one map in merge order; the plain branch meets them at the end."""
    text = "START > r1, r2, p; r1 ? read; r2 ? read; read > j; p > j; j > END"
    for slow in ("r1", "read[0]", "p"):
        run = shell(drawn(text, read={"kind": "item"}), sends={"r1": [1, 2], "r2": [3]})
        assert run.play(slow).final["log"] == ["read[0]", "read[1]", "read[2]", "read", "p", "j"]


def test_probe_13_what_follows_items_runs_once_after_all() -> None:
    """A router behind a node with two items is asked once, and leads to `d` once."""
    graph = drawn("START > r; r ? read; read > after; after ? d, END; d > END", read={"kind": "item"})
    assert shell(graph).play("read[0]").done == ["r", "read[1]", "read[0]", "read", "after", "d"]


def test_probe_14_parallel_nodes_merge_in_declared_order_whoever_is_first() -> None:
    """`z`, `m`, `a` append their names: the order of the edges counts, in each of the six orders of finishing."""
    for order in itertools.permutations(["z", "m", "a"]):
        run = shell(drawn("START > z, m, a; z > END; m > END; a > END"))
        run.hold("z", "m", "a")
        for name in order:
            run.act(("end", name))
        assert run.play().final["log"] == ["z", "m", "a"]


def test_probe_15_a_router_sees_what_its_node_wrote_and_not_what_a_sibling_did() -> None:
    """Even a sibling that is done already is not in its causal history."""
    run = shell(drawn("START > n, s; n > r; r ? END; s > END"), writes={"n": {"a": "mine"}, "s": {"b": "theirs"}})
    run.play("n", "r")
    state = run.seen.states["r"]
    assert (state["a"], state["b"], state["log"]) == ("mine", "", ["n"])


def test_probe_16_a_finaliser_behind_branches_of_one_and_three_hops_runs_once_and_last() -> None:
    """It is an ordinary join."""
    run = shell(drawn("START > a, b; a > last; b > c; c > d; d > last; last > END"))
    assert run.play("a").done == ["b", "c", "d", "a", "last"]


def test_probe_17_loops_and_several_entries_run() -> None:
    """A self-loop, a loop of two nodes, and a router after START that enters several nodes at once."""
    graph = drawn("START > r; r ? a, b; a ! a, END; b > c; c ! b, END")
    routes = {"r": ["a", "b"], "a@1": ["a"], "a@2": ["END"], "c@1": ["b"], "c@2": ["END"]}
    run = shell(graph, routes=routes)
    assert run.play().final["log"] == ["a@1", "a@2", "b@1", "c@1", "b@2", "c@2"]


def test_probe_18_a_branch_does_not_wait_for_an_unrelated_sibling() -> None:
    """`fast -> after` beside `slow`: there is no barrier."""
    run = shell(drawn("START > fast, slow; fast > after; slow > END; after > END"))
    run.hold("slow")
    assert run.seen.done == ["fast", "after"]
