"""The graph as flat tables, made once: what the machine asks at every step is a look-up here.

The analysis (dominators, reachability, components) is networkx's; what it means for joins is told in
`docs/design.md`. d(n) is the immediate dominator of n: the last node that every way from START to n passes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (networkx declares its algorithms through a decorator that hides part of their types.)
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from flowagent.core import ids
from flowagent.core.facts import Way
from flowagent.core.fields import Codec
from flowagent.core.nodes import (
    END,
    START,
    Edge,
    Function,
    FunctionNode,
    GraphNode,
    ItemNode,
    MapNode,
    Node,
    RouterNode,
    is_choice,
)
from flowagent.core.reducers import element_type
from flowagent.core.schema import Schema, schema_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A token here may still arrive at join `join`, so it holds that join back for its visit of the join's d."""

    join: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One node in the tables. Numbers of nodes are places in `Topology.places`.

    Args:
        index: its own number.
        name: the node's name.
        code: the name as it stands in ids.
        json: the name as JSON.
        node: the definition; None for START and END.
        heads: the targets of its fixed edges in declared order, or of its choices.
        ways: the same, as the machine wants them; empty where the node chooses.
        is_router: whether it only decides.
        has_items: whether it is a map or the target of `Send`s.
        choices: for routers without `to={label: ...}`, the way for each name that it may return.
        function: the user's function behind it, if there is one.
        runs_inline: whether that is sync, may be waited for, and may be repeated, so that it can run on our own loop.
        rank: the declared order of each target.
        chooses: whether it takes only those heads that its commit names.
        handler: the number of its `on_error` node, or None.
        is_join: whether arrivals meet here and are merged.
        each: whether it runs once for each arrival.
        slot: where in a commit's marks its d's visits are noted.
        own_slot: where its own visits are noted, or None when nobody asks.
        comes_round: whether it can be reached again from itself without passing its d.
        holds: the joins that a token here may still arrive at.
        tie: which group of joins that wait for each other it belongs to, and its place in the order, or None.
        child: the tables of a nested or mapped graph.
        item_codec: how the items that are sent to it are stored, or None.
        result_codec: how the results of its items are stored, or None.
    """

    index: int
    name: str
    code: str
    json: bytes
    node: Node | None
    heads: tuple[int, ...]
    ways: tuple[Way, ...]
    is_router: bool
    has_items: bool
    choices: Mapping[object, tuple[Way]]
    function: Function | None
    runs_inline: bool
    rank: Mapping[int, int]
    chooses: bool
    handler: int | None
    is_join: bool
    each: bool
    slot: int
    own_slot: int | None
    comes_round: bool
    holds: tuple[Hold, ...]
    tie: int | None
    child: Topology | None
    item_codec: Codec | None
    result_codec: Codec | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The tables of one graph.

    Args:
        name: the graph's name.
        places: START, END, then the nodes.
        index: numbers by name.
        slots: how many visits a commit's marks note.
        schema: the compiled state model.
        edges: as declared.
        has_ties: whether some joins wait for each other.
    """

    name: str
    places: tuple[Place, ...]
    index: Mapping[str, int]
    slots: int
    schema: Schema
    edges: tuple[Edge, ...]
    has_ties: bool


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
    once_each = {name for name, node in nodes.items() if node.options.join == "each"} | handlers(nodes)
    joins = tuple(name for name in nodes if network.in_degree(name) > 1 and name not in once_each and name in dominator)
    reach = {join: _reach(network, join, dominator[join]) for join in joins}
    return Analysis(network=network, dominator=dominator, joins=joins, reach=reach)


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


