"""Network: what follows from the edges is what networkx says."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys

import networkx as nx
import pytest

from flowagent.core.network import Network, components, total_order
from flowagent.core.nodes import END, START, Edge


def grown(seed: int, extra: int) -> Network:
    """A random tree from START whose leaves lead to END, and some edges more."""
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(chance.randint(1, 12))]
    edges = [Edge(chance.choice([START, *names[:at]]), name, "fixed") for at, name in enumerate(names)]
    inner = {edge.tail for edge in edges}
    edges += [Edge(name, END, "fixed") for name in names if name not in inner or chance.random() < 0.3]
    edges += [Edge(chance.choice(names), chance.choice(names), "choice") for _ in range(extra)]
    return Network(names, edges)


def scattered(seed: int) -> Network:
    """Random edges among a few nodes: some lie on cycles, some are not led to."""
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(chance.randint(1, 9))]
    ends = [(chance.choice([START, *names]), chance.choice([*names, END])) for _ in range(chance.randint(1, 24))]
    return Network(names, [Edge(tail, head, "choice") for tail, head in ends])


def as_networkx(network: Network) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(network.after)
    graph.add_edges_from((tail, head) for tail, heads in network.after.items() for head in heads)
    return graph


NETWORKS = [
    *(pytest.param(grown(seed, extra), id=f"tree-{seed}+{extra}") for seed in range(20) for extra in (0, 1, 5)),
    *(pytest.param(scattered(seed), id=f"scattered-{seed}") for seed in range(100)),
]


@pytest.mark.parametrize("network", NETWORKS)
def test_dominators_are_those_that_networkx_finds(network: Network) -> None:
    """On trees, where ways meet, go round, or are not led to from START."""
    found = nx.immediate_dominators(as_networkx(network), START)
    assert network.dominators() == {name: above for name, above in found.items() if name != START}


@pytest.mark.parametrize("network", NETWORKS)
def test_components_are_those_that_networkx_finds(network: Network) -> None:
    """The same sets, each once; a node on no cycle is one by itself."""
    found = components(network.after)
    assert sorted(map(sorted, found)) == sorted(map(sorted, nx.strongly_connected_components(as_networkx(network))))


@pytest.mark.parametrize("network", NETWORKS)
def test_what_a_node_leads_to_and_what_leads_to_it_is_what_networkx_finds(network: Network) -> None:
    """Reachability agrees, on cycles too, where a node is not counted among what it leads to."""
    graph = as_networkx(network)
    assert {name: network.descendants(name) for name in network.after} == {
        name: nx.descendants(graph, name) for name in network.after
    }
    assert {name: network.ancestors(name) for name in network.after} == {
        name: nx.ancestors(graph, name) for name in network.after
    }


@pytest.mark.parametrize("seed", range(100))
def test_an_order_is_total_if_there_is_no_other_that_networkx_finds(seed: int) -> None:
    """All names in their one order, or none if the pairs leave several or contradict each other."""
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(chance.randint(1, 4))]
    pairs = [(chance.choice(names), chance.choice(names)) for _ in range(chance.randint(0, 6))]
    graph: nx.DiGraph[str] = nx.DiGraph(pairs)
    graph.add_nodes_from(names)
    orders = list(nx.all_topological_sorts(graph)) if nx.is_directed_acyclic_graph(graph) else []
    assert total_order([*pairs, ("n0", "stranger")], set(names)) == (orders[0] if len(orders) == 1 else None)


def test_a_long_line_and_a_wide_join_take_no_recursion() -> None:
    """Definitions of thousands of nodes are analysed."""
    names = [f"n{number}" for number in range(5000)]
    line = Network(names, [Edge(START, "n0", "fixed"), *(Edge(*ends, "fixed") for ends in itertools.pairwise(names))])
    assert line.dominators()["n4999"] == "n4998"
    assert len(components(line.after)) == 5002
    wide = Network(names, [edge for name in names for edge in (Edge(START, name, "fixed"), Edge(name, END, "fixed"))])
    assert wide.dominators()[END] == START


def test_a_graph_is_run_without_networkx() -> None:
    """Not even where branches meet and a router leads back: it takes many times as long to load as to run."""
    program = """
import sys
from flowagent import END, START, Graph, State
class Count(State):
    count: int = 0
graph = Graph("g", Count)
graph.node(lambda state: {"count": state.count + 1}, name="a")
graph.node(lambda state: None, name="b")
graph.node(lambda state: None, name="c")
graph.router(lambda state: "a" if state.count < 3 else "END", name="d", to=["a", "END"])
for tail, head in [(START, "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]:
    graph.edge(tail, head)
assert graph.run_sync().state.count == 3
print("networkx" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
