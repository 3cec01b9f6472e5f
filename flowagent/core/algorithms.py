"""What networkx is asked about a network. Loaded, with networkx, for the first graph in which ways meet or go round."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (networkx declares its algorithms through a decorator that hides part of their types.)
from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import networkx as nx

from flowagent.core.network import Network
from flowagent.core.nodes import START


def as_networkx(network: Network) -> nx.DiGraph[str]:
    """The network as a networkx graph, with the kind and label of each edge."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(network.after)
    graph.add_edges_from(
        (tail, head, {"kind": edge.kind, "label": edge.label})
        for tail, heads in network.after.items()
        for head, edge in heads.items()
    )
    return graph


def dominators(network: Network) -> dict[str, str]:
    """The immediate dominator of each node that can be reached from START, but START."""
    found = nx.immediate_dominators(_bare(network.after), START)
    return {name: above for name, above in found.items() if above is not None}


def components(after: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The strongly connected components of a graph, given as what follows each node."""
    return list(nx.strongly_connected_components(_bare(after)))


def total_order(pairs: Iterable[tuple[str, str]], names: set[str]) -> list[str] | None:
    """The one order of these names that the pairs leave; None if they leave more than one, or none."""
    order: nx.DiGraph[str] = nx.DiGraph()
    order.add_edges_from(pair for pair in pairs if names.issuperset(pair))
    if set(order.nodes) != names or not nx.is_directed_acyclic_graph(order):
        return None
    line: Sequence[str] = list(nx.topological_sort(order))
    one_by_one = all(nx.has_path(order, first, second) for first, second in itertools.pairwise(line))
    return list(line) if one_by_one else None


def _bare(after: Mapping[str, Iterable[str]]) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(after)
    graph.add_edges_from((tail, head) for tail, heads in after.items() for head in heads)
    return graph
