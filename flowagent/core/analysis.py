"""What follows from the edges of a definition: dominators, and what can reach a join past its dominator.

What that means for joins is told in `docs/design.md`. Loaded when a graph is first checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flowagent.core.network import Network, once_each
from flowagent.core.nodes import Node
from flowagent.core.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What follows from the edges, by node name."""

    network: Network
    dominator: Mapping[str, str]
    joins: tuple[str, ...]
    reach: Mapping[str, frozenset[str]]

    def waits_for(self) -> dict[str, list[str]]:
        """Join -> joins that can still reach it without passing its d."""
        return {one: [two for two in self.joins if one != two and two in self.reach[one]] for one in self.joins}


def analysed(nodes: Mapping[str, Node], network: Network) -> Analysis:
    """Dominators and, for each join, the nodes from which it can be reached without passing its dominator."""
    dominator = network.dominators()
    each = once_each(nodes)
    joins = tuple(name for name in nodes if len(network.before[name]) > 1 and name not in each and name in dominator)
    reach = {join: _reach(network, join, dominator[join]) for join in joins}
    return Analysis(network=network, dominator=dominator, joins=joins, reach=reach)


def _reach(network: Network, join: str, dominator: str) -> frozenset[str]:
    """The nodes with a way of one arrow or more to a join that does not start from or pass its dominator."""
    found: set[str] = set()
    todo = [join]
    while todo:
        for before in network.before[todo.pop()]:
            if before != dominator and before not in found:
                found.add(before)
                todo.append(before)
    return frozenset(found)


def cycle_around(topology: Topology, name: str) -> tuple[str, ...]:
    """The nodes of the cycle that a node lies on, in declared order; none if it lies on no cycle."""
    network = Network([place.name for place in topology.places[2:]], topology.edges)
    around = (network.descendants(name) & network.ancestors(name)) | {name}
    if len(around) == 1 and name not in network.after[name]:
        return ()
    return tuple(place.name for place in topology.places if place.name in around)
