"""`State`, `replace`, and what is handed to a node: frozen containers and views."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr, create_model
from typing_extensions import TypeAliasType, TypedDict

from flowagent import State, replace
from flowagent.core import views
from flowagent.core.frozen import FrozenDict, FrozenList, FrozenSet, freeze, same
from flowagent.core.schema import Schema
from flowagent.errors import StateError


class Ticket(State):
    text: str
    tags: list[str] = []


class Point(BaseModel):
    x: int = 0
    path: list[int] = []


class FrozenPoint(BaseModel):
    model_config = ConfigDict(frozen=True)
    x: int = 0


@dataclasses.dataclass
class Spot:
    x: int = 0


class Board(BaseModel):
    """A state that is no `State`, with parts that can be changed."""

    title: str = ""
    point: Point = Point()
    points: list[Point] = []
    spot: Spot = Spot()
    still: FrozenPoint = FrozenPoint()


def handed(model: type[BaseModel], given: dict[str, Any]) -> Any:
    schema = Schema(model)
    return schema.handed(schema.start(given)[0])


# -- State and replace ---------------------------------------------------------------------------------------------


def test_a_state_refuses_unknown_fields_and_assignment() -> None:
    """A typo in a field's name and an assignment are told with what to do instead."""
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        Ticket(text="a", txt="b")  # type: ignore[call-arg]
    ticket = Ticket(text="a")
    with pytest.raises(StateError, match=r"`Ticket` is read-only, so setting `text` was refused: return \{'text'"):
        ticket.text = "b"  # type: ignore[misc]
    assert ticket == Ticket(text="a")


def test_replace_makes_a_changed_copy() -> None:
    """The old state stays as it is; a name that is no field is refused at once."""
    ticket = Ticket(text="a", tags=["x"])
    assert replace(ticket, text="b") == Ticket(text="b", tags=["x"])
    assert ticket == Ticket(text="a", tags=["x"])
    with pytest.raises(StateError, match="`Ticket` has no field `txt`, `tag`"):
        replace(ticket, txt="b", tag=[])


# -- frozen containers -----------------------------------------------------------------------------------------------

CHANGES: list[tuple[Any, str, Callable[[Any], Any]]] = [
    ([1, 2], "append", lambda v: v.append(1)),
    ([1, 2], "clear", lambda v: v.clear()),
    ([1, 2], "extend", lambda v: v.extend([1])),
    ([1, 2], "insert", lambda v: v.insert(0, 1)),
    ([1, 2], "pop", lambda v: v.pop()),
    ([1, 2], "remove", lambda v: v.remove(1)),
    ([1, 2], "reverse", lambda v: v.reverse()),
    ([1, 2], "sort", lambda v: v.sort()),
    ([1, 2], "__setitem__", lambda v: v.__setitem__(0, 5)),
    ([1, 2], "__delitem__", lambda v: v.__delitem__(slice(None))),
    ([1, 2], "__iadd__", lambda v: v.__iadd__([1])),
    ([1, 2], "__imul__", lambda v: v.__imul__(2)),
    ({"a": 1}, "clear", lambda v: v.clear()),
    ({"a": 1}, "pop", lambda v: v.pop("a")),
    ({"a": 1}, "popitem", lambda v: v.popitem()),
    ({"a": 1}, "setdefault", lambda v: v.setdefault("b", 1)),
    ({"a": 1}, "update", lambda v: v.update(b=1)),
    ({"a": 1}, "__setitem__", lambda v: v.__setitem__("a", 2)),
    ({"a": 1}, "__delitem__", lambda v: v.__delitem__("a")),
    ({"a": 1}, "__ior__", lambda v: v.__ior__({"b": 1})),
    ({1, 2}, "add", lambda v: v.add(3)),
    ({1, 2}, "clear", lambda v: v.clear()),
    ({1, 2}, "discard", lambda v: v.discard(1)),
    ({1, 2}, "remove", lambda v: v.remove(1)),
    ({1, 2}, "pop", lambda v: v.pop()),
    ({1, 2}, "update", lambda v: v.update({3})),
    ({1, 2}, "difference_update", lambda v: v.difference_update({1})),
    ({1, 2}, "intersection_update", lambda v: v.intersection_update({1})),
    ({1, 2}, "symmetric_difference_update", lambda v: v.symmetric_difference_update({1})),
    ({1, 2}, "__ior__", lambda v: v.__ior__({3})),
    ({1, 2}, "__iand__", lambda v: v.__iand__({1})),
    ({1, 2}, "__isub__", lambda v: v.__isub__({1})),
    ({1, 2}, "__ixor__", lambda v: v.__ixor__({1})),
]


