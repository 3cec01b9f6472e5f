"""A state model compiled: inputs, updates in two steps, returned models, validators, and what cannot be stored."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    computed_field,
    create_model,
    field_serializer,
    field_validator,
    model_validator,
)

from flowagent import (
    Remove,
    Replace,
    State,
    add,
    append,
    last,
    maximum,
    merge,
    messages,
    reducer,
    replace,
    union,
)
from flowagent.core.frozen import same
from flowagent.core.schema import Schema
from flowagent.core.writes import Writes, applied
from flowagent.errors import StateError, UnstorableError


class Post(BaseModel):
    id: str = ""
    text: str = ""


class Desk(State):
    """One field for each reducer, and a plain one."""

    plain: int = 0
    notes: Annotated[list[str], append] = []
    line: Annotated[tuple[str, ...], append] = ()
    sequence: Annotated[Sequence[int], append] = []
    table: Annotated[dict[str, int], merge] = {}
    total: Annotated[int, add] = 0
    seen: Annotated[set[int], union] = set()
    best: Annotated[int, maximum] = 0
    latest: Annotated[str, last] = ""
    posts: Annotated[list[Post], messages] = []


class Update:
    """What an update became: the new state, and how each write is stored."""

    def __init__(self, model: type[BaseModel], given: dict[str, Any], returned: Any) -> None:
        self.schema = Schema(model)
        self.values = self.schema.start(given)[0]
        if callable(returned):
            returned = returned(self.schema.handed(self.values))
        self.writes: Writes = self.schema.update(self.values, returned, key="run/task")
        self.new = applied(self.schema.reducers, self.values, self.writes)

    @property
    def stored(self) -> dict[str, tuple[str, list[str]]]:
        return {name: (write.kind, [data.decode() for data in write.datas]) for name, write in self.writes.items()}

    @property
    def state(self) -> Any:
        return self.schema.result(self.new)


def refused(model: type[BaseModel], given: dict[str, Any], returned: Any) -> str:
    with pytest.raises(StateError) as caught:
        Update(model, given, returned)
    return str(caught.value)


# -- what a mapping writes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "returned", "stored", "state"),
    [
        ({}, None, {}, {}),
        ({}, {}, {}, {}),
        ({"plain": 1}, {"plain": 2}, {"plain": ("set", ["2"])}, {"plain": 2}),
        ({"plain": 1}, {"plain": "2"}, {"plain": ("set", ["2"])}, {"plain": 2}),
        ({"notes": ["a"]}, {"notes": ["b"]}, {"notes": ("delta", ['["b"]'])}, {"notes": ["a", "b"]}),
        ({"notes": ["a"]}, {"notes": []}, {"notes": ("delta", ["[]"])}, {"notes": ["a"]}),
        ({"line": ("a",)}, {"line": ["b"]}, {"line": ("delta", ['["b"]'])}, {"line": ("a", "b")}),
        ({"sequence": [1]}, {"sequence": [2]}, {"sequence": ("delta", ["[2]"])}, {"sequence": [1, 2]}),
        ({"table": {"a": 1}}, {"table": {"b": 2}}, {"table": ("delta", ['{"b":2}'])}, {"table": {"a": 1, "b": 2}}),
        ({"total": 3}, {"total": 4}, {"total": ("delta", ["4"])}, {"total": 7}),
        ({"seen": {1}}, {"seen": {2}}, {"seen": ("delta", ["[2]"])}, {"seen": {1, 2}}),
        ({"best": 3}, {"best": 2}, {"best": ("delta", ["2"])}, {"best": 3}),
        ({"latest": "a"}, {"latest": "b"}, {"latest": ("delta", ['"b"'])}, {"latest": "b"}),
        ({"notes": ["a"]}, {"notes": Replace(["z"])}, {"notes": ("replace", ['["z"]'])}, {"notes": ["z"]}),
        ({"total": 3}, {"total": Replace(0)}, {"total": ("replace", ["0"])}, {"total": 0}),
    ],
)
def test_a_mapping(given: dict[str, Any], returned: Any, stored: Any, state: dict[str, Any]) -> None:
    """A plain field is set, a reducer's field gets a delta, `Replace` sets it; each says so in what is stored."""
    update = Update(Desk, given, returned)
    assert (update.stored, update.state) == (stored, Desk(**{**given, **state}))


def test_messages_of_a_task() -> None:
    """New messages get ids from the task, known ids replace, `Remove` takes out; input and `Replace` too get ids."""
    update = Update(
        Desk,
        {"posts": [{"text": "first"}, {"text": "second"}, {"id": "x", "text": "third"}]},
        {"posts": [{"text": "new"}, {"id": "x", "text": "changed"}]},
    )
    before: Any = update.values["posts"]
    assert [post.text for post in before] == ["first", "second", "third"]
    assert len({post.id for post in before if post.id}) == 3
    assert [post.text for post in update.state.posts] == ["first", "second", "changed", "new"]
    assert update.new == Update(Desk, {"posts": before}, {"posts": update.writes["posts"].values[0]}).new
    removed = Update(Desk, {"posts": before}, {"posts": [Remove(remove="x")]}).state.posts
    assert [post.text for post in removed] == ["first", "second"]
    whole = Update(Desk, {}, {"posts": Replace([{"text": "a"}, {"text": "b"}])}).state.posts
    assert len({post.id for post in whole if post.id}) == 2