def tabulated(
    name: str,
    nodes: Mapping[str, Node],
    edges: Sequence[Edge],
    analysis: Analysis,
    ties: Sequence[Sequence[str]],
    state: Any,
    children: Mapping[str, Topology],
) -> Topology:
    """Lay the analysis out as tables.

    Args:
        name: the graph's name.
        nodes: by name.
        edges: in declared order.
        analysis: of the same nodes and edges.
        ties: groups of joins that wait for each other, each in its declared order.
        state: the state model.
        children: the tables of nested and mapped graphs by node name.
    """
    names = [START, END, *nodes]
    index = {node_name: number for number, node_name in enumerate(names)}
    noted = _noted(analysis, nodes)
    slots = {node_name: slot for slot, node_name in enumerate(noted)}
    tie_rank = {join: place for group in ties for place, join in enumerate(group)}
    outgoing: dict[str, list[Edge]] = {}
    for edge in edges:
        outgoing.setdefault(edge.tail, []).append(edge)
    holds: dict[str, list[Hold]] = {}
    for join in analysis.joins:
        for node_name in analysis.reach[join]:
            holds.setdefault(node_name, []).append(Hold(join=index[join], slot=slots[analysis.dominator[join]]))
    once_each = {n for n, node in nodes.items() if node.options.join == "each"} | handlers(nodes)

    def place(node_name: str) -> Place:
        node = nodes.get(node_name)
        heads = tuple(dict.fromkeys(index[edge.head] for edge in outgoing.get(node_name, []) if edge.kind != "error"))
        handler = node.options.on_error if node is not None else None
        dominator = analysis.dominator.get(node_name, START)
        chooses = node is not None and is_choice(node)
        return Place(
            index=index[node_name],
            name=node_name,
            code=ids.encoded(node_name),
            json=to_json(node_name),
            node=node,
            heads=heads,
            ways=() if chooses else tuple(Way(head) for head in heads),
            is_router=isinstance(node, RouterNode),
            has_items=isinstance(node, (MapNode, ItemNode)),
            choices=_choices(node, index, nodes),
            function=function_of(node),
            runs_inline=_runs_inline(node),
            rank={head: position for position, head in enumerate(heads)},
            chooses=chooses,
            handler=None if handler is None else index[handler],
            is_join=node_name in analysis.reach,
            each=node_name in once_each,
            slot=slots.get(dominator, 0),
            own_slot=slots.get(node_name),
            comes_round=node_name in analysis.reach.get(node_name, ()),
            holds=tuple(holds.get(node_name, ())),
            tie=tie_rank.get(node_name),
            child=children.get(node_name),
            item_codec=Codec(node.item_type, ConfigDict()) if isinstance(node, ItemNode) else None,
            result_codec=_result_codec(state, node) if isinstance(node, MapNode) else None,
        )

    return Topology(
        name=name,
        places=tuple(place(node_name) for node_name in names),
        index=index,
        slots=len(slots),
        schema=schema_of(state),
        edges=tuple(edges),
        has_ties=bool(ties),
    )


def cycle_around(topology: Topology, name: str) -> tuple[str, ...]:
    """The nodes of the cycle that a node lies on, in declared order; none if it lies on no cycle."""
    network = network_of([place.name for place in topology.places[2:]], topology.edges)
    around = (nx.descendants(network, name) & nx.ancestors(network, name)) | {name}
    if len(around) == 1 and not network.has_edge(name, name):
        return ()
    return tuple(place.name for place in topology.places if place.name in around)


def function_of(node: Node | None) -> Function | None:
    """The user's function behind a node, if there is one."""
    match node:
        case FunctionNode(function=function) | RouterNode(function=function) | ItemNode(function=function):
            return function
        case MapNode(body=Function() as body):
            return body
        case _:
            return None


def _runs_inline(node: Node | None) -> bool:
    function = function_of(node)
    if node is None or function is None or function.is_async:
        return False
    return node.options.timeout is None and not node.options.once


def _choices(node: Node | None, index: Mapping[str, int], nodes: Mapping[str, Node]) -> Mapping[object, tuple[Way]]:
    if not isinstance(node, RouterNode):
        return {}
    labels = node.labels if node.labels is not None else {target: target for target in node.targets}
    return {
        label: (Way(index[target]),) for label, target in labels.items() if not isinstance(nodes.get(target), ItemNode)
    }


def _result_codec(state: type[BaseModel], node: MapNode) -> Codec:
    """Results are stored one by one, by the type of the elements of the field that they go into."""
    info = state.model_fields[node.into]
    return Codec(element_type(info.annotation), ConfigDict())


def _noted(analysis: Analysis, nodes: Mapping[str, Node]) -> list[str]:
    """The nodes whose visits must be known further down: dominators of joins and of nodes that run once for each
    arrival, and joins that come round (the number of the last time stands in the mark)."""
    wanted = {analysis.dominator[join] for join in analysis.joins}
    wanted |= {join for join in analysis.joins if join in analysis.reach[join]}
    each = {name for name, node in nodes.items() if node.options.join == "each"} | handlers(nodes)
    wanted |= {analysis.dominator[name] for name in each if name in analysis.dominator}
    return [name for name in [START, *nodes] if name in wanted or name == START]


def nested_graphs(nodes: Mapping[str, Node]) -> dict[str, Any]:
    """The graphs inside a graph, by the name of the node that holds them."""
    inner: dict[str, Any] = {name: node.child for name, node in nodes.items() if isinstance(node, GraphNode)}
    for name, node in nodes.items():
        if isinstance(node, MapNode) and hasattr(node.body, "nodes"):
            inner[name] = node.body
    return inner