@pytest.mark.parametrize(("value", "method", "change"), CHANGES, ids=[f"{type(v).__name__}.{m}" for v, m, _ in CHANGES])
def test_a_frozen_container_says_no(value: Any, method: str, change: Callable[[Any], Any]) -> None:
    """Every method that changes in place raises, names itself and the remedy, and has changed nothing."""
    frozen = freeze(copy.deepcopy(value))
    with pytest.raises(StateError, match=f"`{method}` on this {type(value).__name__} was refused: return an update"):
        change(frozen)
    assert frozen == value


@pytest.mark.parametrize(
    ("container", "plain"), [(FrozenList, list), (FrozenDict, dict), (FrozenSet, set)], ids=["list", "dict", "set"]
)
def test_no_method_that_changes_is_forgotten(container: type, plain: type) -> None:
    """Every method of the plain container that is not pure is refused by the frozen one."""
    pure = {
        "__init__", "__new__", "__getattribute__", "__class_getitem__", "__init_subclass__", "__subclasshook__",
        "__class__", "__doc__", "__reduce__", "__reduce_ex__", "copy", "fromkeys",
    }  # fmt: skip
    twin = {list: tuple, dict: type(type.__dict__), set: frozenset}[plain]
    for name in set(dir(plain)) - set(dir(twin)) - pure - {"__reversed__"}:
        assert getattr(container, name) is not getattr(plain, name), name


def test_frozen_containers_read_like_plain_ones() -> None:
    """Comparison, slicing, JSON, copying and pickling work as ever; copies can be changed."""
    frozen = freeze({"a": [1, {"b": {2}}], "t": ([3],)})
    assert frozen == {"a": [1, {"b": {2}}], "t": ([3],)}
    assert isinstance(frozen["t"][0], FrozenList)
    assert frozen["a"][:1] == [1]
    assert json.dumps(freeze({"a": [1]})) == '{"a": [1]}'
    assert type(pickle.loads(pickle.dumps(freeze([1])))) is list  # noqa: S301  # our own bytes
    for one in (frozen.copy(), copy.copy(frozen), dict(frozen), {**frozen}):
        one["new"] = 1
        assert type(one) is dict
    assert type(frozen["a"].copy()) is list
    assert type(frozen["a"][1]["b"] | {5}) is not list


def test_same_sees_what_equality_does_not() -> None:
    """Types, private data and NaN count; the order of sets and dicts does not."""

    class Secretive(BaseModel):
        _hidden: int = PrivateAttr(default=0)

    one, other = Secretive(), Secretive()
    assert same(one, other)
    other._hidden = 1
    assert not same(one, other)
    assert same(float("nan"), float("nan"))
    assert same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert same(FrozenList([1]), [1])
    for a, b in [(1, True), (1, 1.0), ([1], (1,)), ([1, 2], [2, 1]), ({"a": 1}, {"a": 1.0}), ({"a": 1}, {"b": 1})]:
        assert not same(a, b)
    for a, b in [({1: 0}, {True: 0}), ({1: 0}, {1.0: 0}), ({1: 0, 2: 0}, {2.0: 0, 1: 0}), ({(1,): 0}, {(1.0,): 0})]:
        assert not same(a, b)
    assert not same({1: 2, 3: 4}, {3: 4, 1: 2.0})
    assert not same({1, 2}, {1, 3})
    assert not same({1}, {True})
    assert not same({(1, 2)}, {(1.0, 2)})


# -- what a node is handed -------------------------------------------------------------------------------------------


def test_a_read_only_state_is_handed_as_itself() -> None:
    """A `State` of frozen parts needs no subclass; its lists say no, its fields say no."""
    ticket = handed(Ticket, {"text": "a", "tags": ["x"]})
    assert type(ticket) is Ticket
    assert ticket == Ticket(text="a", tags=["x"])
    with pytest.raises(StateError):
        ticket.tags.append("y")


def test_a_plain_model_is_handed_read_only() -> None:
    """Any pydantic model will do as a state: in a node it is an instance of itself that refuses assignment."""
    board = handed(Board, {"title": "t"})
    assert isinstance(board, Board)
    assert type(board).__name__ == "Board"
    assert repr(board) == repr(Board(title="t"))
    assert board == Board(title="t")
    assert Board(title="t") == board
    assert board.model_dump() == Board(title="t").model_dump()
    with pytest.raises(StateError, match="`Board` is read-only in a node, so changing `title` was refused"):
        board.title = "u"
    with pytest.raises(StateError, match="`Board` is read-only in a node"):
        del board.title
    assert replace(board, title="u") == Board(title="u")


def test_changeable_parts_are_copied_when_first_looked_at() -> None:
    """What a task does to a nested model reaches nobody else, and is known to have happened."""
    schema = Schema(Board)
    values = schema.start({"points": [Point(x=1)]})[0]
    mine, other = schema.handed(values), schema.handed(values)
    assert isinstance(mine, Board)
    assert isinstance(other, Board)
    assert mine.still is values["still"]
    mine.point.x = 9
    mine.points[0].x = 9
    mine.spot.x = 9
    assert other == Board(points=[Point(x=1)])
    assert schema.result(values) == Board(points=[Point(x=1)])
    assert sorted(views.changed_in_place(mine)) == ["point", "points", "spot"]
    assert views.changed_in_place(other) == []
    with pytest.raises(StateError):
        mine.point.path.append(1)