def test_everything_wrong_with_an_update_is_told_at_once() -> None:
    """Unknown fields with a hint, wrong types with the value; nothing of the update is taken."""
    text = refused(Desk, {}, {"plian": 1, "plain": "many", "notes": "abc", "table": {"a": "x"}, "total": None})
    assert text == (
        "its update was refused: `plian` is no field of `Desk`; did you mean `plain`?; "
        "`plain`: Input should be a valid integer, unable to parse string as an integer (got 'many'); "
        "`notes`: Input should be a valid list (got 'abc'); "
        "`table`: a: Input should be a valid integer, unable to parse string as an integer (got 'x'); "
        "`total`: Input should be a valid integer (got None)"
    )


@pytest.mark.parametrize("returned", ["text", 5, ["plain"], ("plain", 1), Post(), Desk, {1, 2}, True])
def test_what_is_no_update_is_refused(returned: Any) -> None:
    """A node returns None, a mapping, its state or a Goto; anything else is told by its type."""
    kind = type(returned).__name__
    schema = Schema(Desk)
    with pytest.raises(StateError, match=rf"returned a `{kind}`; a node returns None, a mapping of fields such as"):
        schema.update(schema.start({})[0], returned)


def test_keys_that_are_no_text_are_refused() -> None:
    """A key that is no string is no field."""
    assert "`1` is no field of `Desk`" in refused(Desk, {}, {1: "x", None: 1})


def test_a_model_that_ignores_extras_drops_them() -> None:
    """Only a model that says so itself may lose what a node returns."""

    class Loose(BaseModel):
        model_config = ConfigDict(extra="ignore")
        x: int = 0

    assert Update(Loose, {"y": 1}, {"x": 1, "y": 2}).state == Loose(x=1)

    class Silent(BaseModel):
        x: int = 0

    assert "`y` is no field of `Silent`" in refused(Silent, {}, {"x": 1, "y": 2})
    with pytest.raises(StateError, match="`y` is no field of `Silent`"):
        Schema(Silent).start({"y": 1})


# -- returned models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "changes", "stored"),
    [
        ({}, {}, {}),
        ({"plain": 1}, {"plain": 1}, {}),
        ({"plain": 1}, {"plain": 2}, {"plain": ("set", ["2"])}),
        ({"notes": ["a"]}, {"notes": ["a", "b"]}, {"notes": ("delta", ['["b"]'])}),
        ({"line": ("a",)}, {"line": ("a", "b")}, {"line": ("delta", ['["b"]'])}),
        ({"table": {"a": 1, "b": 1}}, {"table": {"a": 1, "b": 2}}, {"table": ("delta", ['{"b":2}'])}),
        ({"total": 3}, {"total": 5}, {"total": ("delta", ["2"])}),
        ({"seen": {1}}, {"seen": {1, 2}}, {"seen": ("delta", ["[2]"])}),
        ({"best": 3}, {"best": 5}, {"best": ("delta", ["5"])}),
        ({"latest": "a"}, {"latest": "b"}, {"latest": ("delta", ['"b"'])}),
        (
            {"posts": [Post(id="1", text="a"), Post(id="2")]},
            {"posts": [Post(id="1", text="b"), Post(id="3")]},
            {"posts": ("delta", ['[{"remove":"2"},{"id":"1","text":"b"},{"id":"3","text":""}]'])},
        ),
    ],
)
def test_a_returned_model(given: dict[str, Any], changes: dict[str, Any], stored: Any) -> None:
    """Its differences are written, and nothing else; for reducers they are deltas."""
    update = Update(Desk, given, lambda state: replace(state, **changes))
    assert (update.stored, update.state) == (stored, Desk(**{**given, **changes}))


@pytest.mark.parametrize(
    ("given", "changes", "field", "why"),
    [
        ({"notes": ["a", "b"]}, {"notes": ["b"]}, "notes", "the old list is not the beginning of the new one"),
        ({"table": {"a": 1}}, {"table": {}}, "table", "it lacks the keys"),
        ({"seen": {1}}, {"seen": set[int]()}, "seen", "it lacks the members"),
        ({"best": 3}, {"best": 2}, "best", "2 is not the maximum"),
        ({"posts": [Post(id="1"), Post(id="2")]}, {"posts": [Post(id="2"), Post(id="1")]}, "posts", "in their order"),
    ],
)
def test_a_model_that_is_no_delta_is_refused(given: Any, changes: Any, field: str, why: str) -> None:
    """Where no delta leads to what a returned model says, the error says to return a mapping or `Replace`."""
    text = refused(Desk, given, lambda state: replace(state, **changes))
    assert f"`{field}` of the returned model cannot be told as a delta of its reducer" in text
    assert why in text
    assert f"return a mapping, or {{'{field}': Replace(value)}}" in text


