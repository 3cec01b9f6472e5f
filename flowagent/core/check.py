"""Finds everything that is wrong with a definition before anything runs, and lays it out as a `Topology`.

Loaded when a graph is first checked, drawn or run.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at users' types and functions, which are only known when it runs.)
from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never, get_origin

from pydantic import BaseModel

from flowagent.core import literals, signatures
from flowagent.core.analysis import Analysis, analysed
from flowagent.core.definition import Definition
from flowagent.core.fields import faults_of_field, unstorable
from flowagent.core.leaks import faults_of_secrets
from flowagent.core.network import Network, components, handlers, total_order
from flowagent.core.nodes import (
    END,
    START,
    Edge,
    FunctionNode,
    GateNode,
    GraphNode,
    ItemError,
    ItemNode,
    MapNode,
    Node,
    RouterNode,
    is_choice,
)
from flowagent.core.reducers import element_type
from flowagent.core.schema import schema_of
from flowagent.core.tables import nested_graphs, tabulated
from flowagent.core.topology import Topology
from flowagent.errors import GraphError


class Checked(NamedTuple):
    """A definition that may run, and what is odd about it without being wrong."""

    topology: Topology
    warnings: tuple[str, ...]


def checked(definition: Definition, state: type[BaseModel], *, inside: tuple[int, ...] = ()) -> Checked:
    """Check a definition.

    Args:
        definition: what the user declared.
        state: its state model.
        inside: the definitions around this one, by id, to refuse a graph within itself.

    Raises:
        GraphError: with all faults of this graph and of the graphs within.
    """
    edges, orders, faults = definition.resolved()
    faults += _faults_of_state(state)
    broken = [*_unknown_ends(definition, edges)]
    faults += broken
    children, inner_faults, warnings = _checked_children(definition, inside)
    faults += inner_faults
    faults += faults_of_secrets(definition.nodes, state, children)
    network: Network | None = None
    if not broken:
        network = Network(definition.nodes, edges)
        faults += _faults_of_shape(definition.nodes, edges, network)
        faults += _faults_of_nodes(definition, state, edges)
    if faults or network is None:
        raise GraphError(definition.name, list(dict.fromkeys(faults)))
    analysis = analysed(definition.nodes, network)
    ties, unordered = _ties(analysis, orders)
    if unordered:
        raise GraphError(definition.name, unordered)
    topology = tabulated(
        definition.name, definition.nodes, edges, analysis=analysis, ties=ties, state=state, children=children
    )
    warnings += [*_parallel_writers(definition, analysis, state), *_parallel_loops(definition.nodes, analysis)]
    return Checked(topology, tuple(dict.fromkeys(warnings)))


def _checked_children(
    definition: Definition, inside: tuple[int, ...]
) -> tuple[dict[str, Topology], list[str], list[str]]:
    children: dict[str, Topology] = {}
    faults: list[str] = []
    warnings: list[str] = []
    around = (*inside, id(definition))
    for name, child in nested_graphs(definition.nodes).items():
        if id(child) in around:
            faults.append(f"node `{name}` holds the graph `{child.name}`, which it is itself a part of")
            continue
        try:
            result = child.checked_inside(around)
        except GraphError as error:
            faults += [f"in node `{name}`, graph `{error.graph}`: {fault}" for fault in error.faults]
        else:
            children[name] = result.topology
            warnings += [f"in node `{name}`: {warning}" for warning in result.warnings]
    return children, faults, warnings


_FAULTLESS: Final[weakref.WeakSet[type[BaseModel]]] = weakref.WeakSet()
"""State models in which nothing was found wrong: to look into all their types again, for each graph, would be slow."""


def _faults_of_state(state: type[BaseModel]) -> list[str]:
    if state in _FAULTLESS:
        return []
    faults = list(_found_in_state(state))
    if not faults:
        _FAULTLESS.add(state)
    return faults


def _found_in_state(state: type[BaseModel]) -> Iterator[str]:
    if state.model_config.get("extra") == "allow":
        yield f"state `{state.__name__}` allows extra fields; declare every field that nodes write"
    if not state.model_fields:
        yield f"state `{state.__name__}` has no fields"
    for name, info in state.model_fields.items():
        yield from faults_of_field(name, info)


# -- edges -------------------------------------------------------------------------------------------------------


def _unknown_ends(definition: Definition, edges: Sequence[Edge]) -> Iterator[str]:
    known = {START, END, *definition.nodes}
    for edge in edges:
        for name in (edge.tail, edge.head):
            if name not in known:
                yield f"{_told(edge)}: there is no node `{name}`{definition.hint(name)}"


def _told(edge: Edge) -> str:
    match edge.kind:
        case "fixed":
            return f"edge `{edge.tail}` -> `{edge.head}`"
        case "choice":
            return f"`{edge.tail}` may choose `{edge.head}`"
        case "error":
            return f"`{edge.tail}` has on_error=`{edge.head}`"
        case _:
            assert_never(edge.kind)


def _faults_of_shape(nodes: Mapping[str, Node], edges: Sequence[Edge], network: Network) -> Iterator[str]:
    if network.before[START]:
        yield "an edge leads to START; loop back to the first node instead"
    if network.after[END]:
        yield "an edge leads out of END"
    if not network.after[START]:
        yield "there is no edge from START: say where a run begins with chain(START, ...)"
        return
    reached = {START, *network.descendants(START)}
    leaving = {END, *network.ancestors(END)}
    onward = {edge.tail for edge in edges if edge.kind != "error"}
    for name in nodes:
        if name not in reached:
            yield f"node `{name}` cannot be reached from START: add an edge to it or remove it"
        elif name not in onward:
            yield f"node `{name}` leads nowhere: add an edge to another node or to END"
    yield from _endless(
        network, [name for name in nodes if name in reached and name not in leaving and network.after[name]]
    )
    yield from _routers_only(network, nodes)


def _endless(network: Network, stuck: Sequence[str]) -> Iterator[str]:
    """Nodes with no way to END: cycles are told as cycles, the rest one by one."""
    told: set[str] = set()
    for names in _cycles(network, stuck):
        told |= names
        yield f"nothing leaves the cycle of {_listed(names)}: give one of them a way towards END"
    for name in stuck:
        if name not in told:
            yield f"node `{name}` has no way to END"


def _routers_only(network: Network, nodes: Mapping[str, Node]) -> Iterator[str]:
    for names in _cycles(network, [name for name, node in nodes.items() if isinstance(node, RouterNode)]):
        yield f"the cycle of {_listed(names)} has only routers, which write nothing: it would go round for ever"


def _cycles(network: Network, names: Iterable[str]) -> Iterator[set[str]]:
    """The components of some of the nodes that go round among themselves."""
    among = set(names)
    inside = {name: [head for head in network.after[name] if head in among] for name in names}
    if not any(inside.values()):
        return
    for component in components(inside):
        if len(component) > 1 or any(name in inside[name] for name in component):
            yield component


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


# -- nodes -------------------------------------------------------------------------------------------------------


def _faults_of_nodes(definition: Definition, state: type[BaseModel], edges: Sequence[Edge]) -> Iterator[str]:
    for name, node in definition.nodes.items():
        yield from _faults_of_options(name, node, state)
        yield from _faults_of_kind(name, node, state)
        yield from _faults_of_keys(name, node, state)
    yield from _faults_of_handlers(definition.nodes, edges)
    yield from _faults_of_items(definition.nodes, edges)


def _faults_of_options(name: str, node: Node, state: type[BaseModel]) -> Iterator[str]:
    options = node.options
    if options.once and options.retry is not None and options.retry.on in (Exception, (Exception,)):
        yield (
            f"node `{name}` is once=True and retries on any exception; say which exceptions are safe to repeat: "
            "Retry(on=...)"
        )
    if options.join == "each" and isinstance(node, ItemNode):
        yield f"node `{name}` takes items; join='each' does not go with it"
    for field in options.writes or ():
        yield from _unknown_field(f"node `{name}` declares writes=", field, state)


def _unknown_field(where: str, field: str, state: type[BaseModel]) -> Iterator[str]:
    if field not in state.model_fields:
        hint = schema_of(state).hint(field) if state.model_fields else ""
        yield f"{where} `{field}`, which is no field of `{state.__name__}`{hint}"


def _faults_of_kind(name: str, node: Node, state: type[BaseModel]) -> Iterator[str]:
    match node:
        case MapNode():
            yield from _faults_of_map(name, node, state)
        case GateNode():
            yield from _faults_of_gate(name, node, state)
        case GraphNode():
            yield from _faults_of_nesting(name, node, state)
        case ItemNode():
            if (reason := unstorable(node.item_type)) is not None:
                yield f"node `{name}` takes items that cannot be stored: {reason}"
        case FunctionNode() | RouterNode():
            return
        case _:
            assert_never(node)


def _faults_of_map(name: str, node: MapNode, state: type[BaseModel]) -> Iterator[str]:
    yield from _unknown_field(f"map `{name}` goes over", node.over, state)
    yield from _unknown_field(f"map `{name}` writes into", node.into, state)
    over = state.model_fields.get(node.over)
    if over is not None and (get_origin(over.annotation) or over.annotation) in (int, float, bool, str, bytes):
        yield f"map `{name}` goes over `{node.over}`, which is no collection but {over.annotation!r}"
    yield from _faults_of_results(name, node, state)
    if node.at_most is not None and node.at_most < 1:
        yield f"map `{name}`: at_most={node.at_most} must be at least 1"
    child = getattr(node.body, "state", None)
    if child is not None:
        if isinstance(node.output, str):
            yield from _unknown_field(f"map `{name}` takes its results from", node.output, child)
        for inner, outer in node.input.items() if isinstance(node.input, Mapping) else ():
            yield from _unknown_field(f"map `{name}` gives its graph", inner, child)
            if outer != "item":
                yield from _unknown_field(f"map `{name}` takes", outer, state)
    elif node.input is not None or node.output is not None:
        yield f"map `{name}` is of a function; input= and output= are for mapped graphs"


def _faults_of_results(name: str, node: MapNode, state: type[BaseModel]) -> Iterator[str]:
    field = schema_of(state).fields.get(node.into)
    if field is None or field.reducer is not None:
        return
    kind: Any = state.model_fields[node.into].annotation
    if kind in (int, float, bool, str, bytes):
        yield f"map `{name}` writes its results into `{node.into}`, which is no list but {kind!r}"
    elif node.on_item_error == "collect" and not _takes(element_type(kind), ItemError):
        yield (
            f"map `{name}` collects errors into `{node.into}`, whose elements cannot be an ItemError: declare "
            "list[... | ItemError]"
        )


def _takes(kind: Any, wanted: type) -> bool:
    return kind in (Any, object) or signatures.mentions(kind, wanted)


def _faults_of_gate(name: str, node: GateNode, state: type[BaseModel]) -> Iterator[str]:
    if node.into is not None:
        yield from _unknown_field(f"gate `{name}` writes into", node.into, state)
    try:
        asked = literals.placeholders(node.question)
    except ValueError as error:
        yield f"gate `{name}`: its question is no template: {error}"
        asked = ()
    for field in asked:
        yield from _unknown_field(f"gate `{name}` asks with", field or "{}", state)
    if (reason := unstorable(node.schema)) is not None:
        yield f"gate `{name}` can have no answer of its schema: {reason}"
    if node.to is not None:
        allowed = signatures.values_of(node.schema)
        unknown = [answer for answer in node.to if allowed and answer not in allowed]
        missing = [answer for answer in allowed if answer not in node.to]
        for answer in unknown:
            yield f"gate `{name}` routes the answer {answer!r}, which its schema does not allow"
        for answer in missing:
            yield f"gate `{name}` does not say where the answer {answer!r} leads"


def _faults_of_nesting(name: str, node: GraphNode, state: type[BaseModel]) -> Iterator[str]:
    child: type[BaseModel] = node.child.state
    if isinstance(node.input, Mapping):
        for inner, outer in node.input.items():
            yield from _unknown_field(f"node `{name}` gives its graph", inner, child)
            yield from _unknown_field(f"node `{name}` hands in", outer, state)
    if isinstance(node.output, Mapping):
        for outer, inner in node.output.items():
            yield from _unknown_field(f"node `{name}` writes", outer, state)
            yield from _unknown_field(f"node `{name}` takes from its graph", inner, child)
    if node.input is None:
        shared = set(child.model_fields) & set(state.model_fields)
        lacking = [f for f, info in child.model_fields.items() if info.is_required() and f not in shared]
        for field in lacking:
            yield (
                f"node `{name}`: its graph needs `{field}`, which `{state.__name__}` does not have: pass "
                f"input={{{field!r}: ...}}"
            )
        if not shared and node.output is None:
            yield f"node `{name}` and its graph share no field: pass input= and output="


def _faults_of_keys(name: str, node: Node, state: type[BaseModel]) -> Iterator[str]:
    """Keys that a node's source returns and the state does not have."""
    if not isinstance(node, (FunctionNode, ItemNode)) or state.model_config.get("extra") == "ignore":
        return
    for key, line in literals.returned_keys(node.function.call):
        if key not in state.model_fields:
            yield from _unknown_field(f"node `{name}` (line {line}) returns", key, state)


