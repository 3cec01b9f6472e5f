"""What a graph is made of: one frozen class for each kind of node, and what nodes return to route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypeVar

from flowagent.core.policies import Join, OnItemError, Retry

if TYPE_CHECKING:
    from flowagent.core.graph import Graph

START: Final = "START"
END: Final = "END"

Update: TypeAlias = Mapping[str, object] | None
"""What a node returns: the fields it writes, or None."""

TargetT = TypeVar("TargetT", bound=str, default=str, covariant=True)


@dataclass(frozen=True, slots=True)
class Goto(Generic[TargetT]):
    """Returned by a node that writes and says itself what is next.

    Its targets are declared: `-> Goto[Literal["write", "END"]]`, or `to=[...]` on the node. It stands in place
    of fixed edges; a node with both is refused.
    """

    target: TargetT
    update: object = None


@dataclass(frozen=True, slots=True)
class Send:
    """Returned by a router: run `target` for this item. The target is a node declared with `item=True`."""

    target: str
    item: Any


class ItemError(BaseModel):
    """Stands in a map's results for an item that failed, where `on_item_error="collect"`.

    Attributes:
        index: the item's place in the input, from 0.
        kind: the class name of the exception.
        message: its text.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    kind: str
    message: str


Shape = Literal["agent", "model", "tools", "output"]
"""What a node is in an agent, for pictures: the agent itself, its model, its tools, or what makes its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What may be said about any node; see `Graph.node`."""

    retry: Retry | None = None
    timeout: float | None = None
    on_error: str | None = None
    once: bool = False
    join: Join = "all"
    writes: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    doc: str = ""
    shape: Shape | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of a user, and what its signature says."""

    call: Callable[..., Any]
    is_async: bool
    takes_context: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    name: str
    options: Options


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionNode(_Named):
    """`@g.node`: a function of the state. `targets` are those of its `Goto`, or None where edges decide."""

    function: Function
    targets: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterNode(_Named):
    """`@g.router`: decides what is next and writes nothing.

    `labels` maps what it returns to nodes; `empty` is where the run goes when it returns no target and no `Send`.
    """

    function: Function
    targets: tuple[str, ...]
    labels: Mapping[object, str] | None = None
    empty: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemNode(_Named):
    """`@g.node(item=True)`: the target of `Send`s; its first parameter is the item, and it returns updates."""

    function: Function
    item_type: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode(_Named):
    """`@g.map`: one function or graph over the items of a field; the results go into another, in input order."""

    over: str
    into: str
    body: Function | Graph[Any, Any]
    input: Callable[..., Any] | Mapping[str, str] | None = None
    output: Callable[..., Any] | str | None = None
    at_most: int | None = None
    on_item_error: OnItemError = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateNode(_Named):
    """`g.gate`: asks a person or a program, runs no user code, and writes the answer."""

    question: str
    into: str | None
    schema: Any
    to: Mapping[Any, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode(_Named):
    """`g.node(child)`: a graph as one node of another."""

    child: Graph[Any, Any]
    input: Mapping[str, str] | Callable[[Any], Any] | None = None
    output: Mapping[str, str] | Callable[[Any], Any] | None = None


Node: TypeAlias = FunctionNode | RouterNode | ItemNode | MapNode | GateNode | GraphNode
EdgeKind = Literal["fixed", "choice", "error"]


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow of the definition. `label` is what the router called it, where that is not the target's name."""

    tail: str
    head: str
    kind: EdgeKind
    label: str = ""


def targets_of(node: Node) -> tuple[tuple[str, str], ...]:
    """The nodes that a node may choose itself, with the label of each choice, in declared order."""
    match node:
        case RouterNode(labels=labels, targets=targets, empty=empty):
            named = [(target, "") for target in targets] if labels is None else [(t, str(k)) for k, t in labels.items()]
            return (*named, *([(empty, "no items")] if empty is not None else []))
        case FunctionNode(targets=targets) if targets is not None:
            return tuple((target, "") for target in targets)
        case GateNode(to=to) if to is not None:
            return tuple((target, str(answer)) for answer, target in to.items())
        case _:
            return ()


def is_choice(node: Node) -> bool:
    """Whether a node itself decides what is next (so that it may have no fixed edges)."""
    match node:
        case RouterNode():
            return True
        case FunctionNode(targets=targets):
            return targets is not None
        case GateNode(to=to):
            return to is not None
        case _:
            return False
