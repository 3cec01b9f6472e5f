"""What a node's return value means: the update that it writes and the ways on that it chose. Pure decisions."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (`isinstance` on a mapping or callable of a user leaves its parts unknown.)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from pydantic import BaseModel

from flowagent.core import views
from flowagent.core.commits import Sent
from flowagent.core.facts import Way
from flowagent.core.fields import short, told
from flowagent.core.nodes import FunctionNode, GateNode, Goto, GraphNode, ItemError, MapNode, RouterNode, Send
from flowagent.core.reducers import Replace
from flowagent.core.schema import Schema
from flowagent.core.scope import Task
from flowagent.core.secret import MASK
from flowagent.core.topology import Place
from flowagent.core.writes import NOTHING, Values, Write, Writes
from flowagent.errors import RoutingError, StateError, UnstorableError


def node_result(task: Task, returned: object, key: str, view: BaseModel | None) -> tuple[Writes, Sequence[Way]]:
    """The update and the ways of a node that has returned.

    Raises:
        StateError: the update does not fit the state.
        RoutingError: it jumped where it may not, or did not say where to.
    """
    schema = task.scope.topology.schema
    place = task.place
    if not place.chooses and type(returned) is dict:  # as nearly always
        return schema.update(task.values, cast("dict[str, Any]", returned), key=key, view=view), place.ways
    if isinstance(returned, Goto):
        jump = cast("Goto[str]", returned)
        way = _way(task, jump.target)
        return schema.update(task.values, jump.update, key=key, view=view), (way,)
    if place.chooses and isinstance(place.node, FunctionNode):
        raise RoutingError(
            f"node `{place.name}` declares targets, so it must return a Goto(target, update), not "
            f"{_quoted(task, returned)}"
        )
    return schema.update(task.values, returned, key=key, view=view), place.ways


def _quoted(task: Task, value: object) -> str:
    """What a node returned, for a message: where its state has secrets there may be one in it."""
    return f"a `{type(value).__name__}`" if task.scope.topology.schema.secrets else short(value)


def router_result(task: Task, returned: object) -> Sequence[Way]:
    """The ways that a router chose, one for each target, in declared order.

    Raises:
        RoutingError: a target that is not declared, or nothing at all.
        UnstorableError: an item that would not come back from a store as it is.
    """
    if type(returned) is str and (known := task.place.choices.get(returned)) is not None:
        return known
    node = task.place.node
    assert isinstance(node, RouterNode), "only routers route; this is a bug in flowagent"
    chosen = _choices(returned)
    if not chosen:
        if node.empty is None or returned is None:
            raise RoutingError(
                f"router `{node.name}` returned {_quoted(task, returned)}: name a target ({_known(task.place, task)}), "
                "or declare where to go without one with empty=..."
            )
        return [_way(task, node.empty)]
    sent: dict[int, list[Sent]] = {}
    for one in chosen:
        target, item = (one.target, one) if isinstance(one, Send) else (_labelled(task, node, one), None)
        head = _head(task, target)
        sent.setdefault(head, [])
        _hold_to_items(task, head, item is not None)
        if item is not None:
            sent[head].append(_sent(task, head, item))
    return sorted((Way(head, tuple(items)) for head, items in sent.items()), key=lambda way: task.place.rank[way.head])


def _choices(returned: object) -> list[Any]:
    if returned is None:
        return []
    if isinstance(returned, (list, tuple, set, frozenset)):
        return list(cast("Sequence[Any]", returned))
    return [returned]


def _labelled(task: Task, node: RouterNode, label: object) -> str:
    if node.labels is None:
        if isinstance(label, str):
            return label
        raise RoutingError(
            f"router `{node.name}` returned {_quoted(task, label)}, a `{type(label).__name__}`; it may return the "
            f"names {_known(task.place, task)}, a list of them, or Sends"
        )
    try:
        found = node.labels.get(label)
    except TypeError:
        found = None
    if found is None:
        raise RoutingError(
            f"router `{node.name}` returned {_quoted(task, label)}, which its to= does not list: it lists "
            f"{', '.join(repr(known) for known in node.labels)}"
        )
    return found


def _way(task: Task, target: str) -> Way:
    return Way(_head(task, target))


def _head(task: Task, target: object) -> int:
    place = task.place
    head = task.scope.topology.index.get(target) if isinstance(target, str) else None
    if head is None or head not in place.rank:
        names = [task.scope.topology.places[known].name for known in place.heads]
        near = get_close_matches(str(target), names, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise RoutingError(
            f"`{place.name}` chose {_quoted(task, target)}, which it does not declare: {_known(place, task)}{hint}"
        )
    return head


def _known(place: Place, task: Task) -> str:
    return ", ".join(f"`{task.scope.topology.places[head].name}`" for head in place.heads)


def _hold_to_items(task: Task, head: int, is_item: bool) -> None:
    target = task.scope.topology.places[head]
    if is_item and target.item_codec is None:
        raise RoutingError(
            f"router `{task.place.name}` sent an item to `{target.name}`, which takes none: declare it with item=True"
        )
    if not is_item and target.item_codec is not None:
        raise RoutingError(
            f"router `{task.place.name}` named `{target.name}`, which takes items: return Send({target.name!r}, item)"
        )


def _sent(task: Task, head: int, send: Send) -> Sent:
    codec = task.scope.topology.places[head].item_codec
    assert codec is not None, "only item nodes are sent to; this is a bug in flowagent"
    try:
        return Sent(*codec.through(codec.validate(send.item)))
    except UnstorableError as error:
        raise UnstorableError(f"an item for `{send.target}` {error}") from error
    except Exception as error:  # noqa: BLE001  # raised again, from its cause if that may be shown
        raise UnstorableError(
            f"an item for `{send.target}` does not fit its first parameter: {told(error, codec.secret)}"
        ) from (None if codec.secret else error)


def item_result(task: Task, returned: object) -> tuple[Any, bytes]:
    """The result of a map's item, as the store gives it back.

    Raises:
        StateError: it does not fit the elements of the field that it goes into.
    """
    node, codec = task.place.node, task.place.result_codec
    assert isinstance(node, MapNode) and codec is not None, "only maps have results; this is a bug in flowagent"
    try:
        return codec.through(codec.validate(views.plain(returned)))
    except UnstorableError as error:
        raise UnstorableError(f"its result for `{node.into}` {error}") from error
    except Exception as error:  # noqa: BLE001  # raised again, from its cause if that may be shown
        raise StateError(
            f"returned {MASK if codec.secret else short(returned)}, which does not fit the elements of "
            f"`{node.into}`: {told(error, codec.secret)}"
        ) from (None if codec.secret else error)


# -- containers ----------------------------------------------------------------------------------------------------


def child_input(task: Task, item: Any) -> Any:
    """What a nested or mapped graph is given, as a model or mapping; it is validated by the child's schema."""
    node = task.place.node
    state = task.scope.topology.schema.handed(task.values)
    if isinstance(node, MapNode):
        return _mapped_input(node, item, state, task)
    assert isinstance(node, GraphNode), "only graphs have an input; this is a bug in flowagent"
    if callable(node.input):
        return node.input(state)
    assert task.place.child is not None, "a graph node has its tables; this is a bug in flowagent"
    fields = task.place.child.schema.fields
    names = node.input if node.input is not None else {name: name for name in fields if name in task.values}
    return {inner: task.values[outer] for inner, outer in names.items()}


