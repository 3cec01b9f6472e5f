"""What the graph knows of things that are made above it: how they become nodes, and how routers bring their targets.

An agent, a team, a model that chooses: none of them is known here. Each says by these protocols what it is in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

from pydantic import BaseModel

from flowagent.core.nodes import Shape

if TYPE_CHECKING:
    from flowagent.core.definition import Definition
    from flowagent.core.graph import Graph

Fields: TypeAlias = "Mapping[str, str] | Callable[[Any], Any] | Callable[[Any, Any], Any] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildGraph:
    """What something is as a node: a graph, and how that is fed and read.

    Args:
        child: the graph.
        name: what the node is called if nobody names it.
        input: as `input=` of `Graph.node` or `Graph.map`.
        output: as `output=` of `Graph.node` or `Graph.map`.
        shape: how pictures draw it, if not as any graph.
    """

    child: Graph[Any, Any]
    name: str
    input: Fields = None
    output: Fields | str = None
    shape: Shape | None = None


@runtime_checkable
class NodeBody(Protocol):
    """Something that can be a node: `g.node(agent, prompt="Write about {topic}.", into="draft")`."""

    @property
    def name(self) -> str:
        """What its node is called if nobody names it."""
        ...

    def as_node(self, graph: Definition, given: dict[str, Any]) -> ChildGraph:
        """What it is in a graph.

        Args:
            graph: the graph that it becomes a node of; `graph.state` is its state model.
            given: all options of the call; it takes its own out of them and leaves (or adds) those of every node.

        Raises:
            GraphError: its options do not fit it or the graph; all faults, which become the graph's.
        """
        ...


@runtime_checkable
class MapBody(Protocol):
    """Something that can be mapped: `g.map(agent, over="topics", into="drafts", prompt="Write about {item}.")`."""

    @property
    def name(self) -> str:
        """What its node is called if nobody names it."""
        ...

    def as_map(self, graph: Definition, over: str, into: str, given: dict[str, Any]) -> ChildGraph:
        """What it is in a graph, for each item of a field.

        Args:
            graph: the graph that it becomes a node of; `graph.state` is its state model.
            over: the field with the items.
            into: the field for the results.
            given: all other options of the call; it takes its own out of them and leaves the others.

        Raises:
            GraphError: its options do not fit it or the graph; all faults, which become the graph's.
        """
        ...


class RouterBody(Protocol):
    """A router that brings its targets: `g.router(choose(...))`. Without `to=` they are those in `targets`.

    It may also have a method `faults_for(state: type[BaseModel]) -> list[str]`, which tells what of it does not fit
    the graph's state.
    """

    @property
    def targets(self) -> Mapping[Any, str] | Sequence[str]:
        """Its targets, or `{what it returns: target}`."""
        ...

    def __call__(self, state: Any, ctx: Any, /) -> Any:
        """What is next."""
        ...


def is_node_body(made_of: object) -> TypeGuard[NodeBody]:
    """Whether something says itself what it is as a node."""
    return not isinstance(made_of, type) and callable(getattr(made_of, "as_node", None))


def is_map_body(made_of: object) -> TypeGuard[MapBody]:
    """Whether something says itself what it is when it is mapped."""
    return not isinstance(made_of, type) and callable(getattr(made_of, "as_map", None))


def targets_brought_by(router: object) -> Any:
    """The targets that a router brings, or None."""
    return getattr(router, "targets", None)


def faults_told_by(router: object, state: type[BaseModel]) -> list[str]:
    """What of a router does not fit a state, as it says itself."""
    tell: Callable[[type[BaseModel]], list[str]] | None = getattr(router, "faults_for", None)
    return [] if tell is None else list(tell(state))
