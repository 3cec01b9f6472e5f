"""Secrets in the state: which types and fields they are, how they are stored, and what is shown in their place.

A secret value goes through the journal whole, so that what resumes is what there was; but as `{"$secret": value}`, so
that whoever shows a record can mask it without the code that wrote it. Only a store that keeps secrets is given such.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at users' types and values, which are only known when it runs.)
from __future__ import annotations

import base64
import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin
from urllib.parse import quote

import pydantic
from pydantic import BaseModel
from pydantic_core import SchemaSerializer, from_json, to_json
from typing_extensions import is_typeddict

MASK: Final = "**********"
"""What is shown in place of a secret, as pydantic does."""

SEALED: Final = b'{"$secret":'
"""How the JSON of a secret value begins. What does not begin so may still be one, of before it was declared secret."""

ENCRYPT: Final = "pass store=EncryptedStore(SQLiteStore('runs.db'), keys=[...]), or take the secret from deps instead"
"""What to do where a secret would be written down in clear."""

_TYPES: Final = (pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)


class Secret:
    """The class of `secret`, which marks a field.

    Example:
        >>> from typing import Annotated
        >>> from flowagent import State, secret
        >>> class Login(State):
        ...     user: str
        ...     password: Annotated[str, secret]
        >>> Login(user="ada", password="hunter2")
        Login(user='ada', password='**********')
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "secret"


secret: Final = Secret()
"""Marks a field of any type as secret: `Annotated[str, secret]`; `SecretStr` and its kin are so by themselves.

Such a field is stored only encrypted, and shown as asterisks by all that flowagent shows: events, errors, pictures,
histories, the command line, `repr` of a `State`. What your own code prints or raises is your own.
"""


# -- types -----------------------------------------------------------------------------------------------------------


@cache
def secrets_of(model: type[BaseModel]) -> frozenset[str]:
    """The names of a model's secret fields."""
    return frozenset(
        name for name, info in model.model_fields.items() if is_marked(info.metadata) or holds_secret(info.annotation)
    )


@cache
def marked_in(model: type[BaseModel]) -> frozenset[str]:
    """The names of the fields of a model that are marked; secrets by their type show a mask by themselves."""
    return frozenset(name for name, info in model.model_fields.items() if is_marked(info.metadata))


def is_marked(metadata: Iterable[Any]) -> bool:
    """Whether what is annotated to a type marks it as secret."""
    return any(extra is secret for extra in metadata)


def holds_secret(kind: Any) -> bool:
    """Whether there can be a secret somewhere in the values of a type."""
    return _holds(kind, set())


def _holds(kind: Any, seen: set[Any]) -> bool:
    if is_marked(getattr(kind, "__metadata__", ())):
        return True
    value = getattr(kind, "__value__", kind)  # a `type` statement
    if get_origin(value) is Literal:
        return False
    parts = [value] if value is kind else [value, kind]
    return any(_is_secret(get_origin(part) or part, seen) for part in parts) or any(
        _holds(arg, seen) for part in parts for arg in get_args(part)
    )


def _is_secret(part: Any, seen: set[Any]) -> bool:
    if not isinstance(part, type) or part in seen:
        return False
    seen.add(part)
    return issubclass(part, _TYPES) or any(_holds(inner, seen) for inner in _inside(part))


def _inside(part: type) -> Iterator[Any]:
    """The types of the fields of a class."""
    if issubclass(part, BaseModel):
        for info in part.model_fields.values():
            yield pydantic.SecretStr if is_marked(info.metadata) else info.annotation
    elif dataclasses.is_dataclass(part) or is_typeddict(part) or hasattr(part, "_make"):
        try:
            yield from typing.get_type_hints(part, include_extras=True).values()
        except NameError:  # a name of the user's that is not there at run time: pydantic will say so
            return


def shown(state: BaseModel) -> Any:
    """A state as plain JSON data, with the mask in place of each secret field."""
    data = from_json(state.model_dump_json(warnings=False))
    for name in secrets_of(type(state)):
        info = type(state).model_fields[name]
        for key in (name, info.serialization_alias, info.alias):
            if key in data:
                data[key] = MASK
    return data


# -- values ----------------------------------------------------------------------------------------------------------


def encoder(serializer: SchemaSerializer) -> Callable[[Any], bytes]:
    """Writes values with secrets in them as JSON, which pydantic's own way would mask."""

    def encode(value: Any) -> bytes:
        plain = serializer.to_python(value, by_alias=False, round_trip=True, warnings=False)
        return to_json(revealed(plain), bytes_mode="base64", inf_nan_mode="strings")

    return encode


def revealed(value: Any) -> Any:
    """Plain data with what its secrets hide in their place."""
    if isinstance(value, _TYPES):
        return revealed(value.get_secret_value())
    if isinstance(value, BaseModel):
        return revealed(value.model_dump(by_alias=False, round_trip=True, warnings=False))
    if isinstance(value, dict):
        return {revealed(key): revealed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [revealed(item) for item in value]
    return value


def sealed(data: bytes) -> bytes:
    """The JSON of a value as that of a secret one."""
    return SEALED + data + b"}"


def unsealed(data: bytes | str) -> bytes | str:
    """The JSON of a secret value as that of a plain one."""
    if isinstance(data, str):
        return data[len(SEALED) : -1] if data.startswith(SEALED.decode()) else data
    return data[len(SEALED) : -1] if data.startswith(SEALED) else data


def opened(plain: Any) -> Any:
    """The plain data of a secret value, or of any other as it is."""
    return plain["$secret"] if isinstance(plain, dict) and len(plain) == 1 and "$secret" in plain else plain


def masked(plain: Any) -> Any:
    """Plain data of a record, with the mask in place of each secret value."""
    if isinstance(plain, dict):
        if len(plain) == 1 and "$secret" in plain:
            return MASK
        return {key: masked(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [masked(value) for value in plain]
    return plain


def asks_secret(schema: Any) -> bool:
    """Whether a JSON schema is of something that is written and never shown, as those of secret types are."""
    if isinstance(schema, dict):
        return schema.get("writeOnly") is True or any(asks_secret(part) for part in schema.values())
    return isinstance(schema, list) and any(asks_secret(part) for part in schema)


# -- texts -----------------------------------------------------------------------------------------------------------


def scrubbed(text: str, secrets: Iterable[str], *, shortest: int = 4) -> str:
    """A text with the mask in place of each secret: in clear, in base64 and as part of a URL.

    Args:
        text: what may quote them.
        secrets: the secrets in clear.
        shortest: the length of the shortest one that is looked for: shorter ones may be part of any word.

    Example:
        >>> scrubbed("no user ada with password hunter2", ["hunter2"])
        'no user ada with password **********'
    """
    for one in sorted(set(secrets), key=len, reverse=True):
        if len(one) >= shortest:
            for form in _forms(one):
                text = text.replace(form, MASK)
    return text


def _forms(text: str) -> tuple[str, ...]:
    data = text.encode(errors="surrogatepass")
    plain, urlsafe = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    return (text, plain, plain.rstrip("="), urlsafe, urlsafe.rstrip("="), quote(data, safe=""))


class Masked:
    """Stands for a secret value in a text with places to fill in, whatever part of it the text wants."""

    def __getattr__(self, name: str) -> Masked:
        return self

    def __getitem__(self, key: object) -> Masked:
        return self

    def __format__(self, spec: str) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    __repr__ = __str__
