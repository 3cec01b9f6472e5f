"""One field of a state model: how its values are validated, written as JSON and read back.

What is stored is plain JSON by the field's declared type. What comes back is decided by that type alone, never
by the data, and without running the validators of the state model again: they had their say when it was written.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Any, ClassVar, cast, get_args, get_origin

import pydantic
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, ValidationError, to_json

from flowagent.core.freezing import freezer
from flowagent.core.frozen import same
from flowagent.core.reducers import Reducer, is_tuple
from flowagent.core.secret import Secret, encoder, holds_secret, is_marked, masked, sealed, unsealed
from flowagent.errors import UnstorableError

_LOSSLESS = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")
_KEPT_SETTINGS = (
    "strict",
    "str_strip_whitespace",
    "str_to_lower",
    "str_to_upper",
    "str_min_length",
    "str_max_length",
    "use_enum_values",
    "coerce_numbers_to_str",
    "arbitrary_types_allowed",
    "allow_inf_nan",
    "regex_engine",
)
_EXACT = frozenset({int, str, bool, type(None)})


class Codec:
    """Validates values of one type, writes them as JSON and reads them back, and checks that nothing was lost."""

    __slots__ = ("_freeze", "_sequence", "adapter", "encode", "exact", "validate")

    secret: ClassVar[bool] = False
    """Whether values are stored as secrets are, and shown in no message."""

    def __init__(self, kind: Any, config: ConfigDict) -> None:
        self.adapter = _adapter(kind, config)
        self.validate: Callable[[Any], Any] = self.adapter.validator.validate_python
        # By the fields' own names and without what is only computed, so that it can be read back; whether it came
        # back right is judged by comparing, which sees more than the serializer's warnings.
        self.encode: Callable[[Any], bytes] = functools.partial(
            self.adapter.serializer.to_json, by_alias=False, round_trip=True, warnings=False
        )
        # Values of these types are the same before and after JSON, so they need not make the journey.
        self.exact = _is_exact(kind)
        if self.exact:
            self.encode = to_json
        self._freeze = freezer(kind)
        self._sequence = (get_origin(kind) or kind) in (Sequence, typing.Sequence)

    def decode(self, data: bytes | str) -> Any:
        """Read JSON by the declared type; the result is frozen.

        Raises:
            pydantic.ValidationError: the data does not fit the type.
        """
        return self._freeze(self.adapter.validator.validate_json(data, by_alias=False, by_name=True))

    def through(self, value: Any) -> tuple[Any, bytes]:
        """What the store will give back for a value, and the JSON bytes.

        Raises:
            UnstorableError: the value would not come back as it is.
        """
        if self._sequence and isinstance(value, tuple):
            value = list(cast("tuple[Any, ...]", value))
        try:
            data = self.encode(value)
            if self.exact:
                return value, data
            back = self.decode(data)
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            raise UnstorableError(f"cannot be written as JSON: {error}") from error
        except Exception as error:
            raise UnstorableError(f"cannot be read back from its JSON: {told(error)}") from error
        if same(value, back):
            return back, data
        if same(value, back, widen=True):
            return back, self.encode(back)
        raise UnstorableError(
            f"would come back from the store as {short(back)} in place of {short(value)}: declare its exact "
            "type (a tagged union for subclasses), and keep what is not data, such as private attributes, out of it"
        )


class SecretCodec(Codec):
    """A codec of values that nobody may see: they are stored sealed, and no error quotes them."""

    __slots__ = ()

    secret = True

    def __init__(self, kind: Any, config: ConfigDict) -> None:
        super().__init__(kind, config)
        encode = encoder(self.adapter.serializer) if holds_secret(kind) else self.encode
        self.encode = lambda value: sealed(encode(value))

    def decode(self, data: bytes | str) -> Any:
        """Read JSON by the declared type, sealed or not; see `Codec.decode`."""
        return super().decode(unsealed(data))

    def through(self, value: Any) -> tuple[Any, bytes]:
        """What the store will give back for a value, and the JSON bytes; see `Codec.through`."""
        try:
            return super().through(value)
        except UnstorableError:
            # Neither as the cause nor in words: both would quote the value.
            raise UnstorableError(
                "would not come back from the store as it is (it is secret, so it is not shown): declare its exact type"
            ) from None


def codec_of(kind: Any, config: ConfigDict, *, secret: bool = False) -> Codec:
    """The codec of a type; of a secret one if it says so itself, or `secret` does."""
    return SecretCodec(kind, config) if secret or holds_secret(kind) else Codec(kind, config)


def _adapter(kind: Any, config: ConfigDict) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(kind, config=config)
    except pydantic.PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(kind)  # models, dataclasses and typed dicts bring their own settings


def _is_exact(kind: Any) -> bool:
    if get_origin(kind) is typing.Literal:
        return all(type(value) in _EXACT for value in get_args(kind))
    # A str may hold lone surrogates, but then writing it as JSON already fails.
    return kind in _EXACT


def short(value: object, longest: int = 80) -> str:
    """A value for a message: its `repr`, cut off where it gets long."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  # a `__repr__` is user code, and the message must be told all the same
        text = f"a `{type(value).__name__}` whose repr() raises {type(error).__name__}"
    return cut(text, longest)