def test_a_returned_model_is_validated_like_a_mapping() -> None:
    """`model_copy(update=)` does not validate, so a wrong type, a typo and a subclass are caught here."""
    assert "`plain`: Input should be a valid integer" in refused(
        Desk, {}, lambda state: state.model_copy(update={"plain": "x"})
    )
    assert "`typo` is no field of `Desk`" in refused(Desk, {}, lambda state: state.model_copy(update={"typo": 1}))

    class Big(Desk):
        more: int = 0

    assert "`more` is no field of `Desk`" in refused(Desk, {}, lambda state: Big(more=1))


def test_a_reducer_without_diff_needs_a_mapping() -> None:
    """A returned model that changes such a field is refused; one that leaves it alone is not."""

    class Product(State):
        value: Annotated[int, reducer(lambda old, delta: old * delta)] = 3
        name: str = ""

    assert "(it has no `diff`)" in refused(Product, {}, Product(value=6))
    assert Update(Product, {}, Product(name="x")).stored == {"name": ("set", ['"x"'])}
    assert Update(Product, {}, {"value": 2}).state.value == 6


# -- change in place -----------------------------------------------------------------------------------------------


def test_a_change_in_place_that_is_not_returned_is_told() -> None:
    """A nested model that a node changed and did not return is an error, not silence; returned, it is an update."""

    class Holder(BaseModel):
        post: Post = Post()
        n: int = 0

    schema = Schema(Holder)
    values = schema.start({})[0]

    def changed() -> Holder:
        view = schema.handed(values)
        assert isinstance(view, Holder)
        view.post.text = "changed"
        return view

    with pytest.raises(StateError, match="changed `post` of its input in place and did not return it"):
        schema.update(values, {"n": 1}, view=(view := changed()))
    view = changed()
    writes = schema.update(values, {"post": view.post}, view=view)
    assert applied(schema.reducers, values, writes)["post"] == Post(text="changed")
    view = changed()
    writes = schema.update(values, view, view=view)
    assert applied(schema.reducers, values, writes)["post"] == Post(text="changed")
    assert values["post"] == Post()


# -- validators ----------------------------------------------------------------------------------------------------


class Guarded(State):
    """Fields with constraints and validators of every kind."""

    short: Annotated[str, Field(max_length=3)] = ""
    lower: str = ""
    few: Annotated[list[int], append, Field(max_length=3)] = []
    ranked: Annotated[list[int], append] = []
    positive: Annotated[int, add, Field(ge=0)] = 0

    @field_validator("lower")
    @classmethod
    def _lower(cls, value: str) -> str:
        if "!" in value:
            raise ValueError("no shouting")
        return value.lower()

    @field_validator("ranked")
    @classmethod
    def _ranked(cls, value: list[int]) -> list[int]:
        return sorted(value)


@pytest.mark.parametrize(
    ("given", "returned", "stored", "state"),
    [
        ({}, {"lower": "ABC"}, {"lower": ("set", ['"abc"'])}, {"lower": "abc"}),
        ({}, {"short": "abc"}, {"short": ("set", ['"abc"'])}, {"short": "abc"}),
        ({"few": [1]}, {"few": [2, 3]}, {"few": ("delta", ["[2,3]"])}, {"few": [1, 2, 3]}),
        ({"positive": 3}, {"positive": -2}, {"positive": ("delta", ["-2"])}, {"positive": 1}),
        ({"ranked": [1, 3]}, {"ranked": [5, 4]}, {"ranked": ("delta", ["[4,5]"])}, {"ranked": [1, 3, 4, 5]}),
        ({"ranked": [2, 3]}, {"ranked": [1]}, {"ranked": ("replace", ["[1,2,3]"])}, {"ranked": [1, 2, 3]}),
        ({"ranked": [2]}, {"ranked": Replace([3, 1])}, {"ranked": ("replace", ["[1,3]"])}, {"ranked": [1, 3]}),
    ],
)
def test_validators_see_the_whole_and_may_change_it(given: Any, returned: Any, stored: Any, state: Any) -> None:
    """Constraints apply to the whole, not to the delta; what a validator made of it is what is stored."""
    update = Update(Guarded, given, returned)
    assert (update.stored, update.state) == (stored, Guarded(**{**given, **state}))


@pytest.mark.parametrize(
    ("given", "returned", "why"),
    [
        ({}, {"short": "abcd"}, "`short`: String should have at most 3 characters (got 'abcd')"),
        ({}, {"lower": "a!"}, "`lower`: lower: Value error, no shouting (got 'a!')"),
        ({"few": [1, 2]}, {"few": [3, 4]}, "`few`: List should have at most 3 items after validation, not 4"),
        ({"positive": 1}, {"positive": -2}, "`positive`: Input should be greater than or equal to 0 (got -1)"),
        ({}, {"few": Replace([1, 2, 3, 4])}, "`few`: List should have at most 3 items"),
    ],
)
def test_validators_may_refuse(given: Any, returned: Any, why: str) -> None:
    """A whole value that the field's validators refuse is no update."""
    assert why in refused(Guarded, given, returned)