def _mapped_input(node: MapNode, item: Any, state: BaseModel, task: Task) -> Any:
    if isinstance(node.input, Mapping):
        return {inner: item if outer == "item" else task.values[outer] for inner, outer in node.input.items()}
    if node.input is None:
        return item
    return node.input(item, state) if takes_two(node.input) else node.input(item)


def takes_two(call: Any) -> bool:
    """Whether a function wants the item and the state."""
    code = getattr(call, "__code__", None)
    return code is not None and code.co_argcount - len(getattr(call, "__defaults__", None) or ()) == 2


def mapped_output(task: Task) -> Any:
    """The result of one item of a mapped graph."""
    node, child = task.place.node, task.child
    assert isinstance(node, MapNode) and child is not None and child.values is not None, "this is a bug in flowagent"
    if isinstance(node.output, str):
        return child.values[node.output]
    final = child.topology.schema.result(child.values)
    return final if node.output is None else node.output(final)


def container_update(task: Task, key: str) -> Writes:
    """What a map or nested graph writes when all inside is over.

    Raises:
        StateError: it does not fit the state.
    """
    node = task.place.node
    schema = task.scope.topology.schema
    if isinstance(node, MapNode):
        return schema.update(task.values, {node.into: _results(node, task)}, key=key)
    if isinstance(node, GraphNode):
        return _graph_update(task, node, schema, key)
    return NOTHING


def _results(node: MapNode, task: Task) -> Any:
    found: list[Any] = []
    for index, (worked, *rest) in enumerate(task.results):
        if worked:
            found.append(rest[0])
        elif node.on_item_error == "collect":
            first = rest[0][0]
            found.append(ItemError(index=index, kind=first.kind, message=first.message))
    return found


def _graph_update(task: Task, node: GraphNode, schema: Schema, key: str) -> Writes:
    child = task.child
    assert child is not None and child.values is not None, "a closing graph is over; this is a bug in flowagent"
    inner = child.topology.schema
    if callable(node.output):
        return schema.update(task.values, node.output(inner.result(child.values)), key=key)
    names = node.output if node.output is not None else {name: name for name in inner.fields if name in schema.fields}
    update: dict[str, Any] = {}
    for outer, name in names.items():
        write = child.since.get(name)
        if write is not None:
            update[outer] = _handed_on(schema, outer, name, write, child.values)
    # Several deltas of one field are handed on one after the other, each validated like any other update.
    return _in_sequence(schema, task, update, key)


def _handed_on(schema: Schema, outer: str, name: str, write: Write, final: Values) -> list[Any]:
    """A child's write of a field as what a node would return for the parent's."""
    ours = schema.reducers[outer]
    if write.kind == "replace" and ours is not None:
        return [Replace(write.values[0])]
    if write.kind == "delta" and ours is None:
        return [final[name]]
    return list(write.values)


def _in_sequence(schema: Schema, task: Task, update: dict[str, list[Any]], key: str) -> Writes:
    first = schema.update(task.values, {name: parts[0] for name, parts in update.items()}, key=key)
    writes = dict(first)
    for name, parts in update.items():
        for part in parts[1:]:
            more = schema.update(task.values, {name: part}, key=key)[name]
            writes[name] = Write("delta", [*writes[name].values, *more.values], [*writes[name].datas, *more.datas])
    return writes


def gate_result(task: Task, value: Any, key: str) -> tuple[Writes, Sequence[Way]]:
    """What an answered gate writes, and where it leads."""
    node = task.place.node
    assert isinstance(node, GateNode), "only gates are answered so; this is a bug in flowagent"
    schema = task.scope.topology.schema
    writes = NOTHING if node.into is None else schema.update(task.values, {node.into: value}, key=key)
    if node.to is None:
        return writes, task.place.ways
    target = node.to.get(value)
    if target is None:
        answer = MASK if node.into in schema.secrets else short(value)
        raise RoutingError(f"gate `{node.name}` has no way for the answer {answer}: {_known(task.place, task)}")
    return writes, (_way(task, target),)
