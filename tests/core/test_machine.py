"""Tables for the machine: a position and a fact, and what may start then. No event loop, no clock.

Tasks do what a `Script` says; every fact is told to the slow model too, which has to agree.
"""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from flowagent.core.facts import Failure, Question
from flowagent.core.graph import Graph
from flowagent.core.machine import Machine
from flowagent.core.policies import OnFailure
from flowagent.core.position import export, restored
from flowagent.core.reducers import Replace, last
from flowagent.core.writes import Write
from flowagent.errors import ConflictError
from tests.core import generate
from tests.core.generate import ALWAYS, Script, Shell, drawn, plain, sketched


def shell(graph: Graph[Any, Any], *, on_failure: OnFailure = "finish", **script: Any) -> Shell:
    return Shell(graph, Script(**script), model=True, on_failure=on_failure)


def act(run: Shell, *actions: str) -> None:
    """Do some things, told as `start a`, `end a`, `retry a`."""
    for action in actions:
        kind, name = action.split(" ", 1)
        run.act((kind, name))


def statuses(run: Shell) -> dict[str, str]:
    return {task.id: task.status for task in run.machine.tasks.values()}


def startable(run: Shell) -> list[str]:
    return [task.id for task in run.startable()]


# -- what a failure stops -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("on_failure", "then"), [("finish", []), ("continue", ["c"])])
def test_a_failure_lets_what_is_in_flight_finish_and_stops_the_rest_by_policy(
    on_failure: OnFailure, then: list[str]
) -> None:
    """`finish` starts nothing new; `continue` goes on wherever nothing depends on what failed."""
    run = shell(drawn("START > a, b; a > END; b > c; c > END"), on_failure=on_failure, fails={"a": 1})
    act(run, "start a", "start b", "end a", "end b")
    assert (startable(run), run.seen.done) == (then, ["b"])
    act(run, "retry a")
    assert sorted(startable(run)) == ["a", "c"]
    assert run.play().final["log"] == ["a", "b", "c"]


def test_a_failed_task_keeps_its_token() -> None:
    """It stands where it was, and the join behind it goes on waiting."""
    run = shell(drawn("START > a, b; a > j; b > j; j > END"), on_failure="continue", fails={"a": 1})
    run.hold("a")
    act(run, "end a")
    assert statuses(run) == {"a": "failed"}
    assert [failure.message for failure in run.machine.failing["a"].failures] == ["a failed"]
    assert run.machine.final is None


def test_failed_tasks_come_in_the_order_of_their_ids() -> None:
    """Whichever failed first, they are reported in one order, in which numbers count as numbers."""
    graph = drawn("START > b, a; a > END; b > END")
    run = shell(graph, on_failure="continue", fails={"a": 1, "b": 1})
    act(run, "start b", "start a", "end b", "end a")
    assert [task.id for task in run.machine.failed_tasks()] == ["a", "b"]


def test_of_several_failures_each_is_run_again_and_nothing_else() -> None:
    """After a resumption only what had failed runs; the final state is as if nothing had."""
    graph = drawn("START > a, b, c; a > END; b > END; c > END")
    run = shell(graph, fails={"a": 1, "c": 2})
    act(run, "start a", "start b", "start c", "end c", "end a", "end b", "retry c", "retry a")
    assert sorted(startable(run)) == ["a", "c"]
    assert (run.play().final["log"], run.seen.done.count("b")) == (["a", "b", "c"], 1)


# -- handlers -------------------------------------------------------------------------------------------------------

HANDLED = "START > a; a > b; b > END; h > c; c > END"


def test_a_handled_failure_is_an_empty_commit_whose_arrow_leads_to_the_handler() -> None:
    """The handler starts from the failed task's state, knows its failures, and replaces the ways of the node."""
    run = shell(drawn(HANDLED, a={"handler": "h"}), fails={"a": ALWAYS}, writes={"a": {"a": "never"}})
    run.hold("h@~(a)")
    (handler,) = run.machine.tasks.values()
    assert ([failure.task for failure in handler.caught], plain(handler.values)["a"]) == (["a"], "")
    assert run.machine.failing == {}
    assert run.play().final["log"] == ["h@~(a)", "c@~(a)"]


def test_a_handler_runs_once_for_each_failure() -> None:
    """Two nodes share it; their failures are told apart by what set it off."""
    text = "START > a, b; a > END; b > END; h > j; j > END"
    run = shell(drawn(text, a={"handler": "h"}, b={"handler": "h"}), fails={"a": ALWAYS, "b": ALWAYS})
    assert run.play().done == ["h@~(a)", "h@~(b)", "j@~(a)", "j@~(b)"]