class Pair(NamedTuple):
    names: list[str]


class Row(TypedDict):
    point: Point


Alias = TypeAliasType("Alias", list[Point])


@dataclasses.dataclass(frozen=True)
class Stamp:
    point: Point


@pytest.mark.parametrize(
    ("kind", "value", "change"),
    [
        (deque[int], deque([1]), lambda v: v.append(2)),
        (defaultdict[str, int], {"a": 1}, lambda v: v.update(b=2)),
        (OrderedDict[str, int], {"a": 1}, lambda v: v.update(b=2)),
        (Counter[str], {"a": 1}, lambda v: v.update("b")),
        (Row, {"point": Point()}, lambda v: setattr(v["point"], "x", 2)),
        (Stamp, Stamp(Point()), lambda v: setattr(v.point, "x", 2)),
        (tuple[Point, ...], (Point(),), lambda v: setattr(v[0], "x", 2)),
        (dict[str, list[Point]], {"a": [Point()]}, lambda v: setattr(v["a"][0], "x", 2)),
        (Alias, [Point()], lambda v: setattr(v[0], "x", 2)),
    ],
    ids=["deque", "defaultdict", "ordered", "counter", "typeddict", "dataclass", "tuple", "dict", "alias"],
)
def test_whatever_can_be_changed_is_copied_first(kind: Any, value: Any, change: Callable[[Any], Any]) -> None:
    """However a changeable part is spelled: changing it reaches no other task, and is known to have happened."""
    schema = Schema(create_model("Made", __base__=State, part=(kind, ...)))
    values = schema.start({"part": value})[0]
    mine, other = schema.handed(values), schema.handed(values)
    change(mine.part)  # type: ignore[attr-defined]
    assert views.changed_in_place(mine) == ["part"]
    assert other == schema.handed(schema.start({"part": value})[0])


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Pair, Pair(["a"])), (tuple[list[str]], (["a"],)), (Any, {"a": ["b"]}), (list[Any], [["a"]])],
    ids=["namedtuple", "tuple", "any", "list"],
)
def test_whatever_can_be_frozen_is(kind: Any, value: Any) -> None:
    """Plain containers are frozen as deep as they go, so that no copy is needed."""
    schema = Schema(create_model("Made", __base__=State, part=(kind, ...)))
    state: Any = schema.handed(schema.start({"part": value})[0])
    inner = state.part["a"] if isinstance(value, dict) else state.part[0]
    with pytest.raises(StateError, match="was refused"):
        inner.append("x")
    assert type(state) is schema.model


def test_a_result_is_the_callers_own() -> None:
    """The caller may do with the parts of a result what it wants; the run is unharmed."""
    schema = Schema(Board)
    values = schema.start({})[0]
    first, second = schema.result(values), schema.result(values)
    assert isinstance(first, Board)
    assert type(first) is Board
    first.point.x = 5
    assert second == Board()


def test_private_attributes_of_a_state_start_anew() -> None:
    """What is no field is no state: every task gets private attributes as they are by default."""

    class Counted(State):
        number: int = 0
        _calls: int = PrivateAttr(default=3)

    state = handed(Counted, {"number": 1})
    assert (state.number, state._calls) == (1, 3)


@pytest.mark.parametrize(
    "frozen", [FrozenList([1, [2]]), FrozenDict({"a": [1]}), FrozenSet({1, 2})], ids=["list", "dict", "set"]
)
def test_a_copy_of_a_frozen_container_is_plain_and_a_deep_one_stays_frozen(frozen: Any) -> None:
    """Who copies one wants to change it; a deep copy is what pydantic makes of a default, and must not thaw it."""
    plain = type(frozen).__mro__[1]
    assert [type(copied) for copied in (copy.copy(frozen), pickle.loads(pickle.dumps(frozen)))] == [plain, plain]  # noqa: S301  # our own bytes
    deep = copy.deepcopy(frozen)
    assert (type(deep), deep == frozen, deep is frozen) == (type(frozen), True, False)


def test_what_a_node_is_handed_equals_no_other_kind_of_thing() -> None:
    """Comparing it with what is no model is no error."""
    view = handed(Point, {"x": 1})
    assert (view == "something else", view == Point(x=1)) == (False, True)


def test_a_private_attribute_of_a_state_can_be_set() -> None:
    """It is no field: nothing of it is stored."""

    class Counted(State):
        _seen: int = PrivateAttr(default=0)

    counted: Any = Counted()
    counted._seen = 5
    assert counted._seen == 5