class Range(State):
    """A model validator after all fields, which changes one and refuses some."""

    low: int = 0
    high: int = 10
    width: int = 10
    log: Annotated[list[str], append] = []

    @model_validator(mode="after")
    def _whole(self) -> Range:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        if self.width != self.high - self.low:
            return self.model_copy(update={"width": self.high - self.low})
        return self


def test_a_model_validator_changes_and_refuses() -> None:
    """What it changed elsewhere is part of the update; where it refuses, the state stays as it was."""
    update = Update(Range, {}, {"low": 4, "log": ["x"]})
    assert update.state == Range(low=4, high=10, width=6, log=["x"])
    assert update.stored == {"low": ("set", ["4"]), "log": ("delta", ['["x"]']), "width": ("set", ["6"])}
    schema = Schema(Range)
    values = schema.start({})[0]
    with pytest.raises(StateError, match="low 11 is above high 10"):
        schema.update(values, {"low": 11})
    assert values == schema.start({})[0]


def test_a_before_validator_sees_the_whole() -> None:
    """A `mode="before"` model validator gets all fields by name, whatever aliases they have."""
    seen: list[set[str]] = []

    class Before(State):
        x: int = Field(default=0, alias="X")
        y: int = 0

        @model_validator(mode="before")
        @classmethod
        def _before(cls, data: dict[str, Any]) -> dict[str, Any]:
            seen.append(set(data))
            return {**data, "y": 5}

    assert Update(Before, {}, {"x": 1}).new == {"x": 1, "y": 5}
    assert seen[-1] == {"x", "y"}


@pytest.mark.parametrize("error", [KeyError("gone"), RuntimeError("boom"), ZeroDivisionError("none")])
def test_a_validator_that_breaks_refuses(error: Exception) -> None:
    """Whatever a validator raises is a refused update that names the exception."""

    class Broken(State):
        x: int = 0
        y: int = 0

        @field_validator("x")
        @classmethod
        def _x(cls, value: int) -> int:
            if value:
                raise error
            return value

        @model_validator(mode="after")
        def _y(self) -> Broken:
            if self.y:
                raise error
            return self

    for update in ({"x": 1}, {"y": 1}):
        assert type(error).__name__ in refused(Broken, {}, update)
        with pytest.raises(StateError, match=type(error).__name__):
            Schema(Broken).start(update)


def test_a_reducer_that_breaks_refuses() -> None:
    """A reducer's exception names the field and itself; so does that of a `diff`."""

    def fold(old: int, delta: int) -> int:
        return old // delta

    def diff(old: int, new: int) -> int:
        raise KeyError(new)

    class Quotient(State):
        value: Annotated[int, reducer(fold, diff=diff)] = 6

    assert "`value`: its reducer failed: ZeroDivisionError" in refused(Quotient, {}, {"value": 0})
    assert "`value`" in refused(Quotient, {}, Quotient(value=2))
    assert Update(Quotient, {}, {"value": 2}).state.value == 3


def test_a_reducer_must_keep_to_the_type() -> None:
    """What a reducer makes has to fit the field like anything else."""

    class Odd(State):
        value: Annotated[int, reducer(lambda old, delta: f"{old}{delta}!")] = 1

    assert "`value`: Input should be a valid integer" in refused(Odd, {}, {"value": 2})


def test_a_merge_may_be_refused_but_not_changed() -> None:
    """Where branches meet, validators see the merged state and may only refuse it."""
    schema = Schema(Guarded)
    values = schema.start({"few": [1, 2]})[0]
    writes = schema.update(values, {"few": [3], "ranked": [1]})
    schema.hold_merge(applied(schema.reducers, values, writes), writes)
    with pytest.raises(StateError, match="the merged state was refused: List should have at most 3 items"):
        schema.hold_merge({**values, "few": [1, 2, 3, 4]}, writes)
    with pytest.raises(StateError, match="a validator would change `ranked` where branches meet"):
        schema.hold_merge({**values, "ranked": [2, 1]}, writes)
    whole = Schema(Range)
    with pytest.raises(StateError, match=r"the merged state was refused: .*low 20 is above"):
        whole.hold_merge({**whole.start({})[0], "low": 20}, {})
    with pytest.raises(StateError, match="a validator would change `width`"):
        whole.hold_merge({**whole.start({})[0], "low": 5}, {})


# -- inputs --------------------------------------------------------------------------------------------------------


class Needy(State):
    name: str
    tags: list[str] = Field(default_factory=lambda: ["new"])
    count: int = Field(default=0, alias="Count")
    other: int = Field(default=0, validation_alias=AliasChoices("o1", "o2"))