def test_a_handler_that_fails_stands_failed_and_still_knows_what_it_was_to_handle() -> None:
    """Both causes are there to report."""
    run = shell(drawn(HANDLED, a={"handler": "h"}), fails={"a": ALWAYS, "h@~(a)": 1})
    act(run, "start a", "end a", "start h@~(a)", "end h@~(a)")
    (failed,) = run.machine.failed_tasks()
    assert [one.task for one in (*failed.caught, *failed.failures)] == ["a", "h@~(a)"]


def test_a_failed_merge_does_not_go_to_the_handler() -> None:
    """No call failed, so the node stands failed until the merge is settled."""
    graph = drawn("START > a, b; a > j; b > j; j > END; h > END", j={"handler": "h"})
    run = shell(graph, writes={"a": {"a": "1"}, "b": {"a": "2"}})
    run.hold("j")
    (failed,) = run.machine.failed_tasks()
    assert (failed.id, failed.failures[0].merge, failed.failures[0].kind) == ("j", True, "ConflictError")
    assert [task.id for task in run.machine.unmerged] == ["j"]
    assert sorted(run.play().done) == ["a", "b", "j"]


# -- containers that catch ------------------------------------------------------------------------------------------

INNER = sketched("START > x, y; x > x2; y > END; x2 > END")
NESTED = "START > g, z; g > END; z > zz; zz > END; h > END"


def test_a_failure_inside_a_handled_graph_stops_nothing_outside_or_beside_it() -> None:
    """All else goes on as far as it can; then the node fails once, with its errors in the order of their ids."""
    graph = drawn(NESTED, g={"kind": "graph", "child": INNER, "handler": "h"})
    run = shell(graph, fails={"g/x2": 1, "g/y": 1})
    act(run, "start g", "end g", "start g/y", "end g/y")
    assert (sorted(startable(run)), run.machine.stuck) == (["g/x", "z"], [])
    run.hold("decide g")
    assert {"z", "zz", "g/x"} == set(run.seen.done)
    (stuck,) = run.machine.stuck
    assert [failure.task for failure in run.machine.failures_inside(stuck)] == ["g/x2", "g/y"]
    act(run, "decide g")
    assert statuses(run) == {"h@~(g)": "ready"}
    assert [failure.task for failure in run.machine.tasks["h@~(g)"].caught] == ["g/x2", "g/y"]
    assert run.play().final["log"] == ["h@~(g)", "z", "zz"]


def test_a_failure_inside_a_graph_that_nobody_handles_is_the_runs() -> None:
    """Then `finish` lets nothing new start anywhere, and the task inside is what is run again."""
    run = shell(drawn(NESTED.replace("; h > END", ""), g={"kind": "graph", "child": INNER}), fails={"g/y": 1})
    act(run, "start g", "end g", "start g/y", "start z", "end g/y", "end z")
    assert (startable(run), run.machine.stuck) == ([], [])
    act(run, "retry g/y")
    assert run.play().final["log"] == ["g/x", "g/x2", "g/y", "g", "z", "zz"]


def test_a_graph_with_retry_goes_on_inside_and_runs_again_only_what_failed() -> None:
    """Retrying a nested graph continues it."""
    graph = drawn(NESTED.replace("; h > END", ""), g={"kind": "graph", "child": INNER, "retry": True})
    run = shell(graph, fails={"g/y": 1})
    run.hold("decide g", "retry g/y")
    assert [task.id for task in run.machine.stuck] == ["g"]
    run.play()
    assert sorted(run.seen.done) == ["g", "g/x", "g/x2", "g/y", "z", "zz"]


def test_a_graph_that_failed_for_good_continues_when_it_or_what_is_inside_is_run_again() -> None:
    """After its attempts are used up it stands failed beside what failed inside; nothing done is done again."""
    graph = drawn("START > g; g > END", g={"kind": "graph", "child": INNER, "retry": True})
    for again in ("g", "g/y"):
        run = shell(graph, fails={"g/y": 2})
        run.hold("decide g", "retry g/y")
        act(run, "decide g")
        run.hold("decide g", "retry g/y")
        act(run, "decide g")
        assert (statuses(run), run.machine.stuck) == ({"g": "failed", "g/y": "failed"}, [])
        act(run, f"retry {again}")
        assert (statuses(run), run.machine.failing) == ({"g": "inside", "g/y": "ready"}, {})
        assert sorted(run.play().done) == ["g", "g/x", "g/x2", "g/y"]


