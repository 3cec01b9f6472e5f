"""Where a definition would let a secret out: what is secret in one place has to be so wherever it is handed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import BaseModel

from flowagent.core.nodes import GraphNode, MapNode, Node
from flowagent.core.schema import Schema, schema_of
from flowagent.core.secret import marked_in
from flowagent.core.state import State
from flowagent.core.topology import Topology


def faults_of_secrets(
    nodes: Mapping[str, Node], state: type[BaseModel], children: Mapping[str, Topology]
) -> Iterator[str]:
    """What is wrong with the secrets of a graph and what it hands to the graphs within, for `check`."""
    if not issubclass(state, State):
        for name in sorted(marked_in(state)):
            if state.model_fields[name].repr:
                yield (
                    f"field `{name}` is secret, and repr() of a `{state.__name__}` would show it: "
                    "add Field(repr=False), or derive the model from State"
                )
    schema = schema_of(state)
    for name, child in children.items():
        for source, taker, model in _handed_on(nodes[name], schema, child.schema):
            yield (
                f"node `{name}` hands the secret `{source}` on as `{taker}` of `{model.__name__}`, which is no secret: "
                "mark it too, Annotated[..., secret]"
            )


def _handed_on(node: Node, ours: Schema, inner: Schema) -> Iterator[tuple[str, str, type[BaseModel]]]:
    """Each secret that would lose its mark: its field, the field that takes it, and the model of that one.

    What functions make of a state (`input=`, `output=`) nobody can tell beforehand.
    """
    given, taken = _wires(node, ours, inner)
    for taker, source in given.items():
        if source in ours.secrets and taker in inner.fields and taker not in inner.secrets:
            yield source, taker, inner.model
    for taker, source in taken.items():
        if source in inner.secrets and taker in ours.fields and taker not in ours.secrets:
            yield source, taker, ours.model


def _wires(node: Node, ours: Schema, inner: Schema) -> tuple[dict[str, str], dict[str, str]]:
    """`{child's field: ours}` on the way in, and `{ours: child's field}` on the way out."""
    same = {name: name for name in inner.fields if name in ours.fields}
    match node:
        case GraphNode():
            return _names(node.input, same), _names(node.output, same)
        case MapNode(over=over, into=into):
            given = {taker: over if source == "item" else source for taker, source in _names(node.input, {}).items()}
            return given, {into: node.output} if isinstance(node.output, str) else {}
        case _:
            return {}, {}


def _names(wires: object, same: dict[str, str]) -> dict[str, str]:
    if wires is None:
        return same
    return dict(cast("Mapping[str, str]", wires)) if isinstance(wires, Mapping) else {}