def test_inputs_as_model_or_mapping() -> None:
    """A model, a mapping of names, or of aliases: all give the same state."""
    schema = Schema(Needy)
    expected = {"name": "a", "tags": ["new"], "count": 2, "other": 3}
    for given_ in (
        Needy.model_validate({"name": "a", "Count": 2, "o1": 3}),
        {"name": "a", "count": 2, "other": 3},
        {"name": "a", "Count": 2, "o2": 3},
    ):
        assert schema.start(given_)[0] == expected
    assert Update(Needy, {"name": "a"}, {"count": 5, "other": 6}).new == {**expected, "count": 5, "other": 6}


@pytest.mark.parametrize(
    ("given_", "why"),
    [
        (None, "the input does not fit `Needy`: name: Field required"),
        ({}, "name: Field required"),
        (
            {"name": 5, "tags": 3},
            "name: Input should be a valid string (got 5); tags: Input should be a valid list (got 3)",
        ),
        ({"name": "a", "tag": []}, "`tag` is no field of `Needy`; did you mean `tags`?"),
        ("name", "the input must be a `Needy` or a mapping, not a `str`"),
        ([("name", "a")], "the input must be a `Needy` or a mapping, not a `list`"),
        (Post(), "the input must be a `Needy` or a mapping, not a `Post`"),
        (Needy, "the input must be a `Needy` or a mapping"),
        (Needy.model_construct(), "name"),
    ],
)
def test_bad_inputs(given_: Any, why: str) -> None:
    """What is missing, unknown or of a wrong type is told, all at once."""
    with pytest.raises(StateError) as caught:
        Schema(Needy).start(given_)
    assert why in str(caught.value)


def test_an_instance_is_validated_again() -> None:
    """An instance may have been assigned to, or copied with anything, since it was validated."""
    post = Post(id="a")
    post.id = 5  # type: ignore[assignment]
    with pytest.raises(StateError, match="id: Input should be a valid string"):
        Schema(Post).start(post)
    with pytest.raises(StateError, match="text"):
        Schema(Post).start(post.model_copy(update={"id": "a", "text": None}))


def test_a_start_leaves_its_input_alone() -> None:
    """The caller's own lists and models stay changeable, and changing them later changes no run."""
    given_: dict[str, Any] = {"notes": ["a"], "posts": [Post(id="1")]}
    schema = Schema(Desk)
    values = schema.start(given_)[0]
    given_["notes"].append("b")
    given_["posts"][0].text = "changed"
    assert (values["notes"], values["posts"]) == (["a"], [Post(id="1")])
    desk = Desk(notes=["a"])
    values = schema.start(desk)[0]
    desk.notes.append("b")
    assert values["notes"] == ["a"]


def test_an_update_leaves_what_was_returned_alone() -> None:
    """A node may go on with the lists that it returned; the state has its own."""
    schema = Schema(Desk)
    values = schema.start({})[0]
    notes = ["a"]
    new = applied(schema.reducers, values, schema.update(values, {"notes": notes}))
    notes.append("b")
    assert new["notes"] == ["a"]
    assert values["notes"] == []


def test_default_factories_run_once() -> None:
    """At the start; not at updates and not when a stored state is read."""
    made: list[int] = []

    class Made(State):
        token: str = Field(default_factory=lambda: str(made.append(1) or len(made)))
        n: int = 0

        @model_validator(mode="after")
        def _whole(self) -> Made:
            return self

    schema = Schema(Made)
    values, data = schema.start({})
    new = applied(schema.reducers, values, schema.update(values, {"n": 1}))
    assert schema.load({**data, "n": b"1"}) == new == {"token": "1", "n": 1}
    assert len(made) == 1


def test_reducers_begin_with_the_declared_default() -> None:
    """Whatever the type's spelling, the default is the starting value; None takes the first delta whole."""

    class Start(State):
        a: Annotated[int, add] = 1
        b: Annotated[int | None, add] = 1
        c: Annotated[int | None, add] = None
        d: Annotated[list[int] | None, append] = None

    update = Update(Start, {}, {"a": 1, "b": 1, "c": 1, "d": [1]})
    assert update.new == {"a": 2, "b": 2, "c": 1, "d": [1]}


# -- what was stored and comes back --------------------------------------------------------------------------------


def test_a_stored_state_that_does_not_fit_is_told_with_its_data() -> None:
    """Everything that does not fit is listed, and the data can be had as it is."""
    with pytest.raises(StateError) as caught:
        Schema(Desk).load({"plain": b'"x"', "gone": b"1", "notes": b"[1]"})
    assert caught.value.problems == (
        "`gone` was stored but is no field of `Desk`",
        "`plain`: Input should be a valid integer, unable to parse string as an integer (got 'x')",
        "`notes`: 0: Input should be a valid string (got 1)",
    )
    assert caught.value.raw == {"plain": '"x"', "gone": "1", "notes": "[1]"}
    with pytest.raises(StateError, match="`name` has no default and was not stored"):
        Schema(Needy).load({})