def test_the_container_nearest_to_a_failure_is_decided_on_first() -> None:
    """One further out is not stuck while one within it may still handle what failed."""
    graph = drawn("START > m; m > END; h > END", m={"kind": "map_graph", "child": INNER, "handler": "h", **skip})
    run = shell(graph, on_failure="continue", fails={"m[0]/y": 1, "m[1]/y": 1})
    run.hold("decide m[0]", "decide m[1]")
    assert [task.id for task in run.machine.stuck] == ["m[0]", "m[1]"]
    act(run, "decide m[1]")
    assert [task.id for task in run.machine.stuck] == ["m[0]"]
    act(run, "decide m[0]")
    assert (run.machine.stuck, statuses(run)) == ([], {"m": "ready"})
    assert run.play().final["results"] == ["no 0", "no 1"]


skip: dict[str, Any] = {"on_item_error": "skip"}


def test_a_merge_that_failed_inside_is_not_mended_by_trying_again() -> None:
    """The graph is stuck again at once, and its handler takes over when its attempts are used up."""
    inner = sketched("START > x, y; x > END; y > END")
    graph = drawn("START > g; g > END; h > END", g={"kind": "graph", "child": inner, "handler": "h", "retry": True})
    run = shell(graph, writes={"g/x": {"a": "1"}, "g/y": {"a": "2"}})
    run.hold("decide g")
    act(run, "decide g")
    assert [task.id for task in run.machine.stuck] == ["g"]
    act(run, "decide g")
    assert run.play().final["log"] == ["h@~(g)"]


def test_a_graph_is_not_stuck_while_what_a_commit_triggers_is_still_being_made() -> None:
    """One commit frees two joins: the first cannot be merged, the second runs before the graph fails."""
    inner = sketched("START > a, b, c, d; a > j1; b > j1; c > j1, j2; d > j2; j1 > END; j2 > END")
    graph = drawn("START > g; g > END; h > END", g={"kind": "graph", "child": inner, "handler": "h"})
    run = shell(graph, writes={"g/a": {"a": "1"}, "g/b": {"a": "2"}})
    run.hold("g/c")
    act(run, "end g/c")
    assert (run.machine.stuck, statuses(run)) == ([], {"g": "inside", "g/j1": "failed", "g/j2": "ready"})
    assert run.play().done == ["g/a", "g/b", "g/d", "g/c", "g/j2", "h@~(g)"]


def test_what_a_container_that_is_over_had_asked_is_asked_no_more() -> None:
    """Its questions go with it."""
    graph = drawn(
        "START > g; g > END; h > END",
        g={"kind": "graph", "child": sketched("START > ask; ask > END", ask={"kind": "gate"}), "handler": "h"},
    )
    run = shell(graph)
    run.hold("?g/ask")
    machine = run.machine
    assert list(machine.questions) == ["?g/ask"]
    machine.fail(machine.tasks["g"], (failure("g"),))
    assert (machine.questions, [task.id for task in machine.tasks.values()]) == ({}, ["h@~(g)"])


def failure(task: str) -> Failure:
    return Failure(graph="g", node=task, task=task, attempt=1, kind="TimeoutError", message="too long")


# -- maps -----------------------------------------------------------------------------------------------------------

MAP = "START > m, b; m > after; b > c; after > END; c > END"


@pytest.mark.parametrize(("on_failure", "beside"), [("finish", []), ("continue", ["c"])])
def test_a_failing_item_does_not_stop_other_items(on_failure: OnFailure, beside: list[str]) -> None:
    """Even where a failure stops all else, the other items start and finish; then the map waits for the one."""
    graph = drawn(MAP, m={"kind": "map"})
    run = shell(graph, on_failure=on_failure, fails={"m[0]": 1})
    act(run, "start b", "end b", "start m", "end m", "start m[0]", "end m[0]")
    assert sorted(startable(run)) == [*beside, "m[1]"]
    act(run, "start m[1]", "end m[1]")
    assert startable(run) == beside
    assert statuses(run) == {"c": "ready", "m": "inside", "m[0]": "failed"}
    act(run, "retry m[0]")
    assert [line.split()[0] for line in run.play().final["results"]] == ["m[0]", "m[1]"]


def test_a_failing_item_stops_other_items_where_a_failure_cancels_what_is_in_flight() -> None:
    """One that was called off is not started anew before somebody goes on with the run."""
    run = shell(drawn(MAP, m={"kind": "map"}), on_failure="cancel", fails={"m[0]": 1})
    act(run, "start m", "end m", "start m[0]", "start m[1]", "end m[0]")
    run.crash()
    assert startable(run) == []
    assert run.machine.next_ready() is None
    act(run, "retry m[0]")
    assert sorted(startable(run)) == ["b", "m[0]", "m[1]"]


