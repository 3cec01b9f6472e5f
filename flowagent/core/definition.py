"""Collects what a user declares: nodes and edges, with everything that is wrong about them.

Declaring never raises for a fault in the graph; the faults are kept, and `check` reports all of them at once.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

from flowagent.core import bodies, signatures
from flowagent.core.nodes import (
    END,
    START,
    Edge,
    FunctionNode,
    GateNode,
    GraphNode,
    ItemNode,
    MapNode,
    Node,
    Options,
    RouterNode,
    is_choice,
    targets_of,
)
from flowagent.errors import GraphError

Ref: TypeAlias = "str | Callable[..., Any] | Definition | bodies.NodeBody | bodies.MapBody"
"""How a node is named in an edge: by its name, or by the function, graph or agent that it was made of."""
Targets: TypeAlias = "Sequence[Ref] | Mapping[Any, Ref] | None"


_OPTIONS = tuple(field.name for field in dataclasses.fields(Options))


class Definition:
    """The nodes and edges of one graph, as declared so far, and its state model."""

    state: type[BaseModel]

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            raise GraphError(str(name), ["a graph needs a name that is not empty"])
        if not is_text(name):
            raise GraphError(repr(name), ["a graph's name may hold no lone surrogate, which no store can write"])
        self.name = name
        self.nodes: dict[str, Node] = {}
        self.frozen = False
        self._faults: list[str] = []
        self._made_of: dict[int, list[str]] = {}
        self._kept: list[object] = []
        self._edges: list[tuple[Ref, Ref]] = []
        self._orders: list[tuple[Ref, Ref]] = []
        self._renamed: dict[str, str] = {}

    # -- declaring -----------------------------------------------------------------------------------------------

    def add(self, node: Node, made_of: object) -> None:
        """Take up a node that was made of a function or a graph."""
        self.refuse_if_frozen(f"node `{node.name}`")
        name = node.name
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            self.fault(f"{name!r} cannot be the name of a node: it is no text")
            return
        if name in (START, END):
            self.fault(f"`{name}` is reserved and cannot be the name of a node")
        elif name in self.nodes:
            self.fault(f"there are two nodes named `{name}`; give one of them another name=")
        elif not name.strip():
            self.fault("a node needs a name that is not empty")
        elif not is_text(name):
            self.fault(f"{name!r} cannot be the name of a node: it has a lone surrogate, which no store can write")
        else:
            self.nodes[name] = node
        self._made_of.setdefault(id(made_of), []).append(name)
        self._kept.append(made_of)  # an id stays unique only while its object lives

    def connect(self, tail: Ref, head: Ref) -> None:
        """Take up a fixed edge."""
        self.refuse_if_frozen("an edge")
        self._edges.append((tail, head))

    def order(self, first: Ref, second: Ref) -> None:
        """Take up that, of two joins that wait for each other, one fires first."""
        self.refuse_if_frozen("an order of joins")
        self._orders.append((first, second))

    def fault(self, text: str) -> None:
        """Note something that is wrong, for `check`."""
        self._faults.append(text)

    def refuse_if_frozen(self, what: str) -> None:
        """Raise when the graph has been checked, drawn or run already."""
        if self.frozen:
            raise GraphError(
                self.name, [f"{what} came too late: the graph was frozen when it was first checked, drawn or run"]
            )

    def options(self, call: object, given: Mapping[str, Any]) -> Options:
        """A node's options from what the user gave."""
        for name in given:
            if name not in _OPTIONS:
                raise TypeError(f"`{name}` is no option of a node{_near(name, _OPTIONS)}")
        known = dict(given)
        handler = known.get("on_error")
        if handler is not None and not isinstance(handler, str):
            known["on_error"] = self.name_of(handler) or self._unnamed(handler)
        if callable(call) and not known.get("doc"):
            known["doc"] = signatures.summary_of(call)
        for many in ("tags", "writes"):
            if known.get(many) is not None:
                known[many] = tuple(known[many])
        timeout = known.get("timeout")
        if timeout is not None and timeout <= 0:
            self.fault(f"timeout={timeout!r} must be more than 0 seconds")
        return Options(**known)

    def declared_targets(self, name: str, call: object, to: Targets, *, jumps: bool) -> tuple[tuple[str, ...], Any]:
        """The targets of a router or jumping node and, where `to=` is a mapping, its labels."""
        to = bodies.targets_brought_by(call) if to is None and not jumps else to
        hint = signatures.returned(call)
        if isinstance(to, Mapping):
            labels = {label: self.ref_name(ref) for label, ref in to.items()}
            self._hold_to(name, signatures.values_of(hint) or signatures.targets_in(hint, jumps=jumps), labels)
            return tuple(dict.fromkeys(labels.values())), labels
        if isinstance(to, str) or callable(to):
            to = [cast("Ref", to)]
        if to is not None:
            named = tuple(dict.fromkeys(self.ref_name(ref) for ref in to))
            self._hold_to(name, signatures.targets_in(hint, jumps=jumps), named)
            return named, None
        found = signatures.targets_in(hint, jumps=jumps)
        if not found and not jumps:
            self.fault(
                f"router `{name}` does not declare its targets: annotate its return type with Literal[...] "
                "of node names, or pass to=[...]"
            )
        if not found and jumps:
            self.fault(
                f"node `{name}` returns a Goto without declared targets: write Goto[Literal[...]] or pass to=[...]"
            )
        return found, None

    def _hold_to(self, name: str, returned: Iterable[object], listed: Container[object]) -> None:
        """What a function says that it returns, its `to=` has to list."""
        for one in returned:
            if one not in listed:
                self.fault(f"`{name}` may return {one!r}, which its to= does not list")

    def jumps(self, call: object) -> bool:
        """Whether a function says that it may return a `Goto`."""
        from_hint = signatures.returned(call)
        raw = getattr(call, "__annotations__", {}).get("return")
        return signatures.mentions(from_hint, signatures.Goto) or (isinstance(raw, str) and "Goto[" in raw)

    # -- names ---------------------------------------------------------------------------------------------------

    def name_of(self, made_of: object) -> str | None:
        """The name of the one node made of a function or graph, or None."""
        names = self._made_of.get(id(made_of), [])
        if not names and hasattr(made_of, "__func__"):  # each access of a method makes a new object
            equal = [kept for kept in self._kept if kept == made_of]
            names = self._made_of.get(id(equal[0]), []) if equal else []
        return names[0] if len(names) == 1 else None

    def ref_name(self, ref: Ref) -> str:
        """The node's name that a reference stands for; a fault is noted where it stands for none."""
        if isinstance(ref, str):
            return ref
        return self.name_of(ref) or self._unnamed(ref)

    def _unnamed(self, ref: object) -> str:
        names = self._made_of.get(id(ref), [])
        label = default_name(ref)
        if len(names) > 1:
            self.fault(f"`{label}` was registered {len(names)} times ({', '.join(names)}); name the node by its string")
            return names[0]
        # It may be registered below: then the name stands for it, and `check` finds out if it was not.
        return label

    def hint(self, name: str) -> str:
        """A "did you mean" for a name that no node has."""
        return _near(name, [*self.nodes, START, END])

    # -- the result ----------------------------------------------------------------------------------------------

    def resolved(self) -> tuple[list[Edge], list[tuple[str, str]], list[str]]:
        """All edges in declared order, the declared orders of joins, and the faults so far."""
        before = len(self._faults)
        edges = list(self._all_edges())
        orders = [(self.ref_name(first), self.ref_name(second)) for first, second in self._orders]
        faults = list(dict.fromkeys(self._faults))
        del self._faults[before:]  # references are resolved anew each time
        return edges, orders, faults

    def _all_edges(self) -> Iterable[Edge]:
        choosing = {name for name, node in self.nodes.items() if is_choice(node)}
        seen: set[tuple[str, str]] = set()
        for tail_ref, head_ref in self._edges:
            tail, head = self.ref_name(tail_ref), self.ref_name(head_ref)
            if (tail, head) in seen:
                self.fault(f"the edge `{tail}` -> `{head}` is declared twice")
                continue
            seen.add((tail, head))
            if tail in choosing:
                self.fault(
                    f"node `{tail}` chooses its targets itself and also has a fixed edge to `{head}`; a node has one "
                    "rule for what is next: drop the edge, or declare the target"
                )
            yield Edge(tail, head, "fixed")
        for name, node in self.nodes.items():
            for target, label in targets_of(node):
                yield Edge(name, target, "choice", label if label != target else "")
            if node.options.on_error is not None:
                yield Edge(name, node.options.on_error, "error")


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def is_text(name: str) -> bool:
    """Whether a text can be written as UTF-8."""
    return name.encode(errors="replace").decode() == name


def default_name(made_of: object) -> str:
    """What a node is called when nobody names it."""
    while isinstance(made_of, functools.partial):
        made_of = made_of.func
    if isinstance(made_of, Definition):
        return made_of.name
    is_body = bodies.is_node_body(made_of) or bodies.is_map_body(made_of) or bodies.targets_brought_by(made_of)
    name = getattr(made_of, "name" if is_body else "__name__", None)
    return name if isinstance(name, str) else type(made_of).__name__


def is_lambda(made_of: object) -> bool:
    """Whether a function has no name of its own."""
    return inspect.isfunction(made_of) and made_of.__name__ == "<lambda>"


__all__ = [
    "Definition",
    "FunctionNode",
    "GateNode",
    "GraphNode",
    "ItemNode",
    "MapNode",
    "Ref",
    "RouterNode",
    "Targets",
    "default_name",
    "is_lambda",
]