def test_reading_runs_no_validators() -> None:
    """They had their say when it was written; a stricter model of today does not make a stored run unreadable."""
    schema = Schema(Guarded)
    assert schema.load({"lower": b'"ABC!"', "short": b'"long text"', "few": b"[1,2,3,4]"})["few"] == [1, 2, 3, 4]
    assert Schema(Range).load({"low": b"99"})["low"] == 99


# -- the journey through JSON (P7) ---------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(enum.Enum):
    ONE = ("one", 1)


class Level(enum.IntEnum):
    LOW = 1


class Flag(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class Spot:
    x: int
    when: dt.datetime | None = None


@dataclasses.dataclass
class Half:
    x: int
    y: int = dataclasses.field(init=False, default=0)


class Item(BaseModel):
    id: int


class Book(Item):
    isbn: str


class Film(Item):
    kind: Literal["film"] = "film"
    minutes: float = 0.0


class Song(Item):
    kind: Literal["song"] = "song"
    title: str = ""


class Secretive(BaseModel):
    x: int = 0
    _cache: dict[str, int] = PrivateAttr(default_factory=dict[str, int])


class Lossy(BaseModel):
    x: float = 0

    @field_serializer("x")
    def _rounded(self, value: float) -> float:
        return round(value)


class Excluded(BaseModel):
    x: int = 0
    hidden: int = Field(default=0, exclude=True)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int = 0


class Chilly(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="null")
    x: float = 0.0
    raw: bytes = b""


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    inner: T


class Aliased(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    inner: int = Field(default=0, alias="INNER", serialization_alias="out")


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


UTC_PLUS = dt.timezone(dt.timedelta(hours=5, minutes=45))

KEPT: list[tuple[Any, Any]] = [
    (int, 2**200),
    (int, -(2**63) - 1),
    (float, float("inf")),
    (float, float("-inf")),
    (float, -0.0),
    (float, 5e-324),
    (float, 0.1 + 0.2),
    (str, 'nul \x00 "\\u0000" \u2028 \U0001f600'),
    (bytes, b"\xff\xfe\x00"),
    (bool, True),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("1E+400")),
    (dt.datetime, dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC_PLUS)),
    (dt.datetime, dt.datetime(2024, 2, 29, 12, 30)),  # noqa: DTZ001  # naive ones stay naive
    (dt.datetime, dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
    (dt.date, dt.date(1, 1, 1)),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=1)),
    (dt.time, dt.time(23, 59, 59, 999999)),
    (uuid.UUID, uuid.UUID(int=1)),
    (PurePosixPath, PurePosixPath("/a/../b")),
    (Colour, Colour.BLUE),
    (Level, Level.LOW),
    (set[str], {"b", "a"}),
    (frozenset[int], frozenset({1})),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2)),
    (dict[int, str], {1: "a"}),
    (dict[dt.date, int], {dt.date(2024, 1, 1): 1}),
    (dict[str, set[int]], {"a": {1}}),
    (list[int | str], [1, "1"]),
    (list[float | int], [1, 1.5]),
    (Literal["a", 1, True], True),
    (Literal["a", 1], 1),
    (Item, Item(id=1)),
    (Annotated[Film | Song, Field(discriminator="kind")], Song(id=1, title="x")),
    (Film | Song, Film(id=1)),
    (list[Item], [Item(id=1)]),
    (Spot, Spot(1, dt.datetime(2024, 1, 1, tzinfo=dt.UTC))),
    (Box[int], Box[int](inner=1)),
    (Box[dict[str, Item]], Box[dict[str, Item]](inner={"a": Item(id=1)})),
    (Secretive, Secretive(x=1)),
    (Excluded, Excluded(x=1)),
    (Open, Open.model_validate({"x": 1, "more": [1, {"a": None}]})),
    (Chilly, Chilly(x=1.5, raw=b"abc")),
    (Any, {"a": [1, 2.5, None, True, "x", {}]}),
    (type(None), None),
    (complex, 1 + 2j),
    (int | dt.timedelta, dt.timedelta(seconds=1)),
    (str | uuid.UUID, uuid.UUID(int=1)),
    (Square, Square(side=2)),
    (Aliased, Aliased.model_validate({"INNER": 3})),
]


@pytest.mark.parametrize(("kind", "value"), KEPT, ids=[str(n) for n, _ in enumerate(KEPT)])
def test_what_comes_back_as_it_was(kind: Any, value: Any) -> None:
    """What is written is what the next node sees and what a resumed run loads: equal, of the same types."""
    made = create_model("Made", __base__=State, part=(kind, value))
    for returned in ({"part": value}, made.model_validate({"part": value})):
        update = Update(made, {"part": value}, returned)
        assert same(update.new["part"], value)
        assert same(update.schema.load(update.schema.dump(update.new))["part"], value)


def _with_private() -> Secretive:
    made = Secretive(x=1)
    made._cache["a"] = 1
    return made


def _half() -> Half:
    half = Half(1)
    half.y = 5
    return half


class Shout(str):
    __slots__ = ()


class Mine(dict[str, int]):
    pass