@pytest.mark.parametrize("how", ["skip", "collect"])
def test_a_map_that_lets_failed_items_go_is_over_when_all_have_settled(how: str) -> None:
    """What failed stands among the results as a failure; nobody has to run it again."""
    run = shell(drawn("START > m; m > END", m={"kind": "map", "on_item_error": how}), fails={"m[0]": ALWAYS})
    act(run, "start m", "end m", "start m[0]", "end m[0]", "start m[1]", "end m[1]")
    (closing,) = run.machine.tasks.values()
    outcomes = [outcome[:2] for outcome in closing.results]
    assert [worked for worked, _ in outcomes] == [False, True]
    assert [one.task for one in outcomes[0][1]] == ["m[0]"]
    assert run.machine.failing == {}
    assert run.play().done == ["m[1]", "m"]


def test_an_empty_map_goes_on_at_once() -> None:
    """It has nothing to wait for, and no results."""
    run = shell(drawn("START > a; a > m; m > b; b > END", m={"kind": "map"}), writes={"a": {"items": []}})
    assert (run.play().done, run.seen.final["results"]) == (["a", "m", "b"], [])


def test_results_come_in_the_order_of_the_items() -> None:
    """However late the first one is."""
    run = shell(drawn("START > m; m > END", m={"kind": "map"}))
    run.play("m[0]")
    assert [line.split()[0] for line in run.seen.final["results"]] == ["m[0]", "m[1]"]
    assert run.seen.done == ["m[1]", "m[0]", "m"]


FOUR = {"items": [1, 2, 3, 4]}


def test_at_most_so_many_items_are_under_way_and_the_next_starts_when_one_has_settled() -> None:
    """In the order of the items."""
    run = shell(drawn("START > a; a > m; m > END", m={"kind": "map", "at_most": 2}), writes={"a": FOUR})
    act(run, "start a", "end a", "start m", "end m")
    assert startable(run) == ["m[0]", "m[1]"]
    act(run, "start m[1]", "end m[1]")
    assert startable(run) == ["m[0]", "m[2]"]
    act(run, "start m[0]", "start m[2]", "end m[2]")
    assert startable(run) == ["m[3]"]
    assert len(run.play().final["results"]) == 4


def test_an_item_that_failed_makes_room_and_waits_for_its_turn_when_it_is_run_again() -> None:
    """`at_most` holds for what is run again, too."""
    run = shell(
        drawn("START > a; a > m; m > END", m={"kind": "map", "at_most": 1}), writes={"a": FOUR}, fails={"m[0]": 1}
    )
    act(run, "start a", "end a", "start m", "end m", "start m[0]", "end m[0]")
    assert startable(run) == ["m[1]"]
    act(run, "start m[1]", "retry m[0]")
    assert (startable(run), statuses(run)["m[0]"]) == ([], "queued")
    act(run, "end m[1]")
    assert startable(run) == ["m[0]"]


def test_an_item_in_which_nothing_can_go_on_makes_room() -> None:
    """A mapped graph whose task failed does not keep the items behind it from starting."""
    inner = sketched("START > x; x > END")
    graph = drawn("START > m; m > END; h > END", m={"kind": "map_graph", "child": inner, "at_most": 1, "handler": "h"})
    run = shell(graph, fails={"m[0]/x": 1})
    act(run, "start m", "end m", "start m[0]", "end m[0]", "start m[0]/x", "end m[0]/x")
    assert (startable(run), run.machine.stuck) == (["m[1]"], [])
    act(run, "start m[1]", "end m[1]", "start m[1]/x", "end m[1]/x", "start m[1]", "end m[1]")
    assert [task.id for task in run.machine.stuck] == ["m"]
    assert run.play().final["log"] == ["h@~(m)"]


def test_a_graph_in_a_queued_item_waits_with_it() -> None:
    """What failed inside an item is run again when the item has its turn."""
    inner = sketched("START > x; x > END")
    graph = drawn("START > m; m > END", m={"kind": "map_graph", "child": inner, "at_most": 1})
    run = shell(graph, fails={"m[0]/x": 1})
    act(run, "start m", "end m", "start m[0]", "end m[0]", "start m[0]/x", "end m[0]/x", "start m[1]", "retry m[0]/x")
    assert statuses(run) == {"m": "inside", "m[0]": "queued", "m[1]": "running", "m[0]/x": "queued"}
    act(run, "end m[1]", "start m[1]/x", "end m[1]/x", "start m[1]", "end m[1]")
    assert statuses(run) == {"m": "inside", "m[0]": "inside", "m[0]/x": "ready"}
    assert len(run.play().final["results"]) == 2


GATED = sketched("START > p; p > END", p={"kind": "gate"})


def gated_map(at_most: int | None, **script: Any) -> Shell:
    """Four items with a gate inside, of which so many may be under way."""
    child = {"kind": "map_graph", "child": GATED, "at_most": at_most}
    return shell(drawn("START > a; a > m; m > END", m=child), writes={"a": FOUR}, **script)


