"""What networkx finds out about a definition: dominators, and what can reach a join past its dominator.

What that means for joins is told in `docs/design.md`. Loaded, with networkx, when a graph is first checked.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (networkx declares its algorithms through a decorator that hides part of their types.)
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from flowagent.core.nodes import END, START, Edge, Node
from flowagent.core.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What networkx finds out about the edges, by node name."""

    network: nx.DiGraph[str]
    dominator: Mapping[str, str]
    joins: tuple[str, ...]
    reach: Mapping[str, frozenset[str]]

    def waits_for(self) -> nx.DiGraph[str]:
        """Join -> join where the second can still reach the first without passing the first's d."""
        waits: nx.DiGraph[str] = nx.DiGraph()
        waits.add_nodes_from(self.joins)
        waits.add_edges_from(
            (one, two) for one in self.joins for two in self.joins if one != two and two in self.reach[one]
        )
        return waits


def network_of(nodes: Iterable[str], edges: Iterable[Edge]) -> nx.DiGraph[str]:
    """The definition as a networkx graph, with the kind and label of each edge."""
    network: nx.DiGraph[str] = nx.DiGraph()
    network.add_nodes_from([START, END, *nodes])
    network.add_edges_from((edge.tail, edge.head, {"kind": edge.kind, "label": edge.label}) for edge in edges)
    return network


def analysed(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> Analysis:
    """Dominators and, for each join, the nodes from which it can be reached without passing its dominator."""
    network = network_of(nodes, edges)
    dominator = {name: above for name, above in nx.immediate_dominators(network, START).items() if above is not None}
    each = once_each(nodes)
    joins = tuple(name for name in nodes if network.in_degree(name) > 1 and name not in each and name in dominator)
    reach = {join: _reach(network, join, dominator[join]) for join in joins}
    return Analysis(network=network, dominator=dominator, joins=joins, reach=reach)


def once_each(nodes: Mapping[str, Node]) -> set[str]:
    """The names of the nodes that run once for each arrival: those with `join="each"`, and the handlers of errors."""
    return {name for name, node in nodes.items() if node.options.join == "each"} | handlers(nodes)


def handlers(nodes: Mapping[str, Node]) -> set[str]:
    """The names of the nodes that handle errors."""
    return {node.options.on_error for node in nodes.values() if node.options.on_error is not None}


def _reach(network: nx.DiGraph[str], join: str, dominator: str) -> frozenset[str]:
    """The nodes with a way of one arrow or more to a join that does not start from or pass its dominator."""
    found: set[str] = set()
    todo = [join]
    while todo:
        for before in network.predecessors(todo.pop()):
            if before != dominator and before not in found:
                found.add(before)
                todo.append(before)
    return frozenset(found)


def cycle_around(topology: Topology, name: str) -> tuple[str, ...]:
    """The nodes of the cycle that a node lies on, in declared order; none if it lies on no cycle."""
    network = network_of([place.name for place in topology.places[2:]], topology.edges)
    around = (nx.descendants(network, name) & nx.ancestors(network, name)) | {name}
    if len(around) == 1 and not network.has_edge(name, name):
        return ()
    return tuple(place.name for place in topology.places if place.name in around)
