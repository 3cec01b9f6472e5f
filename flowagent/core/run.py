"""`Run`: where one execution of a graph stands, what happened in it, and the picture of that."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, cast

from pydantic import BaseModel
from typing_extensions import TypeVar

from flowagent.core.facts import Question, TaskStatus
from flowagent.core.usage import NO_USAGE, Usage
from flowagent.core.writes import Values
from flowagent.errors import FlowAgentError, NodeError

if TYPE_CHECKING:
    from flowagent.core.history import Step
    from flowagent.core.records import Record, Status
    from flowagent.core.topology import Topology
    from flowagent.render import Diagram
    from flowagent.stores.base import Store

StateT = TypeVar("StateT", bound=BaseModel, default=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Run(Generic[StateT]):
    """One execution of a graph, as it stood when this was made. It holds no resources and never goes stale by itself.

    Attributes:
        run_id: its name in the store.
        graph_name: the graph that it runs.
        status: where it stands; only `completed` is final.
        state: the state as far as it came.
        errors: one for each task that stands failed, in the order of task ids.
        questions: what it waits to be told.
        unmerged: fields that branches wrote differently and that nothing has merged yet; they keep the value that
            they had where the branches parted.
        replayed: whether the call that made this executed nothing.
        reason: a line on why it stopped where it did, such as which limit was reached.
        store: where its journal is.
        warnings: what `check` found odd about the graph.
        usage: what was recorded as spent, in all graphs and by failed attempts too.
    """

    run_id: str
    graph_name: str
    status: Status
    state: StateT
    errors: tuple[NodeError, ...] = ()
    questions: tuple[Question, ...] = ()
    unmerged: tuple[str, ...] = ()
    replayed: bool = False
    reason: str = ""
    store: Store = field(repr=False, compare=False)
    warnings: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    _topology: Topology = field(repr=False, compare=False)
    _unfinished: Mapping[str, tuple[TaskStatus, int]] = field(
        repr=False, compare=False, default_factory=dict[str, tuple[TaskStatus, int]]
    )

    @property
    def unfinished(self) -> Mapping[str, tuple[TaskStatus, int]]:
        """Where each unfinished task stands, by id, and how many items it has if it holds some."""
        return self._unfinished

    @cached_property
    def records(self) -> Sequence[Record]:
        """The run's journal, read when first asked for."""
        loops = importlib.import_module("flowagent.core.loops")
        return cast("Sequence[Record]", loops.run_blocking(self.store.read(self.run_id)))

    @cached_property
    def history(self) -> tuple[Step, ...]:
        """What was recorded of each task, in the order in which it was."""
        history = importlib.import_module("flowagent.core.history")
        return cast("tuple[Step, ...]", history.steps_of(self.run_id, self.records))

    def usage_by_node(self) -> dict[tuple[str, ...], Usage]:
        """What each node has spent, by its path: the names of the nodes around it and its own, as in `Graph.draw`.

        Nodes that spent nothing are left out; one that holds a graph has spent what the nodes inside it have, which
        are told apart. All of them together are `usage`.
        """
        history = importlib.import_module("flowagent.core.history")
        return cast("dict[tuple[str, ...], Usage]", history.usage_by_node(self.run_id, self.records))

    def state_at(self, seq: int) -> StateT:
        """The state after record number `seq`.

        Raises:
            FlowAgentError: there is no such record.
        """
        if not 0 <= seq < len(self.records):
            raise FlowAgentError(f"run `{self.run_id}` has records 0 to {len(self.records) - 1}, not {seq}")
        machine = _replaying().replayed(self._topology, self.run_id, self.records[: seq + 1])
        return self._shown(machine.state()[0])

    def state_of(self, task: str) -> BaseModel:
        """The state that a task was given: for one of a nested graph, that graph's.

        Raises:
            FlowAgentError: the run has no such task.
        """
        found = _replaying().task_of(self._topology, self.run_id, self.records, task)
        if found is None:
            raise FlowAgentError(f"run `{self.run_id}` has no task `{task}`; see its `history` for those it has")
        return cast("BaseModel", found.scope.topology.schema.result(found.values))

    def draw(self, *, times: bool = True) -> Diagram:
        """A picture of what happened, over the picture of the definition.

        Args:
            times: whether to show what differs between two runs that did the same: durations and order. Tokens and
                cost stay: they are recorded facts of what the nodes did, and no schedule changes them.
        """
        sketch = importlib.import_module("flowagent.core.sketch")
        render = importlib.import_module("flowagent.render")
        picture = sketch.of_run(self._topology, self, times=times)
        return cast("Diagram", render.Diagram(picture, times=times))

    def _repr_svg_(self) -> str:
        return self.draw().svg()

    def _shown(self, values: Values) -> StateT:
        return cast("StateT", self._topology.schema.result(values))


def _replaying() -> Any:
    """What tells a journal again, loaded when first used: most runs are never looked back at."""
    return importlib.import_module("flowagent.core.replaying")