def gates(*indexes: int) -> list[str]:
    return [f"?m[{index}]/p" for index in indexes]


def test_an_item_that_can_only_wait_for_an_answer_makes_room() -> None:
    """So all are asked, however few may be under way."""
    run = gated_map(1)
    run.hold(*gates(0, 1, 2, 3))
    assert list(run.machine.questions) == gates(0, 1, 2, 3)
    assert {status for name, status in statuses(run).items() if "/" in name} == {"asking"}


def test_an_item_goes_on_when_its_answer_is_there_and_there_is_room() -> None:
    """At once, or else in the order of the items, whatever the order of the answers."""
    run = gated_map(1)
    run.hold(*gates(0, 1, 2, 3))
    act(run, f"answer {gates(2)[0]}")
    assert startable(run) == ["m[2]/p"]
    act(run, *(f"answer {question}" for question in gates(3, 1)))
    assert (startable(run), statuses(run)["m[1]"], statuses(run)["m[1]/p"]) == (["m[2]/p"], "queued", "queued")
    run.hold(*gates(0))
    assert [name for name in run.seen.done if name.endswith("]")] == ["m[2]", "m[1]", "m[3]"]
    assert [line.split()[0] for line in run.play().final["results"]] == ["m[0]", "m[1]", "m[2]", "m[3]"]


def test_a_function_that_asks_makes_room_too() -> None:
    """An item without a graph inside is at rest while it asks."""
    graph = drawn("START > m; m > END", m={"kind": "map", "at_most": 1})
    run = shell(graph, asking_tasks=["m[0]"])
    act(run, "start m", "end m", "start m[0]", "end m[0]")
    assert (startable(run), statuses(run)["m[0]"]) == (["m[1]"], "asking")
    act(run, "start m[1]", "answer ?m[0]")
    assert (startable(run), statuses(run)["m[0]"]) == ([], "queued")
    act(run, "end m[1]")
    assert startable(run) == ["m[0]"]


def test_an_item_makes_room_when_the_last_of_what_ran_beside_its_question_is_over() -> None:
    """Not before: a branch that does not wait goes on with the item's slot."""
    inner = sketched("START > p, x; p > END; x > END", p={"kind": "gate"})
    run = shell(drawn("START > m; m > END", m={"kind": "map_graph", "child": inner, "at_most": 1}))
    act(run, "start m", "end m", "start m[0]", "end m[0]", "start m[0]/p", "end m[0]/p")
    assert startable(run) == ["m[0]/x"]
    act(run, "start m[0]/x", "end m[0]/x")
    assert startable(run) == ["m[1]"]


def test_an_item_that_has_failed_and_asks_makes_room_though_the_failure_is_not_decided_on() -> None:
    """A graph inside that catches failures waits for the answer before it fails; the item has nothing to do."""
    inner = sketched("START > p, x; p > END; x > END", p={"kind": "gate"})
    middle = sketched("START > g; g > END", g={"kind": "graph", "child": inner, "retry": True})
    graph = drawn("START > m; m > END", m={"kind": "map_graph", "child": middle, "at_most": 1})
    run = shell(graph, fails={"m[0]/g/x": 1}, on_failure="continue")
    run.hold("?m[0]/g/p", "m[1]", "retry m[0]/g/x")
    inside = {"m[0]": "inside", "m[0]/g": "inside", "m[0]/g/p": "asking", "m[0]/g/x": "failed"}
    assert (statuses(run), run.machine.stuck) == ({"m": "inside", "m[1]": "running", **inside}, [])


def test_what_was_answered_in_a_map_inside_a_waiting_item_waits_with_it() -> None:
    """The item gets a slot first, and then those inside it get theirs, in their order."""
    inner = sketched("START > n; n > END", n={"kind": "map", "at_most": 1})
    graph = drawn("START > m; m > END", m={"kind": "map_graph", "child": inner, "at_most": 1})
    run = shell(graph, asking_tasks=["m[0]/n[0]", "m[0]/n[1]"])
    run.hold("?m[0]/n[0]", "?m[0]/n[1]", "m[1]")
    act(run, "answer ?m[0]/n[1]", "answer ?m[0]/n[0]")
    waiting = {"m[0]": "queued", "m[0]/n": "inside", "m[0]/n[0]": "queued", "m[0]/n[1]": "queued"}
    assert statuses(run) == {"m": "inside", "m[1]": "running", **waiting}
    act(run, "end m[1]")
    run.hold("m[0]/n[0]", "m[0]/n[1]")
    its_turn = {"m[0]": "inside", "m[0]/n": "inside", "m[0]/n[0]": "running", "m[0]/n[1]": "queued"}
    assert statuses(run) == {"m": "inside", **its_turn}


