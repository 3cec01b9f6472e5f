"""What holds for every graph, schedule and crash: tried on generated graphs, without an event loop.

Each test draws a graph, nodes that behave by their task's id, and schedules. `FLOWAGENT_EXAMPLES` multiplies the
number of graphs for a longer search.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flowagent.core.commits import Commit
from flowagent.core.graph import Graph
from flowagent.core.machine import Machine
from flowagent.core.policies import OnFailure
from flowagent.core.position import export, restored
from flowagent.core.scope import Scope
from flowagent.errors import GraphError
from tests.core.generate import Behaviour, Plan, Planned, Shell, TooLong, built, plans

TIMES = int(os.environ.get("FLOWAGENT_EXAMPLES", "1"))


def examples(count: int) -> settings:
    return settings(
        max_examples=count * TIMES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


behaviours = st.builds(
    Behaviour,
    salt=st.integers(0, 2**32),
    cap=st.sampled_from([4, 8, 12]),
    failing=st.sampled_from([0, 4, 8]),
    plain=st.sampled_from([30, 8, 3]),
    replacing=st.sampled_from([40, 6]),
    asking=st.sampled_from([0, 3]),
    items=st.sampled_from([2, 4]),
)
policies: st.SearchStrategy[OnFailure] = st.sampled_from(get_args(OnFailure))
schedules = st.integers(0, 2**32).map(random.Random)


def checked(plan: Plan, shuffle: random.Random | None = None) -> Graph[Any, Any]:
    graph = built(plan, shuffle)
    try:
        graph.check()
    except GraphError as error:
        if not all("only routers" in fault for fault in error.faults):
            raise
        assume(False)
    return graph


def played(graph: Graph[Any, Any], behaviour: Behaviour, rng: random.Random, **options: Any) -> dict[str, Any]:
    """What a run of a graph came to under one schedule."""
    run = {name: options.pop(name) for name in ("in_flight", "crashes") if name in options}
    try:
        return Shell(graph, behaviour, **options).run(rng, **run).told()
    except TooLong:
        assume(False)
        raise


@examples(200)
@given(plans(), behaviours, policies, schedules)
def test_the_slow_model_agrees_with_the_machine_after_every_fact(
    plan: Plan, behaviour: Behaviour, on_failure: OnFailure, rng: random.Random
) -> None:
    """What is ready, failed, stuck and asked, the state at each task and the final state are the model's."""
    crashes = rng.choice([0.0, 0.0, 0.1])
    played(
        checked(plan), behaviour, rng, model=True, on_failure=on_failure, crashes=crashes, in_flight=rng.randint(1, 5)
    )


@examples(120)
@given(plans(), behaviours, policies, schedules)
def test_no_schedule_changes_the_result(
    plan: Plan, behaviour: Behaviour, on_failure: OnFailure, rng: random.Random
) -> None:
    """One task at a time or many at once, finishing in any order: same tasks, same state at each, same final state."""
    graph = checked(plan)
    one_by_one = played(graph, behaviour, rng, in_flight=1)
    for in_flight in (2, 5, 5):
        assert played(graph, behaviour, rng, in_flight=in_flight, on_failure=on_failure) == one_by_one


@examples(80)
@given(plans(), behaviours, schedules)
def test_the_order_in_which_nodes_are_declared_changes_nothing(
    plan: Plan, behaviour: Behaviour, rng: random.Random
) -> None:
    """Only the order of the edges out of one node counts; nodes may be declared, and edges mixed, in any order."""
    as_planned = played(checked(plan), behaviour, rng)
    for _ in range(2):
        assert played(checked(plan, rng), behaviour, rng) == as_planned


@examples(120)
@given(plans(), behaviours, policies, schedules)
def test_no_crash_changes_the_result_or_repeats_what_was_done(
    plan: Plan, behaviour: Behaviour, on_failure: OnFailure, rng: random.Random
) -> None:
    """Exported, written as JSON, read and restored at any points, a run ends as if nothing had happened."""
    graph = checked(plan)
    undisturbed = played(graph, behaviour, rng)
    for crashes in (0.05, 0.4):
        assert played(graph, behaviour, rng, crashes=crashes, on_failure=on_failure) == undisturbed


@examples(40)
@given(plans(), behaviours, policies, schedules)
def test_what_is_restored_exports_as_it_was(
    plan: Plan, behaviour: Behaviour, on_failure: OnFailure, rng: random.Random
) -> None:
    """A position that was exported and restored, at any moment, is exported as the same data again."""

    class Exporting(Shell):
        def look(self) -> None:
            super().look()
            data = json.loads(json.dumps(export(self.machine)))
            again = export(restored(self.topology, data, on_failure=self.on_failure))
            assert sortable(json.loads(json.dumps(again))) == sortable(data)

    try:
        Exporting(checked(plan), behaviour, on_failure=on_failure, most=80).run(rng)
    except TooLong:
        assume(False)


