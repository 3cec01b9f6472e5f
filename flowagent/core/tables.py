"""Lays the analysis of a definition out as the flat tables of a `Topology`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from flowagent.core import ids
from flowagent.core.analysis import Analysis
from flowagent.core.facts import Way
from flowagent.core.fields import Codec, codec_of
from flowagent.core.foreground import begun
from flowagent.core.network import once_each
from flowagent.core.nodes import (
    END,
    START,
    Edge,
    Function,
    FunctionNode,
    GateNode,
    GraphNode,
    ItemNode,
    MapNode,
    Node,
    RouterNode,
    is_choice,
)
from flowagent.core.reducers import element_type
from flowagent.core.schema import Schema, schema_of
from flowagent.core.secret import holds_secret
from flowagent.core.topology import Hold, Place, Topology


def tabulated(
    name: str,
    nodes: Mapping[str, Node],
    edges: Sequence[Edge],
    *,
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
    each = once_each(nodes)

    def place(node_name: str) -> Place:
        node = nodes.get(node_name)
        heads = tuple(dict.fromkeys(index[edge.head] for edge in outgoing.get(node_name, []) if edge.kind != "error"))
        handler = node.options.on_error if node is not None else None
        dominator = analysis.dominator.get(node_name, START)
        chooses = node is not None and is_choice(node)
        function = function_of(node)
        return Place(
            index=index[node_name],
            name=node_name,
            code=ids.encoded(node_name),
            json=to_json(node_name),
            json_alone=to_json([node_name]),
            node=node,
            heads=heads,
            ways=() if chooses else tuple(Way(head) for head in heads),
            is_router=isinstance(node, RouterNode),
            has_items=isinstance(node, (MapNode, ItemNode)),
            choices=_choices(node, index, nodes),
            function=function,
            is_async=function is not None and function.is_async,
            runs_inline=function is not None and not function.is_async and _may_wait(node),
            plain=_plain(node),
            rank={head: position for position, head in enumerate(heads)},
            chooses=chooses,
            handler=None if handler is None else index[handler],
            is_join=node_name in analysis.reach,
            each=node_name in each,
            is_numbered=node_name in analysis.reach or node_name in each,
            slot=slots.get(dominator, 0),
            own_slot=slots.get(node_name),
            comes_round=node_name in analysis.reach.get(node_name, ()),
            holds=tuple(holds.get(node_name, ())),
            tie=tie_rank.get(node_name),
            child=children.get(node_name),
            item_codec=codec_of(node.item_type, ConfigDict()) if isinstance(node, ItemNode) else None,
            result_codec=_result_codec(state, node) if isinstance(node, MapNode) else None,
        )

    places = tuple(place(node_name) for node_name in names)
    schema = schema_of(state)
    return Topology(
        name=name,
        places=places,
        index=index,
        slots=len(slots),
        schema=schema,
        edges=tuple(edges),
        has_ties=bool(ties),
        secrets=tuple(dict.fromkeys(_secrets(schema, places))),
    )


def _secrets(schema: Schema, places: Sequence[Place]) -> Iterator[str]:
    """What of a graph nobody may see, in a few words each."""
    yield from (f"field `{name}` of `{schema.model.__name__}`" for name in schema.fields if name in schema.secrets)
    for place in places:
        if place.item_codec is not None and place.item_codec.secret:
            yield f"the items of node `{place.name}`"
        if isinstance(place.node, GateNode) and holds_secret(place.node.schema):
            yield f"the answer to gate `{place.name}`"
        if place.child is not None:
            yield from place.child.secrets


def function_of(node: Node | None) -> Function | None:
    """The user's function behind a node, if there is one."""
    match node:
        case FunctionNode(function=function) | RouterNode(function=function) | ItemNode(function=function):
            return function
        case MapNode(body=Function() as body):
            return body
        case _:
            return None


def _may_wait(node: Node | None) -> bool:
    """Whether a node's function may be waited for, and may be repeated."""
    return node is not None and node.options.timeout is None and not node.options.once


def _plain(node: Node | None) -> Callable[[Any], Any] | None:
    function = function_of(node)
    if function is None or function.takes_context or not _may_wait(node) or isinstance(node, (MapNode, ItemNode)):
        return None
    return functools.partial(begun, function.call) if function.is_async else function.call


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
    secret = node.into in schema_of(state).secrets
    return codec_of(element_type(info.annotation), ConfigDict(), secret=secret)


def _noted(analysis: Analysis, nodes: Mapping[str, Node]) -> list[str]:
    """The nodes whose visits must be known further down.

    They are the dominators of joins and of nodes that run once for each arrival, and the joins that come round (how
    often stands in the mark).
    """
    wanted = {analysis.dominator[join] for join in analysis.joins}
    wanted |= {join for join in analysis.joins if join in analysis.reach[join]}
    wanted |= {analysis.dominator[name] for name in once_each(nodes) if name in analysis.dominator}
    return [name for name in [START, *nodes] if name in wanted or name == START]


def nested_graphs(nodes: Mapping[str, Node]) -> dict[str, Any]:
    """The graphs inside a graph, by the name of the node that holds them."""
    inner: dict[str, Any] = {name: node.child for name, node in nodes.items() if isinstance(node, GraphNode)}
    for name, node in nodes.items():
        if isinstance(node, MapNode) and hasattr(node.body, "nodes"):
            inner[name] = node.body
    return inner