def test_who_waits_for_a_slot_is_known_after_a_crash() -> None:
    """What was answered, what is under way and what has not begun: in the same order as before."""
    run = gated_map(1)
    run.hold(*gates(0, 1, 2, 3))
    act(run, *(f"answer {question}" for question in gates(2, 3, 1)), f"start {'m[2]/p'}")
    before = statuses(run)
    run.crash()
    assert statuses(run) == {**before, "m[2]/p": "ready"}
    run.hold(*gates(0))
    assert [name for name in run.seen.done if name.endswith("]")] == ["m[2]", "m[1]", "m[3]"]


@pytest.mark.parametrize(
    ("at_most", "startable_now"), [(2, ["m[1]/p", "m[2]/p"]), (None, ["m[1]/p", "m[2]/p", "m[3]/p"])]
)
def test_with_another_at_most_after_a_crash_as_many_go_on_as_it_allows(
    at_most: int | None, startable_now: list[str]
) -> None:
    """Code may change between two processes; nobody waits for a slot that is there now."""
    run = gated_map(1)
    run.hold(*gates(0, 1, 2, 3))
    act(run, *(f"answer {question}" for question in gates(2, 3, 1)))
    machine = restored(gated_map(at_most).topology, export(run.machine))
    assert sorted(task.id for task in machine.ready) == startable_now


# -- items of `Send`s -----------------------------------------------------------------------------------------------

SENDS = "START > r; r ? read; read > END"


def test_an_item_of_a_send_that_fails_is_run_again_alone() -> None:
    """Its siblings' commits stay, and meet it when it is done."""
    run = shell(drawn(SENDS, read={"kind": "item"}), fails={"read[0]": 1})
    act(
        run,
        "start r",
        "end r",
        "start read",
        "end read",
        "start read[0]",
        "end read[0]",
        "start read[1]",
        "end read[1]",
    )
    assert (startable(run), statuses(run)) == ([], {"read": "inside", "read[0]": "failed"})
    act(run, "retry read[0]")
    assert run.play().final["log"] == ["read[0]", "read[1]", "read"]


def test_items_of_sends_that_conflict_meet_in_a_failed_merge() -> None:
    """It is settled like any other, and no item runs again."""
    run = shell(drawn(SENDS, read={"kind": "item"}), writes={"read[0]": {"a": "1"}, "read[1]": {"a": "2"}})
    run.hold("resolve read")
    assert [task.id for task in run.machine.failed_tasks()] == ["read"]
    run.play()
    assert (run.seen.final["a"], run.seen.done) == ("settled read", ["r", "read[0]", "read[1]", "read"])


def test_items_are_still_there_after_a_failed_merge_of_what_sent_them_was_settled() -> None:
    """The settlement carries them on."""
    graph = drawn("START > a, b; a > r1; b > r2; r1 ? read; r2 ? read; read > END", read={"kind": "item"})
    run = shell(graph, writes={"a": {"a": "1"}, "b": {"a": "2"}}, sends={"r1": [1], "r2": [2]})
    assert run.play().final["log"] == ["a", "b", "read[0]", "read[1]", "read"]
    assert [run.seen.states[f"read[{index}]"]["the item"] for index in range(2)] == [1, 2]


def test_a_single_item_hands_its_writes_on_like_any_commit() -> None:
    """A nested graph that ends with one item gives back all that was written before it, too."""
    inner = sketched("START > x; x > r; r ? read; read > END", read={"kind": "item"})
    run = shell(drawn("START > g; g > END", g={"kind": "graph", "child": inner}), sends={"g/r": [1]})
    assert run.play().final["log"] == ["g/x", "g/read[0]", "g/read", "g"]


# -- failed merges --------------------------------------------------------------------------------------------------

BOTH = {"a": {"a": "1", "b": "1"}, "b": {"a": "2", "b": "2"}}


def conflicted(graph: Graph[Any, Any], writes: Any) -> tuple[Shell, Machine]:
    run = Shell(graph, Script(writes=writes))
    run.hold("j", "END")
    return run, run.machine


def test_a_settlement_that_leaves_a_conflict_changes_nothing() -> None:
    """It names the other field; the position is as it was, and a whole settlement still goes through."""
    _, machine = conflicted(drawn("START > a, b; a > j; b > j; j > END"), BOTH)
    (failed,) = machine.failed_tasks()
    with pytest.raises(ConflictError, match="`b`"):
        machine.resolve(failed, {"a": Write("set", ["x"], [b'"x"'])})
    assert (failed.status, list(machine.failing), len(failed.arrows)) == ("failed", ["j"], 2)
    machine.resolve(failed, {name: Write("set", ["x"], [b'"x"']) for name in ("a", "b")})
    assert (failed.status, machine.failing, failed.values["a"], failed.values["b"]) == ("ready", {}, "x", "x")