def _faults_of_handlers(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> Iterator[str]:
    for handler in sorted(handlers(nodes)):
        for edge in edges:
            if edge.head == handler and edge.kind != "error":
                yield f"`{handler}` handles errors, so no other edge may lead to it ({_told(edge)})"
        if isinstance(nodes.get(handler), (RouterNode, ItemNode)):
            yield f"`{handler}` handles errors, so it must be a node, not a router or an item node"


def _faults_of_items(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> Iterator[str]:
    for edge in edges:
        head = nodes.get(edge.head)
        tail = nodes.get(edge.tail)
        if isinstance(head, ItemNode) and not isinstance(tail, RouterNode):
            yield f"node `{edge.head}` takes items, so only routers may lead to it, by Send ({_told(edge)})"


# -- joins that wait for each other --------------------------------------------------------------------------------


def _ties(analysis: Analysis, orders: Sequence[tuple[str, str]]) -> tuple[list[list[str]], list[str]]:
    """The groups of joins that wait for each other, each in its declared order, and what is not ordered."""
    faults = [
        f"before(`{one}`, `{two}`): `{name}` is no join"
        for one, two in orders
        for name in (one, two)
        if name not in analysis.joins
    ]
    ties: list[list[str]] = []
    waits = analysis.waits_for()
    if not any(waits.values()):
        return ties, faults
    for component in components(waits):
        if len(component) < 2:
            continue
        total = total_order(orders, component)
        if total is None:
            faults.append(
                f"the joins {_listed(component)} can wait for each other: declare which goes first with "
                "before(first, second), for each pair"
            )
        else:
            ties.append(total)
    return ties, faults


# -- warnings ------------------------------------------------------------------------------------------------------


def _parallel_writers(definition: Definition, analysis: Analysis, state: type[BaseModel]) -> Iterator[str]:
    """Fields without reducer that branches of one fork write, as far as `writes=` or the source tell."""
    schema = schema_of(state)
    for fork in [START, *definition.nodes]:
        ways = _fixed_ways(analysis.network, definition.nodes, fork)
        if len(ways) < 2:
            continue
        reached = [{way, *analysis.network.descendants(way)} for way in ways]
        shared = set.intersection(*reached)
        writers = [_writers(definition.nodes, schema, names - shared) for names in reached]
        for field in dict.fromkeys(field for found in writers for field in found):
            names = [found[field] for found in writers if field in found]
            if len(names) > 1 and names[0] != names[1]:
                yield (
                    f"`{names[0]}` and `{names[1]}` may run beside one another and both write `{field}`, which has no "
                    "reducer: differing values will be a conflict where they meet"
                )


def _fixed_ways(network: Network, nodes: Mapping[str, Node], fork: str) -> list[str]:
    ways = network.after[fork]
    node = nodes.get(fork)
    if len(ways) < 2 or (node is not None and is_choice(node)):
        return []
    return [head for head, edge in ways.items() if edge.kind == "fixed"]


def _writers(nodes: Mapping[str, Node], schema: Any, names: set[str]) -> dict[str, str]:
    """One writer, by declared order, of each field without reducer."""
    found: dict[str, str] = {}
    for name, node in nodes.items():
        if name in names:
            for field in _written_fields(node):
                if field in schema.fields and schema.reducers[field] is None:
                    found.setdefault(field, name)
    return found


def _written_fields(node: Node) -> tuple[str, ...]:
    if node.options.writes is not None:
        return node.options.writes
    match node:
        case FunctionNode(function=function):
            return tuple(dict.fromkeys(key for key, _ in literals.returned_keys(function.call)))
        case MapNode(into=into):
            return (into,)
        case GateNode(into=into) if into is not None:
            return (into,)
        case _:
            return ()


def _parallel_loops(nodes: Mapping[str, Node], analysis: Analysis) -> Iterator[str]:
    """Branches of one fork that may each leave or repeat the loop around the fork."""
    network = analysis.network
    forks = [name for name, node in nodes.items() if len(network.after[name]) > 1 and not is_choice(node)]
    if not forks:
        return
    for component in components(network.after):
        if len(component) < 2:
            continue
        deciders = sorted(name for name in component if _decides(network, nodes, component, name))
        for fork in sorted(component.intersection(forks)):
            ways = [head for head in network.after[fork] if head in component]
            if len(ways) < 2:
                continue
            by_way = [{d for d in deciders if _leads(network, component, fork, way, d)} for way in ways]
            alone = [
                d
                for place, found in enumerate(by_way)
                for d in sorted(found)
                if not any(d in other for other_place, other in enumerate(by_way) if other_place != place)
            ]
            if len(set(alone)) > 1:
                names = ", ".join(f"`{name}`" for name in dict.fromkeys(alone))
                yield (
                    f"branches out of `{fork}` may each leave or repeat their loop ({names}): let them meet before "
                    "they decide"
                )


def _decides(network: Network, nodes: Mapping[str, Node], component: set[str], name: str) -> bool:
    node = nodes.get(name)
    if node is None or not is_choice(node):
        return False
    heads = set(network.after[name])
    return bool(heads & component) and bool(heads - component)


def _leads(network: Network, component: set[str], fork: str, way: str, target: str) -> bool:
    """Whether a way out of a fork leads to a node of its loop without coming back to the fork."""
    found, todo = {way}, [way]
    while todo:
        for head in network.after[todo.pop()]:
            if head in component and head != fork and head not in found:
                found.add(head)
                todo.append(head)
    return way == target or (way != fork and target in found)
