"""The edges of a definition by node, and what follows from them without a library.

A graph in which no ways meet but at END is a tree, a line for instance: there it is plain what dominates what, and
nothing goes round. About all others networkx is asked (`algorithms.py`), and loaded for them.
"""

from __future__ import annotations

import functools
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

    @functools.cached_property
    def is_tree(self) -> bool:
        """Whether there is just one way from START to each node; to END there may be several."""
        return (
            not self.before[START]
            and not self.after[END]
            and all(len(self.before[name]) < 2 for name in self.after if name != END)
            and len(self.descendants(START) | {START, END}) == len(self.after)
        )

    def tree_dominators(self) -> dict[str, str]:
        """The immediate dominator of each node of a tree but START: the one before it, and for END where ways part."""
        dominators: dict[str, str] = {}
        depth = {START: 0}
        todo = [START]
        while todo:
            name = todo.pop()
            for head in self.after[name]:
                if head != END:
                    dominators[head], depth[head] = name, depth[name] + 1
                    todo.append(head)
        ends = self.before[END]
        if ends:
            dominators[END] = functools.reduce(lambda one, two: _meeting(dominators, depth, one, two), ends)
        return dominators


def _meeting(above: Mapping[str, str], depth: Mapping[str, int], one: str, two: str) -> str:
    """The last node of a tree that is above both, or is one of them."""
    while one != two:
        if depth[one] < depth[two]:
            two = above[two]
        else:
            one = above[one]
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
