"""Secrets in the state: which fields are secret, how their values travel, and where a definition would let one out."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field, Secret, SecretBytes, SecretStr, field_validator, model_validator
from typing_extensions import TypedDict

from flowagent import END, START, Context, Graph, Send, State, Update, append, merge, secret
from flowagent.core.fields import Codec, SecretCodec, codec_of
from flowagent.core.schema import Schema, schema_of
from flowagent.core.secret import MASK, asks_secret, masked, secrets_of
from flowagent.errors import GraphError, RunFailed, StateError, UnstorableError
from flowagent.stores import EncryptedStore, MemoryStore, SQLiteStore, new_key

HIDDEN = "hunter2"
LOSSLESS = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")


class Account(BaseModel):
    name: str
    password: SecretStr
    since: dt.date = dt.date(2026, 1, 1)
    next: Account | None = None


class Noted(State):
    word: Annotated[str, secret]


@dataclasses.dataclass
class Pair:
    left: SecretStr
    right: int


class Point(NamedTuple):
    x: SecretStr


class Box(TypedDict):
    inside: SecretStr


def _schema(model: type[BaseModel]) -> Schema:
    return schema_of(model)


# -- what is secret ----------------------------------------------------------------------------------------------------

SECRET_KINDS: list[Any] = [
    SecretStr,
    SecretBytes,
    Secret[int],
    SecretStr | None,
    dict[str, list[SecretStr]],
    tuple[int, SecretBytes],
    Account,
    list[Account],
    Noted,
    Pair,
    Point,
    Box,
    Annotated[str, secret],
    list[Annotated[str, secret]],
]


@pytest.mark.parametrize("kind", SECRET_KINDS, ids=str)
def test_a_type_with_a_secret_anywhere_in_it_is_secret(kind: Any) -> None:
    """In containers, unions, models, dataclasses, named tuples and typed dicts."""
    assert isinstance(codec_of(kind, LOSSLESS), SecretCodec)


@pytest.mark.parametrize("kind", [str, list[str], Any, Literal["secret"], dt.date, State, dict[str, int | None]])
def test_other_types_have_the_codec_that_they_always_had(kind: Any) -> None:
    """A model without secrets pays nothing."""
    assert type(codec_of(kind, LOSSLESS)) is Codec


def test_a_model_tells_its_secret_fields() -> None:
    """Those of a secret type, and those that are marked, with a reducer or without."""

    class Model(State):
        a: str = ""
        b: SecretStr = SecretStr("")
        c: Annotated[list[str], append, secret] = []
        d: Annotated[dict[str, SecretStr], merge] = {}

    model = cast("type[BaseModel]", Model)
    assert secrets_of(model) == _schema(model).secrets == {"b", "c", "d"}


# -- how values travel -------------------------------------------------------------------------------------------------

VALUES: list[tuple[Any, Any]] = [
    (SecretStr, SecretStr("\N{OWL} \x00 hunter2")),
    (SecretBytes, SecretBytes(bytes(range(256)))),
    (Secret[int], Secret[int](2**70)),
    (Secret[dt.date], Secret[dt.date](dt.date(2026, 2, 28))),
    (SecretStr | None, None),
    (list[SecretStr | int], [1, SecretStr("x")]),
    (dict[str, SecretBytes], {"a": SecretBytes(b"\xff")}),
    (set[SecretStr], {SecretStr("x"), SecretStr("y")}),
    (Account, Account(name="a", password=SecretStr("x"), next=Account(name="b", password=SecretStr("y")))),
    (Secret[Account], Secret[Account](Account(name="a", password=SecretStr("x")))),
    (Noted, Noted(word="x")),
    (Pair, Pair(SecretStr("x"), 1)),
    (Point, Point(SecretStr("x"))),
    (Box, {"inside": SecretStr("x")}),
    (Annotated[str, secret], "x"),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_a_secret_makes_the_way_to_a_store_and_back_whole(kind: Any, value: Any) -> None:
    """What comes back is equal, the bytes say that they are secret, and encoding again gives the same bytes."""
    codec = codec_of(kind, LOSSLESS)
    back, data = codec.through(codec.validate(value))
    assert (back, data[:11]) == (value, b'{"$secret":')
    assert codec.encode(codec.decode(data)) == data


def test_what_was_stored_before_a_field_was_secret_is_read() -> None:
    """A field that is marked later finds its old values."""
    assert codec_of(str, LOSSLESS, secret=True).decode(b'"old"') == "old"


def test_a_secret_that_would_not_come_back_is_refused_without_being_shown() -> None:
    """Neither the text nor the chain of causes quotes the value."""
    with pytest.raises(UnstorableError) as caught:
        codec_of(Any, LOSSLESS, secret=True).through({HIDDEN: object()})
    assert (HIDDEN in str(caught.value), caught.value.__cause__, caught.value.__suppress_context__) == (
        False,
        None,
        True,
    )


def test_records_are_masked_wherever_a_secret_stands() -> None:
    """Only what was sealed, at any depth."""
    plain = {"a": [{"$secret": "x"}, {"$secret": 1, "b": 2}], "c": {"$secret": {"d": 1}}, "e": "f"}
    assert masked(plain) == {"a": [MASK, {"$secret": 1, "b": 2}], "c": MASK, "e": "f"}


@pytest.mark.parametrize(("kind", "asks"), [(SecretStr, True), (list[SecretStr], True), (Account, True), (str, False)])
def test_a_question_tells_by_its_schema_that_the_answer_is_secret(kind: Any, asks: bool) -> None:
    """As pydantic's JSON schemas of secret types do."""
    assert asks_secret(codec_of(kind, LOSSLESS).adapter.json_schema()) is asks


