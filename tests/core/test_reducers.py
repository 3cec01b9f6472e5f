"""Each reducer alone: what it folds, what it reads off a returned model, and how two deltas become one."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowagent import Remove, add, append, last, maximum, merge, messages, minimum, reducer, union
from flowagent.core.frozen import same
from flowagent.core.reducers import NoDiff, Reducer, element_type

numbers = st.integers(-5, 5)
lists = st.lists(numbers, max_size=5)
dicts = st.dictionaries(st.sampled_from("abc"), numbers, max_size=3)
sets = st.sets(numbers, max_size=5)
post = st.fixed_dictionaries({"id": st.sampled_from("abcd"), "text": st.sampled_from("xy")})
posts = st.lists(post, max_size=5, unique_by=lambda one: one["id"])
post_deltas = st.lists(st.one_of(post, st.builds(Remove, remove=st.sampled_from("abcd"))), max_size=5)

PAIRS = [
    pytest.param(append, lists, lists, id="append"),
    pytest.param(merge, dicts, dicts, id="merge"),
    pytest.param(add, numbers, numbers, id="add"),
    pytest.param(union, sets, sets, id="union"),
    pytest.param(maximum, numbers, numbers, id="maximum"),
    pytest.param(minimum, numbers, numbers, id="minimum"),
    pytest.param(last, numbers, numbers, id="last"),
    pytest.param(messages, posts, post_deltas, id="messages"),
]


@pytest.mark.parametrize(
    ("one", "old", "delta", "new"),
    [
        (append, [1], [2, 3], [1, 2, 3]),
        (append, (1,), [2], (1, 2)),
        (append, None, [1], [1]),
        (merge, {"a": 1, "b": 1}, {"b": 2}, {"a": 1, "b": 2}),
        (merge, None, {"a": 1}, {"a": 1}),
        (add, 1, 2, 3),
        (add, 0.5, 0.25, 0.75),
        (add, None, 2, 2),
        (union, {1}, {2}, {1, 2}),
        (union, frozenset({1}), {2}, frozenset({1, 2})),
        (union, None, {2}, {2}),
        (maximum, 1, 2, 2),
        (maximum, None, -3, -3),
        (minimum, 1, 2, 1),
        (last, "a", "b", "b"),
        (messages, [{"id": "1", "t": "x"}], [{"id": "2", "t": "y"}], [{"id": "1", "t": "x"}, {"id": "2", "t": "y"}]),
        (messages, [{"id": "1", "t": "x"}, {"id": "2"}], [{"id": "1", "t": "z"}], [{"id": "1", "t": "z"}, {"id": "2"}]),
        (messages, [{"id": "1"}, {"id": "2"}], [Remove(remove="1")], [{"id": "2"}]),
        (messages, [{"id": "1"}], [Remove(remove="9")], [{"id": "1"}]),
    ],
)
def test_fold(one: Reducer, old: Any, delta: Any, new: Any) -> None:
    """A delta is folded into the old value; a field that is None takes the delta as it is."""
    found = one.fold(old, delta)
    assert found == new
    assert isinstance(found, type(new))


@pytest.mark.parametrize(("one", "olds", "deltas"), PAIRS)
@given(st.data())
def test_folding_leaves_its_arguments_alone(one: Reducer, olds: Any, deltas: Any, data: st.DataObject) -> None:
    """No fold changes what it was given; folding twice gives the same twice."""
    old, delta = data.draw(olds), data.draw(deltas)
    before = (str(old), str(delta))
    assert same(one.fold(old, delta), one.fold(old, delta))
    assert (str(old), str(delta)) == before


@pytest.mark.parametrize(("one", "olds", "deltas"), PAIRS)
@given(st.data())
def test_a_diff_is_the_way_from_old_to_new(one: Reducer, olds: Any, deltas: Any, data: st.DataObject) -> None:
    """What `diff` reads off, folded in, gives the new value again."""
    old = data.draw(olds)
    new = one.fold(old, data.draw(deltas))
    assert one.diff is not None
    try:
        delta = one.diff(old, new)
    except NoDiff:
        assert one is messages, "only messages can be moved by a delta: by taking one out and adding it again"
    else:
        assert same(one.fold(old, delta), new)


@pytest.mark.parametrize(("one", "olds", "deltas"), PAIRS)
@given(st.data())
def test_a_composed_delta_does_what_both_do(one: Reducer, olds: Any, deltas: Any, data: st.DataObject) -> None:
    """Folding two deltas in turn and folding their composition give the same."""
    old, first, second = data.draw(olds), data.draw(deltas), data.draw(deltas)
    assert one.compose is not None
    composed = one.compose(first, second)
    assert same(one.fold(old, composed), one.fold(one.fold(old, first), second))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_added_floats_are_not_composed(old: float, first: float, second: float) -> None:
    """Float sums depend on their order in the last bits, so both deltas are kept."""
    assert add.compose is not None
    assert add.compose(first, second) is NotImplemented


@pytest.mark.parametrize(
    ("one", "old", "new", "why"),
    [
        (append, [1, 2], [1], "not the beginning"),
        (append, [1, 2], [2, 1, 3], "not the beginning"),
        (append, [1], [True, 2], "not the beginning"),
        (merge, {"a": 1}, {"b": 1}, r"lacks the keys \['a'\]"),
        (union, {1, 2}, {2}, r"lacks the members \['1'\]"),
        (maximum, 3, 2, "not the maximum"),
        (minimum, 3, 4, "not the minimum"),
        (messages, [{"id": "1"}, {"id": "2"}], [{"id": "2"}, {"id": "1"}], "in their order"),
        (messages, [{"id": "1"}], [{"id": "2"}, {"id": "1"}], "not at its beginning"),
        (messages, [{"id": "1"}], [{"id": "1"}, {"id": "1"}], "once each"),
        (messages, [{"id": "1"}], [{"id": "1"}, {"id": "2"}, {"id": "2"}], "once each"),
    ],
)
def test_no_delta_leads_there(one: Reducer, old: Any, new: Any, why: str) -> None:
    """Where no delta leads from the old value to the new one, `diff` says why."""
    assert one.diff is not None
    with pytest.raises(NoDiff, match=why):
        one.diff(old, new)


def test_messages_without_an_id_get_one_from_the_task() -> None:
    """The id is the same whenever the task is repeated, another for another task or place; a given id stays."""
    prepare = messages.prepare
    assert prepare is not None
    first = prepare([{"t": "a"}, {"t": "b"}, {"id": "mine"}], "r/ask@1")
    assert first == prepare([{"t": "a"}, {"t": "b"}, {"id": "mine"}], "r/ask@1")
    ids = [message["id"] for message in first]
    assert ids[2] == "mine"
    assert len({*ids, *(message["id"] for message in prepare([{"t": "a"}, {"t": "b"}], "r/ask@2"))}) == 5
    assert prepare([Remove(remove="x")], "r/ask@1") == [Remove(remove="x")]


def test_a_custom_reducer_takes_its_delta_type_from_its_function() -> None:
    """The annotation of the second parameter is the type of a delta; without one it is the field's."""

    def count(old: int, delta: list[str]) -> int:
        return old + len(delta)

    counted = reducer(count)
    assert (counted.name, counted.fold(1, ["a", "b"]), counted.delta_type(int)) == ("count", 3, list[str])
    assert counted.diff is None

    def plain(old, delta):  # type: ignore[no-untyped-def]  # a user without annotations
        return old + delta

    assert reducer(plain).delta_type(int) is int
    assert repr(reducer(plain)) == "<reducer plain>"


def test_a_custom_reducer_may_come_with_a_diff() -> None:
    """With `diff=`, a returned model can be read as a delta."""

    def times(old: int, delta: int) -> int:
        return old * delta

    def ratio(old: int, new: int) -> int:
        if new % old:
            raise NoDiff(f"{new} is no multiple of {old}")
        return new // old

    product = reducer(times, diff=ratio)
    assert product.diff is not None
    assert product.diff(3, 12) == 4
    with pytest.raises(NoDiff, match="no multiple"):
        product.diff(3, 13)


@pytest.mark.parametrize(
    ("kind", "element"),
    [(list[int], int), (tuple[str, ...], str), (list, Any), (set[Annotated[int, "x"]], Annotated[int, "x"])],
)
def test_element_type(kind: Any, element: Any) -> None:
    """Deltas of a container are validated by the type of its elements."""
    assert element_type(kind) == element