def cut(text: str, longest: int) -> str:
    """A text for a message, cut off where it gets long."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def problems_of(error: ValidationError, hidden: bool | Collection[str] = False) -> str:
    """pydantic's findings on one line, without its links.

    Args:
        error: what pydantic raised.
        hidden: whether the value is secret; or the keys of a model that are. Then no input is quoted, and of what is
            secret only the kind of problem is told: even pydantic's messages, and places in the value, may quote it.
    """
    parts: list[str] = []
    for found in error.errors(include_url=False):
        loc = found["loc"]
        if hidden is True or (hidden and loc and loc[0] in hidden):
            where, what = "" if hidden is True else f"{loc[0]}: ", f"{found['type']} (secret, so not shown)"
        else:
            where = "".join(f"{part}." for part in loc)[:-1] + (": " if loc else "")
            what = found["msg"] if hidden else f"{found['msg']} (got {short(masked(found['input']))})"
        parts.append(where + what)
    return "; ".join(parts)


def text_of(error: BaseException) -> str:
    """An exception's text, as a store can write it. Making it is the user's code, too, and may raise."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception as again:  # noqa: BLE001  # whatever that is, the failure itself must be told
        return f"(its text cannot be made: {type(again).__name__})"


def told(error: Exception, hidden: bool | Collection[str] = False) -> str:
    """What a validator, reducer or other code of the user's raised, on one line; see `problems_of`."""
    if isinstance(error, ValidationError):
        return problems_of(error, hidden)
    return type(error).__name__ if hidden is True else f"{type(error).__name__}: {text_of(error)}"


def aliases_of(info: FieldInfo) -> Iterator[str]:
    """The keys of an input, beside its name, under which a field is looked for."""
    known = [info.alias, info.validation_alias]
    if isinstance(info.validation_alias, pydantic.AliasChoices):
        known += info.validation_alias.choices
    for alias in known:
        if isinstance(alias, pydantic.AliasPath):
            yield str(alias.path[0])
        elif isinstance(alias, str):
            yield alias


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateField:
    """One field of a state model.

    Args:
        name: as in the model.
        reducer: how its writes meet, or None: then a later write replaces.
        value: the codec of the whole value, without the field's constraints and validators.
        delta: the codec of what a mapping writes to it; that of `value` where there is no reducer.
        check: validates a whole value by the field's type, constraints and annotated validators.
        guarded: whether there are constraints or validators to hold a folded value to.
        plain: whether a written value only has to be of the type, and is its own way to JSON and back.
        secret: whether nobody may see its values.
        decorated: whether the model has `@field_validator`s for it, which only the model can run.
    """

    name: str
    reducer: Reducer | None
    value: Codec
    delta: Codec
    check: Callable[[Any], Any]
    guarded: bool
    plain: bool
    decorated: bool
    secret: bool = False


def read_field(model: type[BaseModel], name: str, info: FieldInfo) -> StateField:
    """Compile one field of a model."""
    reducers = [extra for extra in info.metadata if isinstance(extra, Reducer)]
    others = [extra for extra in info.metadata if not isinstance(extra, (Reducer, Secret))]
    reducer = reducers[0] if reducers else None
    config = _config(model)
    secret = is_marked(info.metadata) or holds_secret(info.annotation)
    value = codec_of(_tagged(info), config, secret=secret)
    delta = value if reducer is None else codec_of(reducer.delta_type(info.annotation), config, secret=secret)
    constrained = _adapter(Annotated[(info.annotation, *others)], config) if others else value.adapter
    decorated = any(name in validator.info.fields for validator in _field_validators(model))
    guarded = bool(others) or decorated or (reducer is not None and not reducer.trusted)
    return StateField(
        name=name,
        reducer=reducer,
        value=value,
        delta=delta,
        check=constrained.validator.validate_python,
        guarded=guarded,
        plain=reducer is None and value.exact and not guarded,
        decorated=decorated,
        secret=secret,
    )


def _tagged(info: FieldInfo) -> Any:
    """The field's type; of all that is annotated to it, only the discriminator decides what data becomes."""
    if info.discriminator is None:
        return info.annotation
    return Annotated[info.annotation, pydantic.Field(discriminator=info.discriminator)]


def _field_validators(model: type[BaseModel]) -> Iterator[Any]:
    return iter(model.__pydantic_decorators__.field_validators.values())


def _config(model: type[BaseModel]) -> ConfigDict:
    kept = {key: setting for key, setting in model.model_config.items() if key in _KEPT_SETTINGS}
    return cast("ConfigDict", {**_LOSSLESS, **kept})


