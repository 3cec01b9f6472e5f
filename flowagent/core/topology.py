"""The graph as flat tables, made once: what the machine asks at every step is a look-up here.

How they are worked out stands in `analysis.py` and `tables.py`. d(n) is the immediate dominator of n: the last node
that every way from START to n passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flowagent.core.facts import Way
from flowagent.core.fields import Codec
from flowagent.core.nodes import Edge, Function, Node
from flowagent.core.schema import Schema


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
        json_alone: a JSON list of it alone.
        node: the definition; None for START and END.
        heads: the targets of its fixed edges in declared order, or of its choices.
        ways: the same, as the machine wants them; empty where the node chooses.
        is_router: whether it only decides.
        has_items: whether it is a map or the target of `Send`s.
        choices: for routers without `to={label: ...}`, the way for each name that it may return.
        function: the user's function behind it, if there is one.
        is_async: whether that is async.
        runs_inline: whether it is sync, may be waited for, and may be repeated, so that it can run on our own loop.
        plain: calls the function where it takes nothing but the state, may be waited for, and may be repeated. Where it
            is async and has to wait, what comes back is a `Waiting`.
        rank: the declared order of each target.
        chooses: whether it takes only those heads that its commit names.
        handler: the number of its `on_error` node, or None.
        is_join: whether arrivals meet here and are merged.
        each: whether it runs once for each arrival.
        is_numbered: whether its visits have a number of their own; else it is that of its d's visit, the only way in.
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
    json_alone: bytes
    node: Node | None
    heads: tuple[int, ...]
    ways: tuple[Way, ...]
    is_router: bool
    has_items: bool
    choices: Mapping[object, tuple[Way]]
    function: Function | None
    is_async: bool
    runs_inline: bool
    plain: Callable[[Any], Any] | None
    rank: Mapping[int, int]
    chooses: bool
    handler: int | None
    is_join: bool
    each: bool
    is_numbered: bool
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
        secrets: what of it nobody may see, and so no store may keep that does not encrypt; a few words each.
    """

    name: str
    places: tuple[Place, ...]
    index: Mapping[str, int]
    slots: int
    schema: Schema
    edges: tuple[Edge, ...]
    has_ties: bool
    secrets: tuple[str, ...] = ()

    @property
    def is_agent(self) -> bool:
        """Whether it is the graph of an agent, which is one that has the agent's model as a node."""
        return any(place.node is not None and place.node.options.shape == "model" for place in self.places)