def test_a_failed_merge_is_not_run_again_by_a_retry() -> None:
    """Nothing has changed, so it would fail again."""
    _, machine = conflicted(drawn("START > a, b; a > j; b > j; j > END"), BOTH)
    machine.retry(machine.tasks["j"])
    assert (list(machine.failing), machine.next_ready()) == (["j"], None)


def test_branches_that_conflict_at_the_end_are_settled_there() -> None:
    """The run is over as soon as the settlement is told."""
    run, machine = conflicted(drawn("START > a, b; a > END; b > END"), {"a": {"a": "1"}, "b": {"a": "2"}})
    (failed,) = machine.failed_tasks()
    assert (failed.id, machine.final) == ("END", None)
    assert run.play().final == {**run.seen.final, "a": "settled END", "log": ["a", "b"]}


def test_a_nested_graph_hands_on_what_was_settled_at_its_end_and_all_before() -> None:
    """Nothing that its tasks wrote is lost."""
    inner = sketched("START > x; x > a, b; a > END; b > END")
    writes = {"g/a": {"a": "1"}, "g/b": {"a": "2"}}
    run = shell(drawn("START > g; g > z; z > END", g={"kind": "graph", "child": inner}), writes=writes)
    run.play()
    assert (run.seen.final["a"], run.seen.final["log"]) == ("settled g/END", ["g/x", "g/a", "g/b", "g", "z"])


def test_the_state_as_far_as_it_came_keeps_the_old_value_of_a_field_in_conflict() -> None:
    """And says which fields those are."""
    _, machine = conflicted(drawn("START > top; top > a, b; a > j; b > j; j > END"), {"top": {"a": "0"}, **BOTH})
    values, unmerged = machine.state()
    assert (values["a"], values["log"], sorted(unmerged)) == ("0", ["top", "a", "b"], ["a", "b"])


def test_two_replaces_that_conflict_are_settled_by_a_replace() -> None:
    """What follows adds to it."""
    writes = {"a": {"bag": Replace(["1"])}, "b": {"bag": Replace(["2"])}, "j": {"bag": ["3"]}}
    run = shell(drawn("START > a, b; a > j; b > j; j > END"), writes=writes)
    assert run.play().final["bag"] == ["settled", "j", "3"]


# -- questions ------------------------------------------------------------------------------------------------------


def test_a_question_is_answered_by_its_id_and_its_task_starts_again_with_the_answer() -> None:
    """Others go on meanwhile; two tasks may wait at once."""
    graph = drawn("START > p, q; p > END; q > END", p={"kind": "gate"}, q={"kind": "gate"})
    run = shell(graph)
    run.hold("?p", "?q")
    machine = run.machine
    assert (statuses(run), sorted(machine.questions)) == ({"p": "asking", "q": "asking"}, ["?p", "?q"])
    task = machine.answer("?q", '"yes"')
    assert (task.id, task.status, task.answers, list(machine.questions)) == ("q", "ready", {"": '"yes"'}, ["?p"])


def test_an_answer_to_a_task_that_does_not_wait_is_kept_for_it() -> None:
    """A task that asked and failed has its answer when it is run again."""
    run = shell(drawn("START > a; a > END"))
    act(run, "start a")
    machine, task = run.machine, run.machine.tasks["a"]
    machine.ask(task, Question(id="?", task="a", node="a", name="size", text="How many?"))
    machine.fail(task, (failure("a"),))
    machine.answer("?", "3")
    assert (task.status, task.answers) == ("failed", {"size": "3"})
    machine.retry(task)
    assert (task.status, task.answers, machine.next_ready()) == ("ready", {"size": "3"}, task)


def test_a_task_that_was_called_off_after_it_had_asked_still_waits() -> None:
    """Only what had done nothing that counts starts anew."""
    run = shell(drawn("START > p; p > END", p={"kind": "gate"}))
    run.hold("?p")
    run.machine.put_back(run.machine.tasks["p"])
    assert (statuses(run), run.machine.next_ready()) == ({"p": "asking"}, None)


# -- crashes --------------------------------------------------------------------------------------------------------


def test_a_settled_merge_stays_settled_after_a_crash() -> None:
    """The branches that were in conflict are not merged again, even when what followed was sealed into one commit."""
    graph = drawn("START > a, b, z; a > j; b > j; j > k; k > END; z > END")
    run = shell(graph, writes={"a": {"a": "1"}, "b": {"a": "2"}})
    run.hold("resolve j", "z")
    for actions in (["resolve j"], ["start j", "end j"], ["start k"]):
        act(run, *actions)
        run.crash()
        assert run.machine.failing == {}
    run.play()
    assert (run.seen.final["a"], run.seen.final["log"]) == ("settled j", ["a", "b", "j", "k", "z"])