# -- what check() says of a field --------------------------------------------------------------------------------


def faults_of_field(name: str, info: FieldInfo) -> Iterator[str]:
    """What is wrong with the declaration of a field, for `check`."""
    reducers = [extra for extra in info.metadata if isinstance(extra, Reducer)]
    if len(reducers) > 1:
        yield f"field `{name}` declares {len(reducers)} reducers; keep one"
    for extra in info.metadata:
        if _is_bare_callable(extra):
            label = getattr(extra, "__name__", repr(extra))
            yield (
                f"field `{name}` is annotated with the plain function `{label}`, which nothing would call: "
                f"write Annotated[..., reducer({label})]"
            )
    if any(isinstance(extra, Reducer) for extra in _inner_metadata(info.annotation)):
        yield f"field `{name}` hides its reducer inside the type: write Annotated[whole type, reducer]"
    if (reason := unstorable(info.annotation)) is not None:
        yield f"field `{name}` cannot be stored: {reason}"
    yield from _misfits(name, reducers, info.annotation)


def _misfits(name: str, reducers: list[Reducer], annotation: Any) -> Iterator[str]:
    if not reducers or annotation is Any:
        return
    wanted: dict[str, tuple[tuple[type, ...], str]] = {
        "append": ((list, tuple, Sequence), "a list, tuple or Sequence"),
        "messages": ((list, Sequence), "a list"),
        "merge": ((dict, typing.Mapping, typing.MutableMapping), "a dict"),
        "union": ((set, frozenset), "a set"),
    }
    known = wanted.get(reducers[0].name)
    if known is None:
        return
    options = [part for part in _alternatives(annotation) if part is not type(None)]
    bad = [part for part in options if _origin(part) not in tuple(_origin(kind) for kind in known[0])]
    if bad:
        kind = short(annotation)
        yield f"field `{name}` uses `{reducers[0].name}`, which needs {known[1]}, but is declared as {kind}"
    elif len(options) < len(_alternatives(annotation)) and any(_origin(part) in (tuple, frozenset) for part in options):
        kind = short(options[0])
        yield f"field `{name}` uses `{reducers[0].name}` and may be None: let an empty {kind} be its beginning"
    elif reducers[0].name == "append" and any(is_tuple(part) and Ellipsis not in get_args(part) for part in options):
        yield f"field `{name}` uses `append` on a tuple of fixed length; write tuple[X, ...]"


def _origin(kind: Any) -> Any:
    return get_origin(kind) or kind


def _alternatives(kind: Any) -> tuple[Any, ...]:
    origin = get_origin(kind)
    if origin is typing.Union or str(origin) == "<class 'types.UnionType'>":
        return get_args(kind)
    return (kind,)


def _is_bare_callable(extra: Any) -> bool:
    """A function where pydantic would look for metadata. Classes and instances there are somebody's markers."""
    return callable(extra) and not isinstance(extra, type) and hasattr(extra, "__name__")


def _inner_metadata(kind: Any) -> Iterator[Any]:
    for part in _parts(kind):
        yield from getattr(part, "__metadata__", ())


def _parts(kind: Any) -> Iterator[Any]:
    """A type and all types that it is built of."""
    yield kind
    for arg in get_args(kind):
        if not isinstance(arg, (str, int, bytes)):
            yield from _parts(arg)


def unstorable(annotation: Any) -> str | None:
    """Why values of a type can never make the way to a store and back, or None."""
    try:
        schema = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True)).core_schema
    except pydantic.PydanticUserError:
        try:
            schema = TypeAdapter(annotation).core_schema
        except pydantic.PydanticUserError as error:
            return str(error).splitlines()[0]
    return _closed_door(cast("dict[str, Any]", schema))


_CLOSED = {
    "is-instance": "instances of `{cls}` have no JSON form that pydantic knows",
    "is-subclass": "a class is not data",
    "callable": "a function is not data",
    "generator": "an iterator can be read only once; use a list",
}


def _closed_door(schema: Any) -> str | None:
    """The first thing in a core schema that cannot make the way to JSON and back."""
    if isinstance(schema, list):
        return next((found for part in cast("list[Any]", schema) if (found := _closed_door(part))), None)
    if not isinstance(schema, dict):
        return None
    node = cast("dict[str, Any]", schema)
    reason = _CLOSED.get(node.get("type", "")) if isinstance(node.get("type"), str) else None
    if reason and "serialization" not in node:
        return reason.format(cls=getattr(node.get("cls"), "__name__", node.get("cls")))
    if "serialization" in node or node.get("type") == "json-or-python":
        return _closed_door(node.get("json_schema"))
    inner = [part for key, part in node.items() if key not in ("metadata", "serialization", "ref", "cls", "config")]
    return next((found for part in inner if isinstance(part, (dict, list)) and (found := _closed_door(part))), None)