def sortable(data: Any) -> Any:
    """The data, with tasks by id and the members of the set `seen` in order: how they lie says nothing."""
    if isinstance(data, str) and data.startswith('["s'):
        return json.dumps(sorted(json.loads(data)))
    if isinstance(data, dict):
        return {name: sortable(part) for name, part in data.items()}
    if isinstance(data, list):
        parts = [sortable(part) for part in data]
        named = all(isinstance(part, dict) and "id" in part and "arrows" in part and "head" in part for part in parts)
        return sorted(parts, key=lambda part: part["id"]) if named else parts
    return data


@examples(60)
@given(plans(), behaviours, schedules)
def test_failures_that_pass_leave_no_trace(plan: Plan, behaviour: Behaviour, rng: random.Random) -> None:
    """Whatever fails at first and is run again, under either policy, the run ends as one in which nothing failed."""
    calm = dataclasses.replace(behaviour, failing=0)

    class Passing(Shell):
        def fails(self, task: Any) -> bool:
            if self.is_handled(task) or self.is_handled_by(task):
                return False
            self.attempts[task.id] = self.attempts.get(task.id, 0) + 1
            return self.attempts[task.id] <= calm.pick(task.id, "passing", 3)

    graph = checked(plan)
    nothing_failed = played(graph, calm, rng)
    for on_failure in ("finish", "continue"):
        try:
            told = Passing(graph, calm, on_failure=on_failure).run(rng, crashes=rng.choice([0.0, 0.1])).told()
        except TooLong:
            assume(False)
            raise
        told["settled"] = [line for line in told["settled"] if not line.endswith("failed")]
        assert told == nothing_failed


# -- memory ---------------------------------------------------------------------------------------------------------


def commits_of(machine: Machine) -> set[Commit]:
    """All commits that a machine still holds on to."""
    found: set[Commit] = set()
    todo = list(_held(machine))
    while todo:
        commit = todo.pop()
        if commit not in found:
            found.add(commit)
            todo += [*commit.parents, *(child for arrow in commit.arrows for child in arrow.children)]
            todo += [commit.dominator] if commit.dominator is not None else []
    return found


def _held(machine: Machine) -> Iterator[Commit]:
    scopes = [machine.root]
    for task in machine.tasks.values():
        yield from (task.top, *task.parents, *(arrow.tail for arrow in task.arrows))
        scopes += [task.child] if task.child is not None else []
    for scope in scopes:
        yield scope.start
        yield from (arrow.tail for arrows in scope.groups.values() for arrow in arrows)
        yield from (arrow.tail for arrow in scope.ended)


def counters_of(machine: Machine) -> int:
    return sum(len(scope.holding) + len(scope.fired) for scope in _scopes(machine))


def _scopes(machine: Machine) -> list[Scope]:
    return [machine.root, *(task.child for task in machine.tasks.values() if task.child is not None)]


def loop_beside_a_waiting_branch(kind: str) -> Graph[Any, Any]:
    """`START -> wait -> END` beside a loop of one kind or another."""
    again = ["head", "END"]
    loops = {
        "plain": [Planned("head", "node", ["turn"])],
        "fork and join": [
            Planned("head", "node", ["one", "two"]),
            Planned("one", "node", ["turn"]),
            Planned("two", "node", ["turn"]),
        ],
        "sends": [Planned("head", "router", ["item"]), Planned("item", "item", ["turn"])],
        "inner loop": [Planned("head", "node", ["again"]), Planned("again", "goto", ["again", "turn"])],
        "nested": [
            Planned("head", "graph", ["turn"], child=Plan("inner", ["deep"], [Planned("deep", "node", ["END"])]))
        ],
    }
    nodes = [*loops[kind], Planned("turn", "goto", again), Planned("wait", "gate", ["END"])]
    graph = built(Plan("loop", ["head", "wait"], nodes))
    graph.check()
    return graph


@pytest.mark.parametrize("kind", ["plain", "fork and join", "sends", "inner loop", "nested"])
def test_a_loop_of_many_laps_beside_a_waiting_branch_holds_no_more_than_one_of_few(kind: str) -> None:
    """What lies behind is sealed: after 5 laps and after 200, the machine holds as many commits and counters."""

    class Looping(Shell):
        """Goes round for ever, and leaves the gate's question open."""

        def actions(self, in_flight: int) -> Iterator[tuple[str, str]]:
            return (action for action in super().actions(in_flight) if action[0] != "answer")

        def back(self, task: Any) -> set[str]:
            return set()

    class Round(Behaviour):
        def heads(self, task: str, heads: Any, forward: Any, steps: int, *, many: bool) -> list[str]:
            return [heads[self.pick(task, "head", 2)] if task.startswith("again") else heads[0]]

    shell = Looping(loop_beside_a_waiting_branch(kind), Round(failing=0), most=100_000)
    rng = random.Random(0)
    held: list[tuple[int, int]] = []
    for laps in (5, 50, 200):
        while sum(task.startswith("turn") for task in shell.seen.done) < laps:
            shell.act(shell.choose(rng, 4))
        held.append((len(commits_of(shell.machine)), counters_of(shell.machine)))
        assert len(shell.machine.tasks) < 5
    assert held[1] == held[2]
    assert held[0][0] + held[0][1] + 2 >= held[2][0] + held[2][1]
