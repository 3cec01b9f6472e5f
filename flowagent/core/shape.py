"""The structure of a graph as plain data: what a run's journal keeps of the definition that it was started with.

It holds what decides whether a stored run can go on (nodes, their kinds, edges, state fields), and nothing that
may change freely: functions, docs, tags, retries, timeouts.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

from flowagent.core.nodes import GateNode, GraphNode, MapNode
from flowagent.core.topology import Place, Topology

Shape: TypeAlias = dict[str, Any]

_KINDS = {
    "FunctionNode": "node",
    "RouterNode": "router",
    "ItemNode": "items",
    "MapNode": "map",
    "GateNode": "gate",
    "GraphNode": "graph",
}


def shape_of(topology: Topology) -> Shape:
    """The structure of a graph and of the graphs within."""
    return {
        "graph": topology.name,
        "fields": {
            name: "" if field.reducer is None else field.reducer.name for name, field in topology.schema.fields.items()
        },
        "nodes": {place.name: _node(place) for place in topology.places[2:]},
        "edges": sorted([edge.tail, edge.head, edge.kind] for edge in topology.edges),
    }


def kind_of(place: Place) -> str:
    """What kind of node a place is, in one word."""
    return _KINDS[type(place.node).__name__]


def _node(place: Place) -> Shape:
    node = place.node
    told: Shape = {"kind": kind_of(place), "join": "each" if place.each else "all"}
    if isinstance(node, MapNode):
        told |= {"over": node.over, "into": node.into}
    elif isinstance(node, GateNode):
        told |= {"into": node.into}
    elif isinstance(node, GraphNode):
        told |= {"nested": True}
    if place.child is not None:
        told["child"] = shape_of(place.child)
    return told


def fingerprint(shape: Shape) -> str:
    """A short hash of a structure."""
    return hashlib.blake2b(json.dumps(shape, sort_keys=True).encode(), digest_size=12).hexdigest()


def differences(stored: Shape, current: Shape, where: str = "") -> list[str]:
    """What changed between the structure that a run was started with and today's, a line each."""
    lines: list[str] = []
    lines += _of_fields(stored["fields"], current["fields"], where)
    old, new = stored["nodes"], current["nodes"]
    lines += [f"{where}node `{name}` was removed" for name in old if name not in new]
    lines += [f"{where}node `{name}` was added" for name in new if name not in old]
    for name in old:
        if name in new:
            lines += _of_node(name, old[name], new[name], where)
    before, after = ({(tail, head, kind) for tail, head, kind in shape["edges"]} for shape in (stored, current))
    lines += [f"{where}{_told(*edge)} was removed" for edge in sorted(before - after)]
    lines += [f"{where}{_told(*edge)} was added" for edge in sorted(after - before)]
    return lines


def _of_fields(old: dict[str, str], new: dict[str, str], where: str) -> list[str]:
    """A field that was added takes its default, so only what is gone (or renamed) stands in the way."""
    added = ", ".join(f"`{name}`" for name in new if name not in old)
    hint = f" (renamed to one of {added}?)" if added else ""
    return [f"{where}field `{name}` was removed{hint}" for name in old if name not in new]


def _of_node(name: str, old: Shape, new: Shape, where: str) -> list[str]:
    lines = [
        f"{where}node `{name}`: {what} was {old.get(what)!r} and is {new.get(what)!r}"
        for what in ("kind", "join", "over", "into")
        if old.get(what) != new.get(what)
    ]
    if "child" in old and "child" in new:
        lines += differences(old["child"], new["child"], f"{where}{name}/")
    return lines


def _told(tail: str, head: str, kind: str) -> str:
    arrow = {"fixed": "edge", "choice": "choice", "error": "error edge"}[kind]
    return f"{arrow} `{tail}` -> `{head}`"
