"""Turns a definition, or a run laid over its definition, into a `Picture`.

A run's picture is made from its journal alone: what is drawn as having happened is what was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from flowagent.core import journal
from flowagent.core.facts import TaskStatus
from flowagent.core.ids import path_of
from flowagent.core.nodes import END, START, FunctionNode, GateNode, GraphNode, ItemNode, MapNode, RouterNode
from flowagent.core.picture import Arrow, ArrowKind, Box, BoxKind, Frame, Marks, MarkStatus, Picture
from flowagent.core.records import Record
from flowagent.core.topology import Place, Topology
from flowagent.core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from flowagent.core.run import Run

Path: TypeAlias = tuple[str, ...]


def of_graph(topology: Topology) -> Picture:
    """The picture of a definition."""
    return Picture(frame=_frame(topology, (), None))


def of_run(topology: Topology, run: Run[Any], *, times: bool = True) -> Picture:
    """The picture of what happened in a run, over that of its definition.

    Args:
        topology: the definition.
        run: whose journal is read.
        times: whether to show what differs between two runs that did the same: durations and order. What was spent
            does not: it is a fact of what the nodes did, like their writes, and no schedule changes it.
    """
    story = _Story()
    for record in run.records:
        story.tell(record, journal.read(run.run_id, record))
    story.failing.update((path_of(error.task), f"{error.kind}: {error.message}") for error in run.errors)
    for question in run.questions:
        story.waiting.setdefault(path_of(question.task), []).append(question.text)
    story.goes_on = run.status in ("running", "interrupted")
    for task, (status, items) in run.unfinished.items():
        story.stand(path_of(task), status, items)
    story.times = times
    return Picture(
        frame=_frame(topology, (), story),
        run_id=run.run_id,
        status=run.status,
        seconds=story.seconds_in_all if times else None,
        usage=run.usage,
    )


@dataclass(slots=True)
class _Story:
    """What a journal tells of each node, by its path."""

    visits: Counter[Path] = field(default_factory=Counter[Path])
    order: dict[Path, list[int]] = field(default_factory=dict[Path, list[int]])
    seconds: dict[Path, float] = field(default_factory=dict[Path, float])
    usage: dict[Path, Usage] = field(default_factory=dict[Path, Usage])
    failures: Counter[Path] = field(default_factory=Counter[Path])
    retries: Counter[Path] = field(default_factory=Counter[Path])
    items: Counter[Path] = field(default_factory=Counter[Path])
    items_seen: dict[Path, set[str]] = field(default_factory=dict[Path, set[str]])
    items_left: Counter[Path] = field(default_factory=Counter[Path])
    taken: Counter[tuple[Path, str]] = field(default_factory=Counter[tuple[Path, str]])
    caught: Counter[Path] = field(default_factory=Counter[Path])
    begun: Counter[Path] = field(default_factory=Counter[Path])
    failing: dict[Path, str] = field(default_factory=dict[Path, str])
    waiting: dict[Path, list[str]] = field(default_factory=dict[Path, list[str]])
    unfinished: dict[Path, set[TaskStatus]] = field(default_factory=dict[Path, set[TaskStatus]])
    goes_on: bool = False
    times: bool = True
    count: int = 0
    first_at: float | None = None
    last_at: float = 0.0

    @property
    def seconds_in_all(self) -> float | None:
        """From the first record to the last."""
        return None if self.first_at is None else max(self.last_at - self.first_at, 0.0)

    def stand(self, path: Path, status: TaskStatus, items: int) -> None:
        """Take in where an unfinished task stands, and how many items it has in all."""
        for depth in range(1, len(path) + 1):
            self.unfinished.setdefault(path[:depth], set()).add(status)
        self.items_left[path] += items

    def tell(self, record: Record, data: dict[str, Any]) -> None:
        """Take in one record."""
        at = data.get("at")
        if at is not None:
            self.first_at = at if self.first_at is None else self.first_at
            self.last_at = at
        if record.kind == "started":
            self.begun[()] += 1
            return
        path = path_of(data.get("task", ""))
        if (usage := journal.usage_of(data)) is not None:
            for depth in range(1, len(path) + 1):
                self.usage[path[:depth]] = self.usage.get(path[:depth], NO_USAGE) + usage
        match record.kind:
            case "done":
                self._done(path, data)
            case "item":
                self._item(path, data)
            case "opened":
                self.begun[path] += 1
            case "failed":
                self._failed(path, data)
            case _:
                return

    def _done(self, path: Path, data: dict[str, Any]) -> None:
        self._spend(path, data["s"])
        if data["task"].endswith("]"):
            self._item(path, data)
            return
        self.count += 1
        self.visits[path] += 1
        self.order.setdefault(path, []).append(self.count)
        self.retries[path] += data.get("attempt", 1) - 1
        for one in data["to"]:
            self.taken[path, one if isinstance(one, str) else one[0]] += 1

    def _item(self, path: Path, data: dict[str, Any]) -> None:
        if "value" in data:
            self._spend(path, data["s"])
        self.items[path] += 1
        self.items_seen.setdefault(path, set()).add(data["task"])

    def _failed(self, path: Path, data: dict[str, Any]) -> None:
        if data["errors"] and data["errors"][0].get("merge"):
            return
        self.failures[path] += 1
        self._spend(path, data["s"])
        if data["task"].endswith("]"):
            self.items_seen.setdefault(path, set()).add(data["task"])
        elif data["final"]:
            self.caught[path] += 1

    def _spend(self, path: Path, seconds: float) -> None:
        """Work inside a nested graph is work of the nodes that hold it, too."""
        for depth in range(1, len(path) + 1):
            self.seconds[path[:depth]] = self.seconds.get(path[:depth], 0.0) + seconds

    def marks(self, path: Path) -> Marks:
        """The marks of one node."""
        waiting = tuple(self.waiting.get(path, ()))
        # An unfinished map knows all its items; of finished ones, those that were recorded are all there were.
        items = max(len(self.items_seen.get(path, ())), self.items_left[path])
        return Marks(
            status=self._status(path),
            visits=self.visits[path],
            order=tuple(self.order.get(path, ())) if self.times else (),
            seconds=self.seconds.get(path) if self.times else None,
            failures=self.failures[path],
            retries=self.retries[path],
            items=(self.items[path], items) if items else None,
            waiting=waiting,
            error=self.failing.get(path),
            usage=self.usage.get(path, NO_USAGE),
        )

    def _status(self, path: Path) -> MarkStatus:
        """The most telling of what stands at a node or inside it."""
        standing = self.unfinished.get(path, set())
        if "failed" in standing or path in self.failing:
            return "failed"
        if "asking" in standing:
            return "waiting"
        if self.goes_on and standing & {"running", "ready"}:
            return "running"
        return "done" if self.visits[path] or self.items[path] or self.caught[path] else "idle"


def _frame(topology: Topology, path: Path, story: _Story | None) -> Frame:
    places = [place for place in topology.places if place.index != 1]
    return Frame(
        path=path,
        title=topology.name,
        boxes=tuple(_box(place, path, story) for place in [*places, topology.places[1]]),
        arrows=tuple(_arrows(topology, path, story)),
        frames=tuple(
            _frame(place.child, (*path, place.name), story) for place in topology.places if place.child is not None
        ),
    )


def _box(place: Place, path: Path, story: _Story | None) -> Box:
    own = (*path, place.name)
    marks = None
    if story is not None:
        marks = _end_marks(place, path, story) if place.node is None else story.marks(own)
    node = place.node
    return Box(
        path=own,
        label=place.name,
        kind=_kind(place),
        doc="" if node is None else node.options.doc,
        tags=() if node is None else node.options.tags,
        join=_join(place),
        mapped=isinstance(node, MapNode),
        marks=marks,
    )


def _join(place: Place) -> Any:
    if place.node is not None and place.node.options.join == "each":
        return "each"
    return "all" if place.is_join else None


def _kind(place: Place) -> BoxKind:
    if place.node is not None and place.node.options.shape is not None:
        return place.node.options.shape
    match place.node:
        case None:
            return "start" if place.index == 0 else "end"
        case RouterNode():
            return "router"
        case MapNode():
            return "graph" if place.child is not None else "map"
        case ItemNode():
            return "items"
        case GateNode():
            return "gate"
        case GraphNode():
            return "graph"
        case FunctionNode():
            return "node"
        case _:
            assert_never(place.node)


def _end_marks(place: Place, path: Path, story: _Story) -> Marks:
    """START has run when its graph has begun; END when something arrived."""
    if place.name == START:
        visits = story.begun[path]
    else:
        visits = sum(n for (tail, head), n in story.taken.items() if head == END and tail[:-1] == path)
    return Marks(status="done" if visits else "idle", visits=visits)


def _arrows(topology: Topology, path: Path, story: _Story | None) -> Iterable[Arrow]:
    for edge in topology.edges:
        kind: ArrowKind = edge.kind
        taken = None
        if story is not None:
            tail = (*path, edge.tail)
            if edge.tail == START:
                taken = story.begun[path]
            else:
                taken = story.caught[tail] if kind == "error" else story.taken[tail, edge.head]
        yield Arrow(tail=(*path, edge.tail), head=(*path, edge.head), kind=kind, label=edge.label, taken=taken)