# -- errors ------------------------------------------------------------------------------------------------------------


class Guarded(State):
    name: str = ""
    word: Annotated[str, secret, Field(min_length=3, alias="theWord")] = "three"
    choice: Annotated[Literal["a", "b"] | dict[str, int], secret] = "a"
    words: Annotated[list[SecretStr], append] = []

    @field_validator("name")
    @classmethod
    def refuse(cls, name: str) -> str:
        if name == "bad":
            raise ValueError("a bad name")
        return name

    @model_validator(mode="after")
    def together(self) -> Guarded:
        if self.name == "both" and self.choice != "a":
            raise ValueError("not both")
        return self


def _told_by(work: Any) -> str:
    """All that an error says, and all that its causes say."""
    with pytest.raises(StateError) as caught:
        work()
    error: BaseException | None = caught.value
    told: list[str] = []
    while error is not None:
        told.append(f"{error} {error!r} {vars(error)}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(told)


BAD: list[Mapping[str, Any]] = [
    {"word": 5 * [HIDDEN]},
    {"choice": HIDDEN},
    {"choice": {HIDDEN: HIDDEN}},
    {"words": [SecretStr("x"), [HIDDEN]]},
    {"words": HIDDEN},
    {"name": "both", "choice": {HIDDEN: 1}},
    {"name": "bad", "choice": {HIDDEN: 1}},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("way", ["input", "update"])
def test_no_error_about_a_state_with_secrets_quotes_one(bad: Mapping[str, Any], way: str) -> None:
    """Of the wrong type, too short, with secret keys, refused by a validator of another field or of the whole."""
    schema = _schema(Guarded)
    values, _ = schema.start(None)
    if way == "input":
        told = _told_by(lambda: schema.start({"theWord" if key == "word" else key: part for key, part in bad.items()}))
    else:
        told = _told_by(lambda: schema.update(values, dict(bad)))
    assert HIDDEN not in told
    assert any(name in told for name in ("word", "theWord", "choice", "words", "not both", "a bad name"))


def test_a_stored_state_that_does_not_fit_shows_no_secret() -> None:
    """Neither the problems nor the raw data, which tells what is no secret."""
    schema = _schema(Guarded)
    told = _told_by(lambda: schema.load({"words": b'{"$secret":"hunter2"}', "name": b"5", "choice": b'"hunter2"'}))
    assert HIDDEN not in told
    assert "'name': '5'" in told


def test_errors_of_models_without_secrets_say_all_that_they_did() -> None:
    """Input and cause stay."""

    class Open(State):
        n: int = 0

    with pytest.raises(StateError, match=r"`n`: Input should be a valid integer.* \(got 'seven'\)") as caught:
        _schema(Open).update({"n": 0}, {"n": "seven"})
    assert caught.value.__cause__ is not None


# -- runs --------------------------------------------------------------------------------------------------------------


class Plain(State):
    n: int = 0


def _chained(*nodes: Any, state: type[BaseModel] = Plain) -> Graph[Any, Any]:
    graph = Graph("g", state)
    graph.chain(START, *[graph.node(node) for node in nodes], END)
    return graph


def test_a_store_that_cannot_keep_secrets_refuses_them_at_the_start(tmp_path: Any) -> None:
    """The error names every field and the remedy, and no file is made; a store in memory is as good as the state."""
    graph = Graph("g", Noted)

    @graph.node
    def look(state: Noted) -> Update:
        return {"word": state.word + "!"}

    graph.chain(START, look, END)
    with pytest.raises(GraphError) as caught:
        graph.run_sync({"word": HIDDEN}, store=tmp_path / "runs.db")
    assert caught.value.faults[0].startswith("field `word` of `Noted` is secret, and SQLite store `")
    assert caught.value.faults[0].endswith(
        "is not encrypted: pass store=EncryptedStore(SQLiteStore('runs.db'), keys=[...]), or take the secret from deps "
        "instead"
    )
    assert list(tmp_path.iterdir()) == []
    encrypted = EncryptedStore(SQLiteStore(tmp_path / "runs.db"), [new_key()])
    for store in (None, MemoryStore(), encrypted):
        options: dict[str, Any] = {} if store is None else {"store": store}
        assert graph.run_sync({"word": HIDDEN}, **options).state.word == f"{HIDDEN}!"


def test_secrets_that_only_a_node_makes_are_refused_by_an_open_store(tmp_path: Any) -> None:
    """The result of a step before the step is done, and a question before it is asked."""
    done: list[str] = []

    def token() -> SecretStr:
        done.append("token")
        return SecretStr(HIDDEN)

    def steps(state: Plain, ctx: Context) -> Update:
        return {"n": len(ctx.step_sync("token", token).get_secret_value())}

    def asks(state: Plain, ctx: Context) -> Update:
        return {"n": len(ctx.ask_sync("token", "Which?", SecretStr).get_secret_value())}

    for node, what in ((steps, "the result of step `token`"), (asks, "the answer to `token`")):
        graph = _chained(node)
        with pytest.raises(RunFailed) as caught:
            graph.run_sync(store=tmp_path / "runs.db")
        assert f"{what} is secret, and the store of this run is not encrypted" in str(caught.value)
    assert done == []
    assert _chained(steps).run_sync(store=MemoryStore()).state == Plain(n=7)


def test_items_are_secret_if_their_type_is(tmp_path: Any) -> None:
    """What a router sends: kept only where secrets are, and masked where an item does not fit."""
    graph = Graph("g", Plain)
    sent: list[Any] = [SecretStr(HIDDEN)]

    @graph.router(to=["take"])
    def send(state: Plain) -> list[Send]:
        return [Send("take", item) for item in sent]

    @graph.node(item=True)
    def take(item: SecretStr) -> Update:
        return {"n": len(item.get_secret_value())}

    graph.chain(START, send)
    graph.chain(take, END)
    with pytest.raises(GraphError, match="the items of node `take` is secret"):
        graph.run_sync(store=tmp_path / "runs.db")
    assert graph.run_sync(store=MemoryStore()).state == Plain(n=7)
    sent[:] = [[HIDDEN]]
    with pytest.raises(RunFailed) as caught:
        graph.run_sync(store=MemoryStore())
    assert HIDDEN not in str(caught.value)


def test_what_a_node_returned_by_mistake_is_not_quoted_where_there_are_secrets() -> None:
    """Its type is told; where a state has no secrets, all of it."""

    def told(state: type[State]) -> str:
        graph = Graph("g", state)

        def jump(given: Any) -> Any:
            return {"word": HIDDEN}

        graph.node(jump, to=[END])
        graph.chain(START, "jump")
        with pytest.raises(RunFailed) as caught:
            graph.run_sync({"word": ""})
        return str(caught.value)

    assert "must return a Goto(target, update), not a `dict`" in told(Noted)
    assert "must return a Goto(target, update), not {'word': 'hunter2'}" in told(Open)


def test_the_result_of_a_side_effect_that_a_person_gives_is_masked_in_the_history() -> None:
    """An answer to what became of a call may hold any field, so all of it is secret; the node's update is as given."""
    store, graph = MemoryStore(), Graph("g", Noted)

    @graph.node(once=True)
    def pay(state: Noted) -> Update:
        raise OSError("the line is dead")

    graph.chain(START, pay, END)
    (question,) = graph.run_sync({"word": ""}, store=store, run_id="r").questions
    run = graph.resume_sync("r", answers={question.id: {"result": {"word": HIDDEN}}}, store=store)
    assert (run.status, run.state.word) == ("completed", HIDDEN)
    assert [step.detail for step in run.history if step.kind == "answered"] == [{"result": MASK}]
    assert HIDDEN not in repr(run.history)


# -- what check says ---------------------------------------------------------------------------------------------------


class Open(State):
    word: str = ""


def _faults(graph: Graph[Any, Any]) -> tuple[str, ...]:
    with pytest.raises(GraphError) as caught:
        graph.check()
    return caught.value.faults


def _nested(outer: type[State], inner: type[State], **options: Any) -> Graph[Any, Any]:
    child, graph = Graph("child", inner), Graph("g", outer)

    def look(state: Any) -> Update:
        return None

    child.chain(START, child.node(look), END)
    graph.node(child, name="nested", **options)
    graph.chain(START, "nested", END)
    return graph


@pytest.mark.parametrize(
    ("graph", "model"),
    [
        (_nested(Noted, Open), "Open"),
        (_nested(Noted, Open, input={"word": "word"}, output={}), "Open"),
        (_nested(Open, Noted), "Open"),
        (_nested(Open, Noted, output={"word": "word"}, input={}), "Open"),
    ],
)
def test_a_secret_that_would_lose_its_mark_on_the_way_is_a_fault(graph: Graph[Any, Any], model: str) -> None:
    """Into a nested graph and out of it, by name or as it was wired."""
    assert _faults(graph) == (
        f"node `nested` hands the secret `word` on as `word` of `{model}`, which is no secret: mark it too, "
        "Annotated[..., secret]",
    )


def test_a_secret_that_keeps_its_mark_is_none() -> None:
    """Also where a field that is not secret goes into one that is."""
    _nested(Noted, Noted).check()
    _nested(Open, Noted, output={}).check()


def test_a_marked_field_of_a_plain_model_has_to_be_kept_out_of_its_repr() -> None:
    """A `State` does that by itself; secret types do too."""

    class Shown(BaseModel):
        word: Annotated[str, secret] = ""
        other: SecretStr = SecretStr("")

    class Kept(BaseModel):
        word: Annotated[str, secret, Field(repr=False)] = ""

    def look(state: Any) -> Update:
        return None

    assert _faults(_chained(look, state=Shown)) == (
        "field `word` is secret, and repr() of a `Shown` would show it: add Field(repr=False), or derive the model "
        "from State",
    )
    _chained(look, state=Kept).check()
