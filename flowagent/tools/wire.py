"""How arguments are written into a request: the styles of OpenAPI for paths, queries, headers, cookies and forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast
from urllib.parse import quote

from flowagent.errors import ToolError

Where = Literal["path", "query", "header", "cookie"]

STYLES: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The styles that a place knows; the first one is its default."""

_SEPARATORS: Final = {"form": ",", "simple": ",", "spaceDelimited": "%20", "pipeDelimited": "|", "label": "."}
_RESERVED: Final = ":/?#[]@!$'()*,;"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument that does not go into the body.

    Args:
        argument: what the model calls it.
        key: what it is called in the request.
        where: where it goes.
        style: how lists and objects are written.
        explode: whether each of their parts is written apart.
        as_json: whether it is written as JSON text.
        reserved: whether characters with a meaning in URLs are left as they are.
    """

    argument: str
    key: str
    where: Where
    style: str = "form"
    explode: bool = False
    as_json: bool = False
    reserved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The argument that is the body.

    Args:
        argument: what the model calls it.
        media_type: how it is written.
        json: whether that is JSON, or else a form, or else plain text.
    """

    argument: str
    media_type: str
    kind: Literal["json", "form", "text"]


@dataclass(slots=True)
class Written:
    """A request as far as its arguments make it."""

    path: str
    query: list[str] = field(default_factory=list[str])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cookies: list[str] = field(default_factory=list[str])
    content: bytes = b""


def write(path: str, parameters: Iterable[Parameter], body: Body | None, arguments: Mapping[str, Any]) -> Written:
    """Write arguments into a request.

    Args:
        path: with the names of parameters in braces.
        parameters: where the arguments go; those that are not given are left out.
        body: which argument is the body, if one is.
        arguments: by the names that the model knows.

    Raises:
        ToolError: a value cannot stand where it should.
    """
    made = Written(path)
    for parameter in parameters:
        if parameter.argument in arguments:
            _place(made, parameter, arguments[parameter.argument])
    if body is not None and body.argument in arguments:
        made.headers["content-type"] = body.media_type
        made.content = _content(body, arguments[body.argument])
    return made


def _place(made: Written, parameter: Parameter, value: Any) -> None:
    match parameter.where:
        case "path":
            made.path = made.path.replace(f"{{{parameter.key}}}", _in_path(parameter, value))
        case "query":
            made.query += _pairs(parameter, value)
        case "cookie":
            made.cookies += _pairs(parameter, value)
        case "header":
            made.headers[parameter.key] = _in_header(parameter, value)


def _in_path(parameter: Parameter, value: Any) -> str:
    text = _styled_path(parameter, value)
    # What would climb to another path, or to none, is no value: `..` is a step up even when it is encoded.
    if text in {"", ".", ".."}:
        raise ToolError(f"`{parameter.argument}` is a part of a path, and cannot be {value!r}")
    return text


def _styled_path(parameter: Parameter, value: Any) -> str:
    match parameter.style:
        case "label":
            return "." + _joined(parameter, value, "." if parameter.explode else ",")
        case "matrix" if parameter.explode and isinstance(value, (list, dict)):
            return "".join(f";{pair}" for pair in _exploded(parameter, value))
        case "matrix":
            return f";{_key(parameter)}={_joined(parameter, value, ',')}"
        case _:
            return _joined(parameter, value, ",")


def _in_header(parameter: Parameter, value: Any) -> str:
    text = json.dumps(value) if parameter.as_json else _joined(parameter, value, ",", plain=True)
    if _CONTROL.search(text):
        raise ToolError(f"`{parameter.argument}` goes into a header, and must not have line ends or control characters")
    return text


def _pairs(parameter: Parameter, value: Any) -> list[str]:
    """A query or a cookie, as `key=value` texts."""
    if parameter.as_json:
        return [f"{_key(parameter)}={quote(json.dumps(value), safe='')}"]
    if parameter.style == "deepObject" and isinstance(value, dict):
        key = _key(parameter)
        return [f"{key}%5B{_quoted(parameter, name)}%5D={_quoted(parameter, one)}" for name, one in _items(value)]
    if parameter.explode and isinstance(value, (list, dict)):
        return _exploded(parameter, value)
    return [f"{_key(parameter)}={_joined(parameter, value, _SEPARATORS.get(parameter.style, ','))}"]


def _exploded(parameter: Parameter, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{_quoted(parameter, name)}={_quoted(parameter, one)}" for name, one in _items(value)]
    return [f"{_key(parameter)}={_quoted(parameter, one)}" for one in value]


def _joined(parameter: Parameter, value: Any, separator: str, *, plain: bool = False) -> str:
    def text(one: Any) -> str:
        return _text(one) if plain else _quoted(parameter, one)

    if isinstance(value, dict):
        pairs = _items(value)
        if parameter.explode:
            return separator.join(f"{text(name)}={text(one)}" for name, one in pairs)
        return separator.join(text(part) for pair in pairs for part in pair)
    if isinstance(value, list):
        return separator.join(text(one) for one in cast("list[Any]", value))
    return text(value)


def _items(value: Any) -> Sequence[tuple[str, Any]]:
    return list(cast("dict[str, Any]", value).items())


def _key(parameter: Parameter) -> str:
    return quote(parameter.key, safe="")


def _quoted(parameter: Parameter, value: Any) -> str:
    return quote(_text(value), safe=_RESERVED if parameter.reserved else "", errors="replace")


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case dict() | list() | bool() | float():
            return json.dumps(value)
        case _:
            return str(value)


def _content(body: Body, value: Any) -> bytes:
    match body.kind:
        case "json":
            return json.dumps(value, ensure_ascii=False).encode(errors="replace")
        case "form":
            pairs = [
                _pairs(Parameter(argument="", key=key, where="query", explode=True), one) for key, one in _items(value)
            ]
            return "&".join(pair for several in pairs for pair in several).encode()
        case "text":
            return _text(value).encode(errors="replace")