REFUSED: list[tuple[Any, Any]] = [
    (Item, Book(id=1, isbn="x")),
    (list[Item], [Item(id=1), Book(id=1, isbn="x")]),
    (dict[str, Item], {"a": Book(id=1, isbn="x")}),
    (BaseModel, Item(id=1)),
    (Secretive, _with_private()),
    (Lossy, Lossy(x=1.4)),
    (Excluded, Excluded(x=1, hidden=2)),
    (Chilly, Chilly(x=math.inf)),
    (Half, _half()),
    (Any, (1, 2)),
    (Any, {1, 2}),
    (Any, b"abc"),
    (Any, Item(id=1)),
    (Any, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    (Any, Decimal("1.1")),
    (Any, {1: "a"}),
    (Any, object()),
    (Any, lambda: None),
    (Any, Colour.RED),
    (Any, float("inf")),
    (list[Any], [(1,)]),
    (object, (1,)),
    (dict[str, Any], {"a": uuid.UUID(int=1)}),
    (str, "\ud800"),
    (list[str], ["ok", "\udfff"]),
    (Any, {"a": "\ud800"}),
    (dict[str, int], {"\ud800": 1}),
    (str | bytes, b"abc"),
    (str | dt.date, dt.date(2024, 1, 1)),
    (Pair, Pair.ONE),
]


@pytest.mark.parametrize(("kind", "value"), REFUSED, ids=[str(n) for n, _ in enumerate(REFUSED)])
def test_what_would_not_come_back_is_refused(kind: Any, value: Any) -> None:
    """It is refused at the step that writes it, whole or as part of a model, and as an input."""
    made = create_model("Made", __base__=State, part=(kind | None if kind is not Any else Any, None))
    schema = Schema(made)
    values = schema.start({})[0]
    with pytest.raises(UnstorableError, match="`part` "):
        schema.update(values, {"part": value})
    with pytest.raises(UnstorableError, match="`part` "):
        schema.update(values, schema.handed(values).model_copy(update={"part": value}))
    with pytest.raises(UnstorableError, match="`part` "):
        schema.start({"part": value})


def test_whole_numbers_in_float_fields() -> None:
    """`x: float = 0` is what people write: the whole number is taken as the float that it stands for."""

    class Price(BaseModel):
        amount: float = 0

    class Cart(State):
        total: float = 0
        prices: list[Price] = []
        odds: dict[str, float] = {"a": 1}
        sum: Annotated[float, add] = 0

    update = Update(Cart, {}, {"prices": [Price()], "sum": 1})
    assert same(update.new, {"total": 0.0, "prices": [Price(amount=0.0)], "odds": {"a": 1.0}, "sum": 1.0})
    assert [name for name, (_, datas) in update.stored.items() if datas == ['[{"amount":0.0}]']] == ["prices"]

    class Typed(State):
        amount: Decimal = 0  # type: ignore[assignment]
        tags: set[str] = []  # type: ignore[assignment]

    assert Update(Typed, {}, {}).new == {"amount": Decimal(0), "tags": set()}

    class Wrong(State):
        name: str = None  # type: ignore[assignment]

    with pytest.raises(StateError, match=r"`name`: Input should be a valid string \(got None\)"):
        Schema(Wrong).start({})


def test_a_value_that_cannot_be_shown_is_told_all_the_same() -> None:
    """A `__repr__` that raises spoils no message."""

    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "(got a `Shy` whose repr() raises RuntimeError)" in refused(Desk, {}, {"plain": Shy()})


def test_what_a_custom_reducer_makes_is_frozen() -> None:
    """The state that it gives back says no like any other."""

    class Tops(State):
        best: Annotated[list[int], reducer(lambda old, delta: sorted([*old, *delta])[-2:])] = []

    update = Update(Tops, {}, {"best": [3, 1, 2]})
    assert update.new == {"best": [2, 3]}
    with pytest.raises(StateError, match="was refused"):
        update.new["best"].append(1)


@pytest.mark.parametrize("kind", [str, Any, Literal["a"]])
def test_subclasses_of_plain_types_do_not_slip_through(kind: Any) -> None:
    """A str that is more than a str comes back as a plain one, or is refused; it is never two things."""
    made = create_model("Made", __base__=State, part=(kind, "a"))
    try:
        update = Update(made, {}, {"part": Shout("a")})
    except StateError:
        return
    assert type(update.new["part"]) is str


def test_nan_equals_itself() -> None:
    """NaN comes back as NaN, also inside containers; setting it again is no change."""

    class Measured(State):
        x: float = 0
        xs: list[float] = []

    update = Update(Measured, {}, {"x": math.nan, "xs": [math.nan, 1]})
    assert math.isnan(update.new["x"])
    assert same(update.schema.load(update.schema.dump(update.new)), update.new)
    again = update.schema.update(update.new, update.schema.result(update.new))
    assert again == {}


def test_a_strict_model_stays_strict() -> None:
    """What strict mode refuses in Python is refused; what it has accepted is read back from JSON."""

    class Strict(State):
        model_config = ConfigDict(strict=True)
        n: int = 0
        when: dt.date | None = None
        pair: tuple[int, int] = (0, 0)
        colour: Colour = Colour.RED
        tags: Annotated[set[str], union] = set()

    assert "`n`: Input should be a valid integer" in refused(Strict, {}, {"n": "1"})
    assert "`pair`: Input should be a valid tuple" in refused(Strict, {}, {"pair": [1, 2]})
    returned = {"n": 2, "when": dt.date(2024, 1, 1), "pair": (1, 2), "colour": Colour.BLUE, "tags": {"a"}}
    update = Update(Strict, {}, returned)
    assert update.new == returned
    assert update.schema.load(update.schema.dump(update.new)) == returned


def test_a_frozen_model_is_a_state_like_any_other() -> None:
    """Its field validators, too, are run."""

    class Frozen(BaseModel):
        model_config = ConfigDict(frozen=True)
        x: int = 0
        name: str = ""

        @field_validator("name")
        @classmethod
        def _upper(cls, value: str) -> str:
            return value.upper()

    assert Update(Frozen, {}, {"x": 1, "name": "a"}).state == Frozen(x=1, name="A")
    assert Update(Frozen, {}, Frozen(x=5)).stored == {"x": ("set", ["5"])}


def test_aliases_are_for_inputs_only() -> None:
    """Updates and the stored state go by the fields' names."""

    class Named(State):
        x: int = Field(default=0, alias="X", serialization_alias="xx")

    assert "`X` is no field of `Named`; did you mean" not in refused(Named, {}, {"X": 1})
    assert Update(Named, {"X": 1}, {"x": 2}).stored == {"x": ("set", ["2"])}
    schema = Schema(Named)
    assert schema.dump({"x": 3}) == {"x": b"3"}
    assert schema.load({"x": b"3"}) == {"x": 3}


# -- anything at all (hypothesis) ----------------------------------------------------------------------------------

json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
odd = st.recursive(
    json_like | st.binary(max_size=4) | st.decimals() | st.datetimes() | st.uuids() | st.characters(categories=["Cs"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


class Anything(State):
    value: Any = None
    plain: float | int | str | bytes | None = None
    when: dt.datetime | None = None
    amount: Decimal | None = None


@given(odd)
def test_any_value_comes_back_or_is_refused(value: Any) -> None:
    """There is no third way: equal through and through in the next node and after loading, or an error."""
    schema = Schema(Anything)
    values = schema.start({})[0]
    try:
        writes = schema.update(values, {"value": value})
    except UnstorableError:
        return
    new = applied(schema.reducers, values, writes)
    assert same(new["value"], value)
    assert same(schema.load(schema.dump(new)), new)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "plain": st.floats() | st.integers() | st.text() | st.binary(max_size=3),
            "when": st.datetimes(timezones=st.timezones() | st.none()),
            "amount": st.decimals(),
        },
    )
)
def test_any_typed_value_comes_back_or_is_refused(returned: dict[str, Any]) -> None:
    """The same of values that the declared types turn into something else first."""
    schema = Schema(Anything)
    values = schema.start({})[0]
    try:
        writes = schema.update(values, returned)
    except StateError:
        return
    new = applied(schema.reducers, values, writes)
    assert same(schema.load(schema.dump(new)), new)


def _texts(*names: str) -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(names), max_size=3)