def test_how_often_a_join_fired_in_a_tie_is_known_after_a_crash() -> None:
    """So its next task has an id of its own."""
    graph = drawn("START > a, b; a > j1; b > j2; j1 ! j2, END; j2 ! j1, END; j1 before j2")
    run = shell(graph, routes={"j1@1": ["END"], "j2@1": ["j1"], "j1@2": ["END"]})
    run.hold("j2@1")
    run.crash()
    assert run.play().done == ["a", "b", "j1@1", "j2@1", "j1@2"]


def test_a_graph_that_failed_over_a_merge_inside_is_not_begun_again_after_a_crash() -> None:
    """What was done inside is kept; the merge is what has to be settled."""
    inner = sketched("START > x, y; x > END; y > END")
    graph = drawn("START > g; g > END", g={"kind": "graph", "child": inner, "retry": True})
    run = shell(graph, writes={"g/x": {"a": "1"}, "g/y": {"a": "2"}})
    run.hold("decide g", "resolve g/END")
    act(run, "decide g", "decide g")
    run.crash()
    assert statuses(run) == {"g": "failed", "g/END": "failed"}
    act(run, "resolve g/END")
    assert run.play().done == ["g/x", "g/y", "g"]


# -- the end, and what is counted -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("START > g; g > END", {"g": ("ready", True)}),
        ("START > x, y; x > j; y > j; j > END", {"j": ("ready", False)}),
        ("START > x, y; x > END; y > END", {}),
    ],
)
def test_branches_that_a_reducer_can_merge_now_are_merged_after_a_crash(
    text: str, then: dict[str, tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that has changed mends a failed merge at the end of a nested graph, at a join and at the end of a run."""
    inner = sketched("START > x, y; x > END; y > END")
    nested: dict[str, Any] = {"g": {"kind": "graph", "child": inner}} if "g" in text else {}
    writes = {f"{where}{name}": {"a": name} for where in ("", "g/") for name in "xy"}
    run = shell(drawn(text, **nested), writes=writes)
    run.hold("resolve g/END", "resolve j", "resolve END")
    assert [task.failures[0].kind for task in run.machine.failed_tasks()] == ["ConflictError"]

    class Mended(generate.S):
        a: Annotated[str, last] = ""

    monkeypatch.setattr(generate, "S", Mended)
    machine = restored(shell(drawn(text, **nested)).topology, export(run.machine))
    assert {task.id: (task.status, task.closing) for task in machine.tasks.values()} == then
    merged = [task.values if task.child is None else task.child.values for task in machine.tasks.values()]
    assert [(values or {})["a"] for values in (*merged, machine.final) if values is not None] == ["y"]
    assert (machine.failing, list(machine.ready)) == ({}, list(machine.tasks.values()))


def test_a_branch_that_ended_early_is_in_the_final_state() -> None:
    """It is not forgotten while one last token goes on alone, step by step."""
    run = shell(drawn("START > a, b; a > c; b > END; c > d; d > e; e > END"))
    run.play("a")
    assert run.seen.final["log"] == ["a", "c", "d", "e", "b"]


def test_nothing_is_left_when_a_run_is_over() -> None:
    """No task, no token that waits, no counter, no question."""
    graph = drawn("START > a, b; a ! a, j; b > j; j > m; m > END", m={"kind": "map"})
    run = shell(graph, routes={"a@1": ["a"], "a@2": ["j"]})
    run.play()
    machine, scope = run.machine, run.machine.root
    assert (machine.tasks, machine.failing, machine.stuck, machine.questions) == ({}, {}, [], {})
    assert (scope.groups, scope.holding, scope.fired, scope.live) == ({}, {}, {}, 0)
    assert machine.next_ready() is None


def test_visits_are_counted_and_routers_and_items_are_not() -> None:
    """A visit counts once, however often it was tried; a nested graph's visits count as well as its own."""
    inner = sketched("START > x; x > END")
    graph = drawn(
        "START > a; a > r; r ? m, END; m > g; g > END", m={"kind": "map"}, g={"kind": "graph", "child": inner}
    )
    run = shell(graph, fails={"a": 2})
    run.play()
    assert run.machine.steps == len(["a", "m", "g", "g/x"])


def test_a_fork_of_start_and_of_a_jump_run_what_was_chosen() -> None:
    """START may fork; a router may choose several, and they run in declared order whatever order it names them in."""
    run = shell(drawn("START > r, z; r ? a, b, c; a > END; b > END; c > END; z > END"), routes={"r": ["c", "a"]})
    assert run.play().final["log"] == ["a", "c", "z"]
