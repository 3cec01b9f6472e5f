"""Network: what follows from the edges without networkx is what networkx says."""

from __future__ import annotations

import random
import subprocess
import sys

import networkx as nx
import pytest

from flowagent.core.algorithms import as_networkx, dominators
from flowagent.core.network import Network
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


@pytest.mark.parametrize("seed", range(40))
def test_the_dominators_of_a_tree_are_those_that_networkx_finds(seed: int) -> None:
    """In a tree it is plain what dominates what, END included."""
    network = grown(seed, extra=0)
    assert network.is_tree
    assert network.tree_dominators() == dominators(network)


@pytest.mark.parametrize("seed", range(40))
def test_a_network_with_one_edge_more_is_no_tree(seed: int) -> None:
    """An edge to a node that had one already lets ways meet or go round; the same edge again changes nothing."""
    plain, more = grown(seed, extra=0), grown(seed, extra=1)
    assert more.is_tree == (more.before == plain.before)


@pytest.mark.parametrize("seed", range(40))
def test_what_a_node_leads_to_and_what_leads_to_it_is_what_networkx_finds(seed: int) -> None:
    """Reachability agrees, on cycles too, where a node is not counted among what it leads to."""
    network = grown(seed, extra=5)
    graph = as_networkx(network)
    assert {name: network.descendants(name) for name in network.after} == {
        name: nx.descendants(graph, name) for name in network.after
    }
    assert {name: network.ancestors(name) for name in network.after} == {
        name: nx.ancestors(graph, name) for name in network.after
    }


@pytest.mark.parametrize("edges", [[("a", "b"), ("b", "a")], [("a", "a")], [("START", "a"), ("END", "b")]])
def test_what_start_does_not_lead_to_is_no_tree(edges: list[tuple[str, str]]) -> None:
    """A cycle beside the tree, or an edge out of END, is for networkx."""
    assert not Network(["a", "b"], [Edge(tail, head, "fixed") for tail, head in edges]).is_tree


def loaded_by_a_run(edges: str) -> bool:
    """Whether a process that runs a graph of these edges has loaded networkx."""
    program = f"""
import sys
from flowagent import END, START, Graph, State
class Empty(State):
    field: int = 0
graph = Graph("g", Empty)
for name in "abc":
    graph.node(lambda state: None, name=name)
for tail, head in {edges}:
    graph.edge(tail, head)
assert graph.run_sync().status == "completed"
print("networkx" in sys.modules)
"""
    return (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "True\n"
    )


def test_a_tree_is_run_without_networkx() -> None:
    """A line that forks, whose branches meet at END alone, needs no algorithm."""
    assert not loaded_by_a_run("[(START, 'a'), ('a', 'b'), ('a', 'c'), ('b', END), ('c', END)]")


def test_a_join_is_found_with_networkx() -> None:
    """The probe would notice: where branches meet before END, networkx is asked."""
    assert loaded_by_a_run("[(START, 'a'), (START, 'b'), ('a', 'c'), ('b', 'c'), ('c', END)]")