updates = st.fixed_dictionaries(
    {},
    optional={
        "plain": st.integers(),
        "notes": _texts("a", "b") | _texts("c").map(Replace),
        "line": _texts("a", "b"),
        "table": st.dictionaries(st.sampled_from("ab"), st.integers(), max_size=2),
        "total": st.integers() | st.integers().map(Replace),
        "seen": st.sets(st.integers(0, 3)),
        "best": st.integers(),
        "latest": st.sampled_from("xy"),
        "posts": st.lists(
            st.builds(Post, id=st.sampled_from(["", "1", "2"]), text=st.sampled_from("xy"))
            | st.builds(Remove, remove=st.sampled_from(["1", "9"])),
            max_size=3,
        ),
    },
)


@given(st.lists(updates, max_size=4))
def test_a_returned_model_says_what_the_mappings_said(steps: list[dict[str, Any]]) -> None:
    """Giving back the state that some updates lead to writes the same state, or is refused; never another."""
    schema = Schema(Desk)
    values = start = schema.start({"notes": ["s"], "posts": [Post(id="1")]})[0]
    for number, step in enumerate(steps):
        values = applied(schema.reducers, values, schema.update(values, step, key=f"r/{number}"))
    assert same(schema.load(schema.dump(values)), values)
    try:
        writes = schema.update(start, schema.result(values), key="r/whole")
    except StateError as error:
        assert "cannot be told as a delta" in str(error)  # noqa: PT017  # most are told, some are refused
        return
    assert same(applied(schema.reducers, start, writes), values)


def test_the_callable_in_use_is_typed() -> None:
    """`reducer` takes any function of two values."""
    fold: Callable[[Any, Any], Any] = max
    assert reducer(fold).fold(1, 2) == 2
