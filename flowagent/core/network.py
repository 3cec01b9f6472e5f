"""The edges of a definition by node, and what follows from them: dominators, components, orders.

These few algorithms are our own because every process that runs a graph needs them at once: to import a library of
graphs takes many times as long as to resume a run. The tests hold them to what networkx finds.
"""

from __future__ import annotations

import functools
import graphlib
from collections.abc import Callable, Iterable, Mapping

from flowagent.core.nodes import END, START, Edge, Node


class Network:
    """Which edges lead out of and into each node; of several between two nodes, the last one declared.

    Attributes:
        after: the edge to each node that follows a node, in declared order; START and END come first.
        before: the nodes that come before each node.
    """

    def __init__(self, nodes: Iterable[str], edges: Iterable[Edge]) -> None:
        self.after: dict[str, dict[str, Edge]] = {name: {} for name in (START, END, *nodes)}
        self.before: dict[str, list[str]] = {name: [] for name in self.after}
        for edge in edges:
            heads = self.after[edge.tail]
            if edge.head not in heads:
                self.before[edge.head].append(edge.tail)
            heads[edge.head] = edge

    def descendants(self, name: str) -> set[str]:
        """The other nodes that a node leads to."""
        return _found(name, self.after.__getitem__) - {name}

    def ancestors(self, name: str) -> set[str]:
        """The other nodes that lead to a node."""
        return _found(name, self.before.__getitem__) - {name}

    def dominators(self) -> dict[str, str]:
        """The immediate dominator of each node that START leads to, but START: the last node that all ways pass.

        By Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm": each node is put below the node where the
        ways into it meet that are known so far, the ones next to START first, until nothing changes any more. (Where
        many ways meet, the deepest ones do so first: else each of them would be followed up to START.)
        """
        order = _left([START], self.after)
        place = {name: number for number, name in enumerate(order)}
        above = {START: START}
        changes = True
        while changes:
            changes = False
            for name in reversed(order[:-1]):
                ways = sorted((tail for tail in self.before[name] if tail in above), key=place.__getitem__)
                met = functools.reduce(lambda one, two: _meeting(above, place, one, two), ways)
                changes = changes or above.get(name) != met
                above[name] = met
        del above[START]
        return above


def components(after: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The strongly connected components of a graph, given as what follows each node: what leads to one another.

    By Kosaraju: a component is what leads to the node in it that a search leaves last, but for earlier components.
    """
    before: dict[str, list[str]] = {name: [] for name in after}
    for tail, heads in after.items():
        for head in heads:
            before[head].append(tail)
    rest = set(after)
    found: list[set[str]] = []
    for name in reversed(_left(after, after)):
        if name in rest:
            component = _found(name, lambda one: [tail for tail in before[one] if tail in rest])
            rest.difference_update(component)
            found.append(component)
    return found


def total_order(pairs: Iterable[tuple[str, str]], names: set[str]) -> list[str] | None:
    """The one order of these names that the pairs leave; None if they leave more than one, or none."""
    sorter = graphlib.TopologicalSorter[str](dict.fromkeys(names, ()))
    for first, second in pairs:
        if names.issuperset((first, second)):
            sorter.add(second, first)
    try:
        sorter.prepare()
    except graphlib.CycleError:
        return None
    order: list[str] = []
    while sorter.is_active():
        following = sorter.get_ready()
        if len(following) > 1:
            return None
        sorter.done(*following)
        order += following
    return order


def _left(names: Iterable[str], after: Mapping[str, Iterable[str]]) -> list[str]:
    """These nodes and all that they lead to, in the order in which a search that goes deep first leaves them."""
    seen: set[str] = set()
    left: list[str] = []
    for start in names:
        trail = [] if start in seen else [(start, iter(after[start]))]
        seen.add(start)
        while trail:
            name, heads = trail[-1]
            head = next((head for head in heads if head not in seen), None)
            if head is None:
                left.append(name)
                trail.pop()
            else:
                seen.add(head)
                trail.append((head, iter(after[head])))
    return left


def _meeting(above: Mapping[str, str], place: Mapping[str, int], one: str, two: str) -> str:
    """The last node that is above both, or is one of them."""
    while one != two:
        if place[one] < place[two]:
            one = above[one]
        else:
            two = above[two]
    return one


def _found(name: str, onward: Callable[[str], Iterable[str]]) -> set[str]:
    found = {name}
    todo = [name]
    while todo:
        for one in onward(todo.pop()):
            if one not in found:
                found.add(one)
                todo.append(one)
    return found


def once_each(nodes: Mapping[str, Node]) -> set[str]:
    """The names of the nodes that run once for each arrival: those with `join="each"`, and the handlers of errors."""
    return {name for name, node in nodes.items() if node.options.join == "each"} | handlers(nodes)


def handlers(nodes: Mapping[str, Node]) -> set[str]:
    """The names of the nodes that handle errors."""
    return {node.options.on_error for node in nodes.values() if node.options.on_error is not None}
